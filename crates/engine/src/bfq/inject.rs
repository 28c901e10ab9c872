//! Injection: requests of other flows while the device idles for the one in service (spec/bfq 7.8, 7.9).
//!
//! The gap, in this order: what the same client has written back, the flow whose completions let the one in
//! service go on, one that waits for it in turn, and whoever is next anyway, as far as the latency of the flow in service
//! bears it. What is injected is charged to the flow it comes from.

use super::Bfq;
use super::counters::Injection;
use super::flow::{Kind, Owner};
use super::slot::InService;
use super::wf2q::EntityId;
use crate::merge::waker::{InjectSettings, InjectionCandidates, InjectionSource};
use crate::requests::Requests;
use crate::tree::Tree;

/// From this length on, a request is not put beside others into flash: it would hold them up (spec/bfq 7.9).
pub(super) const LONG_ON_FLASH: u32 = 32 << 10;

/// Of those that the flow in service wakes, so many are looked at for a gap. Who has something to do stands before who had
/// something before.
const WOKEN_MAX: usize = 4;

impl Bfq {
    pub(super) fn inject_settings(&self) -> InjectSettings {
        InjectSettings { slice_idle_ns: self.tunables.slice_idle_ns, ..InjectSettings::default() }
    }

    /// The only request of a client came for its flow: who let it go on, and how long will it take?
    pub(super) fn update_injection(&mut self, at: u32) {
        let (settings, queue) = (self.inject_settings(), self.flows.id(at));
        let (now, completed, in_device) = (self.now, self.last_completed, self.in_device);
        let briefly = self.flows.stats(at).think_time.thinks_briefly();
        // Who thinks briefly needs no waker, and hardly anybody has one.
        if !briefly {
            let known = self.flows.sparse(at).waker;
            let mut waker = known;
            let found = waker.observe(&settings, now, queue, briefly, completed);
            if let Some(gone) = found.filter(|&found| !self.flows.is_current(found)) {
                waker.forget(gone);
            }
            // Mostly nobody is found, or suspected anew.
            if waker != known {
                self.flows.set_waker(at, waker);
            }
        }
        if self.in_service.is_some_and(|in_service| in_service.flow == at) {
            let injection = self.flows.inject_limit_mut(at);
            self.probe.arrived(injection, &settings, now, briefly, in_device);
        }
    }

    /// A request to send while the flow in service has none.
    pub(super) fn inject(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.len == 0 || self.tunables.strict_guarantees {
            return None;
        }
        let in_service = &self.in_service?;
        let settings = self.inject_settings();
        let candidates = self.candidates(tree, requests, in_service);
        let (at, kind) = match candidates.choose(&settings) {
            InjectionSource::None => return None,
            InjectionSource::Queue(queue) if candidates.own_async == Some(queue) => {
                (queue.index, Injection::OwnAsync)
            }
            InjectionSource::Queue(queue) if candidates.waker == Some(queue) => {
                (queue.index, Injection::Waker)
            }
            InjectionSource::Queue(queue) => (queue.index, Injection::Woken),
            InjectionSource::Any => {
                let at = self.any_injectable(requests, in_service, &settings)?;
                self.probe.injected();
                (at, Injection::Other)
            }
        };
        let index = self.flows[at].pick(self.now, requests, &self.tunables)?;
        let charge = self.charge(requests, at, index);
        self.dispatch(tree, requests, at, index, charge);
        let id = EntityId::flow(at);
        if self.flows[at].queued == 0 {
            self.busy -= 1;
            self.hierarchy.deactivate(self.now, tree, id);
        } else {
            self.refresh_budget(tree, requests, at);
        }
        self.hierarchy.review_charged(self.now, tree, id);
        self.counters.injected(self.hierarchy.cgroup(id), kind);
        if let Some(in_service) = &mut self.in_service {
            in_service.injected += 1;
            in_service.is_shared = true;
        }
        Some(index)
    }

