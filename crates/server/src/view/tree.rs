//! The tree of cgroups as those see it that look, with sums of all below each.

use std::collections::BTreeMap;

use weir_cache::writeback::OwnerStats;
use weir_counters::Histogram;
use weir_engine::CgroupId;
use weir_engine::stats::{BfqCgroupStats, Counters, Latencies};

use super::record::{CgroupRecord, News};
use crate::device::Waits;

/// All cgroups of a device that are there.
#[derive(Debug, Default)]
pub(crate) struct View {
    cgroups: BTreeMap<CgroupId, Seen>,
}

/// A cgroup that is there.
#[derive(Debug)]
struct Seen {
    record: CgroupRecord,
    /// Sums of cgroups below it that are gone.
    gone: Option<Box<Sums>>,
    /// Its latencies at the last moments of [`View::sample`], the later first.
    samples: [Option<Box<Latencies>>; 2],
}

/// What is counted of a cgroup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) counters: Counters,
    pub(crate) bfq: BfqCgroupStats,
    pub(crate) waits: Waits,
    pub(crate) writeback: OwnerStats,
    /// Since the start, and of the last seconds; none where there was no request.
    pub(crate) latencies: Option<Box<Latencies>>,
    pub(crate) recent: Option<Box<Latencies>>,
}

/// A cgroup that has a name.
#[derive(Debug)]
pub(crate) struct Row<'v> {
    pub(crate) path: String,
    pub(crate) record: &'v CgroupRecord,
    /// Of its own requests, and of those of cgroups below that are gone.
    pub(crate) own: Sums,
    /// With all below it.
    pub(crate) all: Sums,
}

/// What rows are to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// No histograms.
    Counts,
    All,
}

impl Sums {
    /// Adds another cgroup's; after the last, the counters are to be tidied.
    pub(super) fn absorb(&mut self, other: &Sums) {
        self.counters.gather(&other.counters);
        self.bfq.absorb(&other.bfq);
        self.waits.absorb(&other.waits);
        self.writeback.absorb(&other.writeback);
        for (mine, theirs) in
            [(&mut self.latencies, &other.latencies), (&mut self.recent, &other.recent)]
        {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().absorb(theirs);
            }
        }
    }
}

impl Seen {
    /// What it has counted by itself, with what is gone. O(limits that it waited for).
    fn own(&self, writeback: OwnerStats, detail: Detail) -> Sums {
        let CgroupRecord { counters, waits, .. } = &self.record;
        let mut own = Sums {
            counters: counters.counters(),
            bfq: counters.bfq(),
            waits: waits.read(),
            writeback,
            latencies: None,
            recent: None,
        };
        if detail == Detail::All && counters.is_used() {
            let latencies = Box::new(counters.latencies());
            let [last, before] = &self.samples;
            own.recent = Some(match before.as_ref().or(last.as_ref()) {
                Some(before) => Box::new(latencies.since(before)),
                None => latencies.clone(),
            });
            own.latencies = Some(latencies);
        }
        if let Some(gone) = &self.gone {
            own.absorb(gone);
        }
        if detail == Detail::Counts {
            own.latencies = None;
        }
        own
    }
}

impl View {
    /// Takes in what has changed. O(news × log cgroups).
    pub(super) fn take_in(&mut self, news: Vec<News>) {
        for news in news {
            match news {
                News::Cgroup(record) => match self.cgroups.get_mut(&record.cgroup) {
                    Some(seen) => seen.record = *record,
                    None => {
                        let seen = Seen { record: *record, gone: None, samples: [None, None] };
                        self.cgroups.insert(seen.record.cgroup, seen);
                    }
                },
                News::Gone(cgroup) => self.fold(cgroup),
            }
        }
    }

    /// What a cgroup that is gone has counted stays with its parent.
    fn fold(&mut self, cgroup: CgroupId) {
        let Some(seen) = self.cgroups.remove(&cgroup) else { return };
        let mut sums = seen.own(OwnerStats::default(), Detail::All);
        // Nothing of it is recent from now on.
        sums.recent = None;
        let Some(above) = seen.record.parent else { return };
        let Some(parent) = self.cgroups.get_mut(&above) else { return };
        let mut gone = parent.gone.take().unwrap_or_default();
        gone.absorb(&sums);
        gone.counters.forget_limits(|cgroup| self.cgroups.contains_key(&cgroup));
        if let Some(parent) = self.cgroups.get_mut(&above) {
            parent.gone = Some(gone);
        }
    }

