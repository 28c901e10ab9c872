//! Invariants of BFQ (spec/bfq 11), for tests, the lab and fuzzers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bfq::Bfq;
use crate::bfq::policy::lifecycle::counted_as;
use crate::bfq::scenario::Scenario;
use crate::bfq::wf2q::{EntityId, ServiceTree, State};
use crate::ensure::ensure;
use crate::merge::Position;
use crate::requests::{Requests, Stage};
use crate::tree::{ROOT, Tree};

impl Bfq {
    /// Checks flows, their requests and their entities. O(everything).
    ///
    /// # Errors
    ///
    /// A text that says what does not hold.
    pub(crate) fn check(&mut self, tree: &Tree, requests: &Requests) -> Result<(), String> {
        for at in self.flows.live() {
            self.check_flow(requests, at).map_err(|what| format!("flow {at}: {what}"))?;
            self.flows.check_wakers(at).map_err(|what| format!("flow {at}: {what}"))?;
        }
        self.check_counts(requests)?;
        self.check_in_service()?;
        self.merging.sets().check();
        for (cgroup, _) in tree.cgroups.iter() {
            self.check_group(tree, cgroup).map_err(|what| format!("cgroup {cgroup}: {what}"))?;
        }
        self.check_members(tree)
    }

    /// A flow's requests are in both of its orders, and its state fits.
    fn check_flow(&mut self, requests: &Requests, at: u32) -> Result<(), String> {
        let count = |stage: Stage| {
            let of_flow = requests.iter().filter(|(index, record)| {
                record.stage == stage && self.sort_nodes[*index].flow == at
            });
            of_flow.map(|(index, _)| index).collect::<Vec<u32>>()
        };
        let (ready, out) = (count(Stage::Ready), count(Stage::Dispatched));
        let flow = &self.flows[at];
        let id = EntityId::flow(at);
        let state = self.hierarchy.state(id);
        let is_busy = !matches!(state, State::Off | State::Idle);
        let is_counted = self.hierarchy.entities[id].is_counted;
        ensure(is_counted == (is_busy || flow.in_flight > 0), || {
            format!("{state:?}, {} out, counted: {is_counted}", flow.in_flight)
        })?;
        let (raising, wr_coeff) = (self.flows.raising(at), self.wr_coeff(at));
        raising.check(&self.wr_params())?;
        ensure(raising.state().wr_coeff() == wr_coeff, || {
            format!("{wr_coeff} times, and {raising:?}")
        })?;
        let members = self.merging.sets().members(self.flows.id(at));
        ensure(flow.is_alone() == (members == 1), || format!("alone, of {members}"))?;
        let is_gone = flow.is_orphaned() && flow.is_empty() && !is_busy;
        ensure(!is_gone, || "it should have been freed".into())?;
        let shown = self.pos_tree.place_of(self.flows.id(at));
        let next = flow.next().map(|next| Position(self.sort_nodes[next].at));
        ensure(shown.is_none() || shown == next, || format!("shown at {shown:?}, next {next:?}"))?;
        let mut by_age: Vec<u32> = flow.sort_list().by_age().iter(&mut self.sort_nodes).collect();
        let is_older = |pair: &[u32]| requests[pair[0]].since <= requests[pair[1]].since;
        ensure(by_age.windows(2).all(is_older), || "the oldest are not first".into())?;
        by_age.sort_unstable();
        ensure(by_age == ready, || format!("{ready:?} wait, listed are {by_age:?}"))?;
        ensure(flow.queued as usize == ready.len(), || format!("{} counted", flow.queued))?;
        ensure(flow.in_flight as usize == out.len(), || format!("{} out", flow.in_flight))?;
        let waiting = flow.sort_list();
        let mut by_position = Vec::new();
        let mut here = waiting.first(&self.sort_nodes);
        while let Some(index) = here {
            by_position.push(index);
            here =
                waiting.after(&self.sort_nodes, index).filter(|_| by_position.len() < ready.len());
        }
        let is_in_order = by_position.is_sorted_by_key(|&index| self.sort_nodes[index].at);
        ensure(is_in_order, || format!("by position they are {by_position:?}"))?;
        by_position.sort_unstable();
        ensure(by_position == ready, || format!("by position there are {by_position:?}"))?;
        let next = flow.next();
        ensure(next.map_or(ready.is_empty(), |next| ready.contains(&next)), || {
            format!("the next is {next:?} of {ready:?}")
        })?;
        let holds = self.in_service.is_some_and(|in_service| in_service.flow == at);
        ensure(holds == (state == State::InService), || format!("{state:?}, its turn: {holds}"))?;
        ensure(holds || state.is_active() != ready.is_empty(), || {
            format!("{state:?} with {} requests", ready.len())
        })
    }

