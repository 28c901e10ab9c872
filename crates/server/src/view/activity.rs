//! Cgroups as live samples have them: counters since the start, without histograms.

use std::collections::BTreeMap;

use weir_config::is_of_client;
use weir_engine::{CgroupId, Limits, Watermark};

use super::tree::{Detail, Sums, View};

/// The cgroups of a device.
#[derive(Debug, Default)]
pub struct DeviceActivity {
    /// Those that are no client's, parents before children.
    pub(crate) cgroups: Vec<Activity>,
    /// Place in `cgroups` of each cgroup; of a client's that of the cgroup above.
    pub(crate) places: BTreeMap<CgroupId, usize>,
}

/// A cgroup that is no client's.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) cgroup: CgroupId,
    pub(crate) path: String,
    pub(crate) limits: Limits,
    /// The nearest of those set here and above.
    pub(crate) watermark: Option<Watermark>,
    /// With those of all cgroups below.
    pub(crate) all: Sums,
}

impl View {
    /// All cgroups that are no client's. O(cgroups × log cgroups).
    pub(crate) fn activity(&self) -> DeviceActivity {
        let DeviceActivity { mut cgroups, mut places } = DeviceActivity::default();
        for row in self.rows(&BTreeMap::new(), Detail::Counts) {
            let record = row.record;
            let above = record.parent.and_then(|parent| places.get(&parent)).copied();
            if let (true, Some(above)) = (is_of_client(&row.path), above) {
                places.insert(record.cgroup, above);
                continue;
            }
            places.insert(record.cgroup, cgroups.len());
            let inherited = above.and_then(|above: usize| {
                let above: &Activity = &cgroups[above];
                above.watermark
            });
            cgroups.push(Activity {
                cgroup: record.cgroup,
                path: row.path,
                limits: record.settings.limits,
                watermark: record.settings.watermark.or(inherited),
                all: row.all,
            });
        }
        DeviceActivity { cgroups, places }
    }
}
