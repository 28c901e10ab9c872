//! What a cgroup did between two readings.

use weir_server::status::{CgroupStatus, DeviceStatus};

use super::why::{Cause, causes};

/// Rates of one cgroup; all zero for one that is new. The names are those of the JSON.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(crate) struct CgroupRates {
    pub(crate) read_bytes_per_sec: u64,
    pub(crate) write_bytes_per_sec: u64,
    pub(crate) read_ios_per_sec: f64,
    pub(crate) write_ios_per_sec: f64,
    /// Requests that began to wait for a limit.
    pub(crate) throttled_ios_per_sec: f64,
    pub(crate) completed_ios_per_sec: f64,
    /// Part of the requests that the device completed.
    pub(crate) share_percent: f64,
    /// Time inside for a request that completed, the device's included; `null` if none did.
    pub(crate) wait_ns_mean: Option<u64>,
    /// What that time was spent on, the longest first.
    pub(crate) waited_for: Vec<Cause>,
}

impl CgroupRates {
    /// Of one cgroup, found in both readings of a device.
    pub(crate) fn between(
        before: &DeviceStatus,
        after: &DeviceStatus,
        cgroup: &CgroupStatus,
    ) -> CgroupRates {
        let path = &cgroup.cgroup;
        let old = before.cgroups.iter().find(|old| old.cgroup == *path);
        // A device's first cgroup is its root.
        let completed =
            |device: &DeviceStatus| device.cgroups.first().map(|root| root.completed_ios);
        let all = completed(after)
            .unwrap_or_default()
            .saturating_sub(completed(before).unwrap_or_default());
        CgroupRates::of(
            old.unwrap_or(&CgroupStatus::default()),
            cgroup,
            seconds(before, after),
            all,
        )
    }

    fn of(old: &CgroupStatus, new: &CgroupStatus, seconds: f64, all: u64) -> CgroupRates {
        let per_sec = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        let throttled = |cgroup: &CgroupStatus| cgroup.throttled_ios.sum();
        let completed = new.completed_ios.saturating_sub(old.completed_ios);
        let waited_for = causes(&old.wait, &new.wait, completed);
        CgroupRates {
            read_bytes_per_sec: per_sec(old.read_bytes, new.read_bytes).round() as u64,
            write_bytes_per_sec: per_sec(old.write_bytes, new.write_bytes).round() as u64,
            read_ios_per_sec: per_sec(old.read_ios, new.read_ios),
            write_ios_per_sec: per_sec(old.write_ios, new.write_ios),
            throttled_ios_per_sec: per_sec(throttled(old), throttled(new)),
            completed_ios_per_sec: per_sec(old.completed_ios, new.completed_ios),
            share_percent: 100.0 * completed as f64 / all.max(1) as f64,
            wait_ns_mean: (completed > 0)
                .then(|| waited_for.iter().map(|cause| cause.wait_ns_mean).sum()),
            waited_for,
        }
    }
}

/// Time between two readings; never zero, so that rates of one reading are huge rather than no numbers.
pub(super) fn seconds(before: &DeviceStatus, after: &DeviceStatus) -> f64 {
    after.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9
}

/// Part of the time with a request at the device.
pub(super) fn utilisation_percent(before: &DeviceStatus, after: &DeviceStatus) -> f64 {
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
    fn a_server_that_began_anew_has_no_negative_rates() {
        let (before, after) = (device(3_000_000_000, 500), device(1_000_000_000, 100));
        let rates = CgroupRates::between(&before, &after, &after.cgroups[0]);
        assert_eq!((rates.read_ios_per_sec, rates.wait_ns_mean), (0.0, None));
    }
}
