//! Simulation of proposed settings on the requests of the last recorded minute, in virtual time.

use std::path::Path;

use serde::Serialize;
use weir_disk::{DiskModel, Linear, Spec};
use weir_engine::Direction;
use weir_lab::what_if::{self, AsRecorded, MetByCgroup, Setting};
use weir_recording::{Arrivals, Recording};
use weir_server::status::{DeviceStatus, Status};
use weir_units::Nanos;

use super::{Explanation, Finding, command};
use crate::status::human;

/// Requests of this time are tried.
const LAST_NS: u64 = 60_000_000_000;
/// No more than these, the last ones: about a second and 100 MiB for each figure.
const REQUESTS_MAX: usize = 500_000;
/// What was recorded longer ago says nothing of now.
const AGE_NS_MAX: u64 = 300_000_000_000;

/// Latency that a setting would have given the cgroup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) p99_ns: u64,
    /// Of the same requests when they were recorded.
    pub(super) p99_ns_recorded: u64,
}

/// The simulation behind figures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Simulation {
    /// Requests of all cgroups of the device.
    requests: u64,
    /// Time in which they came.
    span_ns: u64,
    /// Time since the last one came.
    age_ns: u64,
    /// `reads` or `writes`, whose percentiles are compared.
    of: &'static str,
    device: Device,
}

/// Times of the simulated device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Device {
    /// The disk model that the server emulates.
    Emulated,
    /// The configuration's `model`.
    Model,
    /// What each request took.
    Recorded,
}

/// Puts figures to the advice of an explanation, or says why there are none. `place` is where the server was asked.
pub(super) fn add(explanation: &mut Explanation, after: &Status, place: &str) {
    if explanation.advice.iter().all(|advice| advice.setting.is_none()) {
        return;
    }
    match figures(explanation, after, place) {
        Ok(simulation) => explanation.simulation = Some(simulation),
        Err(reason) => explanation.no_simulation = Some(reason),
    }
}

fn figures(
    explanation: &mut Explanation,
    after: &Status,
    place: &str,
) -> Result<Simulation, String> {
    let device = after.devices.iter().find(|device| device.device == explanation.device);
    let device = device.expect("it was explained");
    let (recording, arrivals, age_ns) = recorded(device, after, place)?;
    let disk = || disk(device, &recording, &arrivals, explanation.finding);
    let simulated = disk()?.0;
    let direction = if explanation.reads_most { Direction::Read } else { Direction::Write };
    let cgroup = &explanation.cgroup;
    let p99_ns = |met: &MetByCgroup| {
        let met = met.below(cgroup, direction).map(|met| met.latency_ns_p99);
        met.ok_or_else(|| format!("no request of {cgroup} was recorded in that minute"))
    };
    let p99_ns_recorded = p99_ns(&MetByCgroup::recorded(&arrivals))?;
    let mut settings = present(device)?;
    let present = settings.len();
    let mut figures = Vec::new();
    for advice in &explanation.advice {
        let Some(setting) = &advice.setting else {
            figures.push(None);
            continue;
        };
        settings.push(tried(setting)?);
        // It only makes room for the setting that follows.
        if setting.key == "io.peak" {
            figures.push(None);
            continue;
        }
        let met = what_if::run(&arrivals, &settings, disk()?.1)?;
        figures.push(Some(Figure { p99_ns: p99_ns(&met)?, p99_ns_recorded }));
        settings.truncate(present);
    }
    for (advice, figure) in explanation.advice.iter_mut().zip(figures) {
        advice.what_if = figure;
    }
    let at = |arrival: Option<&weir_recording::Arrival>| arrival.map_or(0, |arrival| arrival.at_ns);
    Ok(Simulation {
        requests: arrivals.requests.len() as u64,
        span_ns: at(arrivals.requests.last()) - at(arrivals.requests.first()),
        age_ns,
        of: if explanation.reads_most { "reads" } else { "writes" },
        device: simulated,
    })
}

/// The requests of the last recorded minute, and how long ago the last one came.
fn recorded(
    device: &DeviceStatus,
    after: &Status,
    place: &str,
) -> Result<(Recording, Arrivals, u64), String> {
    if place.starts_with("https://") {
        return Err("recordings are read where the server runs: ask there".into());
    }
    let recording = match &after.recording {
        None => {
            return Err("the server records nothing; with [record] in its configuration it does, and this has the last minute to try it on".into());
        }
        Some(recording) if !recording.on => {
            return Err("the recording is off; `weir record start` begins one".into());
        }
        Some(recording) => recording,
    };
    let directory = Path::new(&recording.directory);
    let end = Recording::end_of(directory, &device.device, LAST_NS, REQUESTS_MAX as u64);
    let end = end.map_err(|error| error.to_string())?;
    let arrivals = Arrivals::bounded(&end, Some(LAST_NS), REQUESTS_MAX);
    let arrivals = arrivals.map_err(|error| error.to_string())?;
    let last_ns = arrivals.requests.last().map_or(0, |last| last.at_ns);
    // The clock of both is the machine's.
    let age_ns = device.at_ns.checked_sub(last_ns).filter(|age_ns| *age_ns <= AGE_NS_MAX);
    let started_ns = device.at_ns.saturating_sub((after.uptime_secs + 1) * 1_000_000_000);
    match age_ns {
        Some(age_ns) if last_ns >= started_ns => Ok((end, arrivals, age_ns)),
        _ => Err("the recording has no closed file of the last five minutes; `file_time` of [record] says how long a file is open".into()),
    }
}

