//! Reference throttle, in the plainest form.

use std::collections::{BTreeMap, VecDeque};

use super::log::{Event, Request};
use super::state::{Source, State};
use super::{CLIENT_WEIGHT, CgroupId, ClientId, Nanos, ROOT, TaskId};

/// A paced throttle over a hierarchy, pulled from the root.
///
/// Each cgroup picks, among its sources that wait and may go, the one with the least start tag (start-time fair
/// queueing); each client its tasks in turn. Only data: metadata leaves at once, first.
#[derive(Clone, Debug)]
pub struct Throttle {
    state: State,
    queues: BTreeMap<(CgroupId, usize), FairQueue>,
    turns: BTreeMap<(ClientId, usize), VecDeque<TaskId>>,
    rw_limit: BTreeMap<CgroupId, RwLimit>,
}

/// How reads and writes of one cgroup share a limit on both.
#[derive(Clone, Copy, Debug, Default)]
struct RwLimit {
    /// Both directions wait for it alone.
    both_wait: bool,
    /// Service divided by weight, since both have waited.
    had: [i128; 2],
}

/// Start-time fair queueing over the sources of one cgroup in one direction.
#[derive(Clone, Debug, Default)]
struct FairQueue {
    /// Virtual time: the start tag of the source picked last.
    time: i128,
    /// Start tags of the sources that wait.
    starts: BTreeMap<Source, i128>,
    /// Finish tags of all sources that were ever picked.
    finishes: BTreeMap<Source, i128>,
}

impl Throttle {
    /// An empty hierarchy.
    pub fn new() -> Throttle {
        Throttle {
            state: State::new(),
            queues: BTreeMap::new(),
            turns: BTreeMap::new(),
            rw_limit: BTreeMap::new(),
        }
    }

    /// Takes in what happened. What is paid and dispatched is this throttle's own to say, so [`Event::Pay`],
    /// [`Event::Dispatch`] and [`Event::Drained`] mean nothing here.
    pub fn apply(&mut self, now: Nanos, event: &Event) {
        match event {
            Event::Create { cgroup, parent, weight } => {
                self.state.create(*cgroup, *parent, *weight);
            }
            Event::Open { task, client, cgroup } => self.state.open(*task, *client, *cgroup),
            Event::Reweigh { cgroup, weight } => {
                if let Some(node) = self.state.cgroups.get_mut(cgroup) {
                    node.weight = *weight;
                }
            }
            Event::Limit { cgroup, rates } => self.state.limit(now, *cgroup, **rates),
            Event::Move { cgroup, parent } => {
                if let Some(node) = self.state.cgroups.get_mut(cgroup) {
                    node.parent = Some(*parent);
                }
            }
            Event::Remove { cgroup } => self.state.remove(*cgroup),
            Event::Submit(request) => self.submit(request),
            Event::Withdraw(id) => {
                if let Some(request) = self.state.waiting.get(id).copied() {
                    self.state.take(&request);
                }
            }
            Event::Dispatch(_) | Event::Pay { .. } | Event::Drained { .. } => {}
        }
        self.refresh(now);
    }

    /// Lets the next request go, or pay an instalment, if one may.
    pub fn poll(&mut self, now: Nanos) -> Option<Event> {
        self.refresh(now);
        let metadata = self.state.waiting.values().find(|request| request.metadata).copied();
        let request = metadata.or_else(|| self.pick_any(now))?;
        let waiting = self.state.sources(request.direction, now);
        let (bytes, ios) = self.state.instalment(&request);
        let is_last = (bytes, ios) == (request.bytes, request.ios);
        let is_instalment = request.part_paid || !is_last;
        let owed = is_instalment.then_some((request.bytes, request.ios));
        if is_last {
            self.state.take(&request);
        } else {
            self.state.pay(request.id, (bytes, ios));
        }
        for cgroup in self.state.path(request.task) {
            let weight = i128::from(self.state.weight(&waiting, cgroup, |_| true));
            let time = self.state.rw_limit(cgroup).rates.time(bytes, ios);
            if let Some(rw_limit) = self.rw_limit.get_mut(&cgroup).filter(|_| !request.metadata) {
                rw_limit.had[request.direction] += time * 1000 / weight;
            }
            if let Some(node) = self.state.cgroups.get_mut(&cgroup) {
                let budgets = node.budgets_of(request.direction);
                budgets.for_each(|budget| budget.meters.charge(now, (bytes, ios), owed));
            }
        }
        self.refresh(now);
        Some(match is_last {
            true => Event::Dispatch(request.id),
            false => Event::Pay { id: request.id, bytes, ios },
        })
    }

