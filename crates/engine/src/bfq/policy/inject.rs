//! Injection: requests of other flows while the device idles for the one in service (spec/bfq 7.8, 7.9).
//!
//! The candidates, in this order: the client's own writeback, the waker of the flow in service, a flow that it wakes,
//! and the next flow of all, as far as the latency of the flow in service allows. An injected request is charged to
//! its own flow.

use crate::bfq::Bfq;
use crate::bfq::counters::Injection;
use crate::bfq::device::LONG_ON_FLASH;
use crate::bfq::flow::{Kind, Owner};
use crate::bfq::idling::boosts_throughput;
use crate::bfq::in_service::{Idle, InService};
use crate::merge::waker::{InjectSettings, InjectionCandidates, InjectionSource};
use crate::requests::Requests;
use crate::tree::Tree;

/// Number of woken flows considered for injection, most recently backlogged first.
const WOKEN_MAX: usize = 4;

impl Bfq {
    pub(in crate::bfq) fn inject_settings(&self) -> InjectSettings {
        InjectSettings {
            slice_idle_ns: self.data.tunables().slice_idle_ns,
            ..InjectSettings::default()
        }
    }

    /// Updates waker and injection limit when the only request of a client comes.
    pub(in crate::bfq) fn update_injection(&mut self, at: u32) {
        let (settings, queue) = (self.inject_settings(), self.data.flows.id(at));
        let (now, completed, in_device) =
            (self.data.now, self.last_completed, self.data.device.in_flight());
        let briefly = self.data.flows.stats(at).think_time.thinks_briefly();
        // Idling for a flow that thinks briefly is short; it needs no waker.
        if !briefly {
            let known = self.data.flows.sparse(at).waker;
            let mut waker = known;
            let found = waker.observe(&settings, now, queue, briefly, completed);
            if let Some(gone) = found.filter(|&found| !self.data.flows.is_current(found)) {
                waker.forget(gone);
            }
            // Mostly nothing changes.
            if waker != known {
                self.data.flows.set_waker(at, waker);
            }
        }
        if self.is_in_service(at) {
            let injection = self.data.flows.inject_limit_mut(at);
            self.probe.arrived(injection, &settings, now, briefly, in_device);
        }
    }

    /// Dispatches a request of another flow while the flow in service has none.
    pub(in crate::bfq) fn inject(
        &mut self,
        tree: &mut Tree,
        requests: &mut Requests,
    ) -> Option<u32> {
        if self.data.waiting == 0 || self.data.tunables().strict_guarantees {
            return None;
        }
        let in_service = self.in_service.as_ref()?;
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
                let at = self.any_injectable(requests, &settings)?;
                self.probe.injected();
                (at, Injection::Other)
            }
        };
        let index = self.data.flows[at].pick(self.data.now, requests, self.data.tunables())?;
        let charge = self.data.charge(requests, at, index);
        self.dispatch(tree, requests, at, index, charge);
        if self.data.flows[at].queued == 0 {
            self.data.schedule.deactivate(self.data.now, tree, at);
        } else {
            self.data.refresh_budget(tree, requests, at);
        }
        self.data.schedule.review_charged(self.data.now, tree, at);
        self.data.counters.injected(self.data.schedule.cgroup(at), kind);
        if let Some(in_service) = &mut self.in_service {
            in_service.note_injected();
        }
        Some(index)
    }

    /// Related flows whose next request fits into the budget left.
    fn candidates(
        &self,
        tree: &Tree,
        requests: &Requests,
        in_service: &InService,
    ) -> InjectionCandidates {
        let stats = self.data.flows.stats(in_service.flow());
        let fits = |at: &u32| self.fits_budget_left(requests, in_service, *at);
        let own_async = match self.data.schedule.owner(in_service.flow()).kind() {
            Kind::Client(client) => {
                let cgroup = self.data.schedule.cgroup(in_service.flow());
                let is_own = |at: &u32| {
                    let next = self.data.flows[*at].next();
                    next.is_some_and(|next| tree.tasks[requests[next].task].client == client)
                };
                self.data.flows.of(Owner::writeback(cgroup)).filter(is_own).filter(fits)
            }
            Kind::Writeback(_) => None,
        };
        // On rotational devices a flow with requests in flight waits for no other, nor does one expected within 1 ms.
        let waits = !self.data.tunables().rotational
            || in_service.idle().is_some_and(|idle| idle.admits_others(self.data.now));
        let waker = self.data.flows.sparse(in_service.flow()).waker.get();
        let waker = waker.map(|waker| waker.index).filter(|_| waits).filter(fits);
        let woken =
            self.data.flows.woken(in_service.flow()).take(WOKEN_MAX).filter(|_| waits).find(fits);
        let is_raised = self.data.schedule.wr_coeff(in_service.flow()) > 1;
        let id = |at: u32| self.data.flows.id(at);
        InjectionCandidates {
            own_async: own_async.map(id),
            waker: waker.map(id),
            woken: woken.map(id),
            injected: in_service.injected(),
            boosts_throughput: boosts_throughput(&self.data, Some(in_service), in_service.flow()),
            is_precious: is_raised
                && self.data.schedule.raised() <= 1
                && stats.think_time.thinks_briefly(),
        }
    }

    /// The next flow of all, if the injection limit allows it and the flow in service is not expected sooner.
    fn any_injectable(&mut self, requests: &Requests, settings: &InjectSettings) -> Option<u32> {
        let in_service = self.in_service.as_ref()?;
        let is_long_enough = match in_service.idle() {
            Some(idle) => idle.admits_others(self.data.now),
            None => !self.data.costs_shares(in_service.flow()),
        };
        if !is_long_enough {
            return None;
        }
        let stats = self.data.flows.stats(in_service.flow());
        let idling_since = in_service.idle().map(Idle::since);
        let injection = self.data.flows.inject_limit(in_service.flow());
        if !injection.admits(settings, self.data.now, idling_since, self.data.device.in_flight()) {
            return None;
        }
        let is_patient = self.data.schedule.wr_coeff(in_service.flow()) == 1
            || !stats.think_time.thinks_briefly();
        let at = self.data.schedule.runner_up(in_service.flow())?;
        let is_allowed = is_patient || self.data.schedule.wr_coeff(at) > 1;
        let next = self.data.flows[at].next()?;
        let is_long = requests[next].request.extent.len >= LONG_ON_FLASH;
        let delays =
            is_long && !self.data.tunables().rotational && self.data.device.in_flight() > 0;
        (is_allowed && !delays && self.fits_budget_left(requests, in_service, at)).then_some(at)
    }

    /// Whether the next request of flow `at` fits into what the flow in service has left of its budget.
    fn fits_budget_left(&self, requests: &Requests, in_service: &InService, at: u32) -> bool {
        let entity = self.data.schedule.entity(in_service.flow());
        let left = entity.budget.saturating_sub(entity.service);
        let charge = self.data.next_charge(requests, at);
        at != in_service.flow() && charge > 0 && charge <= left
    }
}
