//! View of a device's cgroups for other threads than its own.
//!
//! ```text
//!  device's thread ── what changes in the tree: records ──► Board ◄── a reader takes them into the View
//!         └─ counts in lines of cache that the records lead to ────────► and reads the counters
//! ```
//!
//! The thread never waits: it leaves records where the lock is free, or in its next turn.

mod activity;
mod export_counters;
mod metrics;
mod record;
mod rows;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use self::activity::{Activity, DeviceActivity};
pub(crate) use self::export_counters::ExportCounters;
pub(crate) use self::metrics::CgroupMetrics;
pub(crate) use self::record::{CgroupRecord, CgroupSettings, News};
pub(crate) use self::rows::{per_dimension, waits_beside_limits};
pub(crate) use self::tree::{Sums, View};

/// Where a device's thread leaves what changes in its tree, and those that look keep what they have seen.
#[derive(Debug, Default)]
pub(crate) struct Board {
    news: Mutex<Vec<News>>,
    view: Mutex<View>,
}

impl Board {
    /// Leaves `news`, of the device's thread, unless they are being taken at this moment. Never waits. O(news).
    pub(crate) fn try_post(&self, news: &mut Vec<News>) {
        if !news.is_empty()
            && let Ok(mut posted) = self.news.try_lock()
        {
            posted.append(news);
        }
    }

    /// The view with all that has been left, for the one that holds it.
    pub(crate) fn look(&self) -> MutexGuard<'_, View> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken as a whole: the thread finds the lock free again at once.
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        view.take_in(news);
        view
    }
}