    /// When [`Throttle::poll`] may have something again.
    pub fn deadline(&self, now: Nanos) -> Option<Nanos> {
        let ready = |request: &Request| self.state.ready_at(request.task, request.direction, now);
        self.state.waiting.values().filter_map(ready).min()
    }

    fn submit(&mut self, request: &Request) {
        let Some(task) = self.state.tasks.get_mut(&request.task) else { return };
        let queues = if request.metadata { &mut task.metadata } else { &mut task.data };
        queues[request.direction].push_back(*request);
        self.state.waiting.insert(request.id, *request);
    }

    /// The next data request, of either direction. Whose turn it is at a limit that both wait for is asked everywhere first;
    /// where two of them are at odds, none's.
    fn pick_any(&mut self, now: Nanos) -> Option<Request> {
        [true, false].into_iter().find_map(|by_turns| {
            [0, 1].into_iter().find_map(|direction| self.pick(ROOT, direction, now, by_turns))
        })
    }

    /// The next data request below `cgroup` that the limits below it allow.
    fn pick(
        &mut self,
        cgroup: CgroupId,
        direction: usize,
        now: Nanos,
        by_turns: bool,
    ) -> Option<Request> {
        let is_others_turn = self.rw_limit.get(&cgroup).is_some_and(|rw_limit| {
            let [own, other] = [rw_limit.had[direction], rw_limit.had[1 - direction]];
            rw_limit.both_wait && (own > other || (own == other && direction == 1))
        });
        if self.state.passes_at(cgroup, direction, now) > now || (by_turns && is_others_turn) {
            return None;
        }
        let starts = &self.queues.get(&(cgroup, direction))?.starts;
        let mut sources: Vec<(i128, Source)> =
            starts.iter().map(|(&source, &start)| (start, source)).collect();
        sources.sort_unstable();
        let (start, source, request, weight) =
            sources.into_iter().find_map(|(start, source)| {
                let (request, weight) = match source {
                    Source::Child(child) => {
                        let weight = self.state.cgroups.get(&child)?.weight;
                        (self.pick(child, direction, now, by_turns)?, weight)
                    }
                    Source::Client(client) => {
                        let task = self.turns.get_mut(&(client, direction))?.pop_front()?;
                        (*self.state.tasks.get(&task)?.data[direction].front()?, CLIENT_WEIGHT)
                    }
                };
                Some((start, source, request, weight))
            })?;
        let rates = self.state.measure(cgroup, direction).unwrap_or_default();
        let (bytes, ios) = self.state.instalment(&request);
        let time = match rates.time(bytes, ios) {
            0 if ios == 0 => self.state.time_above(cgroup, direction, bytes),
            time => time,
        };
        // Picoseconds of a weight of 1, times 1000, as in the checker.
        let service = time * 1000 / i128::from(weight);
        let queue = self.queues.get_mut(&(cgroup, direction))?;
        queue.time = start;
        queue.finishes.insert(source, start + service);
        queue.starts.insert(source, start + service);
        Some(request)
    }

    /// Updates the fair queues with the sources that may go.
    fn refresh(&mut self, now: Nanos) {
        let waiting = [0, 1].map(|direction| self.state.sources(direction, now));
        let waits = self.state.rw_waits([&waiting[0], &waiting[1]], now);
        for &cgroup in self.state.cgroups.keys() {
            let rw_limit = self.rw_limit.entry(cgroup).or_default();
            let may_pass = self.state.rw_limit(cgroup).ready_at(now) <= now;
            // Those that may pass have waited if they did before.
            rw_limit.both_wait = waits.contains(&cgroup) && (rw_limit.both_wait || !may_pass);
            if !rw_limit.both_wait {
                rw_limit.had = [0, 0];
            }
        }
        for direction in [0, 1] {
            let now_waiting = self.state.sources(direction, now);
            for &cgroup in self.state.cgroups.keys() {
                let waiting = now_waiting.sources.get(&cgroup).map_or(&[][..], Vec::as_slice);
                let queue = self.queues.entry((cgroup, direction)).or_default();
                queue.starts.retain(|source, _| waiting.contains(source));
                for &source in waiting {
                    let finish = queue.finishes.get(&source).copied().unwrap_or(0);
                    queue.starts.entry(source).or_insert(queue.time.max(finish));
                }
            }
            for &client in self.state.clients.keys() {
                let waiting = now_waiting.turns.get(&client).map_or(&[][..], Vec::as_slice);
                let turns = self.turns.entry((client, direction)).or_default();
                turns.retain(|task| waiting.contains(task));
                for &task in waiting {
                    if !turns.contains(&task) {
                        turns.push_back(task);
                    }
                }
            }
        }
    }
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle::new()
    }
}
