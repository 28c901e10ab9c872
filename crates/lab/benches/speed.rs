//! Simulated I/Os a second, and how the time grows with processes: `make bench-lab`.
//!
//! CPU time of the one thread that simulates, so that other work on the machine disturbs less.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use weir_engine::{Dimension, Limits, Path, PerDimension};
use weir_fio as fio;
use weir_lab::scenario::{CgroupSetting, Home, Scenario, Timing, Trace, Work};
use weir_lab::sim;

fn main() {
    println!("{:<58} {:>10} {:>9} {:>12}", "", "I/Os", "CPU s", "I/Os a CPU s");
    for (name, tenants, limit, depth) in [
        ("1,000 tenants, depth 4, no limits", 1000, 0, 4),
        ("1,000 tenants, depth 4, limits that do not bind", 1000, 1_000_000, 4),
        ("1,000 tenants, depth 4, limits that bind", 1000, 500, 4),
        ("1 tenant, depth 32, no limits", 1, 0, 32),
        ("1 tenant, depth 32, a limit that does not bind", 1, 10_000_000, 32),
    ] {
        measure(name, &Tenants { count: tenants, limit, depth, ..Tenants::ONE }.scenario());
    }
    match std::env::var_os("WEIR_TRACE") {
        Some(path) => {
            let path = std::path::PathBuf::from(path);
            measure("trace x 30, as fast as it can, no limits", &trace(&path, 0));
            measure("trace x 30, limits that do not bind", &trace(&path, 1_000_000_000));
            measure("trace x 30, limits that bind", &trace(&path, 10_000));
        }
        None => println!("(a trace: WEIR_TRACE=FILE.csv.gz make bench-lab)"),
    }
    for (name, rw, size) in [
        ("random reads through the page cache, 10 GiB", "randread", "10g"),
        ("random reads through the page cache, 100 GiB", "randread", "100g"),
        ("random writes through the page cache, 10 GiB", "randwrite", "10g"),
    ] {
        measure(name, &buffered(rw, size));
    }
    let many = |count: u32, turns| {
        let ios = u64::from(count) * 4 * IOS_EACH;
        Tenants { count, processes: 4, limit: 100, turns, ios, ..Tenants::ONE }.scenario()
    };
    for (turns, name) in [(Turns::Together, "in step"), (Turns::Apart, "in no order")] {
        for cgroups in [10, 100, 1000, 10_000, 25_000] {
            let name = format!("{cgroups} cgroups x 4 processes at limits, {name}");
            measure(&name, &many(cgroups, turns));
        }
    }
    let setting_up = Scenario { until_ns: Some(0), ..many(25_000, Turns::Together) };
    measure("25000 cgroups x 4 processes, setting up alone", &setting_up);
}

/// Requests of all tenants together.
const IOS: u64 = 2_000_000;

/// Requests of each process in the series over numbers of processes.
const IOS_EACH: u64 = 200;

/// Load of 4 KiB requests: so many cgroups of so many processes each, at a limit of I/Os a second or, with 0, none, on a
/// disk that takes 10 us for any number of requests.
struct Tenants {
    count: u32,
    processes: u32,
    limit: u64,
    turns: Turns,
    depth: u32,
    ios: u64,
}

/// When those at limits go.
#[derive(Clone, Copy, PartialEq)]
enum Turns {
    /// All at one instant, in the order in which they were made: they have the same limit, and begin together.
    Together,
    /// In no order: each has its own limit, up to twice that, and begins some time within 40 ms.
    Apart,
}

impl Tenants {
    const ONE: Tenants =
        Tenants { count: 1, processes: 1, limit: 0, turns: Turns::Together, depth: 1, ios: IOS };

