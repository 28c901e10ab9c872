#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]

//! Load on a recorded engine, in virtual time, from a seed.

use std::collections::BTreeMap;

use weir_driver::Device;
use weir_engine::{
    Change, Config, Dimension, Dispatch, Engine, Event, Extent, Instant, Limits, Op, Outcome, Path,
    PerDimension, Request, SchedulerKind, TaskId, Ticket, Weight,
};
use weir_recording::RecordedEngine;

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// What a disk does that takes 20 to 150 µs.
#[derive(Default)]
pub struct Disk {
    pub dispatched: Vec<(u64, u64, u32)>,
    at_disk: Vec<(u64, Ticket)>,
}

impl Device for Disk {
    const JOINS: bool = true;

    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let Extent { offset, len } = dispatch.request.extent;
        self.dispatched.push((now.as_nanos(), offset, len));
        self.at_disk.push((now.as_nanos(), dispatch.ticket));
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        self.issue(now, dispatch);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}

pub struct Load {
    pub engine: RecordedEngine,
    pub disk: Disk,
    pub now_ns: u64,
    random: Random,
    tasks: Vec<TaskId>,
    events: BTreeMap<(u64, u64), What>,
    serial: u64,
    mean_gap_ns: u64,
    due_ns: Option<u64>,
    pub submitted: u64,
}

enum What {
    Submit,
    Done(Ticket),
}

pub fn config(scheduler: SchedulerKind) -> Config {
    let piece_bytes_max = Some(weir_driver::PIECE_BYTES_MAX);
    Config { scheduler, piece_bytes_max, ..Config::default() }
}

impl Load {
    pub fn new(seed: u64, scheduler: SchedulerKind, per_second: u64) -> Load {
        let now_ns = 1_000_000_007;
        let engine = Engine::new(config(scheduler), Instant::from_nanos(now_ns));
        Load {
            engine: RecordedEngine::new(engine),
            disk: Disk::default(),
            now_ns,
            random: Random::new(seed),
            tasks: Vec::new(),
            events: BTreeMap::new(),
            serial: 0,
            mean_gap_ns: 1_000_000_000 / per_second,
            due_ns: None,
            submitted: 0,
        }
    }

    /// Tenants with a client of two tasks each; every third has a limit of `riops`.
    pub fn tenants(&mut self, count: u32, riops: u64) {
        let now = Instant::from_nanos(self.now_ns);
        for number in 0..count {
            let path = Path::parse(&format!("/tenants/t{number}")).unwrap();
            let cgroup = self.engine.ensure_cgroup(&path).unwrap();
            if number % 3 == 0 {
                let limits = Limits {
                    max: PerDimension::NONE.with(Dimension::Riops, riops),
                    ..Limits::default()
                };
                self.engine.reconfigure(now, Change::SetLimits { cgroup, limits }).unwrap();
            }
            let weight = Weight::new(u64::from(50 + 10 * number)).unwrap();
            self.engine.reconfigure(now, Change::SetWeight { cgroup, weight }).unwrap();
            let client = self.engine.open_client(cgroup).unwrap();
            for _ in 0..2 {
                self.tasks.push(self.engine.open_task(client).unwrap());
            }
        }
    }

    /// Lets the second tenant have 2,000 reads a second for 30 ms, and 50 after that.
    pub fn lease(&mut self) {
        let [limits, then] = [2000, 50].map(|riops| Limits {
            max: PerDimension::NONE.with(Dimension::Riops, riops),
            ..Limits::default()
        });
        let cgroup = self.engine.find_cgroup(&Path::parse("/tenants/t1").unwrap()).unwrap();
        let now = Instant::from_nanos(self.now_ns);
        let until = now.plus_nanos(30_000_000);
        let change = Change::LeaseLimits { cgroup, limits, until, then };
        self.engine.reconfigure(now, change).unwrap();
    }