    /// Remembers all latencies, from which those of the last seconds are counted. O(cgroups that were used).
    pub(crate) fn sample(&mut self) {
        for seen in self.cgroups.values_mut() {
            if seen.record.counters.is_used() {
                let latencies = Box::new(seen.record.counters.latencies());
                let last = seen.samples[0].replace(latencies);
                seen.samples[1] = last;
            }
        }
    }

    /// All cgroups that have a name, parents before children and these by name. `writeback` has what a write-back cache
    /// counts of each. O(cgroups × log cgroups).
    pub(crate) fn rows(
        &self,
        writeback: &BTreeMap<CgroupId, OwnerStats>,
        detail: Detail,
    ) -> Vec<Row<'_>> {
        let mut children: BTreeMap<Option<CgroupId>, Vec<&Seen>> = BTreeMap::new();
        for seen in self.cgroups.values() {
            children.entry(seen.record.parent).or_default().push(seen);
        }
        for list in children.values_mut() {
            list.sort_by(|one, other| other.record.name.cmp(&one.record.name));
        }
        let mut rows: Vec<(Row<'_>, Option<usize>)> = Vec::with_capacity(self.cgroups.len());
        let roots = children.remove(&None).unwrap_or_default();
        let mut open: Vec<(&Seen, Option<usize>)> =
            roots.into_iter().map(|seen| (seen, None)).collect();
        while let Some((seen, parent)) = open.pop() {
            let name = &seen.record.name;
            let path = match parent.map(|parent| rows[parent].0.path.as_str()) {
                None => "/".to_owned(),
                Some("/") => format!("/{name}"),
                Some(above) => format!("{above}/{name}"),
            };
            let place = rows.len();
            let cgroup = seen.record.cgroup;
            let own = seen.own(writeback.get(&cgroup).copied().unwrap_or_default(), detail);
            let below = children.remove(&Some(cgroup)).unwrap_or_default();
            open.extend(below.into_iter().map(|seen| (seen, Some(place))));
            let all = own.clone();
            rows.push((Row { path, record: &seen.record, own, all }, parent));
        }
        // From the last to the first, so that a cgroup has all that is below it before it is added to its parent.
        for place in (0..rows.len()).rev() {
            let (before, from) = rows.split_at_mut(place);
            let (row, parent) = &mut from[0];
            row.all.counters.tidy();
            row.own.counters.tidy();
            if let Some(parent) = *parent {
                let above = &mut before[parent].0;
                above.all.absorb(&row.all);
                if row.record.is_removed {
                    above.own.absorb(&row.own);
                }
            }
        }
        let rows = rows.into_iter().map(|(row, _)| row);
        rows.filter(|row| !row.record.is_removed).collect()
    }

    /// Whole times of requests, of reads and of all others, of each of `cgroups` with all below it that is there. O(cgroups that
    /// were used × depth).
    pub(crate) fn whole_times(&self, cgroups: &[CgroupId]) -> Vec<[Histogram; 2]> {
        let mut sums = vec![<[Histogram; 2]>::default(); cgroups.len()];
        let places: BTreeMap<CgroupId, usize> =
            cgroups.iter().enumerate().map(|(place, &cgroup)| (cgroup, place)).collect();
        for (&cgroup, seen) in &self.cgroups {
            if !seen.record.counters.is_used() {
                continue;
            }
            let times = seen.record.counters.whole_times();
            let mut at = Some(cgroup);
            while let Some(cgroup) = at {
                if let Some(&place) = places.get(&cgroup) {
                    let pairs = sums[place].iter_mut().zip(&times);
                    pairs.for_each(|(sum, times)| sum.absorb(times));
                }
                at = self.cgroups.get(&cgroup).and_then(|seen| seen.record.parent);
            }
        }
        sums
    }

    /// The path of a cgroup that has a name. O(depth × log cgroups).
    pub(crate) fn path_of(&self, cgroup: CgroupId) -> Option<String> {
        let mut names = Vec::new();
        let mut at = &self.cgroups.get(&cgroup)?.record;
        if at.is_removed {
            return None;
        }
        while let Some(parent) = at.parent {
            names.push(&*at.name);
            at = &self.cgroups.get(&parent)?.record;
        }
        names.reverse();
        Some(format!("/{}", names.join("/")))
    }
}
