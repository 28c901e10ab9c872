//! The throttle itself, as plainly as it can be written.

use std::collections::{BTreeMap, VecDeque};

use super::log::{Event, Request};
use super::state::{Source, State};
use super::{CLIENT_WEIGHT, CgroupId, ClientId, Nanos, ROOT, RequestId, TaskId};

/// A paced throttle over a hierarchy, pulled from the root.
///
/// Each cgroup picks, among its sources that wait and may go, the one with the least start tag (start-time fair
/// queueing); each client its tasks in turn. Only data: metadata leaves at once, first.
#[derive(Clone, Debug)]
pub struct Throttle {
    state: State,
    queues: BTreeMap<(CgroupId, usize), FairQueue>,
    turns: BTreeMap<(ClientId, usize), VecDeque<TaskId>>,
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
        Throttle { state: State::new(), queues: BTreeMap::new(), turns: BTreeMap::new() }
    }

    /// Takes in what happened. Dispatches are this throttle's own to make, so [`Event::Dispatch`] and
    /// [`Event::Drained`] mean nothing here.
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
            Event::Limit { cgroup, rates } => self.state.limit(now, *cgroup, *rates),
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
            Event::Dispatch(_) | Event::Drained { .. } => {}
        }
        self.refresh(now);
    }

    /// Lets the next request go, if one may.
    pub fn poll(&mut self, now: Nanos) -> Option<RequestId> {
        self.refresh(now);
        let metadata = self.state.waiting.values().find(|request| request.metadata).copied();
        let request =
            metadata.or_else(|| self.pick(ROOT, 0, now)).or_else(|| self.pick(ROOT, 1, now))?;
        self.state.take(&request);
        for cgroup in self.state.path(request.task) {
            if let Some(node) = self.state.cgroups.get_mut(&cgroup) {
                node.directions[request.direction].meters.charge(now, request.bytes, request.ios);
            }
        }
        self.refresh(now);
        Some(request.id)
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

    /// The next data request below `cgroup`, which may go as far as limits below it care.
    fn pick(&mut self, cgroup: CgroupId, direction: usize, now: Nanos) -> Option<Request> {
        if self.state.meters(cgroup, direction).ready_at(now) > now {
            return None;
        }
        let queue = self.queues.get_mut(&(cgroup, direction))?;
        let (&source, &start) =
            queue.starts.iter().min_by_key(|&(source, start)| (start, source))?;
        queue.time = start;
        let (request, weight) = match source {
            Source::Child(child) => {
                let weight = self.state.cgroups.get(&child)?.weight;
                (self.pick(child, direction, now)?, weight)
            }
            Source::Client(client) => {
                let task = self.turns.get_mut(&(client, direction))?.pop_front()?;
                (*self.state.tasks.get(&task)?.data[direction].front()?, CLIENT_WEIGHT)
            }
        };
        let rates = self.state.measure(cgroup, direction).unwrap_or_default();
        // Picoseconds of a weight of 1, times 1000, as in the checker.
        let service = rates.time(request.bytes, request.ios) * 1000 / i128::from(weight);
        let queue = self.queues.get_mut(&(cgroup, direction))?;
        queue.finishes.insert(source, start + service);
        queue.starts.insert(source, start + service);
        Some(request)
    }

    /// Brings the queues up to date with who waits and may go.
    fn refresh(&mut self, now: Nanos) {
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