    fn scenario(&self) -> Scenario {
        let &Tenants { count, processes, limit, turns, depth, ios } = self;
        let each = ios / u64::from(count) / u64::from(processes);
        let (delay, spread) = match turns {
            Turns::Together => ("", 1),
            Turns::Apart => ("startdelay=0-40ms\n", limit),
        };
        let mut jobs = format!(
            "[global]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth={depth}\nsize=1m\nnorandommap\nio_size={}\nnumjobs={processes}\n{delay}group_reporting\nfilename=disk\n",
            each * 4096,
        );
        let mut cgroups = Vec::new();
        for tenant in 0..count {
            writeln!(jobs, "[t{tenant}]\ncgroup=t{tenant}").unwrap();
            if limit > 0 {
                // A prime: neighbours have nothing in common.
                let limit = limit + u64::from(tenant) * 7919 % spread;
                let max = PerDimension::NONE.with(Dimension::Riops, limit);
                let limits = Limits { max, ..Limits::default() };
                let path = Path::parse(&format!("/t{tenant}")).unwrap();
                cgroups.push(CgroupSetting {
                    path,
                    weight: None,
                    prio_class: None,
                    low_latency: None,
                    watermark: None,
                    limits,
                });
            }
        }
        let jobs = fio::parse("speed.fio", jobs.as_bytes(), &BTreeMap::new()).unwrap();
        let depth = (count * processes * depth).max(1).try_into().unwrap();
        Scenario {
            title: "speed".into(),
            disk: "null,latency=10us".parse().unwrap(),
            engine: weir_engine::Config { depth, ..weir_engine::Config::default() },
            cgroups,
            home: Home::Shared(Path::parse("/main").unwrap()),
            cache: Default::default(),
            machine: Default::default(),
            path_delay: Default::default(),
            seed: 1,
            forks: Vec::new(),
            until_ns: None,
            timed_changes: Vec::new(),
            govern: None,
            work: Work::Jobs(jobs),
        }
    }
}

/// Pages of a file in no order, by way of a page cache of 1 GiB.
fn buffered(rw: &str, size: &str) -> Scenario {
    let jobs = format!(
        "[a]\nrw={rw}\nbs=4k\nsize={size}\nnorandommap\nioengine=libaio\niodepth=16\nio_size={}\n",
        IOS * 4096,
    );
    let jobs = fio::parse("speed.fio", jobs.as_bytes(), &BTreeMap::new()).unwrap();
    Scenario {
        disk: "null,latency=10us,size=1T".parse().unwrap(),
        work: Work::Jobs(jobs),
        ..Tenants { depth: 16, ..Tenants::ONE }.scenario()
    }
}

/// A block trace, 30 times over, as fast as 32 requests at a time can be.
fn trace(path: &std::path::Path, limit: u64) -> Scenario {
    let trace = Trace { timing: Timing::Asap, repeat: 30, ..Trace::new(path) };
    let max = PerDimension::NONE.with(Dimension::Riops, limit).with(Dimension::Wiops, limit);
    let home = Path::parse("/main").unwrap();
    let limits = Limits { max, ..Limits::default() };
    Scenario {
        cgroups: vec![CgroupSetting {
            path: home,
            weight: None,
            prio_class: None,
            low_latency: None,
            watermark: None,
            limits,
        }],
        disk: "null,latency=10us,size=1T".parse().unwrap(),
        work: Work::Trace(trace),
        ..Tenants { depth: 32, ..Tenants::ONE }.scenario()
    }
}

fn measure(name: &str, scenario: &Scenario) {
    // `cargo bench -p weir-lab -- 10000` runs those with that in their name.
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let (mut took, mut requests) = (0.0, 0);
    let before = cpu_seconds();
    // What is over at once is run again.
    while requests == 0 || requests < IOS && scenario.until_ns.is_none() {
        requests += sim::run(scenario, &mut |_| ControlFlow::Continue(())).unwrap().requests;
        took = cpu_seconds() - before;
    }
    let rate = requests as f64 / took;
    println!("{name:<58} {requests:>10} {took:>9.2} {rate:>12.0}");
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    ns.unwrap_or(0) as f64 / 1e9
}
