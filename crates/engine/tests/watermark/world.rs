//! Tenants in virtual time, and a disk with one arm.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use weir_engine::{
    CgroupId, Change, Class, Config, Engine, Extent, Instant, Limits, Op, Outcome, PerDimension,
    Request, SchedulerKind, TaskId, Ticket,
};

use crate::support;

pub(crate) const MIB: u64 = 1 << 20;

/// How a tenant asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// Keeps `depth` requests inside; thinks between an answer and the next.
    Closed { depth: u32, think_us: u64 },
    /// One request every so often, whatever becomes of the others.
    Open { every_us: u64 },
    /// One request at each of these moments.
    At { ms: &'static [u64] },
}

/// One tenant: a cgroup with one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenant {
    /// `io.max`, or nothing.
    pub(crate) max: &'static str,
    pub(crate) ask: Ask,
    pub(crate) len: u32,
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

impl Tenant {
    /// One request of 64 KiB after the other, all the time.
    pub(crate) fn limited(max: &'static str) -> Tenant {
        let ask = Ask::Closed { depth: 1, think_us: 0 };
        Tenant {
            max,
            ask,
            len: 65_536,
            op: Op::Write,
            class: Class::Data,
            from_ms: 0,
            to_ms: u64::MAX / 2_000_000,
        }
    }

