//! Families of a device.

use super::family::{Families, Labels, Name};
use crate::status::{BfqStatus, DeviceStatus};

/// Adds what there is of `device`: of one whose thread does not answer, that alone.
pub(super) fn add(families: &mut Families, is_up: bool, device: &DeviceStatus) {
    let with = |more: &[(&'static str, &str)]| -> Labels {
        let mut labels = vec![("device", device.device.clone())];
        labels.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
        labels
    };
    let labels = with(&[]);
    families.level(Name::DeviceUp, &labels, f64::from(u8::from(is_up)));
    if !is_up {
        return;
    }
    families.level(Name::DeviceSize, &labels, device.size_bytes as f64);
    families.level(Name::DeviceDepth, &labels, f64::from(device.depth));
    for (state, count) in
        [("in_flight", device.in_flight), ("ready", device.ready), ("held", device.throttled)]
    {
        families.level(Name::DeviceRequests, &with(&[("state", state)]), f64::from(count));
    }
    families.level(Name::DeviceConnections, &labels, f64::from(device.connections));
    families.level(Name::DeviceBalances, &labels, f64::from(u8::from(device.audit_balances)));
    families.seconds(Name::DeviceBusy, &labels, device.busy_ns);
    for (name, count) in [
        (Name::DeviceDropped, device.connections_dropped),
        (Name::DeviceRefused, device.connections_refused),
        (Name::DeviceLogLeftOut, device.log_lines_left_out),
        (Name::DeviceLate, device.wakes_late),
    ] {
        families.count(name, &labels, count);
    }
    if let Some(percent) = device.utilisation_percent_500ms {
        families.level(Name::DeviceUtilisation, &labels, percent / 100.0);
    }
    for mark in &device.watermarks {
        let labels = with(&[("watermark", &mark.watermark)]);
        families.level(Name::DeviceWatermark, &labels, f64::from(mark.watermark_percent) / 100.0);
        families.level(Name::DeviceMultiplier, &labels, mark.multiplier);
    }
    if let Some(cache) = &device.cache {
        families.level(Name::CacheSize, &labels, cache.size_bytes as f64);
    }
    bfq(families, &device.bfq, &with);
}

/// What the scheduler of that name has done, by kind.
fn bfq(
    families: &mut Families,
    bfq: &BfqStatus,
    with: &impl Fn(&[(&'static str, &str)]) -> Labels,
) {
    for (name, label, counts) in [
        (Name::BfqSlots, "ended", &bfq.expirations),
        (Name::BfqInjections, "kind", &bfq.injections),
        (Name::BfqMerges, "kind", &bfq.merges),
        (Name::BfqRefused, "reason", &bfq.refusals),
    ] {
        for (kind, &count) in counts {
            families.count(name, &with(&[(label, kind)]), count);
        }
    }
    for (cause, &nanos) in &bfq.idling_ns {
        families.seconds(Name::BfqIdling, &with(&[("cause", cause)]), nanos);
    }
    families.count(Name::BfqSplits, &with(&[]), bfq.splits);
    families.level(Name::BfqRaised, &with(&[]), f64::from(bfq.raised_flows));
}
