//! Promotion of asynchronous requests, with random calls: every request goes to the device once, and the engine's
//! invariants hold after each call.

use proptest::prelude::*;
use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::{
    Class, Engine, Extent, Instant, LimiterKind, Op, Outcome, Request, RequestId, SchedulerKind,
    TaskId, Ticket,
};

use crate::support;

#[derive(Clone, Debug)]
enum Call {
    Submit { task: usize, len: u32, sync: bool, owed: bool },
    Promote { pick: usize, task: usize, owed: bool },
    Withdraw { pick: usize },
    Dispatch,
    Complete { pick: usize },
    Pass { micros: u64 },
    CloseTask { task: usize },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (0..6usize, 1..64u32, any::<bool>(), 0..8u8).prop_map(|(task, pages, sync, owed)| {
            Call::Submit { task, len: pages * 4096, sync, owed: owed == 0 }
        }),
        5 => (any::<usize>(), 0..6usize, any::<bool>())
            .prop_map(|(pick, task, owed)| Call::Promote { pick, task, owed }),
        1 => any::<usize>().prop_map(|pick| Call::Withdraw { pick }),
        4 => Just(Call::Dispatch),
        4 => any::<usize>().prop_map(|pick| Call::Complete { pick }),
        3 => (0..40_000u64).prop_map(|micros| Call::Pass { micros }),
        1 => (0..6usize).prop_map(|task| Call::CloseTask { task }),
    ]
}

const LIMITERS: [LimiterKind; 5] = [
    LimiterKind::Pace,
    LimiterKind::Token,
    LimiterKind::Leaky,
    LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K419, hz: 250, slice_ticks: 25 }),
    LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K615, hz: 250, slice_ticks: 25 }),
];

/// Two cgroups below one, each with a limit of its own, and two clients in each; the second has two tasks.
struct Scene {
    engine: Engine,
    tasks: Vec<Option<TaskId>>,
    now: Instant,
    waiting: Vec<RequestId>,
    at_device: Vec<Ticket>,
    serial: u64,
    /// Requests submitted, and those that left again.
    submitted: u64,
    left: u64,
}

impl Scene {
    fn new(scheduler: SchedulerKind, limiter: LimiterKind) -> Scene {
        let mut engine = support::engine(support::config(scheduler, 4));
        let mut tasks = Vec::new();
        for (path, max) in [("/all", "wbps=8M"), ("/all/a", "wbps=4M"), ("/all/b", "wbps=1M")] {
            let cgroup = support::cgroup(&mut engine, path);
            support::limit(&mut engine, Instant::ZERO, cgroup, support::limits(limiter, max));
            if path != "/all" {
                for clients in [1, 2] {
                    let client = engine.open_client(cgroup).unwrap();
                    let open = |_| Some(engine.open_task(client).unwrap());
                    tasks.extend((0..clients).map(open).collect::<Vec<_>>());
                }
            }
        }
        let (now, waiting, at_device) = (Instant::ZERO, Vec::new(), Vec::new());
        Scene { engine, tasks, now, waiting, at_device, serial: 0, submitted: 0, left: 0 }
    }

    fn act(&mut self, call: Call) {
        match call {
            Call::Submit { task, len, sync, owed } => {
                let Some(task) = self.tasks[task] else { return };
                self.serial += 1;
                let extent = Extent::new(self.serial * 7919 % 4096 * 4096, len);
                let class = if owed { Class::Owed } else { Class::Data };
                let request = Request::new(task, Op::Write, extent, self.serial);
                let request = Request { sync: sync || owed, class, ..request };
                self.waiting.push(self.engine.submit(self.now, request).unwrap());
                self.submitted += 1;
            }
            Call::Promote { pick, task, owed } if !self.waiting.is_empty() => {
                let id = self.waiting[pick % self.waiting.len()];
                let Some(task) = self.tasks[task].or(self.tasks[0]) else { return };
                let class = if owed { Class::Owed } else { Class::Data };
                assert!(self.engine.promote(self.now, id, task, class));
            }
            Call::Withdraw { pick } if !self.waiting.is_empty() => {
                let id = self.waiting.swap_remove(pick % self.waiting.len());
                assert!(self.engine.withdraw(self.now, id).is_some());
                self.left += 1;
            }
            Call::Dispatch => {
                self.engine.handle_timeout(self.now);
                while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
                    let id = dispatch.ticket.id();
                    let before = self.waiting.len();
                    self.waiting.retain(|&other| other != id);
                    assert_eq!(self.waiting.len() + 1, before, "it goes once");
                    self.at_device.push(dispatch.ticket);
                }
            }
            Call::Complete { pick } if !self.at_device.is_empty() => {
                let ticket = self.at_device.swap_remove(pick % self.at_device.len());
                self.engine.complete(self.now, ticket, Outcome::Done);
                self.left += 1;
            }
            Call::Pass { micros } => {
                self.now = self.now.plus_nanos(micros * 1000);
                self.engine.handle_timeout(self.now);
            }
            // The first task of each cgroup stays, so that promotions have somewhere to go.
            Call::CloseTask { task } if task % 3 != 0 => {
                if let Some(task) = self.tasks[task].take() {
                    self.engine.close_task(task);
                }
            }
            _ => {}
        }
        if let Err(broken) = self.engine.check() {
            panic!("{broken}");
        }
        assert!(self.engine.audit().balances());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promoted_requests_go_once_and_break_nothing(
        calls in prop::collection::vec(call(), 1..120),
        limiter in 0..LIMITERS.len(),
        scheduler in 0..2usize,
    ) {
        let mut scene = Scene::new(SchedulerKind::ALL[scheduler], LIMITERS[limiter]);
        calls.into_iter().for_each(|call| scene.act(call));
        for _ in 0..20_000 {
            if scene.waiting.is_empty() && scene.at_device.is_empty() {
                break;
            }
            scene.act(Call::Dispatch);
            scene.act(Call::Complete { pick: 0 });
            scene.act(Call::Pass { micros: 20_000 });
        }
        prop_assert_eq!(scene.left, scene.submitted, "something waits for ever");
    }
}

/// A request in the middle of a limit's queue goes now, and those behind it pay: they end when they would have.
#[test]
fn an_owed_request_goes_now_and_later_requests_pay_for_it() {
    // A leaky bucket takes all of this in one burst.
    for limiter in LIMITERS.into_iter().filter(|limiter| *limiter != LimiterKind::Leaky) {
        let mut scene = Scene::new(SchedulerKind::None, limiter);
        for _ in 0..12 {
            scene.act(Call::Submit { task: 3, len: 256 << 10, sync: false, owed: false });
        }
        scene.act(Call::Dispatch);
        let last = *scene.waiting.last().expect("the limit holds most of them");
        let task = scene.tasks[3].expect("open");
        assert!(scene.engine.promote(scene.now, last, task, Class::Owed));
        scene.act(Call::Dispatch);
        while !scene.at_device.is_empty() {
            scene.act(Call::Complete { pick: 0 });
            scene.act(Call::Dispatch);
        }
        assert!(!scene.waiting.contains(&last), "{limiter:?}: it waits for the limit");
        // 3 MiB at 1 MiB/s.
        let mut ended = Instant::ZERO;
        while !scene.waiting.is_empty() {
            scene.act(Call::Pass { micros: 4_000 });
            scene.act(Call::Dispatch);
            while !scene.at_device.is_empty() {
                ended = scene.now;
                scene.act(Call::Complete { pick: 0 });
            }
        }
        let millis = ended.as_nanos() / 1_000_000;
        assert!((1_500..=3_300).contains(&millis), "{limiter:?}: the last ends after {millis} ms");
    }
}