/// The device of the simulation.
fn disk(
    device: &DeviceStatus,
    recording: &Recording,
    arrivals: &Arrivals,
    finding: Finding,
) -> Result<(Device, Box<dyn DiskModel>), String> {
    let emulated = device.path.strip_prefix("emulated:").map(str::parse::<Spec>);
    if let Some(Ok(spec)) = emulated {
        return Ok((Device::Emulated, spec.build()));
    }
    if let Some(capacity) = &arrivals.config.capacity {
        let size = recording.header().device_bytes;
        let disk = Linear::priced(capacity.costs, capacity.streams.into(), size);
        return Ok((Device::Model, Box::new(disk)));
    }
    if finding == Finding::DeviceSlow {
        return Err("how fast the device were with less to do is not known; `weir calibrate` measures a `model` of it".into());
    }
    let disk = AsRecorded::of(arrivals).ok_or("no recorded request has ended")?;
    Ok((Device::Recorded, Box::new(disk)))
}

/// The limits and weights of now: they may have been changed since the recording.
fn present(device: &DeviceStatus) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    for cgroup in &device.cgroups {
        let path = &cgroup.cgroup;
        if let Some(max) = &cgroup.io_max {
            settings.push(parse("max", &format!("{path} {max}"))?);
        }
        if path != "/" && u32::from(cgroup.io_weight) != 100 {
            settings.push(parse("weight", &format!("{path} {}", cgroup.io_weight))?);
        }
    }
    Ok(settings)
}

fn tried(setting: &command::Setting) -> Result<Setting, String> {
    let command::Setting { cgroup, key, value } = setting;
    match *key {
        "io.bfq" => parse("bfq", value),
        key => parse(key.trim_start_matches("io."), &format!("{cgroup} {value}")),
    }
}

fn parse(key: &str, value: &str) -> Result<Setting, String> {
    Setting::parse(key, value).map_err(|error| error.to_string())
}

impl Figure {
    /// `with rbps=40M: p99 12.0 ms instead of 180 ms (simulated on the last 60 s of arrivals)`.
    pub(super) fn sentence(&self, setting: &command::Setting, simulation: &Simulation) -> String {
        let what = match setting.key {
            "io.max" => human(&setting.value),
            "io.weight" => format!("io.weight {}", setting.value),
            _ => setting.value.clone(),
        };
        format!(
            "with {what}: p99 {} instead of {} (simulated on the last {} of arrivals)",
            Nanos(self.p99_ns).rounded(),
            Nanos(self.p99_ns_recorded).rounded(),
            seconds(simulation.span_ns),
        )
    }
}

impl Simulation {
    pub(super) fn sentence(&self) -> String {
        let device = match self.device {
            Device::Emulated => "the disk is the one that the server emulates",
            Device::Model => "the disk is the `model` of the configuration",
            Device::Recorded => "each takes at the device what it took then",
        };
        format!(
            "Simulated: {} requests, each when it came, up to {} ago; {device}. p99 is of {}. A client that sends its next request at a reply would send more, and wait longer.",
            self.requests,
            seconds(self.age_ns),
            self.of,
        )
    }
}

/// Whole seconds, at least one.
fn seconds(ns: u64) -> String {
    format!("{} s", (ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &'static str, value: &str) -> command::Setting {
        command::Setting { cgroup: "/a".into(), key, value: value.into() }
    }

    #[test]
    fn figures_say_what_is_tried_and_on_what() {
        let simulation = Simulation {
            requests: 12_000,
            span_ns: 59_700_000_000,
            age_ns: 12_000_000_000,
            of: "reads",
            device: Device::Recorded,
        };
        let figure = Figure { p99_ns: 12_000_000, p99_ns_recorded: 180_000_000 };
        for (key, value, what) in [
            ("io.max", "rbps=41943040", "rbps=40MiB"),
            ("io.weight", "200", "io.weight 200"),
            ("io.bfq", "slice_idle=0", "slice_idle=0"),
        ] {
            assert_eq!(
                figure.sentence(&setting(key, value), &simulation),
                format!(
                    "with {what}: p99 12.0 ms instead of 180 ms (simulated on the last 60 s of arrivals)"
                )
            );
            tried(&setting(key, value)).expect("it can be tried");
        }
        tried(&setting("io.peak", "rbps=41943040")).expect("it can be tried");
        assert_eq!(
            simulation.sentence(),
            "Simulated: 12000 requests, each when it came, up to 12 s ago; each takes at the device what it took then. p99 is of reads. A client that sends its next request at a reply would send more, and wait longer."
        );
    }
}
