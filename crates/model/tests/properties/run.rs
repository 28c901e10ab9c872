//! One scenario, run by the engine and recorded for the checker.

use std::num::NonZeroU32;

use weir_engine::settings::{BytePrice, KernelProfile, Prices};
use weir_engine::stats::Charge;
use weir_engine::{
    CgroupId, Change, Class, Config, Dimension, Direction, Engine, Extent, Instant, LimiterKind,
    Limits, Op, Outcome, Part, PerDimension, Request, RequestId, TaskId, Weight,
};
use weir_model::pace::{self, Event, Limiter, Log, Peak, Rate, Rates};

use crate::scenario::{Lim, Pick, Scenario, Step};

/// How a scenario is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct How {
    /// Writes are left out, as if they had not been asked for.
    pub(crate) reads_only: bool,
    /// Nanoseconds by which every timeout is handled late.
    pub(crate) late: u64,
    /// In the end all limits are removed.
    pub(crate) lift: bool,
}

/// Runs a scenario until nothing waits any more.
///
/// # Errors
/// A broken invariant, a run without end, or requests that never left.
pub(crate) fn run(scenario: &Scenario, how: How) -> Result<Log, String> {
    let mut run = Run::new(scenario, how)?;
    for (pause, step) in &scenario.steps {
        run.pass_time(run.now.saturating_add(*pause))?;
        run.step(step)?;
        run.drain()?;
    }
    if how.lift {
        run.lift()?;
    }
    run.come_to_rest()?;
    Ok(run.log)
}

/// Timeouts that a run may need after its last step: a check every eight slices while a request waits at one a second.
const TIMEOUTS_MAX: usize = 20_000;

/// Later than any wait: 292 years.
const FOREVER: u64 = 1 << 63;

struct Run {
    engine: Engine,
    prices: Prices,
    now: u64,
    cgroups: Vec<CgroupId>,
    tasks: Vec<TaskId>,
    /// By tag; `None` for a request that was left out.
    submitted: Vec<Option<RequestId>>,
    /// By tag: the last known debt.
    owed: Vec<Charge>,
    how: How,
    started: bool,
    /// Some cgroup has been removed.
    removed: bool,
    /// Some limit, at some time, is one of slices.
    has_slices: bool,
    log: Log,
}

