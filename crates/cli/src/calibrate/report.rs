//! Report of a calibration: for people, for programs, and as the file that is loaded.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use weir_calibrate::{Check, Order, Outcome, Step};
use weir_config::DeviceModel;
use weir_disk::LinearSpec;
use weir_engine::Direction;
use weir_engine::utilisation::CostFigures;
use weir_units::{BytesPerSec, IosPerSec, Nanos};

use super::plot;
use super::target::Target;
use crate::table::{Align, Table};

/// Largest relative error on the test load with which a model counts as good.
const FITS: f64 = 0.1;

pub(super) struct Report<'o> {
    name: &'o str,
    way: &'static str,
    took_ns: u64,
    outcome: &'o Outcome,
}

impl<'o> Report<'o> {
    pub(super) fn new(
        name: &'o str,
        target: &Target,
        took_ns: u64,
        outcome: &'o Outcome,
    ) -> Report<'o> {
        let way = match target {
            Target::Device(_) => "past the page cache",
            Target::Emulated { virtual_time: true, .. } => "in virtual time",
            Target::Emulated { .. } => "in real time",
        };
        Report { name, way, took_ns, outcome }
    }

    /// The file that `weir serve` and `weir lab` load.
    pub(super) fn model_file(&self) -> String {
        let model = &self.outcome.model;
        let writes = model.writes.unwrap_or(model.reads);
        let spec = LinearSpec {
            size: model.size,
            read_bps: model.reads.bytes_per_sec.get(),
            read_seq_iops: model.reads.sequential_iops.get(),
            read_rand_iops: model.reads.random_iops.get(),
            write_bps: writes.bytes_per_sec.get(),
            write_seq_iops: writes.sequential_iops.get(),
            write_rand_iops: writes.random_iops.get(),
            latency_ns: model.latency_ns,
            streams: model.streams.into(),
        };
        let mut about = format!(
            "What {} does, measured by weir {} {}.\n",
            self.name.escape_debug(),
            env!("CARGO_PKG_VERSION"),
            self.way
        );
        for check in &self.outcome.checks {
            writeln!(about, "{}.", trial(check)).expect("a string takes all");
        }
        if model.writes.is_none() {
            about += "Writes were not measured: they are taken to cost what reads do.\n";
        }
        DeviceModel { spec, has_writes: model.writes.is_some() }.to_toml(&about)
    }

    pub(super) fn table(&self, path: Option<&Path>) -> String {
        let model = &self.outcome.model;
        let mut table = Table::new(&["", "BANDWIDTH", "SEQUENTIAL 4 KiB", "RANDOM 4 KiB"]);
        table.row(row("reads", &model.reads));
        if let Some(writes) = &model.writes {
            table.row(row("writes", writes));
        }
        let (size, took) = (plot::size(model.size), Nanos(self.took_ns).rounded());
        let mut lines =
            vec![format!("{}, {size}, measured {} in {took}", self.name, self.way), String::new()];
        lines.extend(table.lines(&[Align::Left, Align::Right, Align::Right, Align::Right]));
        lines.extend(plot::lines(&self.outcome.steps));
        lines.push(String::new());
        lines.push(format!(
            "A random read alone takes {} beyond its price.",
            Nanos(model.latency_ns).rounded()
        ));
        lines.extend(self.streams());
        lines.extend(self.outcome.checks.iter().map(|check| {
            let verdict = match check.deviation().abs() <= FITS {
                true => "the model fits",
                false => "the linear model does not fit this device well",
            };
            format!("{}: {verdict}.", trial(check))
        }));
        if model.writes.is_none() {
            lines.push("Writes are taken to cost what reads do; --write measures them.".to_owned());
        }
        lines.push(String::new());
        match path {
            Some(path) => lines.push(format!("The model is in {}.", path.display())),
            None => lines.push(self.model_file().trim_end().to_owned()),
        }
        lines.join("\n") + "\n"
    }

    /// How many sequential streams are followed, where that was asked.
    fn streams(&self) -> Option<String> {
        let asked = self.outcome.steps.iter().filter_map(|step| match step.load.order {
            Order::Sequential { streams } if streams > 1 => Some(streams),
            _ => None,
        });
        let most = asked.max()?;
        Some(match self.outcome.model.streams {
            1 => {
                "It follows one sequential stream: two that take turns are random to it.".to_owned()
            }
            streams if streams == most => {
                format!("It follows {streams} sequential streams or more.")
            }
            streams => format!("It follows {streams} sequential streams, and not {most}."),
        })
    }

    /// Names are stable and have their units; `docs/calibrate.md` lists them.
    pub(super) fn json(&self, path: Option<&Path>) -> Value {
        let model = &self.outcome.model;
        json!({
            "target": self.name,
            "measured": self.way,
            "elapsed_ns": self.took_ns,
            "size_bytes": model.size,
            "read": figures(&model.reads),
            "write": model.writes.as_ref().map(figures),
            "latency_ns": model.latency_ns,
            "streams": model.streams,
            "steps": self.outcome.steps.iter().map(step).collect::<Vec<_>>(),
            "checks": self.outcome.checks.iter().map(|check| {
                let mut value = step(&check.step);
                value["foretold_per_sec"] = rounded(check.foretold_per_sec);
                value["deviation_percent"] = rounded(check.deviation() * 100.0);
                value
            }).collect::<Vec<_>>(),
            "model_file": path.map(|path| path.display().to_string()),
        })
    }
}

fn row(name: &str, figures: &CostFigures) -> [String; 4] {
    [
        name.to_owned(),
        BytesPerSec(figures.bytes_per_sec.get()).rounded().to_string(),
        IosPerSec(figures.sequential_iops.get()).rounded().to_string(),
        IosPerSec(figures.random_iops.get()).rounded().to_string(),
    ]
}

/// The model's prediction of the test load, and the measured rate.
fn trial(check: &Check) -> String {
    let foretold = IosPerSec(check.foretold_per_sec as u64).rounded();
    let (measured, off) = (plot::rate(&check.step), check.deviation() * 100.0);
    format!(
        "As a trial, {}: foretold {foretold}, measured {measured} ({off:+.1} %)",
        check.step.load
    )
}

fn figures(figures: &CostFigures) -> Value {
    json!({
        "bytes_per_sec": figures.bytes_per_sec,
        "sequential_iops": figures.sequential_iops,
        "random_iops": figures.random_iops,
    })
}

fn step(step: &Step) -> Value {
    let (order, streams) = match step.load.order {
        Order::Sequential { streams } => ("sequential", Some(streams)),
        Order::Random => ("random", None),
    };
    json!({
        "direction": match step.load.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        },
        "order": order,
        "streams": streams,
        "length_bytes": step.load.len,
        "depth": step.load.depth,
        "requests": step.requests,
        "elapsed_ns": step.elapsed_ns,
        "requests_per_sec": rounded(step.per_sec()),
        "bytes_per_sec": rounded(step.bytes_per_sec()),
        "latency_ns_mean": rounded(step.latency_ns()),
        "steady": step.is_steady,
    })
}

/// To a tenth.
fn rounded(value: f64) -> Value {
    ((value * 10.0).round() / 10.0).into()
}
