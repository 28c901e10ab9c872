//! Report of a mount at its end.

use std::path::Path;

use serde_json::json;
use weir_mount::{CgroupReport, Report};

use crate::failure::Failure;

/// Writes it, if a file is asked for.
pub(super) fn write(report: &Report, file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let cgroups = report.cgroups.iter().map(|cgroup| {
        let CgroupReport { path, read_bytes, reads, write_bytes, writes, throttled, throttled_ns } =
            cgroup;
        json!({
            "path": path,
            "read_bytes": read_bytes,
            "reads": reads,
            "write_bytes": write_bytes,
            "writes": writes,
            "throttled": throttled,
            "throttled_ns": throttled_ns,
        })
    });
    let text = json!({
        "cgroups": cgroups.collect::<Vec<_>>(),
        "interrupted": report.interrupted,
        "unknown_bytes": report.unknown_bytes,
    });
    std::fs::write(file, format!("{text:#}\n"))
        .map_err(|error| Failure::failed(format!("--report {}: {error}", file.display())))
}
