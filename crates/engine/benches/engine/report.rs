//! The figures as a table for people and as JSON for programs.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use serde_json::{Value, json};

use crate::cases::Case;
use crate::memory::Footprint;

/// The figures of one case.
pub(crate) struct Speed {
    pub(crate) case: &'static Case,
    /// Nanoseconds a request, one number a round, ascending.
    pub(crate) time_ns: Vec<f64>,
    pub(crate) instructions: Option<f64>,
}

impl Speed {
    fn median_ns(&self) -> f64 {
        self.time_ns[self.time_ns.len() / 2]
    }

    fn min_ns(&self) -> f64 {
        self.time_ns[0]
    }
}

/// Everything one run found out.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rounds: usize,
    pub(crate) speeds: Vec<Speed>,
    pub(crate) footprints: Vec<Footprint>,
    /// What could not be measured, and why.
    pub(crate) skips: Vec<String>,
}

impl Report {
    pub(crate) fn print(&self) {
        if !self.speeds.is_empty() {
            println!("\nengine: submit + dispatch + complete, per request\n");
            self.print_speeds();
        }
        if !self.footprints.is_empty() {
            println!("\nengine: memory of each\n");
            self.print_footprints();
        }
        for skip in &self.skips {
            println!("skipped: {skip}");
        }
    }

    fn print_speeds(&self) {
        println!(
            "{:<20} {:>9} {:>8} {:>6}  {:>12} {:>8} {:>8} {:>8}",
            "case", "flows", "cgroups", "levels", "instructions", "ns", "ns min", "goal ns"
        );
        for speed in &self.speeds {
            let tree = &speed.case.tree;
            println!(
                "{:<20} {:>9} {:>8} {:>6}  {:>12} {:>8.0} {:>8.0} {:>8}",
                speed.case.name,
                tree.flows(),
                tree.cgroups(),
                tree.fan_out.len(),
                speed.instructions.map_or("-".into(), |count| format!("{count:.0}")),
                speed.median_ns(),
                speed.min_ns(),
                speed.case.time_ns_goal.map_or("-".into(), |goal| goal.to_string()),
            );
        }
    }

    fn print_footprints(&self) {
        println!("{:<34} {:>7} {:>12}", "what", "bytes", "allocations");
        for footprint in &self.footprints {
            let Footprint { what, bytes, allocations } = footprint;
            println!("{what:<34} {bytes:>7.0} {allocations:>12.2}");
        }
    }

    /// Writes `target/bench/engine.json`; answers where that is.
    pub(crate) fn write(&self) -> io::Result<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
        fs::create_dir_all(&directory)?;
        let path = directory.canonicalize()?.join("engine.json");
        fs::write(&path, format!("{:#}\n", self.to_json()))?;
        Ok(path)
    }

    fn to_json(&self) -> Value {
        let results: Vec<Value> = self.speeds.iter().map(Speed::to_json).collect();
        let memory: Vec<Value> = self.footprints.iter().map(Footprint::to_json).collect();
        json!({
            "name": "engine",
            "machine": machine(),
            "parameters": { "rounds": self.rounds },
            "results": results,
            "memory": memory,
            "skips": self.skips,
        })
    }
}

impl Speed {
    fn to_json(&self) -> Value {
        json!({
            "case": self.case.name,
            "flows": self.case.tree.flows(),
            "cgroups": self.case.tree.cgroups(),
            "cgroup_levels": self.case.tree.fan_out.len(),
            "scheduler": self.case.scheduler.name(),
            "limits": self.case.load.limits(),
            "limiter": self.case.load.limiter(),
            "instructions_per_request": self.instructions,
            "time_ns_per_request_median": self.median_ns(),
            "time_ns_per_request_min": self.min_ns(),
            "time_ns_per_request_goal": self.case.time_ns_goal,
        })
    }
}

impl Footprint {
    fn to_json(&self) -> Value {
        json!({ "what": self.what.trim(), "bytes": self.bytes, "allocations": self.allocations })
    }
}

fn machine() -> Value {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    json!({
        "kernel": kernel.trim(),
        "cpus": thread::available_parallelism().map_or(0, usize::from),
        "cpu": model,
    })
}
