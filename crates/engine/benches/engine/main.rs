//! Cost of the engine: time and instructions of a request, memory of idle objects.
//!
//! ```text
//! cargo bench -p weir-engine                       everything: a few minutes
//! cargo bench -p weir-engine -- --quick            few rounds, no instructions, no million flows
//! cargo bench -p weir-engine -- deep 1000-reached  cases whose names hold one of these
//! ```
//!
//! A request is one submit, one dispatch and one complete through the engine's public face, and its part of a turn
//! (`handle_timeout`, `poll_timeout`).

mod calls;
mod cases;
mod counting;
mod instructions;
mod memory;
mod report;
mod world;

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cases::{CASES, Case};
use counting::Counting;
use report::{Report, Speed};
use world::World;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    if let [option, rest @ ..] = arguments.as_slice()
        && option == calls::CALL_OPTION
    {
        calls::run(rest.first().map(String::as_str));
        return ExitCode::SUCCESS;
    }
    if let [option, name] = arguments.as_slice()
        && option == instructions::CASE_OPTION
    {
        let case = CASES.iter().find(|case| case.name == name);
        instructions::run_counted(case.expect("one of the names of the table"));
        return ExitCode::SUCCESS;
    }
    // `cargo bench` passes `--bench`; without it this is some `cargo test` that wants to know whether it runs.
    let quick = take(&mut arguments, "--quick") | !take(&mut arguments, "--bench");
    if let Some(unknown) = arguments.iter().find(|argument| argument.starts_with('-')) {
        eprintln!(
            "error: unknown option {unknown}; there is --quick, and parts of the names of cases"
        );
        return ExitCode::from(2);
    }
    let chosen = |case: &&Case| {
        (!quick || case.tree.flows() <= 1000)
            && (arguments.is_empty() || arguments.iter().any(|part| case.name.contains(part)))
    };
    let report = run(CASES.iter().filter(chosen).collect(), quick, arguments.is_empty());
    report.print();
    match report.write() {
        Ok(path) => {
            println!("\nwritten: {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot write the report: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether `option` was there; it is not any more.
fn take(arguments: &mut Vec<String>, option: &str) -> bool {
    let before = arguments.len();
    arguments.retain(|argument| argument != option);
    arguments.len() < before
}

fn run(cases: Vec<&'static Case>, quick: bool, with_memory: bool) -> Report {
    let mut report = Report { rounds: if quick { 3 } else { 9 }, ..Report::default() };
    if with_memory {
        report.footprints = memory::footprints();
    }
    let counted = !quick && instructions::has_valgrind();
    if !counted && !cases.is_empty() {
        let reason = if quick { "not in a quick run" } else { "valgrind is not installed" };
        report.skips.push(format!("instructions: {reason}"));
    }
    for case in cases {
        eprintln!("engine: {}", case.name);
        let instructions = if counted { instructions::count(case) } else { Err(String::new()) };
        if let (true, Err(reason)) = (counted, &instructions) {
            report.skips.push(format!("instructions: {reason}"));
        }
        let time_ns = time(case, report.rounds, if quick { 20 } else { 200 });
        report.speeds.push(Speed { case, time_ns, instructions: instructions.ok() });
    }
    report
}

/// Nanoseconds a request in each round, ascending. A round takes about `round_ms`, and every flow at least once. Where
/// flows are made there is one round, for they are made once.
fn time(case: &Case, rounds: usize, round_ms: u64) -> Vec<f64> {
    let probe = u64::from(case.tree.flows()).max(10_000);
    if case.makes_flows {
        let mut world = World::new(case, probe / 10);
        return vec![timed(|| world.measured_turns(probe - probe / 10))];
    }
    let mut world = World::new(case, 2 * probe);
    let took = timed(|| world.measured_turns(probe));
    let wanted = Duration::from_millis(round_ms).as_nanos() as f64 / took;
    let mut time_ns: Vec<f64> =
        (0..rounds).map(|_| timed(|| world.measured_turns(probe.max(wanted as u64)))).collect();
    time_ns.sort_by(f64::total_cmp);
    time_ns
}

/// Nanoseconds of each of the things that `work` says it has done.
#[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
fn timed(work: impl FnOnce() -> u64) -> f64 {
    let started = Instant::now();
    let done = work();
    started.elapsed().as_nanos() as f64 / done as f64
}
