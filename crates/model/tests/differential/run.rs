//! One scenario, run by the engine and by the model.

use std::num::NonZeroU32;

use weir_engine::settings::SliceProfile;
use weir_engine::{
    CgroupId, Change, Class, Config, Dimension, Engine, Extent, Instant, LimiterKind, Limits, Op,
    Outcome, Part, PerDimension, Request, TaskId,
};
use weir_model::kernel::{Direction, Flags, GroupId, Kernel, Limit};

use crate::scenario::{CLOCKS, KERNELS, Max, Scenario, Step, Submit};

/// Dispatches: tick and number of the request, in order.
type Log = Vec<(u64, usize)>;

/// Ticks after the last step: long enough for anything a case can ask for.
const AFTER: u64 = 1_000_000;

/// The engine's log, or a broken invariant.
pub(crate) fn engine(scenario: &Scenario) -> Result<Log, String> {
    let mut driver = Driver::new(scenario);
    let mut tick = 0;
    for (pause, timers_first, step) in &scenario.steps {
        tick += pause;
        driver.handle_timeouts(if *timers_first { tick + 1 } else { tick })?;
        match step {
            Step::Submit(submit) => driver.submit(tick, submit),
            Step::Limit { cgroup, max } => {
                driver.limit(tick, driver.cgroups[cgroup + 1], max);
                driver.handle_timeouts(tick + 1)?;
            }
        }
        driver.drain(tick)?;
    }
    driver.handle_timeouts(tick + AFTER)?;
    Ok(driver.log)
}

struct Driver {
    engine: Engine,
    profile: SliceProfile,
    cgroups: Vec<CgroupId>,
    tasks: Vec<TaskId>,
    submitted: u64,
    log: Log,
}

impl Driver {
    fn new(scenario: &Scenario) -> Driver {
        let (hz, slice_ticks) = CLOCKS[scenario.clock];
        // No window at the device: what passes the throttle is dispatched in the same call.
        let config = Config { depth: NonZeroU32::MAX, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let profile = SliceProfile { kernel: KERNELS[scenario.kernel].0, hz, slice_ticks };
        let cgroups = vec![engine.root()];
        let mut driver =
            Driver { engine, profile, cgroups, tasks: Vec::new(), submitted: 0, log: Vec::new() };
        for (number, (parent, max)) in scenario.cgroups.iter().enumerate() {
            let (parent, name) = (driver.cgroups[*parent], format!("g{number}"));
            let cgroup = driver.engine.create_cgroup(parent, &name).expect("a fresh name");
            driver.limit(0, cgroup, max);
            driver.cgroups.push(cgroup);
            let client = driver.engine.open_client(cgroup).expect("a live cgroup");
            driver.tasks.push(driver.engine.open_task(client).expect("a live client"));
        }
        driver
    }

    fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.profile.hz)
    }

    fn at(&self, tick: u64) -> Instant {
        Instant::from_nanos(tick * self.tick_ns())
    }

    fn limit(&mut self, tick: u64, cgroup: CgroupId, max: &Max) {
        let mut limits = Limits { limiter: LimiterKind::Slice(self.profile), ..Limits::default() };
        let values = Dimension::ALL.into_iter().zip(max);
        limits.max = values.fold(PerDimension::NONE, |all, (dimension, value)| {
            value.map_or(all, |value| all.with(dimension, value))
        });
        let change = Change::SetLimits { cgroup, limits };
        self.engine.reconfigure(self.at(tick), change).expect("valid limits");
    }

    fn submit(&mut self, tick: u64, submit: &Submit) {
        let request = Request {
            task: self.tasks[submit.cgroup],
            op: if submit.write { Op::Write } else { Op::Read },
            extent: Extent::new(self.submitted << 32, submit.bytes),
            class: if submit.metadata { Class::Metadata } else { Class::Data },
            part: if submit.remainder { Part::Remainder } else { Part::Whole },
            sync: true,
            tag: self.submitted,
        };
        self.submitted += 1;
        self.engine.submit(self.at(tick), request).expect("room in the queues");
    }

    /// Handles every timeout before tick `end`.
    fn handle_timeouts(&mut self, end: u64) -> Result<(), String> {
        while let Some(at) = self.engine.poll_timeout().filter(|&at| at < self.at(end)) {
            self.engine.handle_timeout(at);
            if at.as_nanos() % self.tick_ns() != 0 {
                return Err(format!("a timeout between ticks, at {at:?}"));
            }
            self.drain(at.as_nanos() / self.tick_ns())?;
            if self.engine.poll_timeout().is_some_and(|next| next <= at) {
                return Err(format!("a timeout at {at:?} once more"));
            }
        }
        Ok(())
    }

    fn drain(&mut self, tick: u64) -> Result<(), String> {
        while let Some(dispatch) = self.engine.poll_dispatch(self.at(tick)) {
            self.log.push((tick, dispatch.request.tag as usize));
            self.engine.complete(self.at(tick), dispatch.ticket, Outcome::Done);
        }
        self.engine.check().map_err(|broken| format!("at tick {tick}: {broken}"))
    }
}

/// The model's log.
pub(crate) fn model(scenario: &Scenario) -> Log {
    let (hz, slice) = CLOCKS[scenario.clock];
    let mut kernel = Kernel::new(KERNELS[scenario.kernel].1, hz.into(), slice.into());
    let limits =
        |max: &Max| [Limit { bps: max[0], iops: max[2] }, Limit { bps: max[1], iops: max[3] }];
    let mut groups: Vec<GroupId> = vec![Kernel::ROOT];
    for (parent, max) in &scenario.cgroups {
        let group = kernel.add_group(groups[*parent]);
        kernel.set_limits(0, group, limits(max));
        groups.push(group);
    }
    let (mut tick, mut log) = (0, Log::new());
    for (pause, timers_first, step) in &scenario.steps {
        tick += pause;
        if *timers_first {
            log.extend(kernel.run_until(tick));
        }
        match step {
            Step::Submit(submit) => {
                let direction = if submit.write { Direction::Write } else { Direction::Read };
                let flags = Flags { meta: submit.metadata, remainder: submit.remainder };
                let group = groups[submit.cgroup + 1];
                kernel.submit(tick, group, direction, submit.bytes.into(), flags);
            }
            Step::Limit { cgroup, max } => {
                kernel.set_limits(tick, groups[cgroup + 1], limits(max));
                // The engine dispatches at once when a limit ends; the kernel leaves it to the timer.
                log.extend(kernel.run_until(tick));
            }
        }
    }
    log.extend(kernel.run_until(tick + AFTER));
    log
}
