//! Injection: requests of other flows while the device idles for the one in service (spec/bfq 7.8, 7.9).
//!
//! The candidates, in this order: what the same client has written back, the flow whose completions let the one in
//! service go on, one that waits for it in turn, and whoever is next anyway, as far as the latency of the flow in service
//! bears it. What is injected is charged to the flow it comes from.

use super::Bfq;
use super::counters::Injection;
use super::flow::{Kind, Owner};
use super::slot::Turn;
use super::wf2q::EntityId;
use crate::merge::waker::{Fill, Gap, InjectSettings};
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
    pub(super) fn note_return(&mut self, at: u32) {
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
        if self.turn.is_some_and(|turn| turn.flow == at) {
            let injection = self.flows.injection_mut(at);
            self.probe.arrived(injection, &settings, now, briefly, in_device);
        }
    }

    /// A request to send while the flow in service has none.
    pub(super) fn fill_gap(&mut self, tree: &mut Tree, requests: &mut Requests) -> Option<u32> {
        if self.len == 0 || self.tunables.strict_guarantees {
            return None;
        }
        let turn = &self.turn?;
        let settings = self.inject_settings();
        let gap = self.gap(tree, requests, turn);
        let (at, kind) = match gap.fill(&settings) {
            Fill::Nothing => return None,
            Fill::With(queue) if gap.own_async == Some(queue) => (queue.index, Injection::OwnAsync),
            Fill::With(queue) if gap.waker == Some(queue) => (queue.index, Injection::Waker),
            Fill::With(queue) => (queue.index, Injection::Woken),
            Fill::Any => {
                let at = self.any_for_gap(requests, turn, &settings)?;
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
        if let Some(turn) = &mut self.turn {
            turn.injected += 1;
            turn.is_shared = true;
        }
        Some(index)
    }

    /// Who is related to the flow in service and has a request that fits its budget.
    fn gap(&self, tree: &Tree, requests: &Requests, turn: &Turn) -> Gap {
        let stats = self.flows.stats(turn.flow);
        let fits = |at: &u32| self.fits_gap(requests, turn, *at);
        let own_async = match self.hierarchy.owner(EntityId::flow(turn.flow)).kind() {
            Kind::Client(client) => {
                let cgroup = self.hierarchy.cgroup(EntityId::flow(turn.flow));
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
        let waits =
            !self.tunables.rotational || turn.idle.is_some_and(|idle| self.now >= idle.fill_from);
        let waker = self.flows.sparse(turn.flow).waker.get();
        let waker = waker.map(|waker| waker.index).filter(|_| waits).filter(fits);
        let woken = self.flows.woken(turn.flow).take(WOKEN_MAX).filter(|_| waits).find(fits);
        let is_raised = self.wr_coeff(turn.flow) > 1;
        let id = |at: u32| self.flows.id(at);
        Gap {
            own_async: own_async.map(id),
            waker: waker.map(id),
            woken: woken.map(id),
            injected: turn.injected,
            boosts_throughput: self.boosts_throughput(turn.flow),
            is_precious: is_raised
                && self.scenario.raised() <= 1
                && stats.think_time.thinks_briefly(),
        }
    }

    /// Whoever is next among all others, if the flow in service bears another request in the device, and does not come
    /// back before one would be worth it.
    fn any_for_gap(
        &mut self,
        requests: &Requests,
        turn: &Turn,
        settings: &InjectSettings,
    ) -> Option<u32> {
        let is_long_enough = match turn.idle {
            Some(idle) => self.now >= idle.fill_from,
            None => !self.costs_shares(turn.flow),
        };
        if !is_long_enough {
            return None;
        }
        let stats = self.flows.stats(turn.flow);
        let idling_since = turn.idle.map(|idle| idle.since);
        let injection = self.flows.injection(turn.flow);
        if !injection.admits(settings, self.now, idling_since, self.in_device) {
            return None;
        }
        let is_patient = self.wr_coeff(turn.flow) == 1 || !stats.think_time.thinks_briefly();
        let at = self.hierarchy.runner_up(EntityId::flow(turn.flow))?;
        let is_allowed = is_patient || self.wr_coeff(at) > 1;
        let next = self.flows[at].next()?;
        let is_long = requests[next].request.extent.len >= LONG_ON_FLASH;
        let delays = is_long && !self.tunables.rotational && self.in_device > 0;
        (is_allowed && !delays && self.fits_gap(requests, turn, at)).then_some(at)
    }

    /// Whether a request of others takes a flow's share: the device is kept for it because of that, it seeks anyway, and
    /// a seek takes longer than the gaps of whoever returns at once. With one request of others after each of its own, it
    /// would have half of the device at most.
    pub(super) fn costs_shares(&self, at: u32) -> bool {
        self.tunables.rotational && self.flows[at].is_seeky() && self.is_asymmetric(at)
    }

    /// Whether a flow has a request that is no more than what is left of the budget of the one in service.
    fn fits_gap(&self, requests: &Requests, turn: &Turn, at: u32) -> bool {
        let entity = self.hierarchy.entities.flow(turn.flow);
        let left = entity.budget.saturating_sub(entity.service);
        let charge = self.next_charge(requests, at);
        at != turn.flow && charge > 0 && charge <= left
    }
}