    /// Limits the root to `riops`.
    pub fn limit_all(&mut self, riops: u64) {
        let max = PerDimension::NONE.with(Dimension::Riops, riops);
        let (cgroup, limits) = (self.engine.root(), Limits { max, ..Limits::default() });
        let now = Instant::from_nanos(self.now_ns);
        self.engine.reconfigure(now, Change::SetLimits { cgroup, limits }).unwrap();
    }

    fn after(&mut self, delay_ns: u64, what: What) {
        self.serial += 1;
        self.events.insert((self.now_ns + delay_ns, self.serial), what);
    }

    /// Goes on until `requests` more have been submitted.
    pub fn run(&mut self, requests: u64) {
        let end = self.submitted + requests;
        if !self.events.values().any(|what| matches!(what, What::Submit)) {
            self.after(0, What::Submit);
        }
        while self.submitted < end {
            self.step(true);
        }
    }

    /// Goes on without new requests until all have ended.
    pub fn finish(&mut self) {
        while self.engine.device().in_flight > 0
            || self.engine.device().throttled + self.engine.device().ready > 0
        {
            self.step(false);
        }
    }

    fn step(&mut self, submits: bool) {
        let first = self.events.first_key_value().map(|((at_ns, _), _)| *at_ns);
        let is_due = self.due_ns.is_some_and(|due_ns| first.is_none_or(|first| due_ns < first));
        let what = match is_due {
            true => {
                self.now_ns = self.now_ns.max(self.due_ns.take().unwrap());
                None
            }
            false => {
                let ((at_ns, _), what) = self.events.pop_first().unwrap();
                self.now_ns = self.now_ns.max(at_ns);
                Some(what)
            }
        };
        let now = Instant::from_nanos(self.now_ns);
        match what {
            Some(What::Submit) if submits => {
                self.submit(now);
                let gap_ns = self.random.below(2 * self.mean_gap_ns);
                self.after(gap_ns, What::Submit);
            }
            Some(What::Submit) | None => {}
            Some(What::Done(ticket)) => {
                let failed = self.random.below(500) == 0;
                let outcome = if failed { Outcome::Failed } else { Outcome::Done };
                self.engine.complete(now, ticket, outcome);
            }
        }
        let due = self.engine.turn(now, &mut self.disk);
        if self.random.below(50) == 0 {
            self.engine.turn(now, &mut self.disk);
        }
        for (_, ticket) in std::mem::take(&mut self.disk.at_disk) {
            let took_ns = 20_000 + self.random.below(130_000);
            self.after(took_ns, What::Done(ticket));
        }
        let late_ns = self.random.below(50_000);
        self.due_ns = due.map(|due| due.as_nanos() + late_ns);
    }

    fn submit(&mut self, now: Instant) {
        self.submitted += 1;
        let task = self.tasks[self.random.below(self.tasks.len() as u64) as usize];
        let op = match self.random.below(20) {
            0..14 => Op::Read,
            14..19 => Op::Write,
            _ => Op::Flush,
        };
        let len = match self.random.below(1000) {
            0 => 3 << 20,
            1..100 => 64 << 10,
            _ => 4096,
        };
        let extent = match op {
            Op::Flush => Extent::new(0, 0),
            _ => Extent::new(4096 * self.random.below(1 << 22), len),
        };
        let request = Request::new(task, op, extent, self.submitted);
        match self.engine.submit(now, request) {
            Ok(id) if self.random.below(100) == 0 => drop(self.engine.withdraw(now, id)),
            Ok(_) => {}
            Err(_) if self.random.below(2) == 0 => drop(self.engine.withdraw_next(now, task)),
            Err(_) => {}
        }
        if self.random.below(300) == 0 {
            let at = self.random.below(self.tasks.len() as u64) as usize;
            // Its requests go on.
            self.engine.close_task(self.tasks[at]);
            let path = Path::parse("/late/comer").unwrap();
            let cgroup = self.engine.ensure_cgroup(&path).unwrap();
            let client = self.engine.open_client(cgroup).unwrap();
            self.tasks[at] = self.engine.open_task(client).unwrap();
            self.engine.close_client(client);
        }
    }
}
