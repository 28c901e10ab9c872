//! Dequeuing of throttled requests: from the top down to one request, and back up, charging each limit.

use crate::throttle::client::WaitingTurns;
use crate::throttle::eligibility::weight_of;
use crate::throttle::fair_queue::Source;
use crate::throttle::instalment::Payment;
use crate::throttle::limiter::Arrival;
use crate::throttle::{Context, Throttle};
use crate::tree::NO_CGROUP;
use crate::types::{Cost, Direction, Instant};

impl Throttle {
    /// Charges the next request below `cgroup` to every limit on its path, that of `cgroup` included, and dequeues it.
    /// `None` after an instalment that is not the last. There must be a request. O(depth × log sources).
    pub(crate) fn dequeue(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Option<u32> {
        match self.top_source(cgroup, direction) {
            Some(Source::Client(client)) => self.dequeue_client(cx, cgroup, direction, client),
            _ => self.dequeue_from_below(cx, cgroup, direction),
        }
    }

    /// As [`Throttle::dequeue`], where the next source is `client`, a direct member of `cgroup`. O(log sources).
    pub(crate) fn dequeue_client(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        client: u32,
    ) -> Option<u32> {
        let payment = self.next_payment(cx, cgroup, client, direction);
        let dir = self.cgroups[cgroup].dir(direction);
        if dir.limiter.is_some() && !dir.has_rw_limit {
            self.account_client_dispatch(cx, cgroup, direction, client, &payment);
        } else {
            self.account_dispatch(cx, cgroup, direction, Source::Client(client), &payment, cx.now);
        }
        self.passes_with(cx, payment, direction)
    }

    /// The request, if `payment` was its last.
    #[inline(always)]
    fn passes_with(
        &mut self,
        cx: &mut Context<'_>,
        payment: Payment,
        direction: Direction,
    ) -> Option<u32> {
        if !payment.is_last {
            self.go_on_waiting(cx, payment.index, direction);
        }
        payment.is_last.then_some(payment.index)
    }

    /// Restarts the measure of service to others: the rest of the request waits behind what is served from now on.
    #[inline(never)]
    fn go_on_waiting(&mut self, cx: &mut Context<'_>, index: u32, direction: Direction) {
        let task = &cx.tree.tasks[cx.requests[index].task()];
        let served = self.served_so_far(task.cgroup, task.client, direction);
        cx.requests[index].served_before = served.unwrap_or_default();
    }

    /// As [`Throttle::dequeue`], where the next source is a child cgroup.
    fn dequeue_from_below(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Option<u32> {
        let mut path = core::mem::take(&mut self.path);
        path.clear();
        path.push(cgroup);
        let (mut source, payment) = loop {
            let at = *path.last().expect("starts with a cgroup");
            match self.top_source(at, direction).expect("something waits below") {
                Source::Client(client) => {
                    break (Source::Client(client), self.next_payment(cx, at, client, direction));
                }
                Source::Cgroup(child) => match self.slices.pop(cx.requests, child, direction) {
                    Some(index) => {
                        let cost = cx.requests[index].cost;
                        let payment = Payment { index, cost, owed: None, is_last: true };
                        break (Source::Cgroup(child), payment);
                    }
                    None => path.push(child),
                },
            }
        };
        while let Some(at) = path.pop() {
            // Time after the child became active is charged to the parent's limit.
            let boundary = if at == cgroup {
                cx.now
            } else {
                let queue = self.cgroups[at].queue(direction);
                queue.expect("it had a source").active_since
            };
            self.account_dispatch(cx, at, direction, source, &payment, boundary);
            source = Source::Cgroup(at);
        }
        self.path = path;
        self.passes_with(cx, payment, direction)
    }

    /// Fast path of [`Throttle::account_dispatch`] for a `client` of a cgroup with a limit of one direction: request,
    /// client and cgroup are looked up once each.
    #[inline]
    fn account_client_dispatch(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        client: u32,
        payment: &Payment,
    ) {
        let limit_time = self.limit_time(cgroup, cx.now);
        let weight = weight_of(cx.tree, Source::Client(client));
        let &Payment { index, cost, owed, .. } = payment;
        let record = &mut cx.requests[index];
        let before = record.served_before;
        let waited = cx.now.nanos_since(record.since);
        record.since = record.since.max(cx.now);
        // An instalment may owe nothing here.
        let turn = (cost.ios == 0).then(|| self.time_of_turn(cgroup, direction, cost));
        let record = &cx.requests[index];
        // Each instalment has waited by itself, and the request in all.
        let held_ns = owed.map(|_| record.inside_ns(cx.now));
        let client = self.clients[client].dir_mut(direction);
        let node = &mut self.cgroups[cgroup];
        let dir = node.dir_mut(direction);
        let limiter = dir.limiter.as_deref_mut().expect("a limited cgroup has a limiter");
        let queue = dir.queue.as_deref_mut().expect("it had a source");
        let time = limiter.time_of(cost);
        let waits_on = !client.turns.is_empty();
        let turn = turn.unwrap_or(time);
        queue.fair_queue.served(&mut client.source_state, turn, weight, waits_on);
        limiter.charge(limit_time, cost, owed);
        let others = before.to_others(limiter.served_ns, client.served_ns).min(waited);
        client.served_ns = client.served_ns.wrapping_add(time);
        limiter.served_ns = limiter.served_ns.wrapping_add(time);
        let dimension = dir.throttled_by;
        let account = node.account();
        account.waited_for_others(direction, others);
        account.waited(dimension, waited - others);
        match (payment.is_last, held_ns) {
            (false, _) => {}
            (true, None) => account.passed(direction, true, waited - others, others),
            (true, Some(held_ns)) => account.passed(direction, true, held_ns, 0),
        }
        if waited > 0 {
            self.tasks[record.task()].waits_mut(direction, dimension).wait_ns += waited;
        }
    }

    /// Accounts at `at` for a payment by `source`, which left the limit there, if there is one, at `boundary`.
    #[inline]
    fn account_dispatch(
        &mut self,
        cx: &mut Context<'_>,
        at: u32,
        direction: Direction,
        source: Source,
        payment: &Payment,
        boundary: Instant,
    ) {
        let cost = payment.cost;
        let waits_on = match source {
            Source::Client(client) => !self.clients[client].dir(direction).turns.is_empty(),
            Source::Cgroup(child) => {
                // Its head changed and its limit was charged: it may be ineligible now.
                self.is_eligible(cx, child, direction, Arrival::Queued)
            }
        };
        // Sources at this cgroup share the time of its nearest limit.
        let nearest = self.nearest_limit(at, direction);
        let time = match nearest {
            // The limit was just lifted: all pass.
            NO_CGROUP => 0,
            nearest => self.cgroups[nearest].time_of(direction, cost),
        };
        // An instalment may owe nothing there.
        let turn = if cost.ios == 0 { self.time_of_turn(nearest, direction, cost) } else { time };
        if nearest == at && self.cgroups[at].rw_limit.is_some() {
            self.account_rw_dispatch(at, direction, cost);
        }
        self.charge_source(cx, at, direction, source, turn, waits_on);
        if nearest == at {
            self.charge_and_blame(cx, at, boundary, time, payment);
        }
    }

    /// Charges `cgroup`'s limit for a request that leaves it and takes `time` of it; blames the wait until `boundary`
    /// on it.
    fn charge_and_blame(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        boundary: Instant,
        time: u64,
        payment: &Payment,
    ) {
        let &Payment { index, cost, .. } = payment;
        let record = &mut cx.requests[index];
        let direction = record.request.op.direction();
        let waited = boundary.nanos_since(record.since);
        record.since = record.since.max(boundary);
        let before = record.served_before;
        let task_index = record.task();
        let task = &cx.tree.tasks[task_index];
        let (client, own) = (task.client, task.cgroup);
        let is_nearest = self.nearest_limit(own, direction) == cgroup;
        let dimension = self.throttled_by(cgroup, direction);
        self.charge_limit(cx, cgroup, direction, cost, payment.owed);
        let limiter = self.cgroups[cgroup].limit_mut(direction);
        let mut others = 0;
        if is_nearest {
            let client = self.clients[client].dir_mut(direction);
            others = before.to_others(limiter.served_ns, client.served_ns).min(waited);
            client.served_ns = client.served_ns.wrapping_add(time);
        }
        limiter.served_ns = limiter.served_ns.wrapping_add(time);
        if self.cgroups[cgroup].rw_limit.is_some() {
            self.tell_other_direction(cgroup, direction, cost, is_nearest.then_some((client, own)));
        }
        let whose = cx.tree.id(cgroup);
        let held_ns = payment.owed.map(|_| cx.requests[index].inside_ns(boundary));
        let account = self.cgroups[own].account();
        account.waited_for_others(direction, others);
        match (payment.is_last, held_ns) {
            (false, _) => {}
            (true, None) => account.passed(direction, cgroup == own, waited - others, others),
            (true, Some(held_ns)) => account.passed(direction, cgroup == own, held_ns, 0),
        }
        if cgroup == own {
            account.waited(dimension, waited - others);
        } else {
            account.waited_above(whose, dimension, waited - others);
        }
        if waited > 0 {
            self.tasks[task_index].waits_mut(direction, dimension).wait_ns += waited;
        }
    }

    /// Adds the time that a request of `direction` takes of the limit on both directions to what the other direction
    /// waited for: for all its clients, and for `client` by itself where that limit is its nearest.
    fn tell_other_direction(
        &mut self,
        cgroup: u32,
        direction: Direction,
        cost: Cost,
        client: Option<(u32, u32)>,
    ) {
        let other = direction.other();
        let node = &mut self.cgroups[cgroup];
        let time = node.rw_limit.as_ref().map_or(0, |rw_limit| rw_limit.limiter().time_of(cost));
        let limiter = node.limit_mut(other);
        limiter.served_ns = limiter.served_ns.wrapping_add(time);
        if let Some((client, own)) = client
            && self.nearest_limit(own, other) == cgroup
        {
            let client = self.clients[client].dir_mut(other);
            client.served_ns = client.served_ns.wrapping_add(time);
        }
    }

    /// Next payment of the oldest request of the task whose turn it is, of a client of `cgroup`. The task goes to the
    /// end of the turns; a request that has paid all is dequeued.
    #[inline(always)]
    fn next_payment(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        client: u32,
        direction: Direction,
    ) -> Payment {
        let task = self.clients[client].dir(direction).turns.head;
        let index = self.tasks[task].dir(direction).waiting.head;
        let owed = cx.requests[index].cost;
        if let Some(cost) = self.instalment(cgroup, direction, owed) {
            self.pay_in_part(cx, direction, index, cost);
            self.note_part_paid(cx, cgroup, direction);
            self.end_turn(client, direction);
            return Payment { index, cost, owed: Some(owed), is_last: false };
        }
        let taken = self.take_waiting(cx, client, direction);
        debug_assert_eq!(taken, index, "the head of the task whose turn it is");
        if cx.requests[index].is_part_paid {
            self.end_instalments(cx, index);
            return Payment { index, cost: owed, owed: Some(owed), is_last: true };
        }
        Payment { index, cost: owed, owed: None, is_last: true }
    }

    /// Moves the task whose turn it is to the end of the turns.
    #[inline(never)]
    fn end_turn(&mut self, client: u32, direction: Direction) {
        let client = self.clients[client].dir_mut(direction);
        let mut turns = WaitingTurns { tasks: &mut self.tasks, direction };
        if client.turns.only().is_none() {
            let task = client.turns.pop_front(&mut turns).expect("an active client has a task");
            client.turns.push_back(&mut turns, task);
        }
    }

    /// Dequeues the oldest request of the task whose turn it is, and moves the task to the end of the turns.
    #[inline]
    fn take_waiting(&mut self, cx: &mut Context<'_>, client: u32, direction: Direction) -> u32 {
        let client = self.clients[client].dir_mut(direction);
        let mut turns = WaitingTurns { tasks: &mut self.tasks, direction };
        if let Some(task) = client.turns.only() {
            // A sole task keeps its turn.
            let waiting = &mut turns.tasks[task].dir_mut(direction).waiting;
            let index = waiting.pop_front(cx.requests);
            if waiting.is_empty() {
                client.turns.pop_front(&mut turns);
            }
            return index.expect("a task with a turn has a request");
        }
        let task = client.turns.pop_front(&mut turns).expect("an active client has a task");
        let waiting = &mut turns.tasks[task].dir_mut(direction).waiting;
        let index = waiting.pop_front(cx.requests).expect("a task with a turn has a request");
        if !waiting.is_empty() {
            client.turns.push_back(&mut turns, task);
        }
        index
    }

    /// Charges service to the source that was next at `at`.
    fn charge_source(
        &mut self,
        cx: &mut Context<'_>,
        at: u32,
        direction: Direction,
        source: Source,
        time: u64,
        waits_on: bool,
    ) {
        let weight = weight_of(cx.tree, source);
        self.with_fair_queue(at, direction, source, |fair_queue, source_state| {
            fair_queue.served(source_state, time, weight, waits_on);
        });
    }
}
