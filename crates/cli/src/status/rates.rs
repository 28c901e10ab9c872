//! Rates of a cgroup between two readings.

use std::collections::HashMap;

use weir_server::status::{CgroupStatus, DeviceStatus};

use super::why::{Cause, causes};

/// Rates of one cgroup; all zero for a new one. The names are those of the JSON.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct CgroupRates {
    pub(crate) read_bytes_per_sec: u64,
    pub(crate) write_bytes_per_sec: u64,
    pub(crate) read_ios_per_sec: f64,
    pub(crate) write_ios_per_sec: f64,
    /// Requests that began to wait for a limit.
    pub(crate) throttled_ios_per_sec: f64,
    pub(crate) completed_ios_per_sec: f64,
    /// Part of the requests that the device completed, whatever their size.
    pub(crate) share_percent: f64,
    /// Part of the bytes that were read and written; 0 while none are.
    pub(crate) bytes_share_percent: f64,
    /// Part of the time that the device takes for all of it by its model; `null` without a model.
    pub(crate) modelled_share_percent: Option<f64>,
    /// Time inside for a request that completed, the device's included; `null` if none did.
    pub(crate) wait_ns_mean: Option<u64>,
    /// Waits by cause, the longest first.
    pub(crate) waited_for: Vec<Cause>,
}

impl CgroupRates {
    /// Of one cgroup, found in both readings of a device. O(cgroups): for many of them there is [`Interval`].
    pub(crate) fn between(
        before: &DeviceStatus,
        after: &DeviceStatus,
        cgroup: &CgroupStatus,
    ) -> CgroupRates {
        Interval::new(before, after).rates(cgroup)
    }

    /// Part of what the device did: of the time by its model, where it has one, else of the bytes. In percent.
    pub(crate) fn share(&self) -> f64 {
        self.modelled_share_percent.unwrap_or(self.bytes_share_percent)
    }

    fn of(old: &CgroupStatus, new: &CgroupStatus, seconds: f64, all: Done) -> CgroupRates {
        let per_sec = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        let throttled = |cgroup: &CgroupStatus| cgroup.throttled_ios.sum();
        let done = Done::of(new).since(Done::of(old));
        let completed = done.completed;
        let waited_for = causes(&old.wait, &new.wait, completed);
        CgroupRates {
            read_bytes_per_sec: per_sec(old.read_bytes, new.read_bytes).round() as u64,
            write_bytes_per_sec: per_sec(old.write_bytes, new.write_bytes).round() as u64,
            read_ios_per_sec: per_sec(old.read_ios, new.read_ios),
            write_ios_per_sec: per_sec(old.write_ios, new.write_ios),
            throttled_ios_per_sec: per_sec(throttled(old), throttled(new)),
            completed_ios_per_sec: per_sec(old.completed_ios, new.completed_ios),
            share_percent: percent(completed, all.completed),
            bytes_share_percent: percent(done.bytes, all.bytes),
            modelled_share_percent: (all.modelled_ns > 0)
                .then(|| percent(done.modelled_ns, all.modelled_ns)),
            wait_ns_mean: (completed > 0)
                .then(|| waited_for.iter().map(|cause| cause.wait_ns_mean).sum()),
            waited_for,
        }
    }
}

/// Two readings of a device.
#[derive(Debug)]
pub(crate) struct Interval<'s> {
    pub(crate) before: &'s DeviceStatus,
    pub(crate) after: &'s DeviceStatus,
    /// Cgroups of the first reading, by path.
    old: HashMap<&'s str, &'s CgroupStatus>,
    none: CgroupStatus,
    all: Done,
}

impl<'s> Interval<'s> {
    /// O(cgroups).
    pub(crate) fn new(before: &'s DeviceStatus, after: &'s DeviceStatus) -> Interval<'s> {
        let none = CgroupStatus::default();
        // A device's first cgroup is its root, with the sums.
        let [first, last] =
            [before, after].map(|device| Done::of(device.cgroups.first().unwrap_or(&none)));
        let old = before.cgroups.iter().map(|cgroup| (cgroup.cgroup.as_str(), cgroup)).collect();
        Interval { before, after, old, none, all: last.since(first) }
    }

    /// A cgroup of the second reading as it was in the first; zeroes if it is new.
    pub(crate) fn old(&self, cgroup: &CgroupStatus) -> &CgroupStatus {
        self.old.get(cgroup.cgroup.as_str()).copied().unwrap_or(&self.none)
    }

    /// Rates of a cgroup of the second reading.
    pub(crate) fn rates(&self, cgroup: &CgroupStatus) -> CgroupRates {
        CgroupRates::of(self.old(cgroup), cgroup, seconds(self.before, self.after), self.all)
    }
}

