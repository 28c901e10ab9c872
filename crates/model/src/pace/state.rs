//! Hierarchy during a replay: cgroups with their levels, tasks with their requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::log::Request;
use super::meter::{Limiter, Meters, Rates};
use super::window::Window;
use super::{CgroupId, ClientId, Nanos, ROOT, RequestId, TaskId};

#[derive(Clone, Debug)]
pub(super) struct Cgroup {
    pub(super) parent: Option<CgroupId>,
    pub(super) weight: u64,
    /// For reads, for writes, and for both together.
    pub(super) budgets: [Budget; 3],
}

/// The place of the budget for both directions.
pub(super) const JOINT: usize = 2;

/// Limits of one cgroup.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    pub(super) meters: Meters,
    pub(super) bytes: Option<Window>,
    pub(super) ios: Option<Window>,
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) client: ClientId,
    /// Waiting requests, per direction.
    pub(super) data: [VecDeque<Request>; 2],
    pub(super) metadata: [VecDeque<Request>; 2],
}

/// Source of a cgroup's fair queue.
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
    /// Those of them that some limiter other than the paced one may have taken out of turn before it was replaced.
    strays: BTreeSet<RequestId>,
    /// Ids of all requests that ever came.
    pub(super) seen: BTreeMap<RequestId, TaskId>,
}

impl Cgroup {
    fn is_paced(&self, budget: usize) -> bool {
        let rates = self.budgets[budget].meters.rates;
        rates.is_unlimited() || rates.limiter == Limiter::Pace
    }

    /// The budgets that a request of `direction` is charged to.
    pub(super) fn budgets_of(&mut self, direction: usize) -> impl Iterator<Item = &mut Budget> {
        let places = self.budgets.iter_mut().enumerate();
        places
            .filter(move |(place, _)| [direction, JOINT].contains(place))
            .map(|(_, budget)| budget)
    }
}

