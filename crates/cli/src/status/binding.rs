//! Reason for which a watermark's limits hold while the device is little used.

use weir_engine::SchedulerKind;
use weir_server::status::{DeviceStatus, WatermarkStatus};

use super::limits;
use super::rates::{Interval, seconds, utilisation_percent};
use super::tree::Tree;

/// Part of the watermark from which on its limits are expected to hold.
const EXPECTED_FROM: f64 = 0.75;
/// Part of the time for which a device is kept free that explains something.
const KEPT_FREE_PERCENT: f64 = 20.0;
/// Growth of the multiplier between two readings that is not over.
const GROWS: f64 = 1.1;
/// Part of the time from which on a device counts as busy.
const BUSY_PERCENT: f64 = 90.0;

/// A sentence where requests wait for limits under `mark` although little of the device is used; `None` where that is not so.
/// O(cgroups × depth).
pub(crate) fn sentence(interval: &Interval<'_>, mark: &WatermarkStatus) -> Option<String> {
    let Interval { before, after, .. } = interval;
    let used = used(before, after);
    let is_low = used < EXPECTED_FROM * f64::from(mark.watermark_percent);
    if mark.lifted || !is_low || !holds(interval, mark) {
        return None;
    }
    let why = reason(before, after, mark);
    Some(format!("limits hold although {used:.0} % of the device is used: {why}"))
}

/// Utilisation that the watermark goes by.
fn used(before: &DeviceStatus, after: &DeviceStatus) -> f64 {
    after.utilisation_percent_500ms.unwrap_or_else(|| utilisation_percent(before, after))
}

/// Whether limits under this watermark have held requests between the readings.
fn holds(interval: &Interval<'_>, mark: &WatermarkStatus) -> bool {
    let after = interval.after;
    let held = |index: &usize| {
        let cgroup = &after.cgroups[*index];
        let old = interval.old(cgroup);
        cgroup.throttled_ios.sum() > old.throttled_ios.sum()
    };
    let tree = Tree::new(after.cgroups.iter().map(|cgroup| cgroup.cgroup.as_str()));
    // Counters of a cgroup include those below, whose watermark may be another.
    let is_own = |index: &usize| after.cgroups[*index].io_max.is_some();
    let mut holding = (0..after.cgroups.len()).filter(|index| is_own(index) && held(index));
    holding.any(|index| {
        limits::watermark(after, &tree, index)
            .is_some_and(|found| found.watermark == mark.watermark)
    })
}

fn reason(before: &DeviceStatus, after: &DeviceStatus, mark: &WatermarkStatus) -> String {
    if let Some(why) = kept_free(before, after) {
        return why;
    }
    let busy = utilisation_percent(before, after);
    if after.in_flight >= after.depth {
        let depth = after.depth;
        return format!("it has all the requests that it may have at once, io.depth {depth}");
    }
    if busy >= BUSY_PERCENT {
        return format!("by its model, of which it does less than that in {busy:.0} % of the time");
    }
    if mark.watermark.contains("gate") {
        return "mode=gate looks once a period, and lifts them in the next one".into();
    }
    let earlier = before.watermarks.iter().find(|old| old.watermark == mark.watermark);
    if earlier.is_some_and(|old| mark.multiplier > GROWS * old.multiplier) {
        return "they are being raised, and not yet as far as the device allows".into();
    }
    "clients with few requests at once are the usual reason".into()
}

/// The largest cause for which bfq keeps the device free, where it does.
fn kept_free(before: &DeviceStatus, after: &DeviceStatus) -> Option<String> {
    if after.scheduler != SchedulerKind::Bfq.name() {
        return None;
    }
    let since = |(kind, ns): (&String, &u64)| {
        let old = before.bfq.idling_ns.get(kind).copied().unwrap_or_default();
        (kind.clone(), ns.saturating_sub(old))
    };
    let kinds: Vec<(String, u64)> = after.bfq.idling_ns.iter().map(since).collect();
    let ns: u64 = kinds.iter().map(|(_, ns)| ns).sum();
    let percent = (ns as f64 / 1e7 / seconds(before, after)).min(100.0);
    if percent < KEPT_FREE_PERCENT {
        return None;
    }
    let (kind, _) = kinds.into_iter().max_by_key(|&(_, ns)| ns)?;
    let what_for = match kind.as_str() {
        "settling" => "until what was written is on the medium",
        "guarantees" => "so that a flow's share does not go to others (slice_idle=0 ends that)",
        _ => "for the next request of the flow whose turn it is (slice_idle=0 ends that)",
    };
    Some(format!("bfq keeps it free {percent:.0} % of the time, {what_for}"))
}

