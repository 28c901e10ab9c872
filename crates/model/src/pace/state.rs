//! The hierarchy during a replay: cgroups with their levels, tasks with what waits in them.

use std::collections::{BTreeMap, VecDeque};

use super::log::Request;
use super::meter::{Limiter, Meters, Rates};
use super::window::Window;
use super::{CgroupId, ClientId, Nanos, ROOT, RequestId, TaskId};

#[derive(Clone, Debug)]
pub(super) struct Cgroup {
    pub(super) parent: Option<CgroupId>,
    pub(super) weight: u64,
    pub(super) directions: [Direction; 2],
}

/// One direction of one cgroup.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    pub(super) meters: Meters,
    pub(super) bytes: Option<Window>,
    pub(super) ios: Option<Window>,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) client: ClientId,
    /// What waits, per direction.
    pub(super) data: [VecDeque<Request>; 2],
    pub(super) metadata: [VecDeque<Request>; 2],
}

/// What shares a cgroup's capacity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Source {
    Child(CgroupId),
    Client(ClientId),
}

/// Everything that is known at one instant of a replay.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) cgroups: BTreeMap<CgroupId, Cgroup>,
    pub(super) clients: BTreeMap<ClientId, CgroupId>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    /// Every request that ever came, while it waits.
    pub(super) waiting: BTreeMap<RequestId, Request>,
    /// Ids of all requests that ever came.
    pub(super) seen: BTreeMap<RequestId, TaskId>,
}

impl State {
    pub(super) fn new() -> State {
        let root = Cgroup { parent: None, weight: 100, directions: Default::default() };
        State {
            cgroups: BTreeMap::from([(ROOT, root)]),
            clients: BTreeMap::new(),
            tasks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn create(&mut self, cgroup: CgroupId, parent: CgroupId, weight: u64) {
        let directions = Default::default();
        self.cgroups.insert(cgroup, Cgroup { parent: Some(parent), weight, directions });
    }

    pub(super) fn open(&mut self, task: TaskId, client: ClientId, cgroup: CgroupId) {
        self.clients.entry(client).or_insert(cgroup);
        let task_state = Task { client, data: Default::default(), metadata: Default::default() };
        self.tasks.insert(task, task_state);
    }

    pub(super) fn limit(&mut self, now: Nanos, cgroup: CgroupId, rates: [Rates; 2]) {
        let Some(node) = self.cgroups.get_mut(&cgroup) else { return };
        for (direction, rates) in node.directions.iter_mut().zip(rates) {
            direction.meters.change(now, rates);
            let (bytes_over, ios_over) = match rates.limiter {
                Limiter::Pace => {
                    (rates.bytes.map(|rate| rate.tolerance), rates.ios.map(|rate| rate.tolerance))
                }
                Limiter::Bounded { bytes, ios } => (Some(bytes), Some(ios)),
            };
            let window = |rate: Option<super::Rate>, allowance: Option<u64>| {
                Some(Window::new(rate?.per_second, allowance?, now))
            };
            direction.bytes = window(rates.bytes, bytes_over);
            direction.ios = window(rates.ios, ios_over);
        }
    }

    pub(super) fn remove(&mut self, cgroup: CgroupId) {
        let Some(Cgroup { parent: Some(parent), .. }) = self.cgroups.remove(&cgroup) else {
            return;
        };
        for child in self.cgroups.values_mut().filter(|child| child.parent == Some(cgroup)) {
            child.parent = Some(parent);
        }
        for place in self.clients.values_mut().filter(|place| **place == cgroup) {
            *place = parent;
        }
    }

    /// Takes a waiting request out of its queue; answers how many of its kind were before it.
    pub(super) fn take(&mut self, request: &Request) -> Option<usize> {
        self.waiting.remove(&request.id)?;
        let task = self.tasks.get_mut(&request.task)?;
        let queues = if request.metadata { &mut task.metadata } else { &mut task.data };
        let queue = &mut queues[request.direction];
        let place = queue.iter().position(|waiting| waiting.id == request.id)?;
        queue.remove(place);
        Some(place)
    }

    /// The cgroups a task's requests have to pass, its own first.
    pub(super) fn path(&self, task: TaskId) -> Vec<CgroupId> {
        let own = self.tasks.get(&task).and_then(|task| self.clients.get(&task.client));
        own.map_or(Vec::new(), |&own| self.path_from(own))
    }

    fn path_from(&self, cgroup: CgroupId) -> Vec<CgroupId> {
        let up = |at: &CgroupId| self.cgroups.get(at).and_then(|node| node.parent);
        std::iter::successors(Some(cgroup), up).collect()
    }

    pub(super) fn meters(&self, cgroup: CgroupId, direction: usize) -> Meters {
        self.cgroups
            .get(&cgroup)
            .map_or(Meters::default(), |node| node.directions[direction].meters)
    }

    /// When a task's next data request may go as far as limits care; `None` if that cannot be foreseen.
    pub(super) fn ready_at(&self, task: TaskId, direction: usize, now: Nanos) -> Option<Nanos> {
        let ready = |cgroup| self.meters(cgroup, direction).ready_at(now);
        let path = self.path(task).into_iter().map(ready).fold(now, Nanos::max);
        self.is_foreseen(direction).then_some(path)
    }

    /// Whether it is known which waiting requests of this direction may go: all limits are paced ones, and every
    /// request pays both bytes and I/Os, so that a cgroup's next one may go exactly when any of its may.
    pub(super) fn is_foreseen(&self, direction: usize) -> bool {
        let paced = |cgroup: &Cgroup| {
            let rates = cgroup.directions[direction].meters.rates;
            rates.is_unlimited() || rates.limiter == Limiter::Pace
        };
        let pays = |request: &Request| {
            request.direction != direction || (request.bytes > 0 && request.ios > 0)
        };
        self.cgroups.values().all(paced) && self.waiting.values().all(pays)
    }

    /// The limits by which `cgroup` measures what its sources take: its own, or those of the nearest ancestor.
    pub(super) fn measure(&self, cgroup: CgroupId, direction: usize) -> Option<Rates> {
        let rates = |at: CgroupId| self.meters(at, direction).rates;
        self.path_from(cgroup).into_iter().map(rates).find(|rates| !rates.is_unlimited())
    }

    /// For each cgroup, the sources that wait and may go as far as limits below it care; and for each client, the
    /// tasks that wait.
    pub(super) fn sources(&self, direction: usize, now: Nanos) -> Waiting {
        let mut waiting = Waiting::default();
        for request in self.waiting.values() {
            if request.metadata || request.direction != direction {
                continue;
            }
            let Some(client) = self.tasks.get(&request.task).map(|task| task.client) else {
                continue;
            };
            let turns = waiting.turns.entry(client).or_default();
            if !turns.contains(&request.task) {
                turns.push(request.task);
            }
            let mut source = Source::Client(client);
            let mut at = self.clients.get(&client).copied();
            while let Some(cgroup) = at {
                let sources = waiting.sources.entry(cgroup).or_default();
                if sources.contains(&source) {
                    break;
                }
                sources.push(source);
                if self.meters(cgroup, direction).ready_at(now) > now {
                    break;
                }
                source = Source::Child(cgroup);
                at = self.cgroups.get(&cgroup).and_then(|node| node.parent);
            }
        }
        waiting
    }
}

/// Who waits in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) sources: BTreeMap<CgroupId, Vec<Source>>,
    pub(super) turns: BTreeMap<ClientId, Vec<TaskId>>,
}
