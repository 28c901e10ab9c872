//! Families of an export.

use super::ExportMetrics;
use super::family::{Families, Labels, Name};

pub(super) fn add(families: &mut Families, ExportMetrics { status, times }: &ExportMetrics) {
    let labels: Labels = vec![("device", status.device.clone()), ("export", status.export.clone())];
    let with =
        |op: &str| -> Labels { labels.iter().cloned().chain([("op", op.to_owned())]).collect() };
    for (op, ios, bytes) in [
        ("read", status.read_ios, Some(status.read_bytes)),
        ("write", status.write_ios, Some(status.write_bytes)),
        ("discard", status.discard_ios, Some(status.discard_bytes)),
        ("other", status.other_ios, None),
    ] {
        families.count(Name::ExportRequests, &with(op), ios);
        if let Some(bytes) = bytes {
            families.count(Name::ExportBytes, &with(op), bytes);
        }
    }
    families.count(Name::ExportFailed, &labels, status.failed_ios);
    families.level(Name::ExportConnections, &labels, f64::from(status.connections));
    for (op, times) in ["read", "write"].into_iter().zip(times) {
        families.times(Name::ExportLatency, &with(op), times);
    }
}
