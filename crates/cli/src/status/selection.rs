//! Choice and order of the cgroups that are shown.

use weir_server::status::CgroupStatus;

use super::rates::{CgroupRates, Interval};
use super::sort::SortKey;
use super::tree::Tree;

/// Which cgroups of each device are shown, in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    /// What siblings are ordered by.
    pub(crate) sort: SortKey,
    /// The most that are shown.
    pub(crate) most: Option<usize>,
}

/// A cgroup to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown<'s> {
    /// Its place among the device's.
    pub(crate) place: usize,
    pub(crate) status: &'s CgroupStatus,
    pub(crate) rates: CgroupRates,
}

impl Selection {
    /// The chosen ones. O(n log n).
    pub(crate) fn of<'s>(&self, interval: &Interval<'s>) -> Vec<Shown<'s>> {
        let cgroups = &interval.after.cgroups;
        let rates: Vec<CgroupRates> = cgroups.iter().map(|cgroup| interval.rates(cgroup)).collect();
        let tree = Tree::new(cgroups.iter().map(|cgroup| cgroup.cgroup.as_str()));
        let pair = |index: usize| (&cgroups[index], &rates[index]);
        let mut order =
            tree.listed(|one, other| self.sort.compare(pair(one), pair(other)), |_| true);
        order.truncate(self.most.unwrap_or(usize::MAX));
        let shown =
            |place: usize| Shown { place, status: &cgroups[place], rates: rates[place].clone() };
        order.into_iter().map(shown).collect()
    }
}