impl Run {
    fn new(scenario: &Scenario, how: How) -> Result<Run, String> {
        let iops_size = scenario.iops_size.and_then(NonZeroU32::new);
        let prices = Prices { iops_size, ..Prices::default() };
        // No window at the device: what passes the throttle is dispatched in the same call.
        let config = Config { depth: NonZeroU32::MAX, prices, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let mut run = Run {
            cgroups: vec![engine.root()],
            engine,
            prices,
            now: 0,
            tasks: Vec::new(),
            submitted: Vec::new(),
            owed: Vec::new(),
            how,
            started: false,
            removed: false,
            has_slices: scenario.has_slices(),
            log: Log::new(),
        };
        for (number, cgroup) in scenario.cgroups.iter().enumerate() {
            if number > 0 {
                let parent = cgroup.parent.index(number);
                let name = format!("g{number}");
                let made = run.engine.create_cgroup(run.cgroups[parent], &name);
                run.cgroups.push(made.map_err(|error| error.to_string())?);
                let (cgroup, parent) = (pace::CgroupId(number), pace::CgroupId(parent));
                run.record(Event::Create { cgroup, parent, weight: 100 });
                run.reweigh(number, scenario.cgroups[number].weight);
            }
            run.limit(number, &cgroup.limits);
        }
        let clients = scenario.clients.iter().map(|cgroup| cgroup.index(run.cgroups.len()));
        let clients: Vec<usize> = clients.collect();
        let mut opened = Vec::new();
        for &cgroup in &clients {
            opened.push(run.engine.open_client(run.cgroups[cgroup]).expect("a live cgroup"));
        }
        for (number, client) in scenario.tasks.iter().enumerate() {
            let client = client.index(clients.len());
            run.tasks.push(run.engine.open_task(opened[client]).expect("a live client"));
            run.record(Event::Open {
                task: pace::TaskId(number),
                client: pace::ClientId(client),
                cgroup: pace::CgroupId(clients[client]),
            });
        }
        run.started = true;
        run.drain()?;
        Ok(run)
    }

    fn record(&mut self, event: Event) {
        self.log.push((self.now, event));
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Handles every timeout up to and with `until`.
    fn pass_time(&mut self, until: u64) -> Result<(), String> {
        while let Some(at) = self.next_timeout().filter(|&at| at <= until) {
            self.handle_timeout(at)?;
        }
        self.now = until;
        Ok(())
    }

    fn next_timeout(&self) -> Option<u64> {
        Some(self.engine.poll_timeout()?.as_nanos().saturating_add(self.how.late))
    }

    fn handle_timeout(&mut self, at: u64) -> Result<(), String> {
        if at < self.now {
            return Err(format!("a timeout in the past, {at} ns, at {} ns", self.now));
        }
        self.now = at;
        self.drain()
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..TIMEOUTS_MAX {
            let Some(at) = self.next_timeout() else {
                let device = self.engine.device();
                let audit = self.engine.audit();
                return match device.throttled + device.ready + device.in_flight {
                    0 if audit.balances() => Ok(()),
                    0 => Err(format!("the books do not balance: {audit:?}")),
                    left => Err(format!("{left} requests stay without a timeout")),
                };
            };
            if at > FOREVER {
                return Ok(());
            }
            self.handle_timeout(at)?;
        }
        Err(format!("no rest after {TIMEOUTS_MAX} timeouts"))
    }

    /// Removes all limits: everything leaves now.
    fn lift(&mut self) -> Result<(), String> {
        let none = Lim {
            limiter: LimiterKind::Pace,
            max: [None; 6],
            burst: [None; 6],
            peak_above: [None; 6],
        };
        for cgroup in 0..self.cgroups.len() {
            self.limit(cgroup, &none);
        }
        self.drain()?;
        match self.engine.device().throttled {
            0 => Ok(()),
            // A removed cgroup keeps its limits to the end.
            _ if self.removed => Ok(()),
            left => Err(format!("{left} requests stay when the last limit is gone")),
        }
    }

    /// Takes out everything that may go, and completes it.
    fn drain(&mut self) -> Result<(), String> {
        self.engine.handle_timeout(self.at());
        self.check()?;
        self.take_out();
        let deadline = self.engine.poll_timeout().map(Instant::as_nanos);
        self.record(Event::Drained { deadline });
        self.check()
    }

    /// Takes out dispatched requests, and records payments of waiting ones.
    fn take_out(&mut self) {
        while let Some(dispatch) = self.engine.poll_dispatch(self.at()) {
            self.record(Event::Dispatch(pace::RequestId(dispatch.request.tag)));
            self.engine.complete(self.at(), dispatch.ticket, Outcome::Done);
        }
        for tag in 0..self.submitted.len() {
            let Some(owes) = self.submitted[tag].and_then(|id| self.engine.owed(id)) else {
                continue;
            };
            let known = std::mem::replace(&mut self.owed[tag], owes);
            if known != owes {
                self.record(Event::Pay {
                    id: pace::RequestId(tag as u64),
                    bytes: (known.bytes - owes.bytes) as u64,
                    ios: (known.io_units - owes.io_units) as u64,
                });
            }
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.engine.check().map_err(|broken| format!("at {} ns: {broken}", self.now))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Submit { task, op, len, metadata, remainder } => {
                self.submit(task.index(self.tasks.len()), *op, *len, *metadata, *remainder);
            }
            Step::Limit { cgroup, limits } => self.limit(cgroup.index(self.cgroups.len()), limits),
            Step::Reweigh { cgroup, weight } => {
                self.reweigh(cgroup.index(self.cgroups.len()), *weight);
            }
            Step::Move { cgroup, parent } => {
                let number = |pick: &Pick| pick.index(self.cgroups.len());
                let (cgroup, parent) = (number(cgroup), number(parent));
                let change =
                    Change::Move { cgroup: self.cgroups[cgroup], parent: self.cgroups[parent] };
                if self.engine.reconfigure(self.at(), change).is_ok() {
                    let (cgroup, parent) = (pace::CgroupId(cgroup), pace::CgroupId(parent));
                    self.record(Event::Move { cgroup, parent });
                }
            }
            Step::Remove { cgroup } => {
                // A removed cgroup goes on, limits and all, while it has clients: nothing to record.
                let cgroup = self.cgroups[cgroup.index(self.cgroups.len())];
                self.removed |=
                    self.engine.reconfigure(self.at(), Change::Remove { cgroup }).is_ok();
            }
            Step::Withdraw { request } => {
                if self.submitted.is_empty() {
                    return Ok(());
                }
                let id = self.submitted[request.index(self.submitted.len())];
                if let Some(request) = id.and_then(|id| self.engine.withdraw(self.at(), id)) {
                    self.record(Event::Withdraw(pace::RequestId(request.tag)));
                }
            }
        }
        self.check()
    }

    fn submit(&mut self, task: usize, op: Op, len: u32, metadata: bool, remainder: bool) {
        let tag = self.submitted.len() as u64;
        let request = Request {
            task: self.tasks[task],
            op,
            extent: Extent::new(tag << 20, len),
            class: if metadata { Class::Metadata } else { Class::Data },
            part: if remainder { Part::Remainder } else { Part::Whole },
            sync: true,
            tag,
        };
        if self.how.reads_only && op.direction() == Direction::Write {
            self.submitted.push(None);
            self.owed.push(Charge::default());
            return;
        }
        let id = self.engine.submit(self.at(), request).expect("room in the queues");
        self.submitted.push(Some(id));
        let (bytes, by_length) = match self.prices.of(op).bytes {
            BytePrice::Length => (u64::from(len), true),
            BytePrice::Fixed(bytes) => (u64::from(bytes), false),
        };
        let unit = self.unit();
        let ios = if by_length && self.prices.iops_size.is_some() { bytes.max(unit) } else { unit };
        let bytes = if remainder { 0 } else { bytes };
        self.owed.push(Charge { bytes: bytes.into(), io_units: ios.into() });
        self.record(Event::Submit(pace::Request {
            id: pace::RequestId(tag),
            task: pace::TaskId(task),
            direction: op.direction().index(),
            bytes,
            ios,
            metadata,
            part_paid: false,
        }));
    }

    /// What one I/O counts: 1, or `iops_size` where large requests count by size.
    fn unit(&self) -> u64 {
        self.prices.iops_size.map_or(1, |size| u64::from(size.get()))
    }

    fn reweigh(&mut self, cgroup: usize, weight: u64) {
        let change = Change::SetWeight {
            cgroup: self.cgroups[cgroup],
            weight: Weight::new(weight).expect("1 to 10000"),
        };
        if self.engine.reconfigure(self.at(), change).is_ok() {
            self.record(Event::Reweigh { cgroup: pace::CgroupId(cgroup), weight });
        }
    }

    fn limit(&mut self, cgroup: usize, lim: &Lim) {
        let change = Change::SetLimits { cgroup: self.cgroups[cgroup], limits: engine_limits(lim) };
        if self.engine.reconfigure(self.at(), change).is_ok() {
            let rates = [(0, 2), (1, 3), (4, 5)].map(|(bytes, ios)| {
                let mut rates = self.rates(lim, bytes, ios);
                if self.has_slices && cgroup > 0 {
                    // Slices hand requests up one limit at a time: only at the top do they leave when they pass.
                    rates.limiter = NO_BOUND;
                }
                rates
            });
            self.record(Event::Limit { cgroup: pace::CgroupId(cgroup), rates: Box::new(rates) });
            // By these limits, which may be others before the next look.
            self.take_out();
        }
    }

    /// The limits of one direction, or of both together, as the checker knows them: those at these two places.
    fn rates(&self, lim: &Lim, bytes: usize, ios: usize) -> Rates {
        let unit = self.unit();
        let rate = |at: usize, counts: Counts| {
            let per_second = lim.max[at]? * counts.unit();
            let asked = lim.burst(at).map(|burst| burst * counts.unit());
            let burst = asked.unwrap_or(counts.default_burst(per_second));
            let instalment = counts.instalment(per_second, burst);
            let peak = lim.peak(at).map(|peak| {
                let per_second = peak * counts.unit();
                // One instalment at once, and what makes good for late timers.
                Peak { per_second, tolerance: part_of(per_second, 5_000_000) }
            });
            let tolerance = burst.saturating_sub(instalment);
            Some(Rate { per_second, tolerance, burst, instalment, peak })
        };
        let (bytes_rate, ios_rate) = (rate(bytes, Counts::Bytes), rate(ios, Counts::Ios(unit)));
        let bursts = [bytes_rate, ios_rate].map(|rate| rate.map_or(0, |rate| rate.burst));
        Rates {
            bytes: bytes_rate,
            ios: ios_rate,
            limiter: self.promise(lim, [lim.max[bytes], lim.max[ios]], bursts),
            whole: matches!(lim.limiter, LimiterKind::Slice(_)),
        }
    }

    /// Promises of a cgroup under `lim`.
    fn promise(&self, lim: &Lim, [bytes, ios]: [Option<u64>; 2], bursts: [u64; 2]) -> Limiter {
        match lim.limiter {
            LimiterKind::Pace => Limiter::Pace,
            LimiterKind::Token => Limiter::Bounded { bytes: bursts[0], ios: bursts[1] },
            // What a late timer is forgiven, and one instalment at least.
            LimiterKind::Leaky => Limiter::Bounded {
                bytes: bytes.map_or(0, |rate| (part_of(rate, 10_000_000) + 1).max(4096)),
                ios: ios.map_or(0, |rate| part_of(rate, 10_000_000) + 1) * self.unit(),
            },
            // The bound of a slice does not span a change of limits: what was earned before is carried over.
            LimiterKind::Slice(_) if self.started => NO_BOUND,
            LimiterKind::Slice(profile) => {
                let slices = if profile.kernel == KernelProfile::K615 { 3 } else { 2 };
                // Two ticks more, because times between ticks count as the tick they are in.
                let ticks = slices * u64::from(profile.slice_ticks) + 2;
                let earned = |rate: Option<u64>| {
                    rate.map_or(0, |rate| {
                        rate.saturating_mul(ticks).div_ceil(u64::from(profile.hz))
                    })
                };
                let per_slice = ios.unwrap_or(0) * u64::from(profile.slice_ticks);
                if profile.kernel == KernelProfile::K615 && per_slice < u64::from(profile.hz) {
                    // Less than one I/O a slice is over-served (spec/throttle 1.12.3).
                    return NO_BOUND;
                }
                Limiter::Bounded {
                    bytes: earned(bytes),
                    ios: earned(ios).saturating_mul(self.unit()),
                }
            }
            other => unreachable!("no promise is known of {}", other.name()),
        }
    }
}

/// Unit of a limit: bytes, or I/Os of this many units each.
#[derive(Clone, Copy)]
enum Counts {
    Bytes,
    Ios(u64),
}

/// `per_second` over `nanos`.
fn part_of(per_second: u64, nanos: u64) -> u64 {
    let part = u128::from(per_second) * u128::from(nanos) / 1_000_000_000;
    u64::try_from(part).expect("less than a second's")
}

impl Counts {
    fn unit(self) -> u64 {
        match self {
            Counts::Bytes => 1,
            Counts::Ios(unit) => unit,
        }
    }

    /// Four requests but no more than half a second, or 10 ms and, of bytes, an instalment if that is more.
    fn default_burst(self, per_second: u64) -> u64 {
        let request = match self {
            Counts::Bytes => 4096,
            Counts::Ios(unit) => unit,
        };
        let four = (4 * request).min(part_of(per_second, 500_000_000));
        let earned = part_of(per_second, 10_000_000);
        four.max(match self {
            Counts::Bytes => self.instalment(per_second, u64::MAX) + earned,
            Counts::Ios(unit) => earned.max(unit),
        })
    }

    /// Bytes: 5 ms, between 4 KiB and the larger of 1 MiB and a millisecond, at most half of the burst. I/Os: one; where
    /// they are counted in units, a millisecond but one at least, at most half of the burst.
    fn instalment(self, per_second: u64, burst: u64) -> u64 {
        let a_millisecond = part_of(per_second, 1_000_000);
        match self {
            Counts::Bytes => part_of(per_second, 5_000_000)
                .min(a_millisecond.max(1 << 20))
                .min(burst / 2)
                .max(4096),
            Counts::Ios(1) => 1,
            Counts::Ios(unit) => a_millisecond.min(burst / 2).max(unit),
        }
    }
}

const NO_BOUND: Limiter = Limiter::Bounded { bytes: u64::MAX / 4, ios: u64::MAX / 4 };

impl Lim {
    fn has_burst(&self) -> bool {
        matches!(self.limiter, LimiterKind::Pace | LimiterKind::Token)
    }

    fn burst(&self, dimension: usize) -> Option<u64> {
        self.burst[dimension].filter(|_| self.has_burst() && self.max[dimension].is_some())
    }

    fn peak(&self, dimension: usize) -> Option<u64> {
        let above = self.peak_above[dimension].filter(|_| self.has_burst())?;
        Some(self.max[dimension]? + above)
    }
}

/// `lim` as the engine takes it.
pub(crate) fn engine_limits(lim: &Lim) -> Limits {
    let collect = |value: &dyn Fn(usize) -> Option<u64>| {
        let mut all = PerDimension::NONE;
        for (place, dimension) in Dimension::ALL.into_iter().enumerate() {
            if let Some(value) = value(place) {
                all = all.with(dimension, value);
            }
        }
        all
    };
    Limits {
        max: collect(&|at| lim.max[at]),
        burst: collect(&|at| lim.burst(at)),
        peak: collect(&|at| lim.peak(at)),
        limiter: lim.limiter,
    }
}
