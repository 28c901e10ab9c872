//! `flow`: jobs of one `flow_id` keep their requests in proportion to their weights.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Flows {
    groups: BTreeMap<u32, Group>,
    /// By process, from its first request to its end.
    members: BTreeMap<u32, Member>,
}

#[derive(Debug, Default)]
struct Group {
    weight: u64,
    requests: u64,
    waiting: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    flow_id: u32,
    weight: u64,
    requests: u64,
}

impl Flows {
    /// True if a process may make a request now, which then counts. As in fio, a process waits while its share of the
    /// flow's requests is above that of its weight. Processes that need not wait any more are put into `freed`.
    ///
    /// O(log processes), and O(waiting processes) after a yes.
    pub(super) fn ask(
        &mut self,
        process: u32,
        flow_id: u32,
        weight: u32,
        freed: &mut Vec<u32>,
    ) -> bool {
        let group = self.groups.entry(flow_id).or_default();
        let member = self.members.entry(process).or_insert_with(|| {
            group.weight += u64::from(weight);
            Member { flow_id, weight: weight.into(), requests: 0 }
        });
        if is_ahead(member, group) {
            if !group.waiting.contains(&process) {
                group.waiting.push(process);
            }
            return false;
        }
        member.requests += 1;
        group.requests += 1;
        group.waiting.retain(|&waiting| waiting != process);
        self.free(flow_id, freed);
        true
    }

    pub(super) fn leave(&mut self, process: u32, freed: &mut Vec<u32>) {
        let Some(member) = self.members.remove(&process) else { return };
        if let Some(group) = self.groups.get_mut(&member.flow_id) {
            group.weight -= member.weight;
            group.requests -= member.requests;
            group.waiting.retain(|&waiting| waiting != process);
        }
        self.free(member.flow_id, freed);
    }

    fn free(&mut self, flow_id: u32, freed: &mut Vec<u32>) {
        let Some(group) = self.groups.get_mut(&flow_id) else { return };
        let waiting = std::mem::take(&mut group.waiting);
        let still = waiting.into_iter().filter(|process| {
            let waits = is_ahead(&self.members[process], group);
            if !waits {
                freed.push(*process);
            }
            waits
        });
        let still = still.collect();
        group.waiting = still;
    }
}

/// Never true of all members at once: their requests and weights add up to the group's.
fn is_ahead(member: &Member, group: &Group) -> bool {
    u128::from(member.requests) * u128::from(group.weight)
        > u128::from(group.requests) * u128::from(member.weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_flow_follow_weights() {
        let (mut flows, mut freed) = (Flows::default(), Vec::new());
        let mut made = [0; 3];
        for _ in 0..600 {
            for (process, weight) in [3, 2, 1].into_iter().enumerate() {
                made[process] += u32::from(flows.ask(process as u32, 7, weight, &mut freed));
            }
        }
        // The first goes each time it asks, and the others keep to their parts.
        assert!(made[0] >= 599 && made[1].abs_diff(400) <= 1, "{made:?}");
        assert!(made[2].abs_diff(200) <= 1, "{made:?}");
        freed.clear();
        while flows.ask(0, 7, 3, &mut freed) {}
        assert!(freed.is_empty());
        flows.leave(1, &mut freed);
        flows.leave(2, &mut freed);
        assert_eq!(freed, [0]);
        assert!((0..1000).all(|_| flows.ask(0, 7, 3, &mut freed)));
    }
}