    /// Each busy flow is counted once.
    fn check_counts(&self, requests: &Requests) -> Result<(), String> {
        let live = || self.flows.live().into_iter();
        let counted = live().filter(|&at| self.hierarchy.entities.flow(at).is_counted).count();
        let flows = self.scenario.flows();
        ensure(counted == flows as usize, || format!("{flows} flows counted, not {counted}"))?;
        let mut fresh = Scenario::default();
        for at in live() {
            let entity = self.hierarchy.entities.flow(at);
            if entity.is_counted {
                let (cgroup, class, weight) = counted_as(entity);
                fresh.enter(cgroup, class, weight);
            }
        }
        ensure(self.scenario.counts_alike(&fresh), || {
            format!("counted by weight, class and cgroup are {:?}, not {fresh:?}", self.scenario)
        })?;
        let is_raised = |at: u32| {
            let entity = self.hierarchy.entities.flow(at);
            entity.is_counted && entity.next_wr_coeff > 1
        };
        let raised = live().filter(|&at| is_raised(at)).count();
        let told = self.scenario.raised();
        ensure(raised == told as usize, || format!("{told} flows raised, not {raised}"))?;
        let state = |at| self.hierarchy.state(EntityId::flow(at));
        let busy = live().filter(|&at| !matches!(state(at), State::Off | State::Idle)).count();
        ensure(busy == self.busy as usize, || format!("{} flows busy, not {busy}", self.busy))?;
        let at_device = || requests.iter().filter(|(_, record)| record.stage == Stage::Dispatched);
        let (out, in_device) = (at_device().count(), self.in_device);
        ensure(out == in_device as usize, || format!("{in_device} requests out, not {out}"))?;
        let bytes: u64 = at_device().map(|(_, record)| u64::from(record.request.data_len())).sum();
        ensure(bytes == self.flash_bound.bytes(), || {
            format!("{} bytes out, not {bytes}", self.flash_bound.bytes())
        })
    }

    /// The flow in service is within its budget, and idled for only while it is empty.
    fn check_in_service(&self) -> Result<(), String> {
        let Some(in_service) = &self.in_service else { return Ok(()) };
        let (flow, entity) =
            (&self.flows[in_service.flow], self.hierarchy.entities.flow(in_service.flow));
        ensure(in_service.since <= in_service.deadline, || {
            format!("{in_service:?} ends before it begins")
        })?;
        ensure(in_service.idle.is_none() || flow.is_empty(), || {
            format!("{in_service:?}, with {} waiting and {} out", flow.queued, flow.in_flight)
        })?;
        // The first request of a slot is dispatched whatever its charge.
        ensure(entity.service <= entity.budget || in_service.sent <= 1, || {
            format!("{} served of a budget of {}, {in_service:?}", entity.service, entity.budget)
        })
    }

    /// A cgroup is active exactly while a child is, with the budget of the next child; in service while a child is.
    fn check_group(&mut self, tree: &Tree, cgroup: u32) -> Result<(), String> {
        let entities = &mut self.hierarchy.entities;
        let Some(sched_data) = self.hierarchy.sched_data.get_mut(cgroup as usize) else {
            return Ok(());
        };
        sched_data.trees().try_for_each(|tree| tree.check(entities))?;
        if cgroup == ROOT {
            return Ok(());
        }
        let Some(&entity) = entities.get(EntityId::group(cgroup)) else {
            return ensure(sched_data.active() == 0, || "children without a parent".into());
        };
        let in_service = sched_data.in_service().is_some();
        ensure(in_service == (entity.state == State::InService), || {
            format!("{:?}, a child in service: {in_service}", entity.state)
        })?;
        if in_service {
            return Ok(());
        }
        let active = sched_data.active();
        ensure(entity.state.is_active() == (active > 0), || {
            format!("{:?} with {active} active children", entity.state)
        })?;
        let next = sched_data.next(entities);
        let budget = next.map_or(entity.budget, |next| entities[next].budget);
        ensure(entity.budget == budget, || {
            format!("its budget is {}, that of its next child {budget}", entity.budget)
        })?;
        ensure(tree.cgroups[cgroup].parent == entity.parent || entity.state == State::Off, || {
            format!("it stands in cgroup {}", entity.parent)
        })
    }

    /// Each entity is counted once, by its own parent.
    fn check_members(&self, tree: &Tree) -> Result<(), String> {
        let mut counted = alloc::vec![0; self.hierarchy.sched_data.len()];
        for id in self.hierarchy.entities.ids() {
            let entity = &self.hierarchy.entities[id];
            if entity.state != State::Off {
                counted[entity.parent as usize] += 1;
            }
        }
        for (cgroup, (sched_data, counted)) in
            self.hierarchy.sched_data.iter().zip(counted).enumerate()
        {
            let idle: usize = sched_data.trees().map(ServiceTree::idle_len).sum();
            let members =
                sched_data.active() + idle + usize::from(sched_data.in_service().is_some());
            ensure(members == counted, || {
                format!("cgroup {cgroup} has {members} members, of whom {counted} know")
            })?;
            let exists = tree.cgroups.get(cgroup as u32).is_some();
            ensure(exists || members == 0, || format!("cgroup {cgroup} is gone, with {members}"))?;
        }
        Ok(())
    }
}