    pub(crate) fn between(self, from_ms: u64, to_ms: u64) -> Tenant {
        Tenant { from_ms, to_ms, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happening {
    Ask(usize),
    Done(usize),
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) cgroups: Vec<CgroupId>,
    tenants: Vec<Tenant>,
    tasks: Vec<TaskId>,
    calendar: BTreeMap<(Instant, u64), (Happening, Option<Ticket>)>,
    stamp: u64,
    /// Nanoseconds that the disk takes for a MiB.
    pub(crate) ns_per_mib: u64,
    /// The same for each request, whatever its length.
    pub(crate) ns_per_request: u64,
    /// What each takes on top, and others do not wait for.
    pub(crate) latency_ns: u64,
    free_at: Instant,
    /// Requests that never come back, by tenant.
    pub(crate) never_completes: Option<usize>,
    /// Bytes done, by tenant.
    pub(crate) done: Vec<u64>,
    /// When each request was done: instant, tenant.
    pub(crate) log: Vec<(Instant, usize, u64)>,
    /// When each request went to the disk.
    pub(crate) dispatched: Vec<(Instant, usize)>,
    busy_ns: u64,
    /// Time with nothing at the disk while something waited for a limit.
    pub(crate) idled_ns: u64,
    in_flight: u32,
    /// Requests that have not been answered, by tenant.
    inside: Vec<u32>,
    /// Requests that a tenant has waiting at most; it gives up on any beyond.
    pub(crate) inside_max: u32,
    turns: u32,
}

impl World {
    pub(crate) fn new(watermark: &str, tenants: &[Tenant]) -> World {
        World::with_scheduler(watermark, tenants, SchedulerKind::None)
    }

    pub(crate) fn with_scheduler(
        watermark: &str,
        tenants: &[Tenant],
        scheduler: SchedulerKind,
    ) -> World {
        World::with_config(watermark, tenants, Config { scheduler, ..Config::default() })
    }

    pub(crate) fn with_config(watermark: &str, tenants: &[Tenant], config: Config) -> World {
        let config = Config { depth: NonZeroU32::new(32).unwrap(), ..config };
        let mut engine = Engine::new(config, Instant::ZERO);
        let root = engine.root();
        let watermark = weir_text::parse_watermark(watermark).expect(watermark);
        let change = Change::SetWatermark { cgroup: root, watermark: Some(watermark) };
        engine.reconfigure(Instant::ZERO, change).unwrap();
        let mut world = World {
            engine,
            now: Instant::ZERO,
            cgroups: Vec::new(),
            tenants: tenants.to_vec(),
            tasks: Vec::new(),
            calendar: BTreeMap::new(),
            stamp: 0,
            // 20 MiB/s.
            ns_per_mib: 50_000_000,
            ns_per_request: 0,
            latency_ns: 0,
            free_at: Instant::ZERO,
            never_completes: None,
            done: vec![0; tenants.len()],
            log: Vec::new(),
            dispatched: Vec::new(),
            busy_ns: 0,
            idled_ns: 0,
            in_flight: 0,
            inside: vec![0; tenants.len()],
            inside_max: 64,
            turns: 0,
        };
        for (index, tenant) in tenants.iter().enumerate() {
            let cgroup = support::cgroup(&mut world.engine, &format!("/t{index}"));
            world.cgroups.push(cgroup);
            world.set_max(index, tenant.max);
            world.tasks.push(support::task(&mut world.engine, cgroup));
            let starts = match tenant.ask {
                Ask::Closed { depth, .. } => vec![tenant.from_ms; depth as usize],
                Ask::Open { .. } => vec![tenant.from_ms],
                Ask::At { ms } => ms.to_vec(),
            };
            for ms in starts {
                world.later(Instant::from_millis(ms), Happening::Ask(index), None);
            }
        }
        world
    }

    pub(crate) fn set_depth(&mut self, depth: u32) {
        let depth = Change::SetDepth(NonZeroU32::new(depth).unwrap());
        self.engine.reconfigure(self.now, depth).unwrap();
    }

    pub(crate) fn set_max(&mut self, tenant: usize, max: &str) {
        let max = weir_text::parse_io_max(max, PerDimension::NONE).expect(max);
        let limits = Limits { max, ..Limits::default() };
        self.set_limits(tenant, limits);
    }

    pub(crate) fn set_limits(&mut self, tenant: usize, limits: Limits) {
        let cgroup = self.cgroups[tenant];
        self.engine.reconfigure(self.now, Change::SetLimits { cgroup, limits }).unwrap();
    }

    pub(crate) fn set_watermark(&mut self, cgroup: CgroupId, watermark: Option<&str>) {
        let watermark = watermark.map(|text| weir_text::parse_watermark(text).expect(text));
        self.engine.reconfigure(self.now, Change::SetWatermark { cgroup, watermark }).unwrap();
    }

    fn later(&mut self, at: Instant, what: Happening, ticket: Option<Ticket>) {
        self.stamp += 1;
        self.calendar.insert((at, self.stamp), (what, ticket));
    }

    fn ask(&mut self, index: usize) {
        let tenant = self.tenants[index];
        if self.now >= Instant::from_millis(tenant.to_ms) {
            return;
        }
        if self.inside[index] >= self.inside_max {
            if let Ask::Open { every_us } = tenant.ask {
                self.later(self.now.plus_nanos(every_us * 1000), Happening::Ask(index), None);
            }
            return;
        }
        self.inside[index] += 1;
        let extent = Extent::new(0, tenant.len);
        let request = Request::new(self.tasks[index], tenant.op, extent, index as u64);
        let request = Request { class: tenant.class, ..request };
        self.engine.submit(self.now, request).expect("room");
        if let Ask::Open { every_us } = tenant.ask {
            self.later(self.now.plus_nanos(every_us * 1000), Happening::Ask(index), None);
        }
    }

    /// Lets time pass up to `until_ms`.
    pub(crate) fn run(&mut self, until_ms: u64) {
        let until = Instant::from_millis(until_ms);
        loop {
            let timeout = self.engine.poll_timeout();
            let happens = self.calendar.keys().next().map(|&(at, _)| at);
            let next = timeout.into_iter().chain(happens).min().filter(|&at| at <= until);
            let now = next.unwrap_or(until).max(self.now);
            let elapsed = now.nanos_since(self.now);
            if self.in_flight > 0 {
                self.busy_ns += elapsed;
            } else if self.engine.device().throttled > 0 {
                self.idled_ns += elapsed;
            }
            self.now = now;
            while let Some(entry) = self.calendar.first_entry().filter(|e| e.key().0 <= now) {
                match entry.remove() {
                    (Happening::Ask(index), _) => self.ask(index),
                    (Happening::Done(index), ticket) => self.finish(index, ticket),
                }
            }
            self.turn();
            if next.is_none() {
                return;
            }
        }
    }

    fn finish(&mut self, index: usize, ticket: Option<Ticket>) {
        let tenant = self.tenants[index];
        self.engine.complete(self.now, ticket.expect("of a dispatch"), Outcome::Done);
        self.in_flight -= 1;
        self.inside[index] -= 1;
        self.done[index] += u64::from(tenant.len);
        self.log.push((self.now, index, u64::from(tenant.len)));
        if let Ask::Closed { think_us, .. } = tenant.ask {
            // The answer takes a moment to arrive, and so does the next request.
            self.later(self.now.plus_nanos(think_us * 1000 + 1), Happening::Ask(index), None);
        }
    }

    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        self.dispatch();
        self.turns += 1;
        if self.turns.is_multiple_of(32) {
            self.engine.check().expect("holds");
        }
    }

    fn dispatch(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            let index = dispatch.request.tag as usize;
            self.in_flight += 1;
            self.dispatched.push((self.now, index));
            if self.never_completes == Some(index) {
                continue;
            }
            let takes = self.takes_ns(u64::from(dispatch.request.extent.len));
            self.free_at = self.free_at.max(self.now).plus_nanos(takes);
            let done_at = self.free_at.plus_nanos(self.latency_ns);
            self.later(done_at, Happening::Done(index), Some(dispatch.ticket));
        }
    }

