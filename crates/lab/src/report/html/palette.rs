//! Colours of cgroups on a page.

use std::collections::BTreeMap;

use crate::report::figures::Labels;
use crate::results::{CgroupResults, Results, Row};

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
    /// By cgroup and label, of jobs that are not alone in their cgroup; none where all are taken.
    jobs: BTreeMap<(String, String), Option<usize>>,
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
        let own: BTreeMap<String, usize> =
            own.map(|(index, path)| (path.to_owned(), index)).collect();
        let mut jobs = BTreeMap::new();
        for (_, results) in runs {
            for (row, label) in jobs_that_share(results) {
                let free = own.len() + jobs.len();
                jobs.entry((row.cgroup.clone(), label)).or_insert((free < COLOURS).then_some(free));
            }
        }
        Palette { own, jobs }
    }

    /// The colour of a job: its own where it shares its cgroup, else that of the cgroup.
    pub(super) fn colour_of_job(&self, cgroup: &str, label: &str) -> Colour {
        let key = (cgroup.to_owned(), label.to_owned());
        match self.jobs.get(&key) {
            Some(Some(index)) => Colour::Own(*index),
            Some(None) => Colour::Rest,
            None => self.colour(cgroup),
        }
    }

    pub(super) fn colour(&self, path: &str) -> Colour {
        match self.own.get(path) {
            _ if path == "/" => Colour::All,
            Some(&index) => Colour::Own(index),
            None => Colour::Rest,
        }
    }
}

/// Jobs with others in their cgroup, and how a page calls them.
pub(super) fn jobs_that_share(results: &Results) -> Vec<(&Row, String)> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &results.rows {
        *uses.entry(&row.cgroup).or_default() += 1;
    }
    let labels = Labels::of(results);
    let rows = results.rows.iter().filter(|row| uses[row.cgroup.as_str()] > 1);
    rows.map(|row| (row, labels.label(row))).collect()
}

fn is_coloured(cgroup: &CgroupResults) -> bool {
    cgroup.path != "/" && cgroup.counters.completed > 0
}
