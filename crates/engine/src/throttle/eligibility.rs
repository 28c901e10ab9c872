//! Eligibility: cgroups whose limits let a request go are active sources of their parents.

use crate::throttle::cgroup::CgroupThrottle;
use crate::throttle::client::ClientThrottle;
use crate::throttle::fair_queue::{Entry, FairQueue, Source, SourceState};
use crate::throttle::limiter::{Arrival, Verdict};
use crate::throttle::{Context, Throttle};
use crate::tree::Slots;
use crate::tree::{Cgroup, NO_CGROUP, Tree};
use crate::types::{Cost, Dimension, Direction, Resource, Weight};

impl Throttle {
    /// Makes `source` active at `cgroup`, and updates the ancestors.
    pub(crate) fn activate(
        &mut self,
        cx: &mut Context<'_>,
        source: Source,
        cgroup: u32,
        direction: Direction,
    ) {
        if let Some(arrival) = self.enqueue_source(cx, source, cgroup, direction) {
            self.update_eligibility(cx, cgroup, direction, arrival);
        }
    }

    /// Enqueues `source` at `cgroup`. Answers the arrival of a new head, if the head changed.
    fn enqueue_source(
        &mut self,
        cx: &mut Context<'_>,
        source: Source,
        cgroup: u32,
        direction: Direction,
    ) -> Option<Arrival> {
        let stamp = self.next_stamp();
        let fair_queue = &self.cgroups[cgroup].queue_mut(direction).fair_queue;
        let was_clear = fair_queue.is_empty();
        if fair_queue.is_full() {
            self.sweep(cgroup, direction);
        }
        let weight = weight_of(cx.tree, source);
        self.with_fair_queue(cgroup, direction, source, |fair_queue, source_state| {
            fair_queue.admit(source, source_state, weight, stamp);
        });
        if let Source::Cgroup(child) = source {
            let dir = self.cgroups[child].dir(direction);
            if dir.has_part_paid {
                self.note_part_paid(cx, cgroup, direction);
            }
            self.cgroups[child].queue_mut(direction).active_since = cx.now;
            if was_clear {
                self.credit_slice(cx, child, cgroup, direction);
            }
        }
        match was_clear {
            true => Some(Arrival::Fresh),
            false => {
                (self.top_source(cgroup, direction) == Some(source)).then_some(Arrival::Queued)
            }
        }
    }

    /// Removes `source` from the queue of `cgroup` without service.
    pub(crate) fn deactivate(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        source: Source,
    ) {
        let weight = weight_of(cx.tree, source);
        self.with_fair_queue(cgroup, direction, source, |fair_queue, source_state| {
            fair_queue.leave(source_state, weight);
        });
    }

    /// Drops void entries of a cgroup's fair queue.
    fn sweep(&mut self, cgroup: u32, direction: Direction) {
        let Some(mut queue) = self.cgroups[cgroup].dir_mut(direction).queue.take() else {
            return;
        };
        let Throttle { cgroups, clients, .. } = self;
        queue.fair_queue.sweep(|entry| is_live(cgroups, clients, direction, entry));
        self.cgroups[cgroup].dir_mut(direction).queue = Some(queue);
    }

    /// Updates eligibility of `cgroup` and its ancestors. Where no limit is above, requests that may go pass.
    pub(crate) fn update_eligibility(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) {
        let mut next = Some((cgroup, arrival));
        while let Some((at, arrival)) = next {
            let node = &self.cgroups[at];
            if node.dir(direction).has_rw_limit && !node.is_clear(direction.other()) {
                self.update_rw(cx, at, direction, arrival);
                return;
            }
            next = self.update_one(cx, at, direction, arrival);
        }
    }

    /// Updates `cgroup` alone. Answers the parent and the arrival of its head, if the parent has to be updated then.
    pub(crate) fn update_one(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) -> Option<(u32, Arrival)> {
        let dir = self.cgroups[cgroup].dir(direction);
        let is_topmost = dir.parent_limit == NO_CGROUP;
        self.slice_head_changed(cx, cgroup, direction, arrival);
        if is_topmost {
            self.drain(cx, cgroup, direction, arrival);
            return None;
        }
        let ready = self.is_eligible(cx, cgroup, direction, arrival);
        let is_active = self.cgroups[cgroup]
            .queue(direction)
            .is_some_and(|queue| queue.source_state.is_active());
        let Cgroup { parent, .. } = cx.tree.cgroups[cgroup];
        if ready == is_active {
            // A head that has paid its I/Os may be followed by one that has to wait above.
            let dir = self.cgroups[cgroup].dir(direction);
            let is_next = ready
                && dir.has_part_paid
                && self.top_source(parent, direction) == Some(Source::Cgroup(cgroup));
            return is_next.then_some((parent, Arrival::Queued));
        }
        if ready {
            let arrival = self.enqueue_source(cx, Source::Cgroup(cgroup), parent, direction)?;
            Some((parent, arrival))
        } else {
            self.deactivate_ineligible(cx, cgroup, direction);
            Some((parent, Arrival::Queued))
        }
    }

