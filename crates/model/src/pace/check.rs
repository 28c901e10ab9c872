//! The replay.

use std::collections::BTreeMap;

use super::fairness::{Bound, Shares};
use super::log::{Event, Log, Request, Violation};
use super::state::{Source, State, Waiting};
use super::{CLIENT_WEIGHT, CgroupId, ClientId, Nanos, RequestId, TaskId};

/// Replays `log` and answers the first promise that it breaks.
///
/// # Errors
/// A [`Violation`] with its place and text.
pub fn check_log(log: &Log) -> Result<(), Violation> {
    let mut replay = Replay::new();
    let (mut place, mut last) = (0, 0);
    while let Some((now, event)) = log.get(place) {
        let located = |(promise, what)| Violation { at: *now, event: place, promise, what };
        if *now < last {
            return Err(located(("log", format!("time goes back from {last} ns"))));
        }
        last = *now;
        let batch = log[place..].iter().map_while(|(at, event)| match event {
            event @ (Event::Dispatch(_) | Event::Pay { .. }) if at == now => Some(event),
            _ => None,
        });
        let batch: Vec<&Event> = batch.collect();
        if batch.is_empty() {
            replay.step(*now, event).map_err(located)?;
            place += 1;
        } else {
            let payments = replay.payments(&batch).map_err(located)?;
            replay = replay.after_batch(*now, &payments).map_err(located)?;
            place += batch.len();
        }
    }
    Ok(())
}

type Broken = (&'static str, String);

/// A request's single payment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Payment {
    /// Before the payment: the debt, and whether a part is paid.
    request: Request,
    bytes: u64,
    ios: u64,
    /// It leaves with it.
    is_last: bool,
}

impl Payment {
    fn amount(&self) -> (u64, u64) {
        (self.bytes, self.ios)
    }

    /// The debt, if this is an instalment of it.
    fn owed(&self) -> Option<(u64, u64)> {
        let is_instalment = self.request.part_paid || !self.is_last;
        is_instalment.then_some((self.request.bytes, self.request.ios))
    }
}

/// When the waiting requests are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    /// Checks that no request that may go has stayed.
    BeforeAnythingGoes,
    Any,
}

#[derive(Clone)]
struct Replay {
    state: State,
    sources: BTreeMap<(CgroupId, usize), Shares<Source>>,
    turns: BTreeMap<(ClientId, usize), Shares<TaskId>>,
    /// Reads and writes, where a limit is on both.
    rw_limit: BTreeMap<CgroupId, Shares<usize>>,
    /// When the replay last looked at the waiting requests.
    observed: Nanos,
}

impl Replay {
    fn new() -> Replay {
        Replay {
            state: State::new(),
            sources: BTreeMap::new(),
            turns: BTreeMap::new(),
            rw_limit: BTreeMap::new(),
            observed: 0,
        }
    }

    fn step(&mut self, now: Nanos, event: &Event) -> Result<(), Broken> {
        if now > self.observed {
            // Time has passed, and more requests may go.
            self.observe(now, Moment::BeforeAnythingGoes);
        }
        match event {
            Event::Create { cgroup, parent, weight } => {
                self.state.create(*cgroup, *parent, *weight);
            }
            Event::Open { task, client, cgroup } => self.state.open(*task, *client, *cgroup),
            Event::Reweigh { cgroup, weight } => {
                if let Some(node) = self.state.cgroups.get_mut(cgroup) {
                    node.weight = *weight;
                }
                self.interrupt();
            }
            Event::Limit { cgroup, rates } => {
                self.state.limit(now, *cgroup, **rates);
                self.interrupt();
            }
            Event::Move { cgroup, parent } => {
                self.state.note_strays();
                if let Some(node) = self.state.cgroups.get_mut(cgroup) {
                    node.parent = Some(*parent);
                }
                self.interrupt();
            }
            Event::Remove { cgroup } => {
                self.state.remove(*cgroup);
                self.interrupt();
            }
            Event::Submit(request) => self.submit(request)?,
            Event::Dispatch(_) | Event::Pay { .. } => {
                let payments = self.payments(&[event])?;
                *self = self.clone().after_batch(now, &payments)?;
            }
            Event::Withdraw(id) => {
                let request = self.find(*id)?;
                self.state.take(&request);
            }
            Event::Drained { deadline } => self.drained(now, *deadline)?,
        }
        self.observe(now, Moment::Any);
        Ok(())
    }

