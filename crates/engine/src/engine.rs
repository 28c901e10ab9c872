//! Engine: calls in, answers out.

use alloc::string::String;
use alloc::vec::Vec;

use crate::config::{Change, Config};
use crate::core::Core;
use crate::error::{ChangeError, CreateError, OpenError, SubmitError};
use crate::event::Event;
use crate::requests::{Arriving, Record, Stage};
use crate::stats::Charge;
use crate::structure::{Structure, structure};
use crate::throttle::Admission;
use crate::tree::{Cgroup, Client, NO_INDEX, Path, ROOT, Task, check_name};
use crate::types::{
    CgroupId, Class, ClientId, Dispatch, Instant, Lease, Limits, LowLatency, Outcome, PrioClass,
    Request, RequestId, TaskId, Ticket, Watermark, Weight,
};

/// Throttle and scheduler of one device, without I/O, clock or threads. See the [crate] for a picture and an example.
///
/// The caller tells what happened and when (`submit`, `complete`, `handle_timeout`, …), then asks until the answer is
/// `None` (`poll_dispatch`, `poll_event`), then waits for input, but not past `poll_timeout`. Waking early or twice is
/// harmless. `now` never goes back; an instant before the last one given is taken as that one.
pub struct Engine {
    pub(crate) core: Core,
    pub(crate) now: Instant,
}

impl Engine {
    /// An engine with nothing but the root cgroup, at `now`.
    pub fn new(config: Config, now: Instant) -> Engine {
        Engine { core: Core::new(config, now), now }
    }

    // The tree.

    /// The cgroup that holds all others.
    pub fn root(&self) -> CgroupId {
        self.core.tree.id(ROOT)
    }

    /// Creates a cgroup without limits. O(log cgroups).
    ///
    /// # Errors
    /// The parent is gone, has a child of that name, or the name cannot be one.
    pub fn create_cgroup(&mut self, parent: CgroupId, name: &str) -> Result<CgroupId, CreateError> {
        check_name(name)?;
        let parent = self.live_cgroup(parent).ok_or(CreateError::UnknownParent)?;
        let tree = &mut self.core.tree;
        if tree.child(parent, name).is_some() {
            return Err(CreateError::Exists);
        }
        let cgroup = Cgroup::new(parent, tree.cgroups[parent].depth + 1, name.into());
        let (index, generation) = tree.cgroups.insert(cgroup);
        tree.add_child(parent, index);
        self.core.throttle.add_cgroup(index, parent);
        self.core.accounts.add_cgroup(index);
        let cgroup = CgroupId { index, generation };
        self.core.events.push_back(Event::CgroupChanged(cgroup));
        Ok(cgroup)
    }

    /// The cgroup at `path`, created with its parents where they do not exist.
    ///
    /// # Errors
    /// None that a valid [`Path`] could cause; the type is [`Engine::create_cgroup`]'s.
    pub fn ensure_cgroup(&mut self, path: &Path) -> Result<CgroupId, CreateError> {
        let mut at = self.root();
        for name in path.names() {
            at = match self.core.tree.child(at.index, name) {
                Some(child) => self.core.tree.id(child),
                None => self.create_cgroup(at, name)?,
            };
        }
        Ok(at)
    }

    /// The cgroup at `path`. O(depth × log cgroups).
    pub fn find_cgroup(&self, path: &Path) -> Option<CgroupId> {
        self.core.tree.find(path).map(|index| self.core.tree.id(index))
    }

    /// Number of cgroups, with the root and removed cgroups that still have clients. O(1).
    pub fn cgroup_count(&self) -> u32 {
        self.core.tree.cgroups.len()
    }

    /// How many cgroups [`Engine::ensure_cgroup`] would create. O(depth × log cgroups).
    pub fn missing_cgroups(&self, path: &Path) -> usize {
        let mut names = path.names();
        let mut at = self.root().index;
        let mut missing = 0;
        for name in names.by_ref() {
            match self.core.tree.child(at, name) {
                Some(child) => at = child,
                None => {
                    missing = 1;
                    break;
                }
            }
        }
        missing + names.count()
    }