    /// How long the disk takes for a request.
    pub(crate) fn takes_ns(&self, bytes: u64) -> u64 {
        self.ns_per_request + bytes * self.ns_per_mib / MIB
    }

    /// When the disk began with each request that it is done with and when it was done, in nanoseconds, and its bytes.
    pub(crate) fn services(&self) -> Vec<(u64, u64, u64)> {
        let service = |&(at, _, bytes): &(Instant, usize, u64)| {
            (at.as_nanos() - self.takes_ns(bytes), at.as_nanos(), bytes)
        };
        self.log.iter().map(service).collect()
    }

    /// Bytes a second that `tenant` was given between two moments.
    pub(crate) fn rate(&self, tenant: usize, from_ms: u64, to_ms: u64) -> f64 {
        let (from, to) = (Instant::from_millis(from_ms), Instant::from_millis(to_ms));
        let within =
            self.log.iter().filter(|(at, index, _)| *index == tenant && (from..to).contains(at));
        within.map(|(_, _, bytes)| *bytes as f64).sum::<f64>() * 1000.0 / (to_ms - from_ms) as f64
    }

    /// The rates of all of them together.
    pub(crate) fn total(&self, from_ms: u64, to_ms: u64) -> f64 {
        (0..self.tenants.len()).map(|tenant| self.rate(tenant, from_ms, to_ms)).sum()
    }

    /// What the engine says of the device's utilisation, in percent.
    pub(crate) fn utilisation(&self) -> f64 {
        let share = self.engine.device().utilisation.expect("a watermark is set");
        share.millionths() as f64 / 10_000.0
    }

    /// What the limits are multiplied by, of the first watermark.
    pub(crate) fn multiplier(&self) -> f64 {
        self.engine.watermarks()[0].multiplier_thousandths as f64 / 1000.0
    }

    /// Time with something at the disk, in nanoseconds.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

/// `got` is `wanted`, give or take `percent`.
pub(crate) fn close(what: &str, got: f64, wanted: f64, percent: f64) {
    let off = (got - wanted).abs();
    assert!(
        off <= wanted.abs() * percent / 100.0,
        "{what}: {got:.3}, not {wanted:.3} +- {percent} %"
    );
}