    /// Payments of the events of one instant.
    fn payments(&self, batch: &[&Event]) -> Result<Vec<Payment>, Broken> {
        let mut payments = Vec::new();
        let mut known: BTreeMap<RequestId, Request> = BTreeMap::new();
        for event in batch {
            let (id, paid) = match event {
                Event::Dispatch(id) => (*id, None),
                Event::Pay { id, bytes, ios } => (*id, Some((*bytes, *ios))),
                _ => continue,
            };
            let mut request = match known.get(&id) {
                Some(request) => *request,
                None => self.find(id)?,
            };
            let mut left = paid.unwrap_or((request.bytes, request.ios));
            if self.state.is_stray(id) {
                // Whether it pays in instalments is not known.
                let (bytes, ios) = left;
                payments.push(Payment { request, bytes, ios, is_last: paid.is_none() });
                continue;
            }
            loop {
                let (bytes, ios) = self.state.instalment(&request);
                let is_last = (bytes, ios) == (request.bytes, request.ios);
                if bytes > left.0 || ios > left.1 || (is_last && paid.is_some()) {
                    let what =
                        format!("{left:?} of {id:?} are no instalments of {bytes} and {ios}");
                    return Err(("instalments", what));
                }
                payments.push(Payment { request, bytes, ios, is_last });
                request = request.after((bytes, ios));
                left = (left.0 - bytes, left.1 - ios);
                if is_last || (paid.is_some() && left == (0, 0)) {
                    break;
                }
            }
            known.insert(id, request);
        }
        Ok(payments)
    }

    /// The replay after `batch` was paid, all at one instant.
    ///
    /// What passes the throttle at one instant is put in another order by the scheduler. The record shows the latter;
    /// the promises are kept if there is an order that keeps them, with each task's requests in theirs.
    fn after_batch(mut self, now: Nanos, batch: &[Payment]) -> Result<Replay, Broken> {
        if now > self.observed {
            self.observe(now, Moment::BeforeAnythingGoes);
        }
        self.settle(now, batch);
        let order = match self.clone().in_order(now, batch) {
            Ok(_) => batch.to_vec(),
            Err(_) => self.allowed_order(now, batch)?,
        };
        let left = self.clone().in_order(now, &order)?.state;
        for payment in batch {
            self.share(now, payment, &left)?;
        }
        let mut after = self.in_order(now, &order)?;
        after.observe(now, Moment::Any);
        after.is_fair()?;
        Ok(after)
    }

    /// Every budget that is charged for something in the batch knows the largest savings that may be used.
    fn settle(&mut self, now: Nanos, batch: &[Payment]) {
        let mut owed: BTreeMap<(CgroupId, usize), [Option<u64>; 2]> = BTreeMap::new();
        for payment in batch {
            let (direction, (bytes, ios)) = (payment.request.direction, payment.amount());
            let of = payment.owed().unwrap_or((0, 0));
            for at in self.state.path(payment.request.task) {
                for budget in [direction, super::state::JOINT] {
                    let most = owed.entry((at, budget)).or_default();
                    for (most, (paid, owed)) in most.iter_mut().zip([(bytes, of.0), (ios, of.1)]) {
                        if paid > 0 || payment.owed().is_none() {
                            *most = (*most).max(Some(owed));
                        }
                    }
                }
            }
        }
        for ((at, budget), owed) in owed {
            if let Some(node) = self.state.cgroups.get_mut(&at) {
                node.budgets[budget].meters.settle(now, owed);
            }
        }
    }

    fn in_order(mut self, now: Nanos, batch: &[Payment]) -> Result<Replay, Broken> {
        for payment in batch {
            self.pay(now, payment)?;
        }
        Ok(self)
    }