impl State {
    pub(super) fn new() -> State {
        let root = Cgroup { parent: None, weight: 100, budgets: Default::default() };
        State {
            cgroups: BTreeMap::from([(ROOT, root)]),
            clients: BTreeMap::new(),
            tasks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            strays: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    pub(super) fn create(&mut self, cgroup: CgroupId, parent: CgroupId, weight: u64) {
        let budgets = Default::default();
        self.cgroups.insert(cgroup, Cgroup { parent: Some(parent), weight, budgets });
    }

    pub(super) fn open(&mut self, task: TaskId, client: ClientId, cgroup: CgroupId) {
        self.clients.entry(client).or_insert(cgroup);
        let task_state = Task { client, data: Default::default(), metadata: Default::default() };
        self.tasks.insert(task, task_state);
    }

    /// Requests may have gone out of turn, unless all limits are paced.
    pub(super) fn note_strays(&mut self) {
        if !self.cgroups.values().all(|cgroup| (0..3).all(|budget| cgroup.is_paced(budget))) {
            self.strays.extend(self.waiting.keys());
        }
    }

    pub(super) fn limit(&mut self, now: Nanos, cgroup: CgroupId, rates: [Rates; 3]) {
        self.note_strays();
        let Some(node) = self.cgroups.get_mut(&cgroup) else { return };
        for (budget, rates) in node.budgets.iter_mut().zip(rates) {
            budget.meters.change(now, rates);
            let (bytes_over, ios_over) = match rates.limiter {
                Limiter::Pace => {
                    (rates.bytes.map(|rate| rate.tolerance), rates.ios.map(|rate| rate.tolerance))
                }
                Limiter::Bounded { bytes, ios } => (Some(bytes), Some(ios)),
            };
            let window = |rate: Option<super::Rate>, allowance: Option<u64>| {
                Some(Window::new(rate?.per_second, allowance?, now))
            };
            budget.bytes = window(rates.bytes, bytes_over);
            budget.ios = window(rates.ios, ios_over);
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
        self.strays.remove(&request.id);
        let task = self.tasks.get_mut(&request.task)?;
        let queues = if request.metadata { &mut task.metadata } else { &mut task.data };
        let queue = &mut queues[request.direction];
        let place = queue.iter().position(|waiting| waiting.id == request.id)?;
        queue.remove(place);
        Some(place)
    }

    /// Whether some limiter other than the paced one may have taken it out of turn.
    pub(super) fn is_stray(&self, id: RequestId) -> bool {
        self.strays.contains(&id)
    }

    /// Notes a part payment of a waiting request; returns how many of its kind were before it.
    pub(super) fn pay(&mut self, id: RequestId, part: (u64, u64)) -> Option<usize> {
        let left = self.waiting.get(&id)?.after(part);
        self.waiting.insert(id, left);
        let queue = &mut self.tasks.get_mut(&left.task)?.data[left.direction];
        let place = queue.iter().position(|waiting| waiting.id == id)?;
        queue[place] = left;
        Some(place)
    }

    /// Next payment of a waiting request, in bytes and I/Os: its debt, or the smallest instalment of its limits.
    pub(super) fn instalment(&self, request: &Request) -> (u64, u64) {
        let all = (request.bytes, request.ios);
        if request.metadata {
            return all;
        }
        let (mut bytes, mut ios) = all;
        for at in self.path(request.task) {
            for rates in self.meters(at, request.direction).map(|meters| meters.rates) {
                if rates.whole && !rates.is_unlimited() {
                    return all;
                }
                bytes = bytes.min(rates.bytes.map_or(bytes, |rate| rate.instalment));
                ios = ios.min(rates.ios.map_or(ios, |rate| rate.instalment));
            }
        }
        (bytes, ios)
    }

    /// The path of a task's requests, its own cgroup first.
    pub(super) fn path(&self, task: TaskId) -> Vec<CgroupId> {
        let own = self.tasks.get(&task).and_then(|task| self.clients.get(&task.client));
        own.map_or(Vec::new(), |&own| self.path_from(own))
    }

    fn path_from(&self, cgroup: CgroupId) -> Vec<CgroupId> {
        let up = |at: &CgroupId| self.cgroups.get(at).and_then(|node| node.parent);
        std::iter::successors(Some(cgroup), up).collect()
    }

    /// Limits of a request of `direction` at `cgroup`: those of the direction, and the total ones.
    pub(super) fn meters(&self, cgroup: CgroupId, direction: usize) -> [Meters; 2] {
        let meters = |budget: usize| {
            self.cgroups.get(&cgroup).map_or(Meters::default(), |node| node.budgets[budget].meters)
        };
        [meters(direction), meters(JOINT)]
    }

    /// The first instant, not before `now`, at which a request may pass the limits of `cgroup`.
    pub(super) fn passes_at(&self, cgroup: CgroupId, direction: usize, now: Nanos) -> Nanos {
        self.meters(cgroup, direction)
            .iter()
            .map(|meters| meters.ready_at(now))
            .fold(now, Nanos::max)
    }

    /// When a task's next data request may go as far as limits care; `None` if that is not predictable.
    pub(super) fn ready_at(&self, task: TaskId, direction: usize, now: Nanos) -> Option<Nanos> {
        let ready = |cgroup| self.passes_at(cgroup, direction, now);
        let path = self.path(task).into_iter().map(ready).fold(now, Nanos::max);
        self.is_predictable(direction, now).then_some(path)
    }

    /// Whether it is known which waiting requests of this direction may go: all limits are paced ones, and were since the
    /// oldest came, and every request pays what is limited, bytes and I/Os, so that a cgroup's next one may go exactly when any of its
    /// may.
    pub(super) fn is_predictable(&self, direction: usize, now: Nanos) -> bool {
        let is_paced = |cgroup: &Cgroup| {
            [direction, JOINT].into_iter().all(|budget| {
                cgroup.is_paced(budget) && cgroup.budgets[budget].meters.is_certain(now)
            })
        };
        let pays = |request: &Request| {
            let path = self.path(request.task).into_iter();
            let mut rates =
                path.flat_map(|at| self.meters(at, direction)).map(|meters| meters.rates);
            request.direction != direction
                || rates.all(|rates| {
                    (request.bytes > 0 || rates.bytes.is_none())
                        && (request.ios > 0 || rates.ios.is_none())
                })
        };
        self.strays.is_empty()
            && self.cgroups.values().all(is_paced)
            && self.waiting.values().all(pays)
    }

    /// The limits by which `cgroup` measures what its sources take: its own, or those of the nearest ancestor.
    pub(super) fn measure(&self, cgroup: CgroupId, direction: usize) -> Option<Measure> {
        let rates = |at: CgroupId| Measure(self.meters(at, direction).map(|meters| meters.rates));
        self.path_from(cgroup).into_iter().map(rates).find(|measure| !measure.is_unlimited())
    }

    /// The time that an instalment of `bytes` and no I/Os takes of the nearest limit that it has something to pay to.
    pub(super) fn time_above(&self, cgroup: CgroupId, direction: usize, bytes: u64) -> i128 {
        let time = |at: CgroupId| {
            Measure(self.meters(at, direction).map(|meters| meters.rates)).time(bytes, 0)
        };
        self.path_from(cgroup).into_iter().map(time).find(|&time| time > 0).unwrap_or(0)
    }

    /// The limits of a cgroup on both directions together.
    pub(super) fn rw_limit(&self, cgroup: CgroupId) -> Meters {
        self.meters(cgroup, 0)[1]
    }

    /// Cgroups in which reads and writes wait for a limit on both together, or would but for that they may go now; and for
    /// nothing else: not for limits on one direction, nor for any above. None where that is not known.
    pub(super) fn rw_waits(&self, waiting: [&Waiting; 2], now: Nanos) -> Vec<CgroupId> {
        let waits = |at: CgroupId, direction: usize| {
            let waits = waiting[direction].sources.get(&at).is_some_and(|all| !all.is_empty());
            let own = self.meters(at, direction)[0].ready_at(now) <= now;
            let mut above = self.path_from(at).into_iter().skip(1);
            waits && own && above.all(|above| self.passes_at(above, direction, now) <= now)
        };
        let is_known = self.is_predictable(0, now) && self.is_predictable(1, now);
        let all = self.cgroups.keys().copied().filter(|_| is_known);
        let rw_limit = all.filter(|&at| !self.rw_limit(at).rates.is_unlimited());
        rw_limit.filter(|&at| waits(at, 0) && waits(at, 1)).collect()
    }

    /// The weights of all `those` that wait at `cgroup`, together.
    pub(super) fn weight(
        &self,
        waiting: &Waiting,
        cgroup: CgroupId,
        those: impl Fn(Source) -> bool,
    ) -> u64 {
        let weight = |source: &Source| match source {
            source if !those(*source) => 0,
            Source::Client(_) => super::CLIENT_WEIGHT,
            Source::Child(child) => self.cgroups.get(child).map_or(1, |node| node.weight),
        };
        waiting.sources.get(&cgroup).map_or(1, |all| all.iter().map(weight).sum::<u64>().max(1))
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
                if self.passes_at(cgroup, direction, now) > now {
                    break;
                }
                source = Source::Child(cgroup);
                at = self.cgroups.get(&cgroup).and_then(|node| node.parent);
            }
        }
        waiting
    }
}

/// The limits by which service is measured: those of a direction, and those of both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure([Rates; 2]);

impl Measure {
    pub(super) fn is_unlimited(&self) -> bool {
        self.0.iter().all(Rates::is_unlimited)
    }

    /// The time a request takes of these limits, in picoseconds: the longest of all.
    pub(super) fn time(&self, bytes: u64, ios: u64) -> i128 {
        let [own, both] = self.0.map(|rates| rates.time(bytes, ios));
        own.max(both)
    }
}

/// Waiting requests of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) sources: BTreeMap<CgroupId, Vec<Source>>,
    pub(super) turns: BTreeMap<ClientId, Vec<TaskId>>,
}

impl Waiting {
    /// Whether `source` waits at `cgroup`.
    pub(super) fn has(&self, cgroup: CgroupId, source: Source) -> bool {
        self.sources.get(&cgroup).is_some_and(|all| all.contains(&source))
    }
}