#[cfg(test)]
mod tests {
    use weir_server::status::{BfqStatus, CgroupStatus, PerDimension};

    use super::*;
    use crate::status::limits::tests::mark;

    /// A device after this many seconds, of which a tenth was used.
    fn reading(seconds: u64) -> DeviceStatus {
        let riops = PerDimension { riops: 10 * seconds, ..PerDimension::default() };
        let root = CgroupStatus {
            cgroup: "/".into(),
            io_watermark: Some("90".into()),
            throttled_ios: riops,
            ..CgroupStatus::default()
        };
        let vm1 = CgroupStatus {
            cgroup: "/vm1".into(),
            io_max: Some("rbps=max wbps=max riops=100 wiops=max".into()),
            io_watermark: None,
            ..root.clone()
        };
        DeviceStatus {
            at_ns: seconds * 1_000_000_000,
            busy_ns: seconds * 100_000_000,
            depth: 32,
            in_flight: 1,
            scheduler: "none".into(),
            utilisation_percent_500ms: Some(11.2),
            watermarks: vec![mark("90", 12.9)],
            cgroups: vec![root, vm1],
            ..DeviceStatus::default()
        }
    }

    fn told(change: fn(u64, &mut DeviceStatus)) -> Option<String> {
        let [before, after] = [1, 2].map(|seconds| {
            let mut device = reading(seconds);
            change(seconds, &mut device);
            device
        });
        sentence(&Interval::new(&before, &after), &after.watermarks[0])
    }

    #[test]
    fn limits_that_hold_at_low_use_say_why() {
        let bfq = |seconds: u64, device: &mut DeviceStatus| {
            device.scheduler = "bfq".into();
            let idling_ns = [("throughput".to_owned(), 990_000_000 * seconds)].into();
            device.bfq = BfqStatus { idling_ns, ..BfqStatus::default() };
        };
        let full = |_, device: &mut DeviceStatus| device.in_flight = 32;
        let rising = |seconds: u64, device: &mut DeviceStatus| {
            device.watermarks[0].multiplier = 2.0 * seconds as f64;
        };
        let by_model = |_, device: &mut DeviceStatus| {
            device.busy_ns = device.at_ns * 97 / 100;
        };
        for (change, why) in [
            (
                bfq as fn(u64, &mut DeviceStatus),
                "bfq keeps it free 99 % of the time, for the next request of the flow whose turn it is (slice_idle=0 ends that)",
            ),
            (full, "it has all the requests that it may have at once, io.depth 32"),
            (by_model, "by its model, of which it does less than that in 97 % of the time"),
            (rising, "they are being raised, and not yet as far as the device allows"),
            (|_, _| {}, "clients with few requests at once are the usual reason"),
        ] {
            let expected = format!("limits hold although 11 % of the device is used: {why}");
            assert_eq!(told(change), Some(expected));
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_is_odd() {
        let busy = |_, device: &mut DeviceStatus| device.utilisation_percent_500ms = Some(89.0);
        let lifted = |_, device: &mut DeviceStatus| device.watermarks[0].lifted = true;
        let hard = |_, device: &mut DeviceStatus| device.cgroups[1].io_watermark = Some("0".into());
        let idle = |_, device: &mut DeviceStatus| {
            device.cgroups[1].throttled_ios = PerDimension::default();
        };
        for change in [busy as fn(u64, &mut DeviceStatus), lifted, hard, idle] {
            assert_eq!(told(change), None);
        }
    }
}
