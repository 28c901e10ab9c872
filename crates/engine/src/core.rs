//! State of an engine, and the hand-over from the throttle to the scheduler.

use alloc::collections::VecDeque;

use crate::account::{Account, Accounts};
use crate::bfq::BfqCgroupStats;
use crate::config::Config;
use crate::event::Event;
use crate::latencies::Latencies;
use crate::requests::{Arriving, Requests};
use crate::scheduler::Scheduler;
use crate::stats::{Audit, Counters};
use crate::throttle::{Context, Throttle};
use crate::tree::Tree;
use crate::types::{Cost, Instant, Request};
use crate::utilisation::{Modelled, Share};

/// The state behind [`crate::Engine`].
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) tree: Tree,
    pub(crate) requests: Requests,
    pub(crate) throttle: Throttle,
    /// Modelled device, if its capacity is known.
    pub(crate) modelled: Option<Modelled>,
    pub(crate) scheduler: Scheduler,
    pub(crate) accounts: Accounts,
    /// What was charged and dispatched, without what requests have paid that still wait for limits.
    pub(crate) audit: Audit,
    pub(crate) events: VecDeque<Event>,
    pub(crate) in_flight: u32,
    /// Coalesced requests among them: they went to the device with another.
    pub(crate) joined: u32,
    /// Begin of the current busy period.
    pub(crate) busy_since: Instant,
    pub(crate) busy_ns: u64,
}

impl Core {
    pub(crate) fn new(config: Config, now: Instant) -> Core {
        Core {
            scheduler: Scheduler::new(&config),
            config,
            tree: Tree::new(),
            requests: Requests::new(),
            throttle: Throttle::new(config.prices, now),
            modelled: config.capacity.map(|capacity| Modelled::new(now, capacity)),
            accounts: Accounts::new(),
            audit: Audit::default(),
            events: VecDeque::new(),
            in_flight: 0,
            joined: 0,
            busy_since: Instant::ZERO,
            busy_ns: 0,
        }
    }

    /// Free places in the device window; coalesced requests count as one.
    pub(crate) fn room(&self) -> u32 {
        self.config.depth.get().saturating_sub(self.in_flight - self.joined)
    }

    /// Instant from which the device is idle; `None` while that depends on a completion.
    ///
    /// With a model: when the modelled device has done its work, whatever is at the real one. Otherwise: now, if
    /// nothing is at the device. `None` too while the scheduler has requests.
    pub(crate) fn rests_from(&self, now: Instant) -> Option<Instant> {
        let from = match &self.modelled {
            Some(modelled) => modelled.free_at().max(now),
            None if self.in_flight == 0 => now,
            None => return None,
        };
        (self.scheduler.len() == 0).then_some(from)
    }

    /// Applies deadlines that have come by `now`.
    #[inline]
    pub(crate) fn apply_deadlines(&mut self, now: Instant) {
        loop {
            let (throttle, mut cx) = self.throttle(now);
            let Some(index) = throttle.pop_ready(&mut cx) else { break };
            self.schedule_passed(now, index);
        }
    }

    /// Advances leases and virtual clocks to `now`. A lease that has ended meanwhile ends at its own instant, after what
    /// was due until then: a call that comes late finds what it would have found in time.
    #[inline(never)]
    pub(crate) fn track_time(&mut self, now: Instant) {
        while let Some(end) = self.throttle.lease_end(now) {
            self.advance_clocks_if_steered(end);
            self.apply_deadlines(end);
            let (throttle, mut cx) = self.throttle(end);
            let cgroup = throttle.end_lease(&mut cx);
            self.schedule_ready(end);
            self.throttle.settle_deadlines();
            let changed = cgroup.map(|cgroup| Event::CgroupChanged(self.tree.id(cgroup)));
            self.events.extend(changed);
        }
        self.advance_clocks_if_steered(now);
    }

    fn advance_clocks_if_steered(&mut self, now: Instant) {
        if self.throttle.is_steered() {
            self.advance_clocks(now);
        }
    }

    /// Advances the virtual clocks' view of the device to `now`.
    #[inline(never)]
    pub(crate) fn advance_clocks(&mut self, now: Instant) {
        let Core { throttle, modelled, in_flight, .. } = self;
        match modelled {
            Some(modelled) => modelled.advance(now, |until, works| throttle.advance(until, works)),
            None => throttle.advance(now, *in_flight > 0),
        }
    }

    /// Utilisation over the last half second; `None` without a watermark.
    pub(crate) fn utilisation(&self) -> Option<Share> {
        let share = self.throttle.utilisation()?;
        Some(self.modelled.as_ref().map_or(share, Modelled::share))
    }

