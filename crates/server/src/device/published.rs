//! Records of cgroups that have changed, and where they count, for those that look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_engine::{CgroupId, Dimension, Engine};
use weir_recording::RecordedEngine;

use super::reactor::Reactor;
use super::waits::SharedWaits;
use crate::view::{Board, CgroupRecord, CgroupSettings, News};

/// Records of cgroups on their way to the [`Board`].
pub(super) struct Published {
    board: Arc<Board>,
    /// Cgroups that have changed in this turn.
    changed: Vec<CgroupId>,
    /// What has not been left at the board yet.
    news: Vec<News>,
    /// Waits outside the engine of each cgroup.
    waits: BTreeMap<CgroupId, Arc<SharedWaits>>,
    /// Cgroups with a burst, of which a status tells what is left.
    bursts: BTreeSet<CgroupId>,
}

impl Published {
    pub(super) fn new(board: Arc<Board>) -> Published {
        Published {
            board,
            changed: Vec::new(),
            news: Vec::new(),
            waits: BTreeMap::new(),
            bursts: BTreeSet::new(),
        }
    }

    /// Where waits outside the engine of requests of `cgroup` are counted. O(log cgroups).
    pub(super) fn waits_of(&mut self, cgroup: CgroupId) -> &Arc<SharedWaits> {
        self.waits.entry(cgroup).or_default()
    }

    /// A cgroup has come, or is set otherwise.
    pub(super) fn changed(&mut self, cgroup: CgroupId) {
        if self.changed.last() != Some(&cgroup) {
            self.changed.push(cgroup);
        }
    }

    /// The last that belonged to a removed cgroup has gone.
    pub(super) fn gone(&mut self, cgroup: CgroupId) {
        // In their order: its number may be another one's now.
        self.changed.retain(|changed| *changed != cgroup);
        self.waits.remove(&cgroup);
        self.bursts.remove(&cgroup);
        self.news.push(News::Gone(cgroup));
    }

    /// Cgroups that have a burst.
    pub(super) fn bursts(&self) -> impl Iterator<Item = CgroupId> {
        self.bursts.iter().copied()
    }

    /// Leaves all that has changed at the board. O(changed × log cgroups).
    fn publish(&mut self, engine: &mut RecordedEngine) {
        for cgroup in std::mem::take(&mut self.changed) {
            let Some(record) = self.record(engine, cgroup) else { continue };
            let burst = record.settings.limits.burst;
            match Dimension::ALL.iter().any(|&dimension| burst.get(dimension).is_some()) {
                true => self.bursts.insert(cgroup),
                false => self.bursts.remove(&cgroup),
            };
            self.news.push(News::Cgroup(Box::new(record)));
        }
        self.board.try_post(&mut self.news);
    }

    /// `None` of a cgroup that is gone already.
    fn record(&mut self, engine: &mut RecordedEngine, cgroup: CgroupId) -> Option<CgroupRecord> {
        Some(CgroupRecord {
            cgroup,
            parent: engine.parent(cgroup),
            name: engine.cgroup_name(cgroup)?.into(),
            is_removed: engine.cgroup_path(cgroup).is_none(),
            settings: settings(engine, cgroup),
            counters: engine.shared_counters(cgroup)?,
            waits: Arc::clone(self.waits_of(cgroup)),
        })
    }
}

/// How a cgroup is set.
pub(super) fn settings(engine: &Engine, cgroup: CgroupId) -> CgroupSettings {
    CgroupSettings {
        limits: engine.limits(cgroup).unwrap_or_default(),
        weight: engine.weight(cgroup).unwrap_or_default(),
        prio_class: engine.prio_class(cgroup).unwrap_or_default(),
        low_latency: engine.low_latency(cgroup),
        watermark: engine.watermark(cgroup),
    }
}

impl Reactor {
    /// Tells of the cgroups that are there before the first event.
    pub(super) fn publish_root(&mut self) {
        let root = self.engine.root();
        self.io.published.changed(root);
        self.publish();
    }

    /// Leaves what this turn has changed for those that look. Nothing where it has changed nothing.
    pub(super) fn publish(&mut self) {
        let published = &mut self.io.published;
        if !published.changed.is_empty() || !published.news.is_empty() {
            published.publish(&mut self.engine);
        }
    }
}
