//! The way in: straight through where nothing is in the way, else into a queue.

use crate::core::Core;
use crate::limits::{Dimension, Resource};
use crate::request::{Class, Direction};
use crate::requests::{Served, Stage};
use crate::throttle::arbiter::Source;
use crate::throttle::limiter::{Arrival, Verdict};
use crate::time::Instant;
use crate::tree::{NO_CGROUP, WaitingTurns};

impl Core {
    /// Takes in the request in slot `index`: it passes, or waits. O(limited ancestors) where nothing waits.
    pub(crate) fn admit(&mut self, now: Instant, index: u32) {
        let record = &self.requests[index];
        let (cost, class) = (record.cost, record.request.class);
        let direction = record.request.op.direction();
        let cgroup = self.tree.tasks[record.task].cgroup;
        let mut at = self.tree.cgroups[cgroup].limited[direction.index()];
        if at == NO_CGROUP {
            self.pass(now, index);
            return;
        }
        if class == Class::Metadata && self.may_overtake(at, direction) {
            self.charge_path(now, at, index);
            self.pass(now, index);
            return;
        }
        // Limits passed but not charged yet: a request that stays with its task pays all of them when it goes.
        self.way.clear();
        let mut holder = None;
        let because = loop {
            let node = &mut self.tree.cgroups[at];
            if !node.is_clear(direction) {
                break node.queue_mut(direction).because;
            }
            let gate = node.gate_mut(direction).expect("a limited cgroup has a gate");
            if let Verdict::Wait { because, .. } = gate.check(now, cost, Arrival::Fresh) {
                node.queue_mut(direction).because = because;
                break because;
            }
            self.way.push(at);
            if self.gate(at, direction).climbs() {
                self.charge_way(now, direction, index);
                holder = Some(at);
            }
            at = self.limited_above(at, direction);
            if at == NO_CGROUP {
                self.charge_way(now, direction, index);
                self.pass(now, index);
                return;
            }
        };
        self.tree.cgroups[cgroup].account.count_throttled(Dimension::of(direction, because));
        match holder {
            Some(holder) => self.hold(now, holder, direction, index),
            None => self.wait(now, index),
        }
    }

    /// The nearest limit strictly above `cgroup`.
    pub(crate) fn limited_above(&self, cgroup: u32, direction: Direction) -> u32 {
        match self.tree.cgroups[cgroup].parent {
            NO_CGROUP => NO_CGROUP,
            parent => self.tree.cgroups[parent].limited[direction.index()],
        }
    }

    /// Puts a request at the end of its task's list.
    fn wait(&mut self, now: Instant, index: u32) {
        let task_index = self.requests[index].task;
        let direction = self.requests[index].request.op.direction();
        let d = direction.index();
        let (client_index, cgroup) =
            (self.tree.tasks[task_index].client, self.tree.tasks[task_index].cgroup);
        let nearest = self.tree.cgroups[cgroup].limited[d];
        self.requests[index].stage = Stage::Waiting;
        self.requests[index].served_before = Served {
            to_all_ns: self.gate(nearest, direction).served_ns,
            to_client_ns: self.tree.clients[client_index].served_ns[d],
        };
        self.throttled += 1;
        let task = &mut self.tree.tasks[task_index];
        task.waiting[d].push_back(&mut self.requests, index);
        if task.waiting[d].len > 1 {
            return;
        }
        let client = &mut self.tree.clients[client_index];
        let mut turns = WaitingTurns { tasks: &mut self.tree.tasks, direction };
        client.turns[d].push_back(&mut turns, task_index);
        if !client.standing[d].is_waiting() {
            self.stand(now, Source::Client(client_index), cgroup, direction);
        }
    }

    /// Keeps a request that `holder` has let go and a limit further up has not.
    pub(crate) fn hold(&mut self, now: Instant, holder: u32, direction: Direction, index: u32) {
        self.requests[index].stage = Stage::Climbed(holder);
        self.throttled += 1;
        let queue = self.tree.cgroups[holder].queue_mut(direction);
        queue.climbed.push_back(&mut self.requests, index);
        if !queue.standing.is_waiting() {
            let parent = self.tree.cgroups[holder].parent;
            self.stand(now, Source::Cgroup(holder), parent, direction);
        }
    }

    /// Whether metadata need not wait at `at` nor at any limit above it.
    fn may_overtake(&self, mut at: u32, direction: Direction) -> bool {
        while at != NO_CGROUP {
            if !self.gate(at, direction).lets_metadata_overtake() {
                return false;
            }
            at = self.limited_above(at, direction);
        }
        true
    }

    fn charge_path(&mut self, now: Instant, mut at: u32, index: u32) {
        let direction = self.requests[index].request.op.direction();
        self.way.clear();
        while at != NO_CGROUP {
            self.way.push(at);
            at = self.limited_above(at, direction);
        }
        self.charge_way(now, direction, index);
    }

    /// Charges every limit on `way`, which is empty afterwards.
    fn charge_way(&mut self, now: Instant, direction: Direction, index: u32) {
        let cost = self.requests[index].cost;
        for &at in &self.way {
            let gate = self.tree.cgroups[at].gate_mut(direction);
            gate.expect("a limited cgroup has a gate").charge(now, cost);
        }
        self.way.clear();
    }

    /// The request is past every limit: it counts, and waits for the device.
    pub(crate) fn pass(&mut self, now: Instant, index: u32) {
        let record = &mut self.requests[index];
        record.stage = Stage::Ready;
        let unblamed = now.nanos_since(record.since);
        record.since = now;
        let (task, cost) = (record.task, record.cost);
        let direction = record.request.op.direction();
        self.audit.charged[direction.index()].add(cost);
        self.audit.ready[direction.index()].add(cost);
        let cgroup = self.tree.tasks[task].cgroup;
        let account = &mut self.tree.cgroups[cgroup].account;
        account.blame.lifted_ns += unblamed;
        account.count_passed(&self.requests[index].request);
        self.scheduler.insert(&mut self.tree, &mut self.requests, task, index);
    }

    pub(crate) fn gate(&self, cgroup: u32, direction: Direction) -> &super::Gate {
        self.tree.cgroups[cgroup].gate(direction).expect("a limited cgroup has a gate")
    }

    /// What the head at `cgroup` waits for, as a dimension.
    pub(crate) fn because(&self, cgroup: u32, direction: Direction) -> Dimension {
        let because = self.tree.cgroups[cgroup].queue(direction).map(|queue| queue.because);
        Dimension::of(direction, because.unwrap_or(Resource::Ios))
    }
}
