//! A device that takes its time, behind a window, with queues that fill up: nothing is lost, sent twice or reordered.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_engine::{
    Change, Config, Engine, Extent, Instant, Op, Outcome, Request, RequestId, SubmitError, TaskId,
    Ticket,
};

use crate::cases;
use crate::run::engine_limits;
use crate::scenario::{self, Limiters, Numbers, Scenario, Step};

struct Device {
    engine: Engine,
    depth: usize,
    now: Instant,
    tasks: Vec<TaskId>,
    /// What was accepted and neither dispatched nor withdrawn, per task and direction, by tag.
    waiting: BTreeMap<(usize, usize), VecDeque<u64>>,
    ids: BTreeMap<u64, RequestId>,
    in_flight: VecDeque<Ticket>,
    tags: u64,
}

impl Device {
    fn new(scenario: &Scenario, depth: u32) -> Device {
        let some = |number| NonZeroU32::new(number).expect("at least 1");
        let config = Config {
            depth: some(depth),
            requests_max: some(20),
            requests_per_task_max: some(8),
            ..Config::default()
        };
        let mut engine = Engine::new(config, Instant::ZERO);
        let mut cgroups = vec![engine.root()];
        for (number, cgroup) in scenario.cgroups.iter().enumerate() {
            if number > 0 {
                let parent = cgroups[cgroup.parent.index(number)];
                let created = engine.create_cgroup(parent, &format!("g{number}"));
                cgroups.push(created.expect("a fresh name"));
            }
            let limits = engine_limits(&cgroup.limits);
            let change = Change::SetLimits { cgroup: cgroups[number], limits };
            engine.reconfigure(Instant::ZERO, change).expect("valid limits");
        }
        let clients = scenario.clients.iter();
        let clients: Vec<_> = clients
            .map(|cgroup| engine.open_client(cgroups[cgroup.index(cgroups.len())]))
            .map(|client| client.expect("a live cgroup"))
            .collect();
        let tasks = scenario.tasks.iter().map(|client| clients[client.index(clients.len())]);
        let tasks: Vec<_> =
            tasks.map(|client| engine.open_task(client).expect("a live client")).collect();
        Device {
            engine,
            depth: depth as usize,
            now: Instant::ZERO,
            tasks,
            waiting: BTreeMap::new(),
            ids: BTreeMap::new(),
            in_flight: VecDeque::new(),
            tags: 0,
        }
    }

    fn submit(&mut self, task: usize, op: Op, len: u32) -> Result<(), String> {
        let request = Request::new(self.tasks[task], op, Extent::new(0, len), self.tags);
        let inside = |device: &Device, of: usize| {
            device
                .waiting
                .iter()
                .filter(|((task, _), _)| *task == of)
                .map(|(_, tags)| tags.len())
                .sum::<usize>()
        };
        match self.engine.submit(self.now, request) {
            Ok(id) => {
                self.ids.insert(self.tags, id);
                let queue = (task, op.direction().index());
                self.waiting.entry(queue).or_default().push_back(self.tags);
            }
            Err(SubmitError::TaskFull { held, .. }) if held == 8 && inside(self, task) <= 8 => {}
            Err(SubmitError::EngineFull { held: 20, .. }) => {}
            Err(other) => return Err(format!("refused: {other}")),
        }
        self.tags += 1;
        Ok(())
    }

    fn withdraw(&mut self, tag: u64) -> Result<(), String> {
        let Some(&id) = self.ids.get(&tag) else { return Ok(()) };
        let waits = self.waiting.values().any(|tags| tags.contains(&tag));
        let withdrawn = self.engine.withdraw(self.now, id).map(|request| request.tag);
        if withdrawn != waits.then_some(tag) {
            return Err(format!("withdrawing {tag} gave {withdrawn:?}; it waits: {waits}"));
        }
        self.waiting.values_mut().for_each(|tags| tags.retain(|waiting| *waiting != tag));
        Ok(())
    }

    fn complete(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(ticket) = self.in_flight.pop_front() {
                self.engine.complete(self.now, ticket, Outcome::Done);
            }
        }
    }

    fn dispatch(&mut self) -> Result<(), String> {
        self.engine.handle_timeout(self.now);
        self.engine.check()?;
        while let Some(dispatch) = self.engine.poll_dispatch(self.now) {
            let request = dispatch.request;
            let task = self.tasks.iter().position(|task| *task == request.task);
            let queue = (task.expect("a task of ours"), request.op.direction().index());
            let first = self.waiting.entry(queue).or_default().pop_front();
            if first != Some(request.tag) {
                return Err(format!("{} left before {first:?} of its task", request.tag));
            }
            self.in_flight.push_back(dispatch.ticket);
        }
        if self.in_flight.len() > self.depth {
            return Err(format!("{} at the device, {} fit", self.in_flight.len(), self.depth));
        }
        if !self.engine.audit().balances() {
            return Err(format!("the books do not balance: {:?}", self.engine.audit()));
        }
        self.engine.check()
    }

    fn pass_time(&mut self, until: Instant) -> Result<(), String> {
        while let Some(at) = self.engine.poll_timeout().filter(|&at| at <= until) {
            self.now = at;
            self.dispatch()?;
        }
        self.now = until;
        Ok(())
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..20_000 {
            self.complete(self.depth);
            self.dispatch()?;
            if self.in_flight.is_empty() {
                match self.engine.poll_timeout() {
                    Some(at) => self.now = at,
                    None => break,
                }
            }
        }
        match self.waiting.values().map(VecDeque::len).sum::<usize>() {
            0 => Ok(()),
            left => Err(format!("{left} requests are left behind")),
        }
    }
}

fn run(scenario: &Scenario, depth: u32) -> Result<(), String> {
    let mut device = Device::new(scenario, depth);
    for (pause, step) in &scenario.steps {
        device.pass_time(device.now.plus_nanos(*pause))?;
        match step {
            Step::Submit { task, op, len, .. } => {
                device.submit(task.index(device.tasks.len()), *op, *len)?;
            }
            Step::Withdraw { request } if device.tags > 0 => {
                device.withdraw(request.index(device.tags as usize) as u64)?;
            }
            _ => device.complete((*pause % 3) as usize),
        }
        device.dispatch()?;
    }
    device.come_to_rest()
}

fn loses_nothing(test: &str, limiters: Limiters) {
    let cases = (scenario::any(limiters, Numbers::Common, 60), 1u32..5);
    cases::run(test, 1_000, cases, |(scenario, depth)| {
        run(&scenario, depth).map_err(TestCaseError::fail)
    });
}

#[test]
fn a_slow_device_loses_nothing() {
    loses_nothing("a_slow_device_loses_nothing", Limiters::Pulled);
}

#[test]
fn a_slow_device_behind_slices_loses_nothing() {
    loses_nothing("a_slow_device_behind_slices_loses_nothing", Limiters::All);
}
