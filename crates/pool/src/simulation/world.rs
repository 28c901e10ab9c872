//! Simulated world: servers, the store and the network between them, in the order of virtual time.

use std::collections::BTreeMap;

use weir_engine::Instant;

use super::plan::{Fault, Plan};
use super::server::{Clock, InEngine, Process, Want};
use super::store::{OnItsWay, SimulatedStore};
use crate::random::Random;
use crate::{Grant, Rates, Request, RequestId, Store, format};

/// A fault of the host, that the checks must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Planted {
    None,
    /// Rates rise in the engine before they are in the store.
    RaisesFirst,
    /// Rates fall in the engine after they have in the store.
    LowersLast,
    /// The engine does not end rates by itself.
    NoLease,
}

#[derive(Debug)]
pub(super) enum Event {
    /// A server looks at the time.
    Wake {
        server: usize,
        process: u64,
    },
    /// A grant ends, nothing else: the sum is looked at.
    Look,
    Apply {
        server: usize,
        process: u64,
        grants: Vec<Grant>,
    },
    Send {
        server: usize,
        process: u64,
        request: Request,
    },
    AtStore {
        server: usize,
        process: u64,
        request: Request,
    },
    Answer {
        server: usize,
        process: u64,
        id: RequestId,
        answer: OnItsWay,
    },
    Fault(Fault),
    Restart {
        server: usize,
    },
    /// Clients want something else.
    Wants,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) clock: Clock,
    pub(super) process: Option<Process>,
    /// Whether it has joined, and has not left.
    pub(super) is_member: bool,
    pub(super) cut_until: u64,
    pub(super) hung_until: u64,
    pub(super) wants: Vec<Want>,
    /// The next wake-up that is on the calendar.
    pub(super) wakes_at: u64,
    /// Grants that are put into the engine late, for a planted fault.
    pub(super) late: Vec<Grant>,
}