/// Work of the device for a cgroup.
#[derive(Clone, Copy, Debug)]
struct Done {
    completed: u64,
    bytes: u64,
    modelled_ns: u64,
}

impl Done {
    fn of(cgroup: &CgroupStatus) -> Done {
        Done {
            completed: cgroup.completed_ios,
            bytes: cgroup.read_bytes.saturating_add(cgroup.write_bytes),
            modelled_ns: cgroup.modelled_ns,
        }
    }

    fn since(self, before: Done) -> Done {
        Done {
            completed: self.completed.saturating_sub(before.completed),
            bytes: self.bytes.saturating_sub(before.bytes),
            modelled_ns: self.modelled_ns.saturating_sub(before.modelled_ns),
        }
    }
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// Time between two readings; never zero, so that rates of one reading are huge rather than no numbers.
pub(crate) fn seconds(before: &DeviceStatus, after: &DeviceStatus) -> f64 {
    after.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9
}

/// Part of the time with a request at the device.
pub(crate) fn utilisation_percent(before: &DeviceStatus, after: &DeviceStatus) -> f64 {
    let busy = after.busy_ns.saturating_sub(before.busy_ns) as f64 / 1e9;
    (100.0 * busy / seconds(before, after)).min(100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(at_ns: u64, ios: u64) -> DeviceStatus {
        let cgroup = |path: &str, ios| CgroupStatus {
            cgroup: path.into(),
            read_ios: ios,
            read_bytes: 4096 * ios,
            completed_ios: ios,
            ..CgroupStatus::default()
        };
        let cgroups = vec![cgroup("/", ios), cgroup("/vm1", ios / 4)];
        DeviceStatus { at_ns, busy_ns: at_ns / 2, cgroups, ..DeviceStatus::default() }
    }

    #[test]
    fn rates_are_differences_over_the_devices_own_time() {
        let (before, after) = (device(1_000_000_000, 100), device(3_000_000_000, 500));
        let rates = CgroupRates::between(&before, &after, &after.cgroups[1]);
        assert_eq!((rates.read_ios_per_sec, rates.read_bytes_per_sec), (50.0, 204_800));
        assert_eq!((rates.share_percent, rates.wait_ns_mean), (25.0, Some(0)));
        assert_eq!(utilisation_percent(&before, &after), 50.0);
    }

    #[test]
    fn a_share_is_of_the_bytes_and_with_a_model_of_its_time() {
        let cgroup = |path: &str, ios: u64, len: u64, modelled_ns| CgroupStatus {
            cgroup: path.into(),
            read_ios: ios,
            read_bytes: ios * len,
            completed_ios: ios,
            modelled_ns,
            ..CgroupStatus::default()
        };
        // As many small requests as large ones: half of the requests, and almost none of the work.
        let device = |seconds: u64, busy_ns: u64| {
            let (small, large) = (2_000 * seconds, 2_000 * seconds);
            let mut root = cgroup("/", small + large, 0, 10 * busy_ns * seconds);
            root.read_bytes = small * 4096 + large * 262_144;
            let cgroups = vec![
                root,
                cgroup("/small", small, 4096, busy_ns * seconds),
                cgroup("/large", large, 262_144, 9 * busy_ns * seconds),
            ];
            DeviceStatus { at_ns: seconds, cgroups, ..DeviceStatus::default() }
        };
        let shares = |busy_ns, at: usize| {
            let (before, after) = (device(1, busy_ns), device(2, busy_ns));
            let rates = CgroupRates::between(&before, &after, &after.cgroups[at]);
            let round = |percent: f64| percent.round() as u32;
            (
                round(rates.share_percent),
                round(rates.bytes_share_percent),
                rates.modelled_share_percent.map(round),
            )
        };
        assert_eq!([shares(0, 1), shares(0, 2)], [(50, 2, None), (50, 98, None)]);
        assert_eq!([shares(5, 1), shares(5, 2)], [(50, 2, Some(10)), (50, 98, Some(90))]);
        assert_eq!(shares(0, 0), (100, 100, None));
    }

    #[test]
    fn a_server_that_began_anew_has_no_negative_rates() {
        let (before, after) = (device(3_000_000_000, 500), device(1_000_000_000, 100));
        let rates = CgroupRates::between(&before, &after, &after.cgroups[0]);
        assert_eq!((rates.read_ios_per_sec, rates.wait_ns_mean), (0.0, None));
    }
}