    /// An order of `batch` in which nothing goes early, if there is one.
    ///
    /// Found from the end: a request that may go after all the others can as well be the last, because without it
    /// the others have less before them.
    fn allowed_order(&self, now: Nanos, batch: &[Payment]) -> Result<Vec<Payment>, Broken> {
        let mut rest = batch.to_vec();
        let queue = |payment: &Payment| {
            let request = &payment.request;
            (request.task, request.direction, request.metadata)
        };
        let mut order = Vec::new();
        while !rest.is_empty() {
            let may_be_last = |place: &usize| {
                let (payment, mut before) = (rest[*place], self.clone());
                let is_last_of_queue =
                    rest[place + 1..].iter().all(|other| queue(other) != queue(&payment));
                if !is_last_of_queue {
                    return false;
                }
                for (_, other) in rest.iter().enumerate().filter(|(at, _)| at != place) {
                    let path = before.state.path(other.request.task);
                    // Windows are looked at in the order that is found.
                    path.iter().for_each(|&at| drop(before.charge(now, at, other)));
                }
                let path = before.state.path(payment.request.task);
                payment.request.metadata || before.is_not_early(now, &payment, &path).is_ok()
            };
            // If none may be last, the recorded order says what is wrong.
            let last = (0..rest.len()).rev().find(may_be_last).unwrap_or(rest.len() - 1);
            order.push(rest.remove(last));
        }
        order.reverse();
        Ok(order)
    }

    fn submit(&mut self, request: &Request) -> Result<(), Broken> {
        let state = &mut self.state;
        if state.seen.insert(request.id, request.task).is_some() {
            return Err(("P7", format!("{:?} was submitted twice", request.id)));
        }
        let Some(task) = state.tasks.get_mut(&request.task) else {
            return Err(("log", format!("{:?} is not open", request.task)));
        };
        let queues = if request.metadata { &mut task.metadata } else { &mut task.data };
        queues[request.direction].push_back(*request);
        state.waiting.insert(request.id, *request);
        Ok(())
    }

    fn find(&self, id: RequestId) -> Result<Request, Broken> {
        let found = self.state.waiting.get(&id).copied();
        found.ok_or_else(|| match self.state.seen.get(&id) {
            Some(_) => ("P7", format!("{id:?} is gone already")),
            None => ("P7", format!("{id:?} was never submitted")),
        })
    }

    fn pay(&mut self, now: Nanos, payment: &Payment) -> Result<(), Broken> {
        let id = payment.request.id;
        let request = self.find(id)?;
        let path = self.state.path(request.task);
        if !request.metadata && !self.state.is_stray(id) {
            self.is_not_early(now, payment, &path)?;
        }
        let before = match payment.is_last {
            true => self.state.take(&request),
            false => self.state.pay(id, payment.amount()),
        };
        let before = before.unwrap_or(0);
        if before > 0 {
            let what =
                format!("{id:?} leaves before {before} earlier requests of {:?}", request.task);
            return Err(("P4", what));
        }
        for &cgroup in &path {
            self.charge(now, cgroup, payment)?;
        }
        Ok(())
    }

    fn is_not_early(&self, now: Nanos, payment: &Payment, path: &[CgroupId]) -> Result<(), Broken> {
        let request = &payment.request;
        for &cgroup in path {
            for meters in self.state.meters(cgroup, request.direction) {
                let ready = meters.ready_for(now, payment.bytes, payment.ios);
                let rounding_ns = if payment.owed().is_some() { meters.rounding_ns() } else { 0 };
                let ready = ready.saturating_sub(rounding_ns);
                if meters.rates.limiter == super::Limiter::Pace && ready > now {
                    let what = format!("{:?} may pass {cgroup:?} from {ready} ns on", request.id);
                    return Err(("P5", what));
                }
            }
        }
        Ok(())
    }

    fn charge(&mut self, now: Nanos, cgroup: CgroupId, payment: &Payment) -> Result<(), Broken> {
        let Some(node) = self.state.cgroups.get_mut(&cgroup) else { return Ok(()) };
        let owed = payment.owed().unwrap_or((0, 0));
        for budget in node.budgets_of(payment.request.direction) {
            budget.meters.add(payment.amount());
            if payment.request.metadata {
                continue;
            }
            let rates = budget.meters.rates;
            let windows = [
                (&mut budget.bytes, rates.bytes, payment.bytes, owed.0, "bytes"),
                (&mut budget.ios, rates.ios, payment.ios, owed.1, "I/Os"),
            ];
            for (window, rate, amount, owed, unit) in windows {
                if let (Some(window), Some(rate)) = (window, rate)
                    && let Some((excess, allowed)) = window.pay(now, amount, rate.saved(owed))
                {
                    let what = format!(
                        "{cgroup:?} exceeds its rate by {excess} {unit} in some window; {allowed} are allowed"
                    );
                    return Err(("P1", what));
                }
            }
        }
        Ok(())
    }

