//! Reconfiguration of hierarchy and settings under load, for throttle and scheduler.

use crate::core::Core;
use crate::event::Event;
use crate::latencies::Latencies;
use crate::requests::Stage;
use crate::stats::Counters;
use crate::tree::ROOT;
use crate::types::{Instant, PrioClass, Weight};

impl Core {
    /// Replaces the weight of `cgroup`.
    pub(crate) fn set_weight(&mut self, cgroup: u32, weight: Weight) {
        let old = self.tree.cgroups[cgroup].weight;
        if old == weight {
            return;
        }
        self.scheduler.take_device_from(&self.tree, &self.requests, cgroup);
        self.tree.cgroups[cgroup].weight = weight;
        self.throttle.weight_changed(&self.tree, cgroup, old);
        self.scheduler.update_cgroup_prio(&self.tree, cgroup);
    }

    /// Sets the priority class policy of `cgroup`. O(clients).
    pub(crate) fn set_prio_class(&mut self, cgroup: u32, prio_class: PrioClass) {
        self.scheduler.take_device_from(&self.tree, &self.requests, cgroup);
        self.tree.cgroups[cgroup].prio_class = prio_class;
        self.scheduler.update_cgroup_prio(&self.tree, cgroup);
        for (client, of) in self.tree.clients.iter() {
            if of.cgroup == cgroup {
                self.scheduler.reprioritize(&self.tree, client);
            }
        }
        self.scheduler.reprioritize_writeback(&self.tree, cgroup);
    }

    /// Moves `cgroup` to `parent`, which is not below it and has no child of its name.
    pub(crate) fn move_cgroup(&mut self, now: Instant, cgroup: u32, parent: u32) {
        let old = self.tree.cgroups[cgroup].parent;
        let (throttle, mut cx) = self.throttle(now);
        throttle.detach(&mut cx, cgroup);
        // These passed the limits of the old parent; the scheduler moves them with the others.
        self.schedule_ready(now);
        self.tree.move_cgroup(cgroup, parent);
        self.scheduler.move_cgroup(&self.tree, &self.requests, cgroup);
        let (throttle, mut cx) = self.throttle(now);
        throttle.attach(&mut cx, cgroup, old);
        self.release_if_done(old);
    }

    /// Removes `cgroup`, which has no children: offline now, freed with its last client.
    pub(crate) fn remove_cgroup(&mut self, cgroup: u32) {
        self.tree.set_offline(cgroup);
        self.release_if_done(cgroup);
    }

    /// Frees an offline cgroup without clients and children, and its offline ancestors likewise.
    pub(crate) fn release_if_done(&mut self, cgroup: u32) {
        let mut at = cgroup;
        while at != ROOT && self.tree.is_done(at) {
            let id = self.tree.id(at);
            let mut bfq = self.scheduler.forget_cgroup(&self.tree, &self.requests, at);
            // As in the kernel, what a removed cgroup did stays in its parent's sums.
            let (mut counters, mut latencies) = (Counters::default(), Latencies::default());
            self.add_counters(at, &mut counters);
            self.add_latencies(at, &mut latencies);
            if let Some(folded) = self.accounts.folded(at) {
                bfq.absorb(&folded.bfq);
            }
            let node = self.tree.remove_cgroup(at);
            self.throttle.remove_cgroup(at);
            let folded = self.accounts.folded_mut(node.parent);
            folded.counters.gather(&counters);
            folded.counters.blame.forget(|cgroup| self.tree.cgroup_index(cgroup).is_some());
            folded.latencies.absorb(&latencies);
            folded.bfq.absorb(&bfq);
            self.events.push_back(Event::CgroupReleased(id));
            at = node.parent;
        }
    }

    /// Removes a request that has not been dispatched.
    pub(crate) fn withdraw(&mut self, now: Instant, index: u32) {
        let record = &self.requests[index];
        let (task, cost, stage) = (record.task(), record.cost, record.stage);
        let d = record.request.op.direction().index();
        match stage {
            Stage::Dispatched => panic!("a request at the device cannot be withdrawn"),
            Stage::Ready => {
                // A request with a dispatched piece counts as dispatched.
                let has_begun = record.cut.is_some_and(|cut| cut.has_begun);
                self.scheduler.remove(&mut self.tree, &mut self.requests, task, index);
                if !has_begun {
                    self.audit.ready[d].subtract(cost);
                    self.audit.withdrawn[d].add(cost);
                }
            }
            Stage::Waiting | Stage::DispatchedToParent(_) => {
                let (throttle, mut cx) = self.throttle(now);
                if let Some(paid) = throttle.withdraw_waiting(&mut cx, index) {
                    self.audit.charged[d].add(paid);
                    self.audit.withdrawn[d].add(paid);
                }
                self.schedule_ready(now);
            }
        }
    }
}
