//! Injection: requests of other flows while the device idles for the one in service (spec/bfq 7.8, 7.9).
//!
//! The candidates, in this order: the client's own writeback, the waker of the flow in service, a flow that it wakes,
//! and the next flow of all, as far as the latency of the flow in service allows. An injected request is charged to
//! its own flow.

use super::budget::next_charge;
use super::counters::Injection as Kind;
use super::data::BfqData;
use super::device::LONG_ON_FLASH;
use super::flow::{self, Owner};
use super::idling::boosts_throughput;
use super::in_service::{Idle, InService};
use super::inject_limit::Probe;
use crate::merge::QueueId;
use crate::merge::waker::{InjectSettings, InjectionCandidates, InjectionSource};
use crate::requests::Requests;
use crate::tree::Tree;
use crate::types::Instant;

/// Number of woken flows considered for injection, most recently backlogged first.
const WOKEN_MAX: usize = 4;

/// What injection measures and remembers of the device's completions.
pub(super) struct Injection {
    /// Measurement for the flow in service.
    probe: Probe,
    /// Flow and instant of the last completion.
    last_completed: Option<(QueueId, Instant)>,
}

impl Injection {
    pub(super) fn new() -> Injection {
        Injection { probe: Probe::default(), last_completed: None }
    }

    /// The only request of flow `at` has come: updates its waker and, in service, its limit.
    pub(super) fn arrived(&mut self, data: &mut BfqData, at: u32, is_in_service: bool) {
        let (settings, queue) = (settings(data), data.flows.id(at));
        let briefly = data.flows.stats(at).think_time.thinks_briefly();
        // Idling for a flow that thinks briefly is short; it needs no waker.
        if !briefly {
            let known = data.flows.sparse(at).waker;
            let mut waker = known;
            let found = waker.observe(&settings, data.now, queue, briefly, self.last_completed);
            if let Some(gone) = found.filter(|&found| !data.flows.is_current(found)) {
                waker.forget(gone);
            }
            // Mostly nothing changes.
            if waker != known {
                data.flows.set_waker(at, waker);
            }
        }
        if is_in_service {
            let (limit, in_device) = (data.flows.inject_limit_mut(at), data.device.in_flight());
            self.probe.arrived(limit, &settings, data.now, briefly, in_device);
        }
    }

    /// The request at `index` is dispatched; the device counts it. `is_own`: it is of the flow in service.
    #[inline]
    pub(super) fn dispatched(&mut self, data: &BfqData, index: u32, is_own: bool) {
        self.probe.dispatched(index, is_own, data.device.in_flight());
    }

    /// The request at `index` has completed; the device still counts it.
    #[inline]
    pub(super) fn completed(
        &mut self,
        data: &mut BfqData,
        in_service: Option<&InService>,
        index: u32,
    ) {
        if self.probe.measures(index)
            && let Some(in_service) = in_service
        {
            let limit = data.flows.inject_limit_mut(in_service.flow());
            self.probe.completed(limit, data.now, data.device.in_flight());
        }
    }

    /// The last completion was of this flow; of none if that is no waker.
    #[inline]
    pub(super) fn set_last_completed(&mut self, flow: Option<(QueueId, Instant)>) {
        self.last_completed = flow;
    }

    /// Ends the measurement: the slot is over, or a request of its flow was withdrawn.
    pub(super) fn reset(&mut self) {
        self.probe.reset();
    }

    /// The flow of which a request is injected, and why. The flow in service has none waiting.
    pub(super) fn choose(
        &mut self,
        data: &mut BfqData,
        in_service: &InService,
        tree: &Tree,
        requests: &Requests,
    ) -> Option<(u32, Kind)> {
        if data.waiting == 0 || data.tunables().strict_guarantees {
            return None;
        }
        let settings = settings(data);
        let candidates = candidates(data, in_service, tree, requests);
        match candidates.choose(&settings) {
            InjectionSource::None => None,
            InjectionSource::Queue(queue) if candidates.own_async == Some(queue) => {
                Some((queue.index, Kind::OwnAsync))
            }
            InjectionSource::Queue(queue) if candidates.waker == Some(queue) => {
                Some((queue.index, Kind::Waker))
            }
            InjectionSource::Queue(queue) => Some((queue.index, Kind::Woken)),
            InjectionSource::Any => {
                let at = any(data, in_service, requests, &settings)?;
                self.probe.injected();
                Some((at, Kind::Other))
            }
        }
    }
}

