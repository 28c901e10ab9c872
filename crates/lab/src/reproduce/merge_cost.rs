//! Cost of merging while no queues merge: the second half of "let a queue be merged only shortly after starting I/O"
//! (2017). It found 3 to 4 % more throughput on a busy processor, since queues that may not merge any more need not
//! be in the position tree.
//!
//! The load is the engine alone: streams far apart in one cgroup, each with requests waiting at all times, and a
//! device that takes almost no time. Searches are counted here. `cargo bench -p weir-lab --bench merge_cost` counts
//! instructions on the same load.

use std::num::NonZeroU32;

use weir_engine::settings::{BfqSettings, MergeSettings, MergeWindow};
use weir_engine::stats::{BfqStats, Refusal};
use weir_engine::{
    Config, Dispatch, Engine, Extent, Instant, Op, Outcome, Path, Request, SchedulerKind, TaskId,
};

use super::{Progress, ReproduceError, Reproduction, Run, spread};

pub(super) const REPRODUCTION: Reproduction = Reproduction {
    name: "merge-cost",
    source: "Linux 4.14, \"block, bfq: let a queue be merged only shortly after starting I/O\", 2017",
    about: "streams far apart that never merge; instructions: cargo bench -p weir-lab --bench merge_cost",
    beside: &[],
    run,
    published,
};

/// Name and `merge_window` of each setting.
pub const WINDOWS: [(&str, MergeWindow); 3] = [
    ("closed", MergeWindow::Closed),
    ("within 100 ms", MergeSettings::KERNEL.merge_window),
    ("at any time", MergeWindow::Unlimited),
];

/// Streams, and requests that each has waiting or at the device.
const STREAMS: u64 = 64;
const DEPTH: u32 = 4;

/// Distance of the streams, and bytes of a read.
const APART_BYTES: u64 = 1 << 30;
const READ_BYTES: u32 = 4096;

/// Between a request and the next.
const REQUEST_NS: u64 = 10_000;

/// By then each stream has been served for longer than the window of 100 ms.
const RUN_IN: u64 = 200_000;

const COUNTED: u64 = 200_000;

/// The engine with its streams.
pub struct Load {
    engine: Engine,
    now: Instant,
    tasks: Vec<TaskId>,
    next: Vec<u64>,
}

impl Load {
    /// Builds the load and serves its first requests, during which queues may merge and do not, for they are far
    /// apart.
    pub fn new(merge_window: MergeWindow) -> Load {
        // Stable merging has its own time limit.
        let merging = MergeSettings { merge_window, stable: None, ..MergeSettings::KERNEL };
        let config = Config {
            scheduler: SchedulerKind::Bfq,
            depth: const { NonZeroU32::new(8).unwrap() },
            bfq: BfqSettings::DEFAULT.with_merging(merging),
            ..Config::default()
        };
        let mut engine = Engine::new(config, Instant::ZERO);
        let path = Path::parse("/streams").expect("a path");
        let cgroup = engine.ensure_cgroup(&path).expect("room for one cgroup");
        let open = |_| {
            let client = engine.open_client(cgroup).expect("a cgroup that is there");
            engine.open_task(client).expect("a client that was just opened")
        };
        let tasks: Vec<TaskId> = (0..STREAMS).map(open).collect();
        let next = (0..STREAMS).map(|stream| stream * APART_BYTES).collect();
        let mut load = Load { engine, now: Instant::ZERO, tasks, next };
        for _ in 0..DEPTH {
            (0..STREAMS).for_each(|stream| load.ask(stream));
        }
        load.serve(RUN_IN);
        load
    }

    /// Serves so many requests, and returns how many; each stream asks again for what it gets.
    ///
    /// A function of its own, so that an instrumented run can tell it from the set-up.
    #[inline(never)]
    pub fn measured_requests(&mut self, requests: u64) -> u64 {
        self.serve(requests)
    }

    fn serve(&mut self, requests: u64) -> u64 {
        for _ in 0..requests {
            self.now = self.now.plus_nanos(REQUEST_NS);
            self.engine.handle_timeout(self.now);
            let dispatch = self.engine.poll_dispatch(self.now);
            let Dispatch { ticket, request, .. } =
                dispatch.expect("everybody has requests waiting");
            self.engine.complete(self.now, ticket, Outcome::Done);
            self.ask(request.tag);
        }
        requests
    }

    /// BFQ's counters.
    pub fn stats(&self) -> BfqStats {
        self.engine.bfq_stats()
    }

    fn ask(&mut self, stream: u64) {
        let next = &mut self.next[stream as usize];
        let extent = Extent::new(*next, READ_BYTES);
        *next += u64::from(READ_BYTES);
        let request = Request::new(self.tasks[stream as usize], Op::Read, extent, stream);
        self.engine.submit(self.now, request).expect("room for some requests a stream");
    }
}

fn run(progress: Progress<'_>) -> Result<Vec<Run>, ReproduceError> {
    Ok(spread::all(WINDOWS.len() as u32, progress, |at| {
        let (setting, window) = WINDOWS[at as usize];
        let mut load = Load::new(window);
        let before = load.stats().merging;
        load.serve(COUNTED);
        let after = load.stats().merging;
        let of = |reason| after.refused(reason) - before.refused(reason);
        let checks = after.checks - before.checks;
        // A flow that is closed to merging, too late or alone has not searched.
        let unsought = of(Refusal::Closed) + of(Refusal::TooLate) + of(Refusal::Alone);
        let per_request = |count: u64| (count * 1000 / COUNTED) as f64 / 1000.0;
        Run {
            setting: setting.into(),
            figures: vec![
                ("checks_per_request", per_request(checks)),
                ("searches_per_request", per_request(checks - unsought)),
                ("merges", (after.cooperations - before.cooperations) as f64),
            ],
        }
    }))
}

fn published() -> Vec<Run> {
    let figures = vec![("throughput_percent_least", 103.0), ("throughput_percent_most", 104.0)];
    vec![Run { setting: "after, of before".into(), figures }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_searched_only_without_a_merge_window() {
        let runs = run(&|_, _| {}).unwrap();
        let searches = |run: &Run| run.figure("searches_per_request").unwrap();
        assert_eq!((searches(&runs[0]), searches(&runs[1])), (0.0, 0.0), "{runs:?}");
        assert!(searches(&runs[2]) >= 0.9, "{runs:?}");
        assert!(runs.iter().all(|run| run.figure("merges") == Some(0.0)), "{runs:?}");
        assert!(runs.iter().all(|run| run.figure("checks_per_request") >= Some(1.0)), "{runs:?}");
    }
}