    /// Books the service that a payment takes of everything it waited for. `left` is what its instant leaves behind.
    fn share(&mut self, now: Nanos, payment: &Payment, left: &State) -> Result<(), Broken> {
        let request = payment.request;
        let (bytes, ios) = payment.amount();
        if request.metadata {
            // A debt falls on the next request; the promise to share does not span it.
            self.interrupt();
            return Ok(());
        }
        let direction = request.direction;
        let Some(client) = self.state.tasks.get(&request.task).map(|task| task.client) else {
            return Ok(());
        };
        let predictable = self.state.is_predictable(direction, now);
        let turns = self.turns.entry((client, direction));
        turns.or_insert_with(|| Shares::new(Bound::Fixed(1))).pick(request.task, 1);
        let waiting = self.state.sources(direction, now);
        let left = left.sources(direction, now);
        let (mut source, mut weight) = (Source::Client(client), CLIENT_WEIGHT);
        for cgroup in self.state.path(request.task) {
            let rw_limit = self.state.rw_limit(cgroup).rates;
            if !rw_limit.is_unlimited() {
                // What waited beside it is known only for its instant: all that did before, or just those that still do.
                let weights = [
                    self.state.weight(&waiting, cgroup, |_| true),
                    self.state.weight(&waiting, cgroup, |of| of == source || left.has(cgroup, of)),
                ];
                let time = rw_limit.time(bytes, ios) * FINE;
                let [least, most] = weights.map(|weights| time / i128::from(weights));
                let shares = self.rw_limit.entry(cgroup);
                let shares = shares.or_insert_with(|| Shares::new(Bound::LargestOfBoth));
                shares.pick_between(direction, least, most);
                if ios == 0 {
                    // It may pass where the other direction waits for I/Os.
                    shares.interrupt();
                }
            }
            let rates = self.state.measure(cgroup, direction);
            // Where nothing is limited nothing waits; a byte counts a nanosecond there.
            let time = rates.map_or(i128::from(bytes) * 1000, |rates| {
                // An instalment that has nothing to pay to the nearest limit is measured by the next one.
                match rates.time(bytes, ios) {
                    0 if ios == 0 => self.state.time_above(cgroup, direction, bytes),
                    time => time,
                }
            });
            let shares = self.sources.entry((cgroup, direction));
            let shares = shares.or_insert_with(|| Shares::new(Bound::LargestOfBoth));
            shares.pick(source, time * FINE / i128::from(weight));
            if rates.is_none() || !predictable {
                shares.interrupt();
            }
            source = Source::Child(cgroup);
            weight = self.state.cgroups.get(&cgroup).map_or(1, |node| node.weight);
        }
        if !predictable && let Some(turns) = self.turns.get_mut(&(client, direction)) {
            turns.interrupt();
        }
        Ok(())
    }

    /// Whether all that wait beside another have had their share.
    fn is_fair(&mut self) -> Result<(), Broken> {
        for ((client, _), turns) in &mut self.turns {
            if let Some(unfair) = turns.unfair(0) {
                let what = format!("tasks {:?} of {client:?} do not take turns", unfair.sources);
                return Err(("P12", what));
            }
        }
        for (cgroup, shares) in &mut self.rw_limit {
            if let Some(unfair) = shares.unfair(ROUNDING) {
                let what = format!(
                    "reads and writes of {cgroup:?} differ by {} ps of a weight of 1, {} are allowed",
                    unfair.difference / FINE,
                    unfair.allowed / FINE
                );
                return Err(("P12, joint", what));
            }
        }
        for ((cgroup, _), shares) in &mut self.sources {
            if let Some(unfair) = shares.unfair(ROUNDING) {
                let what = format!(
                    "{:?} below {cgroup:?} differ by {} ps of a weight of 1, {} are allowed",
                    unfair.sources,
                    unfair.difference / FINE,
                    unfair.allowed / FINE
                );
                return Err(("P12", what));
            }
        }
        Ok(())
    }

