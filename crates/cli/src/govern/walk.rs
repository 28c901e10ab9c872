//! Walk of the tree of cgroups, a part at a time.

use std::fs::{self, ReadDir};

use super::tree::Tree;

/// Deepest cgroup that is looked at; each level keeps a directory open.
const DEPTH_MAX: usize = 64;
/// Most entries of directories that are looked at in one part: a directory of a cgroup has some fifty files.
const ENTRIES_MAX: usize = 8_000;
/// Most cgroups that one part visits: their limits are read, which takes up to 25 us each.
const CGROUPS_MAX: usize = 100;

/// A walk under way.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Directories from the root down, with the paths of their cgroups.
    open: Vec<(String, ReadDir)>,
}

impl Walk {
    /// A walk from the root, which has no limits and is not visited.
    pub(super) fn new(tree: &Tree) -> Walk {
        let root = fs::read_dir(tree.root()).ok();
        Walk { open: root.map(|root| (String::new(), root)).into_iter().collect() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Paths of the next cgroups, parents first. A cgroup that is gone meanwhile may be among them.
    pub(super) fn step(&mut self, tree: &Tree) -> Vec<String> {
        let mut paths = Vec::new();
        for _ in 0..ENTRIES_MAX {
            let Some((above, entries)) = self.open.last_mut() else { break };
            let Some(entry) = entries.next() else {
                self.open.pop();
                continue;
            };
            let Ok(entry) = entry else { continue };
            // A name that is no UTF-8 cannot be told to anyone.
            let (true, Ok(name)) = (
                entry.file_type().is_ok_and(|kind| kind.is_dir()),
                entry.file_name().into_string(),
            ) else {
                continue;
            };
            let path = format!("{above}/{name}");
            if self.open.len() < DEPTH_MAX
                && let Ok(below) = fs::read_dir(tree.directory(&path))
            {
                self.open.push((path.clone(), below));
            }
            paths.push(path);
            if paths.len() >= CGROUPS_MAX {
                break;
            }
        }
        paths
    }
}
