//! Text of the watermark demo.

use super::Part;
use super::plan::DISK;

const MIB: f64 = 1_048_576.0;

pub(super) fn opening() -> String {
    format!(
        "\
One emulated disk of {:.0} MiB/s with a watermark: limits bind only when it is busy.
Two tenants read as fast as they may, limited to 4 and 2 MiB/s. Nobody else is
there, so they take all of it, 2 : 1.

",
        DISK as f64 / MIB
    )
}

pub(super) fn arrives() -> &'static str {
    "
Now a third arrives that has no limit and wants everything. The limits hold at
once, as written.

"
}

pub(super) fn leaves() -> &'static str {
    "
It leaves. What it needed is lent to the other two again.

"
}

/// Results, a line each.
pub(super) fn closing(parts: &[Part]) -> String {
    let mut text = "\nIn the second half of each part, in MiB/s:\n".to_owned();
    for part in parts {
        let rates = part.tenants.iter();
        let rates = rates
            .map(|tenant| format!("{} {:5.2}", tenant.cgroup, tenant.read_bytes_per_sec / MIB));
        let rates = rates.collect::<Vec<_>>().join("   ");
        text.push_str(&format!(
            "  {:28}{rates}   disk busy {:.0} %\n",
            part.part, part.utilisation_percent
        ));
    }
    text.push_str(
        "
The same on a disk of your own: `watermark = 90` in its [device.NAME], or, while
it is served, `weir set / io.watermark 90`. A hard limit beside it:
`weir set /two io.watermark 0`.
",
    );
    text
}
