//! Tree of cgroups: finds it, reads limits and counters, and writes limits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use weir_govern::kernel::{DeviceNumber, Interface, TextError, parse_pressure};
use weir_govern::{CgroupSample, IoMax};

use crate::failure::Failure;
use crate::mount_text::unescaped;

/// More of one file than any kernel prints: a line of 200 bytes for each of 5,000 devices.
const TEXT_MAX: u64 = 1 << 20;

/// Where cgroups are, and how their limits are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    root: PathBuf,
    interface: Interface,
}

/// Why a file of a cgroup is of no use.
#[derive(Debug)]
pub(super) enum TreeError {
    /// The cgroup is gone, or the controller has been taken from it.
    Gone,
    /// It cannot be read or written.
    File { path: PathBuf, error: io::Error },
    /// It has a text that is not the kernel's.
    Text { path: PathBuf, error: TextError },
}

impl std::fmt::Display for TreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TreeError::Gone => f.write_str("the cgroup is gone"),
            TreeError::File { path, error } => write!(f, "{}: {error}", path.display()),
            TreeError::Text { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Tree {
    /// The tree at `named`, else the one that is mounted and has limits.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn find(named: Option<&Path>) -> Result<Tree, Failure> {
        if let Some(root) = named {
            return Tree::at(root).ok_or_else(|| {
                Failure::wrong(format!(
                    "{}: no tree of cgroups with limits for disks",
                    root.display()
                ))
                .hint(
                    "name a mount of cgroup2 with the controller `io`, or of `blkio` (v1)"
                        .to_owned(),
                )
            });
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        candidates(&mounts).iter().find_map(|root| Tree::at(root)).ok_or_else(|| {
            Failure::failed("no mounted tree of cgroups has limits for disks").hint(
                "the kernel needs CONFIG_BLK_DEV_THROTTLING; with cgroup2 the controller `io` is in /sys/fs/cgroup/cgroup.controllers".to_owned(),
            )
        })
    }

    /// A tree whose interface is known.
    pub(super) fn new(root: PathBuf, interface: Interface) -> Tree {
        Tree { root, interface }
    }

    fn at(root: &Path) -> Option<Tree> {
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let interface = if controllers.split_ascii_whitespace().any(|name| name == "io") {
            Interface::V2
        } else if root.join(Interface::V1.limit_files()[0]).exists() {
            Interface::V1
        } else {
            return None;
        };
        Some(Tree { root: root.to_owned(), interface })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn interface(&self) -> Interface {
        self.interface
    }

    /// The directory of the cgroup at `path`.
    pub(super) fn directory(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Limits on `device`. [`TreeError::Gone`] also where the cgroup has no controller.
    pub(super) fn limits(&self, path: &str, device: DeviceNumber) -> Result<IoMax, TreeError> {
        let texts = self.texts(path, self.interface.limit_files())?;
        let limits = self.interface.parse_limits(&texts, device);
        limits.map_err(|error| TreeError::Text { path: self.directory(path), error })
    }

    /// What it has done.
    pub(super) fn sample(
        &self,
        path: &str,
        device: DeviceNumber,
    ) -> Result<CgroupSample, TreeError> {
        let text_error = |error| TreeError::Text { path: self.directory(path), error };
        let texts = self.texts(path, self.interface.stat_files())?;
        let counters = self.interface.parse_counters(&texts, device).map_err(text_error)?;
        // Without pressure information (psi=0) there is no such file, or it cannot be read.
        let pressure = self.interface.pressure_file().and_then(|file| {
            let text = read(&self.directory(path).join(file)).ok()?;
            parse_pressure(&text).ok()
        });
        Ok(CgroupSample { counters, waited_ns: pressure })
    }

    /// Makes its limits `after`, which were `before`.
    pub(super) fn write(
        &self,
        path: &str,
        device: DeviceNumber,
        before: IoMax,
        after: IoMax,
    ) -> Result<(), TreeError> {
        for write in self.interface.writes(device, before, after) {
            let at = self.directory(path).join(write.file);
            let file = File::options().write(true).truncate(true).open(&at);
            // The kernel takes a line only if it comes in one call.
            let written = file.and_then(|mut file| file.write_all(write.text.as_bytes()));
            written.map_err(|error| error_of(at, error))?;
        }
        Ok(())
    }

    fn texts(&self, path: &str, files: &[&str]) -> Result<Vec<String>, TreeError> {
        let directory = self.directory(path);
        let text = |file: &&str| {
            let at = directory.join(file);
            read(&at).map_err(|error| error_of(at, error))
        };
        files.iter().map(text).collect()
    }
}

/// The text of a file of the kernel.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn error_of(path: PathBuf, error: io::Error) -> TreeError {
    let is_gone = error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::NODEV.raw_os_error());
    if is_gone { TreeError::Gone } else { TreeError::File { path, error } }
}

/// Mount points of trees that may have limits: cgroup2 first.
fn candidates(mountinfo: &str) -> Vec<PathBuf> {
    let (mut second, mut first) = (Vec::new(), Vec::new());
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(at) = before.split(' ').nth(4) else { continue };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        match kind {
            Some("cgroup2") => second.push(PathBuf::from(unescaped(at))),
            Some("cgroup") if options.split(',').any(|option| option == "blkio") => {
                first.push(PathBuf::from(unescaped(at)));
            }
            _ => {}
        }
    }
    second.extend(first);
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_found_among_mounts() {
        let text = "\
            22 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            23 22 0:21 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu\n\
            24 22 0:22 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
            25 22 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let wanted = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/blkio"].map(PathBuf::from);
        assert_eq!(candidates(text), wanted);
    }
}
