//! The simulator: processes, page cache, engine and disk in virtual time.
//!
//! ```text
//!  process ─► (page cache) ─► Engine::submit ─► weir_driver::turn ─► disk model
//!     ▲                                                                  │
//!     └────────────────────── Engine::complete ◄─────────────────────────┘
//! ```
//!
//! A turn is the server's: what has happened goes into the engine, then [`weir_driver::turn`] lets go what may go. Only
//! the clock differs: it jumps to the next thing that happens, at the disk, in the engine, in the page cache, or in the
//! calendar of the processes. The same scenario and seed give equal results on every machine: integers, no hash order,
//! no clock, no threads.
//!
//! What a process itself costs is left out: making a request takes no time, except for calls of the null engine, for
//! calls and copies of the page cache, and for the way to the disk where one is set ([`crate::scenario::Machine`]).

mod calendar;
mod completion;
mod descriptors;
mod flights;
mod flow;
mod govern;
mod layout;
mod overlap;
mod pacing;
mod path_delay;
mod plan;
pub(crate) mod playback;
mod pre_read;
mod process;
mod recorder;
pub(crate) mod recording;
mod replay;
mod search;
mod setup;
mod sim_device;
mod stages;
mod steady;
mod streams;
mod timed_changes;
mod trace_source;
mod world;

use std::ops::ControlFlow;
use std::time::Duration;

use crate::results::{CgroupResults, Results};
use crate::scenario::{Scenario, ScenarioError};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now_ns: u64,
    /// Requests that the engine has taken in.
    pub requests: u64,
    /// Processes that have ended.
    pub ended: u32,
    /// All processes.
    pub processes: u32,
    /// Latest end of the run, if every remaining process has a `runtime`; for a progress bar.
    pub ends_ns: Option<u64>,
}

/// Runs a scenario to its end. `watch` is called every 65,536 events, a few times a second at most speeds. If it
/// returns [`ControlFlow::Break`], the run ends there, with the results so far.
///
/// O(log processes) an event, and no allocation per request once all tables have grown. Memory is proportional to
/// processes and cgroups.
///
/// # Errors
/// What is wrong with the scenario, before anything runs; or a run in which time stands still.
pub fn run(
    scenario: &Scenario,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Results, ScenarioError> {
    let mut results = setup::world(scenario)?.run(watch)?;
    results.notes.extend(idle(&results));
    Ok(results)
}

/// Saturates at the largest time.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A count with its noun: `1 job`, `2 jobs`.
fn counted(count: u64, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

/// Cgroups that a note names; it counts the others.
const NAMED_MAX: usize = 8;

/// A note on cgroups that have limits and got no request: often the limit was meant for a job in another cgroup.
fn idle(results: &Results) -> Option<String> {
    let is_idle = |cgroup: &&CgroupResults| {
        let counters = &cgroup.counters;
        let ios = counters.read.ios + counters.write.ios + counters.discard.ios;
        let held: u64 = counters.throttled.iter().sum();
        !cgroup.limits.max.is_none() && ios + counters.other_ios + held == 0
    };
    let idle: Vec<&str> =
        results.cgroups.iter().filter(is_idle).map(|cgroup| cgroup.path.as_str()).collect();
    let row = results.rows.first()?;
    let more = match idle.len() {
        0 => return None,
        count if count <= NAMED_MAX => "had".to_owned(),
        count => format!("and {} more had", count - NAMED_MAX),
    };
    let names = idle[..idle.len().min(NAMED_MAX)].join(", ");
    Some(format!(
        "limits of {names} {more} nothing to do: no request came from there. `{}` is in {}; a job's `cgroup` names \
         another, and `--set home=per-job` gives each job its own",
        row.name, row.cgroup
    ))
}