    /// Who is related to the flow in service and has a request that fits its budget.
    fn candidates(
        &self,
        tree: &Tree,
        requests: &Requests,
        in_service: &InService,
    ) -> InjectionCandidates {
        let stats = self.flows.stats(in_service.flow);
        let fits = |at: &u32| self.fits_budget_left(requests, in_service, *at);
        let own_async = match self.hierarchy.owner(EntityId::flow(in_service.flow)).kind() {
            Kind::Client(client) => {
                let cgroup = self.hierarchy.cgroup(EntityId::flow(in_service.flow));
                let is_own = |at: &u32| {
                    let next = self.flows[*at].next();
                    next.is_some_and(|next| tree.tasks[requests[next].task].client == client)
                };
                self.flows.of(Owner::writeback(cgroup)).filter(is_own).filter(fits)
            }
            Kind::Writeback(_) => None,
        };
        // Who has a request at a disk that seeks waits for that, and for nobody else; and whoever returns at once does not
        // wait either.
        let waits = !self.tunables.rotational
            || in_service.idle.is_some_and(|idle| self.now >= idle.inject_from);
        let waker = self.flows.sparse(in_service.flow).waker.get();
        let waker = waker.map(|waker| waker.index).filter(|_| waits).filter(fits);
        let woken = self.flows.woken(in_service.flow).take(WOKEN_MAX).filter(|_| waits).find(fits);
        let is_raised = self.wr_coeff(in_service.flow) > 1;
        let id = |at: u32| self.flows.id(at);
        InjectionCandidates {
            own_async: own_async.map(id),
            waker: waker.map(id),
            woken: woken.map(id),
            injected: in_service.injected,
            boosts_throughput: self.boosts_throughput(in_service.flow),
            is_precious: is_raised
                && self.scenario.raised() <= 1
                && stats.think_time.thinks_briefly(),
        }
    }

    /// Whoever is next among all others, if the flow in service bears another request in the device, and does not come
    /// back before one would be worth it.
    fn any_injectable(
        &mut self,
        requests: &Requests,
        in_service: &InService,
        settings: &InjectSettings,
    ) -> Option<u32> {
        let is_long_enough = match in_service.idle {
            Some(idle) => self.now >= idle.inject_from,
            None => !self.costs_shares(in_service.flow),
        };
        if !is_long_enough {
            return None;
        }
        let stats = self.flows.stats(in_service.flow);
        let idling_since = in_service.idle.map(|idle| idle.since);
        let injection = self.flows.inject_limit(in_service.flow);
        if !injection.admits(settings, self.now, idling_since, self.in_device) {
            return None;
        }
        let is_patient = self.wr_coeff(in_service.flow) == 1 || !stats.think_time.thinks_briefly();
        let at = self.hierarchy.runner_up(EntityId::flow(in_service.flow))?;
        let is_allowed = is_patient || self.wr_coeff(at) > 1;
        let next = self.flows[at].next()?;
        let is_long = requests[next].request.extent.len >= LONG_ON_FLASH;
        let delays = is_long && !self.tunables.rotational && self.in_device > 0;
        (is_allowed && !delays && self.fits_budget_left(requests, in_service, at)).then_some(at)
    }

    /// Whether a request of others takes a flow's share: the device is kept for it because of that, it seeks anyway, and
    /// a seek takes longer than the gaps of whoever returns at once. With one request of others after each of its own, it
    /// would have half of the device at most.
    pub(super) fn costs_shares(&self, at: u32) -> bool {
        self.tunables.rotational && self.flows[at].is_seeky() && self.is_asymmetric(at)
    }

    /// Whether a flow has a request that is no more than what is left of the budget of the one in service.
    fn fits_budget_left(&self, requests: &Requests, in_service: &InService, at: u32) -> bool {
        let entity = self.hierarchy.entities.flow(in_service.flow);
        let left = entity.budget.saturating_sub(entity.service);
        let charge = self.next_charge(requests, at);
        at != in_service.flow && charge > 0 && charge <= left
    }
}