fn settings(data: &BfqData) -> InjectSettings {
    InjectSettings { slice_idle_ns: data.tunables().slice_idle_ns, ..InjectSettings::default() }
}

/// Related flows whose next request fits into the budget left.
fn candidates(
    data: &BfqData,
    in_service: &InService,
    tree: &Tree,
    requests: &Requests,
) -> InjectionCandidates {
    let at = in_service.flow();
    let stats = data.flows.stats(at);
    let fits = |other: &u32| fits_budget_left(data, in_service, requests, *other);
    let own_async = match data.schedule.owner(at).kind() {
        flow::Kind::Client(client) => {
            let is_own = |at: &u32| {
                let next = data.flows[*at].next();
                next.is_some_and(|next| tree.tasks[requests[next].task()].client == client)
            };
            let writeback = data.flows.of(Owner::writeback(data.schedule.cgroup(at)));
            writeback.filter(is_own).filter(fits)
        }
        flow::Kind::Writeback(_) => None,
    };
    // On rotational devices a flow with requests in flight waits for no other, nor does one expected within 1 ms.
    let waits = !data.tunables().rotational
        || in_service.idle().is_some_and(|idle| idle.admits_others(data.now));
    let waker = data.flows.sparse(at).waker.get();
    let waker = waker.map(|waker| waker.index).filter(|_| waits).filter(fits);
    let woken = data.flows.woken(at).take(WOKEN_MAX).filter(|_| waits).find(fits);
    let is_raised = data.schedule.wr_coeff(at) > 1;
    let id = |at: u32| data.flows.id(at);
    InjectionCandidates {
        own_async: own_async.map(id),
        waker: waker.map(id),
        woken: woken.map(id),
        injected: in_service.injected(),
        boosts_throughput: boosts_throughput(data, Some(in_service), at),
        is_precious: is_raised && data.schedule.raised() <= 1 && stats.think_time.thinks_briefly(),
    }
}

/// The next flow of all, if the injection limit allows it and the flow in service is not expected sooner.
fn any(
    data: &mut BfqData,
    in_service: &InService,
    requests: &Requests,
    settings: &InjectSettings,
) -> Option<u32> {
    let served = in_service.flow();
    let is_long_enough = match in_service.idle() {
        Some(idle) => idle.admits_others(data.now),
        None => !data.costs_shares(served),
    };
    if !is_long_enough {
        return None;
    }
    let stats = data.flows.stats(served);
    let idling_since = in_service.idle().map(Idle::since);
    let limit = data.flows.inject_limit(served);
    if !limit.admits(settings, data.now, idling_since, data.device.in_flight()) {
        return None;
    }
    let is_patient = data.schedule.wr_coeff(served) == 1 || !stats.think_time.thinks_briefly();
    let at = data.schedule.runner_up(served)?;
    let is_allowed = is_patient || data.schedule.wr_coeff(at) > 1;
    let next = data.flows[at].next()?;
    let is_long = requests[next].request.extent.len >= LONG_ON_FLASH;
    let delays = is_long && !data.tunables().rotational && data.device.in_flight() > 0;
    (is_allowed && !delays && fits_budget_left(data, in_service, requests, at)).then_some(at)
}

/// Whether the next request of flow `at` fits into what the flow in service has left of its budget.
fn fits_budget_left(data: &BfqData, in_service: &InService, requests: &Requests, at: u32) -> bool {
    let entity = data.schedule.entity(in_service.flow());
    let left = entity.budget.saturating_sub(entity.service);
    let charge = next_charge(data, requests, at);
    at != in_service.flow() && charge > 0 && charge <= left
}
