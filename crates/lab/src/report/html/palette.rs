//! Colours of cgroups on a page.

use std::collections::BTreeMap;

use crate::results::{CgroupResults, Results};

/// Colours that people with any colour vision can tell apart; further cgroups are grey. The page's style has as many.
pub(super) const COLOURS: usize = 8;

/// A class of the page's style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Own(usize),
    /// The root.
    All,
    /// Grey.
    Rest,
}

impl Colour {
    pub(super) fn class(self) -> String {
        match self {
            Colour::Own(index) => format!("c{index}"),
            Colour::All => "all".into(),
            Colour::Rest => "rest".into(),
        }
    }
}

/// Colours of cgroups by path, in all runs of a page.
pub(super) struct Palette {
    own: BTreeMap<String, usize>,
}

impl Palette {
    /// Colours for the cgroups that moved most, in the order of the tree.
    pub(super) fn of(runs: &[(&str, &Results)]) -> Palette {
        let mut order = Vec::new();
        let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, results) in runs {
            for cgroup in results.cgroups.iter().filter(|cgroup| is_coloured(cgroup)) {
                let known = bytes.entry(&cgroup.path).or_insert_with(|| {
                    order.push(cgroup.path.as_str());
                    0
                });
                let moved = [cgroup.counters.read, cgroup.counters.write, cgroup.counters.discard];
                *known = moved.iter().fold(*known, |sum, moved| sum.saturating_add(moved.bytes));
            }
        }
        if order.len() > COLOURS {
            let mut ranked = order.clone();
            ranked.sort_by_key(|path| std::cmp::Reverse(bytes[path]));
            ranked.truncate(COLOURS);
            order.retain(|path| ranked.contains(path));
        }
        let own = order.into_iter().enumerate();
        Palette { own: own.map(|(index, path)| (path.to_owned(), index)).collect() }
    }

    pub(super) fn colour(&self, path: &str) -> Colour {
        match self.own.get(path) {
            _ if path == "/" => Colour::All,
            Some(&index) => Colour::Own(index),
            None => Colour::Rest,
        }
    }
}

fn is_coloured(cgroup: &CgroupResults) -> bool {
    cgroup.path != "/" && cgroup.counters.completed > 0
}
