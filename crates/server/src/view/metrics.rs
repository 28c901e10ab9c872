//! Cgroups as the metrics have them: own values apart from those of all below.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_cache::writeback::OwnerStats;
use weir_config::is_of_client;
use weir_engine::{CgroupId, Limits, Watermark};

use super::rows::waits_beside_limits;
use super::tree::{Detail, Sums, View};

/// A cgroup that is no client's.
#[derive(Debug)]
pub(crate) struct CgroupMetrics {
    pub(crate) path: String,
    pub(crate) limits: Limits,
    /// The nearest of those set here and above.
    pub(crate) watermark: Option<Watermark>,
    /// Of requests of the cgroup itself and of its clients.
    pub(crate) own: Sums,
    /// With those of all cgroups below.
    pub(crate) all: Sums,
    /// What own requests waited for, in nanoseconds, by cause.
    pub(crate) wait_ns: Vec<(&'static str, u64)>,
}

impl CgroupMetrics {
    /// Own operations since the start.
    pub(crate) fn own_ios(&self) -> u64 {
        let counters = &self.own.counters;
        counters.read.ios + counters.write.ios + counters.discard.ios + counters.other_ios
    }
}

impl View {
    /// The cgroups that are no client's, busiest first: by own operations since the start, then by path. What clients have done
    /// is in the cgroup above them. O(cgroups × log cgroups).
    pub(crate) fn cgroup_metrics(
        &self,
        writeback: &BTreeMap<CgroupId, OwnerStats>,
    ) -> Vec<CgroupMetrics> {
        let mut places: BTreeMap<CgroupId, usize> = BTreeMap::new();
        let mut cgroups: Vec<CgroupMetrics> = Vec::new();
        for row in self.rows(writeback, Detail::All) {
            let record = row.record;
            let above = record.parent.and_then(|parent| places.get(&parent)).copied();
            let mut wait_ns = waits(&row.own, record.cgroup);
            if let (true, Some(above)) = (is_of_client(&row.path), above) {
                let above = &mut cgroups[above];
                above.own.absorb(&row.own);
                let pairs = above.wait_ns.iter_mut().zip(&mut wait_ns);
                pairs.for_each(|((_, sum), (_, more))| *sum += *more);
                continue;
            }
            places.insert(record.cgroup, cgroups.len());
            let inherited = above.and_then(|above| cgroups[above].watermark);
            cgroups.push(CgroupMetrics {
                path: row.path,
                limits: record.settings.limits,
                watermark: record.settings.watermark.or(inherited),
                own: row.own,
                all: row.all,
                wait_ns,
            });
        }
        busiest_first(&mut cgroups);
        cgroups
    }
}

fn busiest_first(cgroups: &mut [CgroupMetrics]) {
    cgroups.sort_by(|one, other| {
        Reverse(one.own_ios()).cmp(&Reverse(other.own_ios())).then(one.path.cmp(&other.path))
    });
}

/// Waits by cause. Which ancestor is in the status; here it would make a series for each pair.
fn waits(own: &Sums, cgroup: CgroupId) -> Vec<(&'static str, u64)> {
    let limits = &own.counters.blame.limits;
    let sum = |is_own: bool| -> u64 {
        let those = limits.iter().filter(|limit| (limit.cgroup == cgroup) == is_own);
        those.flat_map(|limit| limit.wait_ns).sum()
    };
    let of_limits = [("own_limit", sum(true)), ("other_limit", sum(false))];
    of_limits.into_iter().chain(waits_beside_limits(own).beside_limits()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_ordered_by_their_own_operations_then_by_path() {
        let cgroup = |(path, reads, discards): (&str, u64, u64)| {
            let mut own = Sums::default();
            (own.counters.read.ios, own.counters.discard.ios) = (reads, discards);
            CgroupMetrics {
                path: path.into(),
                limits: Limits::default(),
                watermark: None,
                own,
                all: Sums::default(),
                wait_ns: Vec::new(),
            }
        };
        let cgroups = [("/b", 5, 0), ("/idle", 0, 0), ("/c", 0, 9), ("/a", 3, 2)];
        let mut cgroups: Vec<CgroupMetrics> = cgroups.map(cgroup).into();
        busiest_first(&mut cgroups);
        let paths: Vec<&str> = cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
        assert_eq!(paths, ["/c", "/a", "/b", "/idle"]);
    }
}
