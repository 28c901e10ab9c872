//! `weir lab run --from`: a server's recorded arrivals with other settings.

use std::path::Path;

use serde_json::json;
use weir_disk::Spec;
use weir_lab::what_if::{self, Met, Setting};
use weir_recording::{Arrivals, Recording};
use weir_units::{Bytes, Nanos};

use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::{Align, Table};

const ALIGN: [Align; 7] = [
    Align::Left,
    Align::Right,
    Align::Right,
    Align::Right,
    Align::Right,
    Align::Right,
    Align::Right,
];

/// Runs the arrivals of the recording at `from` with `settings` over those that it had.
pub(super) fn run(
    from: &Path,
    device: Option<&str>,
    settings: &[(String, String)],
    format: Format,
) -> Result<(), Failure> {
    let recording = Recording::open(from, device).map_err(Failure::wrong)?;
    let mut disk = recording.header().disk.clone();
    let mut tried = Vec::new();
    for (key, value) in settings {
        if key == "disk" {
            disk = Some(value.clone());
        } else {
            tried.push(Setting::parse(key, value).map_err(Failure::wrong)?);
        }
    }
    let Some(disk) = disk else {
        let hint = "say one: --disk ssd-nvme, for example; `weir lab list disks` shows them";
        let reason = "a real device was recorded, and what it takes for a request is not known";
        return Err(Failure::wrong(reason).hint(hint.to_owned()));
    };
    let spec: Spec = disk.parse().map_err(|error| Failure::wrong(format!("disk: {error}")))?;
    let arrivals = Arrivals::of(&recording, None).map_err(Failure::wrong)?;
    let met = what_if::run(&arrivals, &tried, spec.build()).map_err(Failure::wrong)?;
    let met = met.by_cgroup();
    match format {
        Format::Json => {
            let cgroups: serde_json::Map<_, _> =
                met.iter().map(|(cgroup, met)| (cgroup.clone(), record(met))).collect();
            output::print_json(&json!({ "disk": disk, "cgroups": cgroups }), false)
        }
        Format::Table => {
            let mut table =
                Table::new(&["CGROUP", "REQUESTS", "BYTES", "WAIT", "P50", "P99", "MAX"]);
            for (cgroup, met) in &met {
                table.row(cells(cgroup, met));
            }
            let mut text = format!("same arrivals, new decisions; disk {disk}\n\n");
            for line in table.lines(&ALIGN) {
                text.push_str(&line);
                text.push('\n');
            }
            output::print(&text)
        }
    }
}

fn cells(cgroup: &str, met: &Met) -> Vec<String> {
    let time = |ns| Nanos(ns).to_string();
    vec![
        cgroup.to_owned(),
        met.requests.to_string(),
        Bytes(met.bytes).to_string(),
        time(met.wait_ns_mean),
        time(met.latency_ns_p50),
        time(met.latency_ns_p99),
        time(met.latency_ns_max),
    ]
}

fn record(met: &Met) -> serde_json::Value {
    json!({
        "requests": met.requests,
        "bytes": met.bytes,
        "wait_ns_mean": met.wait_ns_mean,
        "latency_ns_p50": met.latency_ns_p50,
        "latency_ns_p99": met.latency_ns_p99,
        "latency_ns_max": met.latency_ns_max,
    })
}