    /// Levels of cgroups below `cgroup`: 0 where it has no children. O(cgroups below it).
    pub fn levels_below(&self, cgroup: CgroupId) -> u32 {
        let Some(top) = self.live_cgroup(cgroup) else { return 0 };
        let cgroups = &self.core.tree.cgroups;
        let depths = self.core.tree.subtree(top).into_iter().map(|at| cgroups[at].depth);
        depths.max().map_or(0, |deepest| deepest - cgroups[top].depth)
    }

    /// The path of a cgroup; `None` once it has been removed, even while it still has clients.
    pub fn cgroup_path(&self, cgroup: CgroupId) -> Option<String> {
        let mut at = self.live_cgroup(cgroup)?;
        let mut names = Vec::new();
        while at != ROOT {
            let node = &self.core.tree.cgroups[at];
            names.push(&*node.name);
            at = node.parent;
        }
        names.reverse();
        Some(alloc::format!("/{}", names.join("/")))
    }

    /// The cgroup that has `cgroup` as a child, which may have been removed and have clients still; `None` for the root.
    pub fn parent(&self, cgroup: CgroupId) -> Option<CgroupId> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        (index != ROOT).then(|| self.core.tree.id(self.core.tree.cgroups[index].parent))
    }

    /// Its name in the cgroup above it; empty for the root, and `None` once it is gone.
    pub fn cgroup_name(&self, cgroup: CgroupId) -> Option<&str> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        Some(&self.core.tree.cgroups[index].name)
    }

    /// The child cgroups of a cgroup, by name; removed ones are left out.
    pub fn children(&self, cgroup: CgroupId) -> Vec<CgroupId> {
        let Some(index) = self.core.tree.cgroup_index(cgroup) else { return Vec::new() };
        let tree = &self.core.tree;
        let children = tree.cgroups[index].children();
        children.filter(|&child| !tree.cgroups[child].dying).map(|child| tree.id(child)).collect()
    }

    /// The limits of a cgroup.
    pub fn limits(&self, cgroup: CgroupId) -> Option<Limits> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        Some(self.core.throttle.limits(index))
    }

    /// When the limits of a cgroup end, if they do. O(log leases).
    pub fn lease(&self, cgroup: CgroupId) -> Option<Lease> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        self.core.throttle.lease(index)
    }

    /// The weight of a cgroup.
    pub fn weight(&self, cgroup: CgroupId) -> Option<Weight> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        Some(self.core.tree.cgroups[index].weight)
    }

    /// Priority class policy of a cgroup.
    pub fn prio_class(&self, cgroup: CgroupId) -> Option<PrioClass> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        Some(self.core.tree.cgroups[index].prio_class)
    }

    /// Policy set with [`Change::SetLowLatency`] for the cgroup itself.
    pub fn low_latency(&self, cgroup: CgroupId) -> Option<LowLatency> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        self.core.tree.cgroups[index].low_latency
    }

    /// The watermark that is set for a cgroup itself, rather than above it.
    pub fn watermark(&self, cgroup: CgroupId) -> Option<Watermark> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        self.core.throttle.watermark(index)
    }

    /// Configuration, cgroups, clients and tasks, for an engine like this one without its history. O(all of them).
    pub fn structure(&self) -> Structure {
        structure(&self.core)
    }

    /// Opens a client: one share of `cgroup`, for any number of tasks.
    ///
    /// # Errors
    /// The cgroup has been removed.
    pub fn open_client(&mut self, cgroup: CgroupId) -> Result<ClientId, OpenError> {
        let cgroup = self.live_cgroup(cgroup).ok_or(OpenError::UnknownCgroup)?;
        let (index, generation) = self.core.tree.clients.insert(Client::new(cgroup));
        self.core.throttle.add_client(index);
        self.core.tree.cgroups[cgroup].clients += 1;
        Ok(ClientId { index, generation })
    }

    /// Opens a task of `client`: one flow of requests, which pass limits in order within each direction.
    ///
    /// # Errors
    /// The client has been closed.
    pub fn open_task(&mut self, client: ClientId) -> Result<TaskId, OpenError> {
        let index = self.core.tree.client_index(client).ok_or(OpenError::UnknownClient)?;
        let client = &mut self.core.tree.clients[index];
        if client.closing {
            return Err(OpenError::UnknownClient);
        }
        client.tasks += 1;
        let (index, generation) = self.core.tree.tasks.insert(Task::new(index, client.cgroup));
        self.core.throttle.add_task(index);
        Ok(TaskId { index, generation })
    }

    /// Whether a client is there, closed or not. O(1).
    pub fn has_client(&self, client: ClientId) -> bool {
        self.core.tree.client_index(client).is_some()
    }

    /// Closes a task to new requests. Those inside go on, or are removed with [`Engine::withdraw_next`]. The id is
    /// stale once the last is gone. Closing twice does nothing.
    pub fn close_task(&mut self, task: TaskId) {
        if let Some(index) = self.core.tree.task_index(task) {
            self.core.tree.tasks[index].closing = true;
            self.release_task(index);
        }
    }

    /// Closes a client to new tasks; it goes with its last task. Closing twice does nothing.
    pub fn close_client(&mut self, client: ClientId) {
        if let Some(index) = self.core.tree.client_index(client) {
            self.core.tree.clients[index].closing = true;
            self.release_client(index);
        }
    }

    // In: what happened, and when.

    /// Submits a request. If no limit and no earlier request holds it, the next [`Engine::poll_dispatch`] may return
    /// it: O(limited ancestors). Otherwise it waits: O(depth × log sources).
    ///
    /// # Errors
    /// A full queue is an answer, not a wait: try again after a completion.
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<RequestId, SubmitError> {
        let now = self.advance(now);
        let core = &mut self.core;
        let task = core.tree.task_index(request.task).ok_or(SubmitError::UnknownTask)?;
        let flow = &mut core.tree.tasks[task];
        let held_max = core.config.requests_per_task_max.get();
        if flow.closing {
            return Err(SubmitError::UnknownTask);
        }
        if flow.held >= held_max {
            return Err(SubmitError::TaskFull { held: flow.held, held_max });
        }
        let held_max = core.config.requests_max.get();
        if core.requests.len() >= held_max {
            return Err(SubmitError::EngineFull { held: core.requests.len(), held_max });
        }
        flow.held += 1;
        let cost = core.config.prices.cost(&request);
        let id = core.requests.insert(now, &request, cost);
        let (throttle, mut cx) = core.throttle(now);
        if throttle.admit(&mut cx, &request, task, cost, id.index) == Admission::Admitted {
            let cgroup = core.tree.tasks[task].cgroup;
            core.schedule(now, request, task, cgroup, id.index, cost, 0);
        } else {
            let cgroup = core.tree.tasks[task].cgroup;
            core.account(cgroup);
        }
        core.schedule_ready(now);
        Ok(id)
    }

    /// Completes what was dispatched. False after a piece of a longer request (see [`Config::piece_bytes_max`]): its
    /// next piece is dispatched in turn, with the same id and tag. A failed piece is the last.
    ///
    /// # Panics
    /// The ticket is of another engine.
    pub fn complete(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) -> bool {
        let now = self.advance(now);
        let core = &mut self.core;
        let index = core.requests.index(ticket.id()).expect("a ticket of this engine");
        let record = &core.requests[index];
        if outcome == Outcome::Done && record.cut.is_some_and(|cut| cut.left > 0) {
            self.next_piece(now, index);
            return false;
        }
        let &Record { since, is_joined, .. } = record;
        let task = record.task();
        let has_waited = record.inside_ns(since) > 0;
        let whole_ns = has_waited.then(|| record.inside_ns(now));
        let (direction, cost) = (record.request.op.direction(), record.cost);
        let data_len = record.request.data_len();
        core.requests.free(index);
        core.in_flight -= 1;
        core.joined -= u32::from(is_joined);
        if core.in_flight == 0 {
            core.busy_ns += now.nanos_since(core.busy_since);
        }
        core.scheduler.complete(now, &core.tree, &core.requests, index, data_len);
        let of = &mut core.tree.tasks[task];
        of.held -= 1;
        let (cgroup, is_closing) = (of.cgroup, of.closing);
        let account = core.account(cgroup);
        let device_ns = now.nanos_since(since);
        account.completed(direction, device_ns, whole_ns);
        if outcome == Outcome::Failed {
            account.failed();
        }
        // A device with a model has other requests meanwhile.
        if core.throttle.is_steered() && core.in_flight == 0 && core.modelled.is_none() {
            let (throttle, mut cx) = core.throttle(now);
            throttle.anticipate(&mut cx, cgroup, direction, cost);
        }
        if is_closing {
            self.release_task(task);
        }
        true
    }

    /// Makes an asynchronous request synchronous, because something waits for it: a scheduler then prefers it. `false`
    /// if it is at the device or not inside.
    ///
    /// Past every limit it joins `task` and its client's flow, if that task is of the same cgroup. Before a limit it
    /// keeps its place and task, unless `class` is [`Class::Owed`]: then it passes all limits now, as debt. Allocates
    /// nothing; O(log requests of a flow), or O(depth × log sources) where it passes limits.
    pub fn promote(&mut self, now: Instant, id: RequestId, task: TaskId, class: Class) -> bool {
        let now = self.advance(now);
        let core = &mut self.core;
        let Some(index) = core.requests.index(id) else { return false };
        if core.requests[index].stage == Stage::Dispatched {
            return false;
        }
        core.requests[index].request.sync |= core.requests[index].stage != Stage::Ready;
        if class == Class::Owed {
            let (throttle, mut cx) = core.throttle(now);
            throttle.pass_as_debt(&mut cx, index);
            core.schedule_ready(now);
        }
        let (from, stage) = (core.requests[index].task(), core.requests[index].stage);
        let tasks = &core.tree.tasks;
        let to = core.tree.task_index(task).filter(|&to| tasks[to].cgroup == tasks[from].cgroup);
        let to = to.unwrap_or(from);
        let is_sync = core.requests[index].request.sync;
        if stage == Stage::Ready && (to != from || !is_sync) {
            // Flows order requests by age, so its age restarts; the time so far was a wait for room.
            let record = &mut core.requests[index];
            let waited = now.nanos_since(core::mem::replace(&mut record.since, now));
            let direction = record.request.op.direction();
            let cgroup = core.tree.tasks[from].cgroup;
            core.account(cgroup).waited_for_room(direction, waited);
            let to_task = if to != from { task } else { core.requests[index].request.task };
            core.scheduler.promote(now, &mut core.tree, &mut core.requests, index, to_task);
            core.tree.tasks[to].held += 1;
            self.release_request(from);
        }
        self.core.throttle.settle_deadlines();
        true
    }

    /// Removes a request that has not been dispatched; `None` if it has been, or is not inside. Between two pieces,
    /// the rest is removed.
    pub fn withdraw(&mut self, now: Instant, id: RequestId) -> Option<Request> {
        let now = self.advance(now);
        let index = self.core.requests.index(id)?;
        if self.core.requests[index].stage == Stage::Dispatched {
            return None;
        }
        self.core.withdraw(now, index);
        self.core.throttle.settle_deadlines();
        let record = self.core.requests.remove(index);
        self.release_request(record.task());
        Some(record.uncut())
    }

    /// Price that a request still owes to limits; `None` past them or outside. Less than its price after instalments.
    /// O(1).
    pub fn owed(&self, id: RequestId) -> Option<Charge> {
        let record = &self.core.requests[self.core.requests.index(id)?];
        let mut owed = Charge::default();
        owed.add(record.cost);
        (record.stage == Stage::Waiting).then_some(owed)
    }

    /// Removes one request of `task` that has not been dispatched; `None` if there is none.
    ///
    /// O(1), or O(requests inside) for those dispatched to a parent cgroup by limits of the slice kind.
    pub fn withdraw_next(&mut self, now: Instant, task: TaskId) -> Option<Request> {
        let next = self.next_to_withdraw(task)?;
        self.withdraw(now, next)
    }

    /// The request that [`Engine::withdraw_next`] would remove; at the same cost.
    pub fn next_to_withdraw(&mut self, task: TaskId) -> Option<RequestId> {
        let index = self.core.tree.task_index(task)?;
        let Core { scheduler, tree, requests, .. } = &mut self.core;
        scheduler.spill_fast_path(tree, requests);
        let ready = self.core.tree.tasks[index].ready.head;
        let waiting = self.core.throttle.waiting(index);
        let found = waiting.or_else(|| (ready != NO_INDEX).then_some(ready)).or_else(|| {
            let mut requests = self.core.requests.iter();
            let held = requests.find(|(_, record)| {
                record.task() == index && matches!(record.stage, Stage::DispatchedToParent(_))
            });
            held.map(|(found, _)| found)
        })?;
        Some(self.core.requests.id(found))
    }

    /// Changes limits, weights or the tree while requests may be queued.
    ///
    /// # Errors
    /// [`ChangeError`] says what is wrong; nothing has changed then.
    pub fn reconfigure(&mut self, now: Instant, change: Change) -> Result<(), ChangeError> {
        let now = self.advance(now);
        let was_steered = self.core.throttle.is_steered();
        let find = |cgroup| self.live_cgroup(cgroup).ok_or(ChangeError::UnknownCgroup);
        let changed = change.cgroup();
        match change {
            Change::SetLimits { cgroup, limits } => {
                let cgroup = find(cgroup)?;
                limits.validate()?;
                let (throttle, mut cx) = self.core.throttle(now);
                throttle.set_limits(&mut cx, cgroup, limits);
                throttle.set_lease(cgroup, None);
            }
            Change::LeaseLimits { cgroup, limits, until, then } => {
                let cgroup = find(cgroup)?;
                limits.validate()?;
                then.validate()?;
                let lease = (until > now).then_some(Lease { until, then });
                let limits = if lease.is_some() { limits } else { then };
                let (throttle, mut cx) = self.core.throttle(now);
                throttle.set_limits(&mut cx, cgroup, limits);
                throttle.set_lease(cgroup, lease);
            }
            Change::SetWeight { cgroup, weight } => {
                let cgroup = find(cgroup)?;
                self.core.set_weight(cgroup, weight);
            }
            Change::Move { cgroup, parent } => {
                let (cgroup, parent) = (find(cgroup)?, find(parent)?);
                let tree = &self.core.tree;
                if cgroup == ROOT {
                    return Err(ChangeError::Root);
                }
                if tree.is_within(parent, cgroup) {
                    return Err(ChangeError::MoveBelowItself);
                }
                if tree.cgroups[cgroup].parent == parent {
                    return Ok(());
                }
                if tree.child(parent, &tree.cgroups[cgroup].name).is_some() {
                    return Err(ChangeError::NameTaken);
                }
                self.core.move_cgroup(now, cgroup, parent);
            }
            Change::Remove { cgroup } => {
                let cgroup = find(cgroup)?;
                if cgroup == ROOT {
                    return Err(ChangeError::Root);
                }
                let children = self.core.tree.cgroups[cgroup].children.as_ref();
                let children = children.map_or(0, |children| children.named() as u32);
                if children > 0 {
                    return Err(ChangeError::HasChildren { children });
                }
                self.core.remove_cgroup(cgroup);
            }
            Change::SetScheduler(kind) => self.core.set_scheduler(now, kind),
            Change::SetBfq(settings) => self.core.set_bfq(settings)?,
            Change::SetDepth(depth) => {
                self.core.config.depth = depth;
                self.core.scheduler.set_depth(depth);
            }
            Change::SetPriority { client, priority } => {
                let client = self.core.tree.client_index(client);
                let client = client.ok_or(ChangeError::UnknownClient)?;
                self.core.tree.clients[client].priority = priority;
                self.core.scheduler.reprioritize(&self.core.tree, client);
            }
            Change::SetLowLatency { cgroup, low_latency } => {
                let cgroup = find(cgroup)?;
                self.core.tree.cgroups[cgroup].low_latency = low_latency;
                self.core.tree.has_low_latency |= low_latency.is_some();
                self.core.scheduler.review_policies(now, &self.core.tree);
            }
            Change::SetClientLowLatency { client, low_latency } => {
                let client = self.core.tree.client_index(client);
                let client = client.ok_or(ChangeError::UnknownClient)?;
                self.core.tree.clients[client].low_latency = low_latency;
                self.core.tree.has_low_latency |= low_latency.is_some();
                self.core.scheduler.review_policies(now, &self.core.tree);
            }
            Change::SetWatermark { cgroup, watermark } => {
                let cgroup = find(cgroup)?;
                let (throttle, mut cx) = self.core.throttle(now);
                if !throttle.set_watermark(&mut cx, cgroup, watermark) {
                    return Err(ChangeError::TooManyWatermarks);
                }
            }
            Change::SetPrioClass { cgroup, prio_class } => {
                let cgroup = find(cgroup)?;
                self.core.set_prio_class(cgroup, prio_class);
            }
        }
        if self.core.throttle.is_steered()
            && !was_steered
            && let Some(modelled) = &mut self.core.modelled
        {
            modelled.begin(now);
        }
        self.core.throttle.review_time_tracking();
        self.core.schedule_ready(now);
        self.core.throttle.settle_deadlines();
        self.core.events.extend(changed.map(Event::CgroupChanged));
        Ok(())
    }

    /// Applies deadlines that have come by `now`.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        let core = &mut self.core;
        core.apply_deadlines(now);
        if core.throttle.is_steered() {
            core.advance_virtual_clocks(now);
        }
        core.scheduler.handle_timeout(now, &core.tree, &core.requests);
    }

    // Out: ask until it answers None.

    /// The next request for the device, while the device window has room.
    #[inline]
    pub fn poll_dispatch(&mut self, now: Instant) -> Option<Dispatch> {
        let now = self.advance(now);
        let core = &mut self.core;
        core.room().checked_sub(1)?;
        let index = core.scheduler.next(now, &mut core.tree, &mut core.requests)?;
        Some(self.mark_dispatched(now, index))
    }

    /// Returns the next request contiguous with the last dispatch: same flow, same operation, data. Both are one
    /// command for the device and count as one in the device window; each is completed by itself, in any order. `None`
    /// at the end of the run.
    ///
    /// For devices that prefer few large requests: call it after each dispatch, before any other call, until `None`.
    /// Without these calls each request comes from [`Engine::poll_dispatch`]. Requests are joined only as far as
    /// needed to bring all that waits to the device, up to 512 KiB, and only by BFQ.
    #[inline]
    pub fn poll_joined(&mut self, now: Instant) -> Option<Dispatch> {
        let now = self.advance(now);
        if !self.core.scheduler.coalesces() {
            return None;
        }
        self.next_joined(now)
    }

    fn next_joined(&mut self, now: Instant) -> Option<Dispatch> {
        let core = &mut self.core;
        let room = core.room();
        let index = core.scheduler.next_coalesced(now, room, &mut core.tree, &mut core.requests)?;
        core.requests[index].is_joined = true;
        core.joined += 1;
        Some(self.mark_dispatched(now, index))
    }

    /// Marks a request as dispatched.
    // Inlined into both callers.
    #[inline(always)]
    fn mark_dispatched(&mut self, now: Instant, index: u32) -> Dispatch {
        let core = &mut self.core;
        let (id, record) = core.requests.entry_mut(index);
        record.stage = Stage::Dispatched;
        let waited = now.nanos_since(core::mem::replace(&mut record.since, now));
        let (request, task) = (&record.request, record.task());
        let d = request.op.direction().index();
        match &mut record.cut {
            None => {
                core.audit.ready[d].subtract(record.cost);
                core.audit.dispatched[d].add(core.config.prices.cost(request));
            }
            Some(cut) if cut.has_begun => {}
            Some(cut) => {
                cut.has_begun = true;
                let whole = record.uncut();
                core.audit.ready[d].subtract(record.cost);
                core.audit.dispatched[d].add(core.config.prices.cost(&whole));
            }
        }
        let request = *request;
        // Most have not waited, and the account may be far away in memory.
        if waited > 0 {
            let cgroup = core.tree.tasks[task].cgroup;
            core.account(cgroup).waited_for_room(request.op.direction(), waited);
        }
        if core.in_flight == 0 {
            core.busy_since = now;
        }
        core.in_flight += 1;
        if let Some(modelled) = &mut core.modelled {
            let price_ns = modelled.take(now, &request);
            let cgroup = core.tree.tasks[task].cgroup;
            core.account(cgroup).took_of_device(price_ns);
        }
        Dispatch { ticket: Ticket::of(id), request }
    }

    /// Completes a piece of a request, and queues the next one.
    #[cold]
    fn next_piece(&mut self, now: Instant, index: u32) {
        let core = &mut self.core;
        let record = &mut core.requests[index];
        let data_len = record.request.data_len();
        let device_ns = now.nanos_since(core::mem::replace(&mut record.since, now));
        let is_joined = core::mem::take(&mut record.is_joined);
        let (op, task) = (record.request.op, record.task());
        core.in_flight -= 1;
        core.joined -= u32::from(is_joined);
        if core.in_flight == 0 {
            core.busy_ns += now.nanos_since(core.busy_since);
        }
        let cgroup = core.tree.tasks[task].cgroup;
        core.account(cgroup).piece_completed(op.direction(), device_ns);
        core.scheduler.complete(now, &core.tree, &core.requests, index, data_len);
        let record = &mut core.requests[index];
        record.stage = Stage::Ready;
        record.next_piece(core.config.longest_piece(op));
        let request = record.request;
        let arriving = Arriving { request: &request, task, index };
        core.scheduler.insert(now, &mut core.tree, &mut core.requests, arriving);
    }

    /// The next event, oldest first.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// When to call [`Engine::handle_timeout`] next; `None`: nothing happens before the next input.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let core = &self.core;
        let earliest = core.throttle.next_deadline(|| core.rests_from(self.now));
        match (earliest, core.scheduler.deadline()) {
            (Some(earliest), Some(deadline)) => Some(earliest.min(deadline)),
            (earliest, deadline) => earliest.or(deadline),
        }
    }

    /// Checks the invariants of the whole engine. O(everything); for tests, the lab and fuzzers.
    ///
    /// # Errors
    /// A text that says what does not hold.
    #[cfg(feature = "check")]
    pub fn check(&mut self) -> Result<(), String> {
        crate::check::check(&mut self.core, self.now)
    }

    #[inline]
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        let core = &mut self.core;
        if core.throttle.tracks_time() {
            core.track_time(self.now);
        }
        self.now
    }

    /// Index of a cgroup that has not been removed.
    fn live_cgroup(&self, cgroup: CgroupId) -> Option<u32> {
        let index = self.core.tree.cgroup_index(cgroup)?;
        (!self.core.tree.cgroups[index].dying).then_some(index)
    }

    /// Releases one request of a task.
    fn release_request(&mut self, task: u32) {
        let of = &mut self.core.tree.tasks[task];
        of.held -= 1;
        if of.closing {
            self.release_task(task);
        }
    }

    fn release_task(&mut self, index: u32) {
        let task = &self.core.tree.tasks[index];
        if task.closing && task.held == 0 {
            let client = task.client;
            self.core.tree.tasks.remove(index);
            self.core.tree.clients[client].tasks -= 1;
            self.release_client(client);
        }
    }

    fn release_client(&mut self, index: u32) {
        let client = &self.core.tree.clients[index];
        if client.closing && client.tasks == 0 {
            let cgroup = client.cgroup;
            let core = &mut self.core;
            core.scheduler.forget(&core.tree, &core.requests, index);
            core.throttle.remove_client(index, cgroup);
            self.core.tree.clients.remove(index);
            self.core.tree.cgroups[cgroup].clients -= 1;
            self.core.release_if_done(cgroup);
        }
    }
}