pub(super) struct World {
    pub(super) plan: Plan,
    random: Random,
    planted: Planted,
    pub(super) now: u64,
    serial: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub(super) store: SimulatedStore,
    pub(super) servers: Vec<Server>,
    processes: u64,
    /// The store forgot writes: what servers hold may be too much until now.
    pub(super) lenient_until: u64,
    pub(super) violation: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan, planted: Planted) -> World {
        let mut random = Random::new(seed ^ 0x706f_6f6c);
        let servers = (0..plan.servers).map(|_| {
            let drift = plan.drift_ppm as i64;
            let ppm = random.between(0, 2 * plan.drift_ppm) as i64 - drift;
            let clock = Clock { offset_ns: random.below(1 << 40), ppm };
            Server {
                clock,
                process: None,
                is_member: false,
                cut_until: 0,
                hung_until: 0,
                wants: vec![Want { rate: 0, clients: 1 }; plan.pools.len()],
                wakes_at: u64::MAX,
                late: Vec::new(),
            }
        });
        let servers = servers.collect();
        let mut world = World {
            random,
            planted,
            now: 0,
            serial: 0,
            events: BTreeMap::new(),
            store: SimulatedStore::default(),
            servers,
            processes: 0,
            lenient_until: 0,
            violation: None,
            plan,
        };
        for server in 0..world.plan.servers - world.plan.late {
            let at = world.random.below(world.lease_ns());
            world.at(at, Event::Restart { server });
            world.servers[server].is_member = true;
        }
        for (at, fault) in world.plan.faults.clone() {
            world.at(at, Event::Fault(fault));
        }
        let step = world.lease_ns();
        for at in (0..world.plan.faults_end_ns).step_by(step as usize) {
            world.at(at, Event::Wants);
        }
        world
    }

    pub(super) fn lease_ns(&self) -> u64 {
        u64::from(self.plan.lease_ms) * 1_000_000
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    /// Runs through all faults, then lets them stop and checks that rates converge.
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.run_until(self.plan.faults_end_ns)?;
        self.calm_down();
        // Four leases for what hangs, one and a half for what is lost, as much for a new table, and some refreshes.
        self.run_until(self.now + 9 * self.lease_ns())?;
        for _ in 0..2 {
            self.want_all_or_nothing();
            let refresh_ns = self.lease_ns() / 6 * 12 / 10;
            self.run_until(self.now + 4 * refresh_ns + 20 * self.plan.way_ns)?;
            self.check_converged()?;
        }
        Ok(())
    }

    fn run_until(&mut self, until: u64) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.handle(event);
            if let Some(violation) = self.violation.take() {
                return Err(format!("at {} ms: {violation}", self.now / 1_000_000));
            }
        }
        self.now = until;
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        let target = match &event {
            Event::Wake { server, process } => Some((*server, *process)),
            Event::Answer { server, process, .. } => Some((*server, *process)),
            Event::Apply { server, process, .. } | Event::Send { server, process, .. } => {
                Some((*server, *process))
            }
            _ => None,
        };
        if let Some((server, number)) = target {
            let of = &self.servers[server];
            if of.process.as_ref().is_none_or(|process| process.number != number) {
                return;
            }
            if self.now < of.hung_until {
                let until = of.hung_until;
                return self.at(until, event);
            }
        }
        match event {
            Event::Wake { server, .. } => {
                self.servers[server].wakes_at = u64::MAX;
                self.turn(server);
            }
            Event::Look => self.check(),
            Event::Apply { server, grants, .. } => {
                self.apply(server, grants);
                self.turn(server);
            }
            Event::Send { server, process, request } => self.send(server, process, request),
            Event::AtStore { server, process, request } => {
                let answer = self.store.execute(self.now, &request.store);
                if !self.is_lost(server) {
                    let at = self.now + self.delay();
                    self.at(at, Event::Answer { server, process, id: request.id, answer });
                }
            }
            Event::Answer { server, id, answer, .. } => {
                let at = self.servers[server].clock.at(self.now);
                let process = self.servers[server].process.as_mut().expect("it was looked for");
                process.pools.handle_answer(at, id, answer.answer());
                self.turn(server);
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Restart { server } => self.start(server),
            Event::Wants => self.want_anything(),
        }
    }

    pub(super) fn start(&mut self, server: usize) {
        if self.servers[server].process.is_some() || !self.servers[server].is_member {
            return;
        }
        self.processes += 1;
        let (number, at) = (self.processes, self.servers[server].clock.at(self.now));
        let process = Process::start(at, number, server, self.plan.lease_ms, &self.plan.pools);
        self.servers[server].process = Some(process);
        self.servers[server].hung_until = 0;
        self.servers[server].wakes_at = u64::MAX;
        self.servers[server].late.clear();
        self.turn(server);
    }

    /// One turn of a server's host.
    pub(super) fn turn(&mut self, server: usize) {
        let hangs = self.random.chance(self.plan.hangs);
        let hang_ns = self.random.below(2 * self.lease_ns());
        let of = &mut self.servers[server];
        let at = of.clock.at(self.now);
        let Some(process) = of.process.as_mut().filter(|_| self.now >= of.hung_until) else {
            return;
        };
        let number = process.number;
        process.pools.handle_timeout(at);
        process.tell_usage(at, &of.wants);
        let mut grants = Vec::new();
        while let Some(grant) = process.pools.poll_grant() {
            grants.push(grant);
        }
        while process.pools.poll_event().is_some() {}
        if process.pools.has_left() {
            of.process = None;
            of.is_member = false;
            return self.check();
        }
        if hangs && !grants.is_empty() {
            // It hangs with what it was told in its hands.
            of.hung_until = self.now + hang_ns;
            let until = of.hung_until;
            return self.at(until, Event::Apply { server, process: number, grants });
        }
        if self.planted == Planted::LowersLast {
            let (late, now): (Vec<Grant>, Vec<Grant>) = grants
                .into_iter()
                .partition(|grant| !process.engine[grant.pool].rates(at).is_within(&grant.rates));
            grants = now;
            of.late.extend(late);
        }
        self.apply(server, grants);
        let process = self.servers[server].process.as_mut().expect("it has not left");
        process.pools.handle_applied();
        let request = process.pools.poll_request(at);
        let due = process.pools.poll_timeout();
        if let Some(request) = request {
            if self.planted == Planted::RaisesFirst {
                self.apply_proposal(server, &request);
            }
            if hangs {
                self.servers[server].hung_until = self.now + hang_ns;
                let until = self.now + hang_ns;
                self.at(until, Event::Send { server, process: number, request });
            } else {
                self.send(server, number, request);
            }
        }
        if let Some(due) = due {
            let wakes_at = self.servers[server].clock.when(due);
            if wakes_at < self.servers[server].wakes_at {
                self.servers[server].wakes_at = wakes_at;
                self.at(wakes_at, Event::Wake { server, process: number });
            }
        }
    }

    /// Puts grants into the engine; those that a planted fault has kept back come with the next ones that end later.
    fn apply(&mut self, server: usize, grants: Vec<Grant>) {
        let of = &mut self.servers[server];
        let at = of.clock.at(self.now);
        let Some(process) = &mut of.process else { return };
        let mut ends = Vec::new();
        let late = if grants.is_empty() { Vec::new() } else { std::mem::take(&mut of.late) };
        for mut grant in late.into_iter().chain(grants) {
            if self.planted == Planted::NoLease {
                grant.until = Instant::FAR_FUTURE;
            } else {
                ends.push(of.clock.when(grant.until));
            }
            let name = &self.plan.pools[grant.pool].name;
            let members = process.pools.members(name).max(1) as u64;
            process.apply(at, grant, members);
        }
        ends.dedup();
        for end in ends {
            self.at(end, Event::Look);
        }
        self.check();
    }

    /// The planted fault: what is proposed goes into the engine before it is in the store.
    fn apply_proposal(&mut self, server: usize, request: &Request) {
        let Store::Swap { bytes, .. } = &request.store else { return };
        let table = format::parse(bytes).expect("a proposal is a table");
        let of = &mut self.servers[server];
        let Some(own) = table.server(&format!("server{server:03}")) else { return };
        let lease_ns = u64::from(self.plan.lease_ms) * 1_000_000;
        let until = of.clock.at(self.now).plus_nanos(lease_ns);
        let process = of.process.as_mut().expect("it proposes");
        for (at, pool) in self.plan.pools.iter().enumerate() {
            let row = table.rows(&pool.name).iter().find(|row| row.server == own);
            let rates = row.expect("it has a row of each pool").granted;
            process.engine[at] = InEngine { rates, until, ..process.engine[at] };
        }
        self.check();
    }

    fn is_lost(&mut self, server: usize) -> bool {
        self.now < self.servers[server].cut_until || self.random.chance(self.plan.lost)
    }

    fn delay(&mut self) -> u64 {
        let way_ns = self.plan.way_ns;
        match self.random.chance(self.plan.slow) {
            true => self.random.below(2 * self.lease_ns()),
            false => self.random.between(way_ns / 2, way_ns),
        }
    }

    fn send(&mut self, server: usize, process: u64, request: Request) {
        if !self.is_lost(server) {
            let at = self.now + self.delay();
            self.at(at, Event::AtStore { server, process, request });
        }
    }

    fn want_anything(&mut self) {
        for server in 0..self.servers.len() {
            for pool in 0..self.plan.pools.len() {
                let limit = &self.plan.pools[pool].limit;
                let limit = limit.limited().map(|dimension| limit[dimension]).min().unwrap_or(0);
                let rate = match self.random.below(4) {
                    0 => 0,
                    1 => self.random.below(limit.max(1)),
                    _ => Rates::NO_LIMIT,
                };
                let clients = self.random.between(1, 5) as u32;
                self.servers[server].wants[pool] = Want { rate, clients };
            }
        }
    }

    fn want_all_or_nothing(&mut self) {
        for server in 0..self.servers.len() {
            for pool in 0..self.plan.pools.len() {
                let rate = self.random.pick(&[0, Rates::NO_LIMIT, Rates::NO_LIMIT]);
                let clients = self.random.between(1, 5) as u32;
                self.servers[server].wants[pool] = Want { rate, clients };
            }
            // The clients' requests come to the server, which then looks at the pool.
            self.turn(server);
        }
    }
}