    /// No request that may go has stayed, and the deadline is not past the first instant at which one may.
    fn drained(&self, now: Nanos, deadline: Option<Nanos>) -> Result<(), Broken> {
        if let Some(left) = self.state.waiting.values().find(|request| request.metadata) {
            return Err(("P18", format!("metadata {:?} has stayed", left.id)));
        }
        if self.state.waiting.is_empty() {
            return match deadline {
                None => Ok(()),
                Some(at) => {
                    Err(("P14", format!("nothing waits, and yet there is a deadline at {at} ns")))
                }
            };
        }
        let mut first = Some(Nanos::MAX);
        for request in self.state.waiting.values() {
            let ready = self.state.ready_at(request.task, request.direction, now);
            if ready == Some(now) {
                let path = self.state.path(request.task);
                let mut meters =
                    path.iter().flat_map(|&at| self.state.meters(at, request.direction));
                let unlimited = meters.all(|meters| meters.rates.is_unlimited());
                let promise = if unlimited { "P10" } else { "work conservation" };
                return Err((promise, format!("{:?} has stayed though it may go", request.id)));
            }
            first = first.zip(ready).map(|(first, ready)| first.min(ready));
        }
        let Some(deadline) = deadline else {
            return Err(("P14", format!("{} wait without a deadline", self.state.waiting.len())));
        };
        if deadline <= now {
            return Err(("P14", format!("the next deadline, {deadline} ns, is not in the future")));
        }
        match first {
            // Earlier is allowed: a debt that metadata leaves, say, moves what may go, not what wakes up for it.
            Some(first) if deadline > first => Err((
                "P6",
                format!("the deadline is {deadline} ns, something may go at {first} ns"),
            )),
            _ => Ok(()),
        }
    }

    /// Notes all requests that wait and may go.
    fn observe(&mut self, now: Nanos, moment: Moment) {
        self.observed = now;
        let all = [0, 1].map(|direction| self.state.sources(direction, now));
        self.observe_rw(now, moment, [&all[0], &all[1]]);
        for (direction, waiting) in all.into_iter().enumerate() {
            for &cgroup in waiting.sources.keys() {
                let fresh = || Shares::new(Bound::LargestOfBoth);
                self.sources.entry((cgroup, direction)).or_insert_with(fresh);
            }
            for (&(cgroup, of), shares) in &mut self.sources {
                if of == direction {
                    shares.observe(waiting.sources.get(&cgroup).map_or(&[], Vec::as_slice));
                }
            }
            for &client in waiting.turns.keys() {
                let fresh = || Shares::new(Bound::Fixed(1));
                self.turns.entry((client, direction)).or_insert_with(fresh);
            }
            for (&(client, of), shares) in &mut self.turns {
                if of == direction {
                    shares.observe(waiting.turns.get(&client).map_or(&[], Vec::as_slice));
                }
            }
        }
    }

    /// Notes where reads and writes wait for a limit on both and for nothing else.
    ///
    /// A source that may pass that limit and is still there when all has gone waits for something else. But in the moment when it
    /// may be passed, and nothing has gone, those are waiting that did before.
    fn observe_rw(&mut self, now: Nanos, moment: Moment, waiting: [&Waiting; 2]) {
        let waits = self.state.rw_waits(waiting, now);
        for &cgroup in &waits {
            self.rw_limit.entry(cgroup).or_insert_with(|| Shares::new(Bound::LargestOfBoth));
        }
        for (&cgroup, shares) in &mut self.rw_limit {
            let waits = waits.contains(&cgroup);
            let may_pass = self.state.rw_limit(cgroup).ready_at(now) <= now;
            match moment {
                Moment::BeforeAnythingGoes if waits => {}
                Moment::Any if waits && !may_pass => shares.observe(&[0, 1]),
                _ => shares.interrupt(),
            }
        }
    }

    fn interrupt(&mut self) {
        self.rw_limit.values_mut().for_each(Shares::interrupt);
        self.sources.values_mut().for_each(Shares::interrupt);
        self.turns.values_mut().for_each(Shares::interrupt);
    }
}

/// Service is kept in picoseconds of a weight of 1, this much finer, so that a division by a weight loses nothing that
/// matters.
const FINE: i128 = 1000;

/// One pick may be rounded to a nanosecond of a weight of 1.
const ROUNDING: i128 = 1000 * FINE;
