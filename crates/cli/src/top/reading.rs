//! Reading: two statuses of a server, compared.

use weir_server::status::{CgroupStatus, DeviceStatus, ExportStatus, Status, WatermarkStatus};

use crate::status::{
    CgroupRates, ExportRates, Interval, LimitUse, SortKey, Tree, earlier, limits_hold_because,
    multiplier, uses, utilisation_percent, watermark,
};

/// All that one picture shows.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reading {
    pub(super) status: Status,
    /// One for each device of `status`.
    pub(super) devices: Vec<DeviceReading>,
    /// One for each export of `status`.
    pub(super) exports: Vec<ExportRates>,
}

/// What `status` does not have of a device.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DeviceReading {
    pub(super) utilisation_percent: f64,
    /// Of each cgroup.
    pub(super) rates: Vec<CgroupRates>,
    pub(super) tree: Tree,
    /// Why limits hold although little of the device is used, where they do.
    pub(super) odd: Option<String>,
}

impl Reading {
    /// O(n log n) in cgroups.
    pub(super) fn between(before: &Status, after: Status) -> Reading {
        let devices = after.devices.iter().map(|device| {
            let interval = Interval::new(earlier(before, device), device);
            let mut marks = device.watermarks.iter();
            DeviceReading {
                utilisation_percent: utilisation_percent(interval.before, device),
                rates: device.cgroups.iter().map(|cgroup| interval.rates(cgroup)).collect(),
                tree: Tree::new(device.cgroups.iter().map(|cgroup| cgroup.cgroup.as_str())),
                odd: marks.find_map(|mark| limits_hold_because(&interval, mark)),
            }
        });
        let devices = devices.collect();
        let exports = ExportRates::all(before, &after);
        Reading { devices, exports, status: after }
    }

    /// A device, and what was found out about it.
    pub(super) fn device(&self, index: usize) -> Option<View<'_>> {
        let (status, found) = (self.status.devices.get(index)?, self.devices.get(index)?);
        Some(View { status, found, reading: self })
    }

    /// All of them.
    pub(super) fn views(&self) -> impl Iterator<Item = View<'_>> {
        let devices = self.status.devices.iter().zip(&self.devices);
        devices.map(|(status, found)| View { status, found, reading: self })
    }
}

/// A device of a reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'r> {
    pub(super) status: &'r DeviceStatus,
    pub(super) found: &'r DeviceReading,
    reading: &'r Reading,
}

impl<'r> View<'r> {
    pub(super) fn cgroup(&self, index: usize) -> &'r CgroupStatus {
        &self.status.cgroups[index]
    }

    pub(super) fn rates(&self, index: usize) -> &'r CgroupRates {
        &self.found.rates[index]
    }

    /// An export, by its place in the reading.
    pub(super) fn export(&self, index: usize) -> (&'r ExportStatus, &'r ExportRates) {
        (&self.reading.status.exports[index], &self.reading.exports[index])
    }

    /// The exports of this device by their places in the reading, the largest first. Nothing of an export is held or
    /// shared: by these keys they are in the order of their bytes. O(n log n).
    pub(super) fn exports(&self, sort: SortKey, reversed: bool) -> Vec<usize> {
        let all = self.reading.status.exports.iter().enumerate();
        let of_device = all.filter(|(_, export)| export.device == self.status.device);
        let mut places: Vec<usize> = of_device.map(|(place, _)| place).collect();
        let value = |place: usize| {
            let (export, rates) = self.export(place);
            let latency = &export.latency;
            match sort {
                SortKey::Path => 0.0,
                SortKey::Read => rates.read_bytes_per_sec as f64,
                SortKey::Write => rates.write_bytes_per_sec as f64,
                SortKey::Iops => rates.answered_ios_per_sec,
                SortKey::P99 => latency.read.recent.p99_ns.max(latency.write.recent.p99_ns) as f64,
                SortKey::Share | SortKey::Held => {
                    rates.read_bytes_per_sec as f64 + rates.write_bytes_per_sec as f64
                }
            }
        };
        places.sort_by(|&one, &other| {
            let by_name = || self.export(one).0.export.cmp(&self.export(other).0.export);
            let order = value(other).total_cmp(&value(one)).then_with(by_name);
            if reversed { order.reverse() } else { order }
        });
        places
    }

    pub(super) fn place(&self, path: &str) -> Option<usize> {
        self.status.cgroups.iter().position(|cgroup| cgroup.cgroup == path)
    }

    /// The watermark that a cgroup goes by.
    pub(super) fn watermark(&self, index: usize) -> Option<&'r WatermarkStatus> {
        watermark(self.status, &self.found.tree, index)
    }

    /// Its limits, the fullest first.
    pub(super) fn limits(&self, index: usize) -> Vec<LimitUse> {
        let multiplier = multiplier(self.watermark(index));
        uses(self.cgroup(index), self.rates(index), multiplier)
    }

    /// Cgroups as they are listed, without those below one that is not open. O(n log n).
    pub(super) fn listed(
        &self,
        sort: SortKey,
        reversed: bool,
        is_open: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let order = |one: usize, other: usize| {
            let pair = |index| (self.cgroup(index), self.rates(index));
            let order = sort.compare(pair(one), pair(other));
            if reversed { order.reverse() } else { order }
        };
        self.found.tree.listed(order, is_open)
    }
}