    /// Whether `cgroup` may let a request go now. If not, its timer is armed for when it may.
    pub(crate) fn is_eligible(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) -> bool {
        if let Some(is_eligible) = self.is_slice_eligible(cgroup, direction) {
            return is_eligible;
        }
        let time = self.limit_time(cgroup, cx.now);
        let node = &mut self.cgroups[cgroup];
        let dir = node.dir_mut(direction);
        let Some(queue) = &dir.queue else { return false };
        let waits = !queue.fair_queue.is_empty();
        // Without a limit there is no timer here.
        let Some(limiter) = &dir.limiter else { return waits };
        if !waits {
            dir.timer.disarm();
            dir.has_part_paid = false;
            return false;
        }
        // Fast path of the usual limit: one rate of I/Os.
        if let Some(until) = limiter.sole_ready_at().filter(|_| !dir.has_rw_limit) {
            if time.is_lifted || time.at >= until {
                dir.timer.disarm();
                return true;
            }
            if !dir.has_part_paid {
                dir.throttled_by = Dimension::of(direction, Resource::Ios);
                self.arm(cx, cgroup, direction, until);
                return false;
            }
        }
        let has_part_paid = dir.has_part_paid;
        let verdict = match node.check_any(time, direction) {
            Some(verdict) if verdict == Verdict::Go || !has_part_paid => verdict,
            _ => self.check_head(cx, cgroup, direction, arrival),
        };
        let dir = self.cgroups[cgroup].dir_mut(direction);
        match verdict {
            Verdict::Go => {
                dir.timer.disarm();
                true
            }
            Verdict::Wait { until, throttled_by } => {
                dir.throttled_by = throttled_by;
                debug_assert!(until > time.at, "a wait ends after now");
                self.arm(cx, cgroup, direction, until);
                false
            }
        }
    }

    /// Checks the limit of `cgroup` for its next request.
    #[inline(never)]
    fn check_head(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        arrival: Arrival,
    ) -> Verdict<Dimension> {
        let head =
            self.head_cost(cx, cgroup, direction).expect("a source that waits has a request");
        self.check_limit(cx, cgroup, direction, head, arrival)
    }

    /// Deactivates `cgroup` and its ancestors where what waits in `direction` may not go any more. O(depth × log
    /// sources).
    ///
    /// Unlike [`Throttle::update_eligibility`], this never dispatches. Call it first: with a limit on both directions,
    /// that may dispatch at any ancestor, and requires that every active source is eligible.
    pub(crate) fn deactivate_ineligible(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) {
        let mut at = cgroup;
        loop {
            let is_active = |throttle: &Throttle| {
                let queue = throttle.cgroups[at].queue(direction);
                queue.is_some_and(|queue| queue.source_state.is_active())
            };
            if at == cgroup && !is_active(self) {
                // Its timer may be early now, and is set anew when it fires.
                return;
            }
            let ready = self.is_eligible(cx, at, direction, Arrival::Queued);
            let parent = cx.tree.cgroups[at].parent;
            match (is_active(self), ready) {
                (true, false) => self.deactivate(cx, parent, direction, Source::Cgroup(at)),
                _ if at == cgroup => return,
                // Another head is first and may go: by a timer at once, since nothing dispatches here.
                (false, true) if self.nearest_limit(at, direction) == at => {
                    let time = self.limit_time(at, cx.now);
                    self.arm(cx, at, direction, time.at);
                }
                _ => {}
            }
            if parent == NO_CGROUP {
                return;
            }
            at = parent;
        }
    }

