//! Invariants of BFQ (specification 11), for tests, the lab and fuzzers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entity::EntityId;
use super::{Bfq, State};
use crate::check::ensure;
use crate::requests::{Requests, Stage};
use crate::tree::{ROOT, Tree};

impl Bfq {
    /// Whether flows, their requests and their places in the hierarchy fit together. O(everything).
    ///
    /// # Errors
    /// A text that says what does not.
    pub(crate) fn check(&mut self, tree: &Tree, requests: &Requests) -> Result<(), String> {
        for (client, _) in tree.clients.iter() {
            self.check_flow(tree, requests, client)
                .map_err(|what| format!("flow of client {client}: {what}"))?;
        }
        for (cgroup, _) in tree.cgroups.iter() {
            self.check_group(tree, cgroup).map_err(|what| format!("cgroup {cgroup}: {what}"))?;
        }
        self.check_homes(tree)
    }

    /// A flow has its client's requests, twice, and stands where that belongs.
    fn check_flow(&mut self, tree: &Tree, requests: &Requests, client: u32) -> Result<(), String> {
        let count = |stage: Stage| {
            let of_client = requests.iter().filter(move |(_, record)| {
                record.stage == stage && tree.tasks[record.task].client == client
            });
            of_client.map(|(index, _)| index).collect::<Vec<u32>>()
        };
        let (ready, out) = (count(Stage::Ready), count(Stage::Dispatched));
        let Some(flow) = self.flows.get(client as usize) else {
            return ensure(ready.is_empty(), || format!("{ready:?} wait without a flow"));
        };
        let mut by_age: Vec<u32> = flow.by_age().iter(&mut self.places).collect();
        let is_older = |pair: &[u32]| requests[pair[0]].since <= requests[pair[1]].since;
        ensure(by_age.windows(2).all(is_older), || "the oldest are not first".into())?;
        by_age.sort_unstable();
        ensure(by_age == ready, || format!("{ready:?} wait, listed are {by_age:?}"))?;
        ensure(flow.queued as usize == ready.len(), || format!("{} counted", flow.queued))?;
        ensure(flow.in_flight as usize == out.len(), || format!("{} out", flow.in_flight))?;
        let tree_of = flow.by_position();
        let mut by_position = Vec::new();
        let mut at = tree_of.first(&self.places);
        while let Some(index) = at {
            by_position.push(index);
            at = tree_of.after(&self.places, index);
        }
        by_position.sort_unstable();
        ensure(by_position == ready, || format!("by position there are {by_position:?}"))?;
        let next = flow.next();
        ensure(next.map_or(ready.is_empty(), |next| ready.contains(&next)), || {
            format!("the next is {next:?} of {ready:?}")
        })?;
        let state = self.hierarchy.state(EntityId::flow(client));
        let holds = self.turn.is_some_and(|turn| turn.client == client);
        ensure(holds == (state == State::InService), || format!("{state:?}, its turn: {holds}"))?;
        ensure(holds || state.is_active() != ready.is_empty(), || {
            format!("{state:?} with {} requests", ready.len())
        })
    }

    /// A cgroup is active exactly while a child is, with the budget of the next; in service while a child is.
    fn check_group(&mut self, tree: &Tree, cgroup: u32) -> Result<(), String> {
        let entities = &mut self.hierarchy.entities;
        let Some(service_tree) = self.hierarchy.trees.get_mut(cgroup as usize) else {
            return Ok(());
        };
        service_tree.check(entities)?;
        if cgroup == ROOT {
            return Ok(());
        }
        let Some(&entity) = entities.get(EntityId::group(cgroup)) else {
            return ensure(service_tree.active() == 0, || "children without a parent".into());
        };
        let in_service = service_tree.in_service().is_some();
        ensure(in_service == (entity.state == State::InService), || {
            format!("{:?}, a child in service: {in_service}", entity.state)
        })?;
        if in_service {
            return Ok(());
        }
        let active = service_tree.active();
        ensure(entity.state.is_active() == (active > 0), || {
            format!("{:?} with {active} active children", entity.state)
        })?;
        let next = service_tree.next(entities);
        let budget = next.map_or(entity.budget, |next| entities[next].budget);
        ensure(entity.budget == budget, || {
            format!("its budget is {}, that of its next child {budget}", entity.budget)
        })?;
        ensure(tree.cgroups[cgroup].parent == entity.parent || entity.state == State::Off, || {
            format!("it stands in cgroup {}", entity.parent)
        })
    }

    /// Everyone counted is counted once, by their own parent.
    fn check_homes(&self, tree: &Tree) -> Result<(), String> {
        let mut counted = alloc::vec![0; self.hierarchy.trees.len()];
        for id in self.hierarchy.entities.ids() {
            let entity = &self.hierarchy.entities[id];
            if entity.state != State::Off {
                counted[entity.parent as usize] += 1;
            }
        }
        for (cgroup, (service_tree, counted)) in
            self.hierarchy.trees.iter().zip(counted).enumerate()
        {
            let members = service_tree.active()
                + service_tree.resting()
                + usize::from(service_tree.in_service().is_some());
            ensure(members == counted, || {
                format!("cgroup {cgroup} has {members} members, of whom {counted} know")
            })?;
            let exists = tree.cgroups.get(cgroup as u32).is_some();
            ensure(exists || members == 0, || format!("cgroup {cgroup} is gone, with {members}"))?;
        }
        Ok(())
    }
}