    /// Advances virtual clocks while the device is idle, nothing is queued for it, and a limited request may go early.
    ///
    /// O(log armed) for each cgroup visited; one visit for each request that passes.
    pub(crate) fn advance_virtual_clocks(&mut self, now: Instant) {
        while self.rests_from(now).is_some_and(|from| from <= now) {
            let (throttle, mut cx) = self.throttle(now);
            if !throttle.advance_virtual_clock(&mut cx) {
                return;
            }
            self.schedule_ready(now);
        }
    }

    /// The throttle, and what it works on.
    #[inline]
    pub(crate) fn throttle(&mut self, now: Instant) -> (&mut Throttle, Context<'_>) {
        let Core { throttle, tree, requests, .. } = self;
        (throttle, Context { now, tree, requests })
    }

    /// Traffic account of a cgroup.
    #[inline]
    pub(crate) fn account(&mut self, cgroup: u32) -> &Account {
        if self.accounts.is_new(cgroup) {
            self.open_account(cgroup);
        }
        self.accounts.of(cgroup)
    }

    /// The first request of `cgroup` has come.
    #[cold]
    pub(crate) fn open_account(&mut self, cgroup: u32) {
        let waits = self.throttle.open_account(cgroup);
        self.accounts.open(cgroup, waits, self.scheduler.share_counts(cgroup));
    }

    /// Adds what was counted of `cgroup`; blame is to be tidied after the last one.
    pub(crate) fn add_own_counters(&self, cgroup: u32, counters: &mut Counters) {
        if let Some(account) = self.accounts.own(cgroup) {
            account.add_traffic_to(counters);
            account.waits().add_to(self.tree.id(cgroup), counters);
        }
    }

    /// The same, with children that were removed.
    pub(crate) fn add_counters(&self, cgroup: u32, counters: &mut Counters) {
        self.add_own_counters(cgroup, counters);
        if let Some(folded) = self.accounts.folded(cgroup) {
            counters.gather(&folded.counters);
        }
    }

    /// Adds the times of requests of `cgroup`, and of children that were removed.
    pub(crate) fn add_latencies(&self, cgroup: u32, latencies: &mut Latencies) {
        if let Some(account) = self.accounts.own(cgroup) {
            account.add_latencies_to(latencies);
        }
        if let Some(folded) = self.accounts.folded(cgroup) {
            latencies.absorb(&folded.latencies);
        }
    }

    /// What BFQ has done for `cgroup`, and had done for children that were removed.
    pub(crate) fn bfq_stats(&self, cgroup: u32) -> BfqCgroupStats {
        let mut stats = self.scheduler.cgroup_stats(cgroup);
        if let Some(folded) = self.accounts.folded(cgroup) {
            stats.absorb(&folded.bfq);
        }
        stats
    }

    /// What was charged and what was dispatched.
    pub(crate) fn audit(&self) -> Audit {
        let mut audit = self.audit;
        audit.part_paid = self.throttle.part_paid();
        for (charged, paid) in audit.charged.iter_mut().zip(audit.part_paid) {
            charged.bytes += paid.bytes;
            charged.io_units += paid.io_units;
        }
        audit
    }

    /// Hands requests that passed their limits to the scheduler.
    #[inline]
    pub(crate) fn schedule_ready(&mut self, now: Instant) {
        while let Some(index) = self.throttle.take_ready(&mut self.requests) {
            self.schedule_passed(now, index);
        }
    }

    /// Hands the request in slot `index`, which has waited for a limit, to the scheduler.
    pub(crate) fn schedule_passed(&mut self, now: Instant, index: u32) {
        let record = &mut self.requests[index];
        let unblamed_ns = now.nanos_since(record.since);
        record.since = now;
        let (request, task, cost) = (record.request, record.task(), record.cost);
        let cgroup = self.tree.tasks[task].cgroup;
        self.schedule(now, request, task, cgroup, index, cost, unblamed_ns);
    }

    /// Charges the request of `task` in slot `index`, and hands it to the scheduler: its first piece, if it is longer
    /// than one command. `lifted_ns`: its wait for limits that no longer exist.
    // Inlined: on the path of each request.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "in place, where all of this is at hand")]
    pub(crate) fn schedule(
        &mut self,
        now: Instant,
        mut request: Request,
        task: u32,
        cgroup: u32,
        index: u32,
        cost: Cost,
        lifted_ns: u64,
    ) {
        let d = request.op.direction().index();
        self.audit.charged[d].add(cost);
        self.audit.ready[d].add(cost);
        self.account(cgroup).passed(&request, lifted_ns);
        if let Some(bytes_max) = self.config.piece_bytes_max
            && request.extent.len > bytes_max.get()
        {
            let record = &mut self.requests[index];
            record.cut_to(self.config.longest_piece(request.op));
            request = record.request;
        }
        let Core { scheduler, tree, requests, .. } = self;
        scheduler.insert(now, tree, requests, Arriving { request: &request, task, index });
    }
}