    /// Dispatches all that may go from `cgroup`, which has no limit above. Arms its timer for the rest.
    pub(crate) fn drain(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
        mut arrival: Arrival,
    ) {
        self.drain_to_parent(cx, cgroup, direction);
        while self.is_eligible(cx, cgroup, direction, arrival) {
            arrival = Arrival::Queued;
            match self.top_source(cgroup, direction) {
                // Most throttled requests wait for the only limit, that of their own cgroup.
                Some(Source::Client(client)) => {
                    if let Some(index) = self.dequeue_client(cx, cgroup, direction, client) {
                        self.throttled -= 1;
                        self.pass_from(cx, cgroup, index);
                    }
                }
                _ => {
                    if let Some(index) = self.dequeue(cx, cgroup, direction) {
                        self.throttled -= 1;
                        self.pass(cx, index);
                    }
                }
            }
        }
    }

    /// Next source at `cgroup`.
    // Inlined: on the path of each throttled request.
    #[inline(always)]
    pub(crate) fn top_source(&mut self, cgroup: u32, direction: Direction) -> Option<Source> {
        let fair_queue = &self.cgroups[cgroup].queue(direction)?.fair_queue;
        match fair_queue.has_void() {
            false => fair_queue.top().map(|entry| entry.source()),
            true => self.live_top_source(cgroup, direction),
        }
    }

    /// As [`Throttle::top_source`], where some entries are void.
    #[inline(never)]
    fn live_top_source(&mut self, cgroup: u32, direction: Direction) -> Option<Source> {
        loop {
            let fair_queue = &self.cgroups[cgroup].queue(direction)?.fair_queue;
            let entry = fair_queue.top()?;
            if !fair_queue.has_void() || is_live(&self.cgroups, &self.clients, direction, entry) {
                return Some(entry.source());
            }
            self.cgroups[cgroup].queue_mut(direction).fair_queue.drop_void();
        }
    }

    /// Next payment of the next request of `cgroup`. O(depth).
    pub(crate) fn head_cost(
        &mut self,
        cx: &mut Context<'_>,
        cgroup: u32,
        direction: Direction,
    ) -> Option<Cost> {
        let mut at = cgroup;
        loop {
            match self.top_source(at, direction)? {
                Source::Client(client) => {
                    let task = self.clients[client].dir(direction).turns.head;
                    let index = self.tasks[task].dir(direction).waiting.head;
                    let owed = cx.requests[index].cost;
                    return Some(self.instalment(at, direction, owed).unwrap_or(owed));
                }
                Source::Cgroup(child) => match self.slices.head(child, direction) {
                    Some(index) => return Some(cx.requests[index].cost),
                    None => at = child,
                },
            }
        }
    }

    /// Calls `work` with a cgroup's fair queue and the state of one of its sources.
    pub(crate) fn with_fair_queue<R>(
        &mut self,
        cgroup: u32,
        direction: Direction,
        source: Source,
        work: impl FnOnce(&mut FairQueue, &mut SourceState) -> R,
    ) -> R {
        let queue = self.cgroups[cgroup].queue_mut(direction);
        let child = match source {
            Source::Client(client) => {
                let source_state = &mut self.clients[client].dir_mut(direction).source_state;
                return work(&mut queue.fair_queue, source_state);
            }
            Source::Cgroup(child) => child,
        };
        let lent = self.cgroups[cgroup].dir_mut(direction).queue.take();
        let mut queue = lent.expect("made just now");
        let source_state = &mut self.cgroups[child].queue_mut(direction).source_state;
        let result = work(&mut queue.fair_queue, source_state);
        self.cgroups[cgroup].dir_mut(direction).queue = Some(queue);
        result
    }
}

/// Whether `entry` is the live entry of its source.
fn is_live(
    cgroups: &Slots<CgroupThrottle>,
    clients: &Slots<ClientThrottle>,
    direction: Direction,
    entry: Entry,
) -> bool {
    match entry.source() {
        Source::Client(client) => {
            clients.get(client).is_some_and(|client| client.dir(direction).source_state.owns(entry))
        }
        Source::Cgroup(child) => cgroups
            .get(child)
            .and_then(|child| child.queue(direction))
            .is_some_and(|queue| queue.source_state.owns(entry)),
    }
}

/// Weight of `source` among its siblings.
pub(super) fn weight_of(tree: &Tree, source: Source) -> u64 {
    let weight = match source {
        Source::Client(_) => Weight::DEFAULT,
        Source::Cgroup(child) => tree.cgroups[child].weight,
    };
    u64::from(weight.get())
}
