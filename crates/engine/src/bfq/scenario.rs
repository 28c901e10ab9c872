//! Asymmetric scenario: whether the busy flows differ so that shares need idling (spec/bfq 1.8).

use alloc::vec::Vec;

use super::weight_raising::BURST_INTERVAL_NS;
use crate::tree::ROOT;
use crate::types::{Instant, PriorityClass};

/// Counts of the flows that are busy or have requests at the device. A step is O(log distinct weights) and allocates
/// only for a new weight or cgroup.
#[derive(Debug, Default)]
pub(crate) struct Scenario {
    /// Number of flows by weight, ordered. Weights stay with 0, since there are few.
    weights: Vec<(u32, u32)>,
    /// Weights with flows.
    distinct: u32,
    /// Weight-raised flows, which are not in `weights`.
    raised: u32,
    /// Busy flows by class.
    classes: [u32; 3],
    groups: Vec<Group>,
    /// Cgroups with busy flows.
    busy_groups: u32,
}

/// Busy flows of one cgroup.
#[derive(Clone, Copy, Debug)]
struct Group {
    flows: u32,
    raised: u32,
    /// Begin of the raising of the flow last found to be a stream and no application, or [`NEVER`].
    stream_since: Instant,
}

const NEVER: Instant = Instant::FAR_FUTURE;

impl Group {
    const EMPTY: Group = Group { flows: 0, raised: 0, stream_since: NEVER };
}

impl Scenario {
    /// Counts a busy flow. `weight` is `None` while it is raised.
    pub(crate) fn enter(&mut self, cgroup: u32, class: PriorityClass, weight: Option<u32>) {
        match weight {
            Some(weight) => self.enter_weight(weight),
            None => self.raised += 1,
        }
        let is_raised = weight.is_none();
        self.classes[class.index()] += 1;
        if self.groups.len() <= cgroup as usize {
            self.groups.resize(cgroup as usize + 1, Group::EMPTY);
        }
        let group = &mut self.groups[cgroup as usize];
        self.busy_groups += u32::from(group.flows == 0);
        group.flows += 1;
        group.raised += u32::from(is_raised);
    }

    fn enter_weight(&mut self, weight: u32) {
        let at = match self.find(weight) {
            Ok(at) => at,
            Err(at) => {
                self.weights.insert(at, (weight, 0));
                at
            }
        };
        self.distinct += u32::from(self.weights[at].1 == 0);
        self.weights[at].1 += 1;
    }

    /// Index of a weight, or where it belongs.
    fn find(&self, weight: u32) -> Result<usize, usize> {
        match self.weights.first() {
            // Mostly there is one weight.
            Some(&(lightest, _)) if lightest == weight => Ok(0),
            _ => self.weights.binary_search_by_key(&weight, |&(weight, _)| weight),
        }
    }

    /// Undoes [`Scenario::enter`], with the same arguments.
    pub(crate) fn leave(&mut self, cgroup: u32, class: PriorityClass, weight: Option<u32>) {
        match weight {
            Some(weight) => {
                let at = self.find(weight);
                let flows = &mut self.weights[at.expect("a weight that was entered")].1;
                *flows -= 1;
                self.distinct -= u32::from(*flows == 0);
            }
            None => self.raised -= 1,
        }
        self.classes[class.index()] -= 1;
        let group = &mut self.groups[cgroup as usize];
        group.flows -= 1;
        group.raised -= u32::from(weight.is_none());
        self.busy_groups -= u32::from(group.flows == 0);
    }

    /// Busy flows.
    pub(crate) fn flows(&self) -> u32 {
        self.classes.iter().sum()
    }

    /// Busy flows that are raised.
    pub(crate) fn raised(&self) -> u32 {
        self.raised
    }

    /// Busy flows of a cgroup that are raised.
    pub(crate) fn raised_of(&self, cgroup: u32) -> u32 {
        self.groups.get(cgroup as usize).map_or(0, |group| group.raised)
    }

    /// Whether a cgroup has a busy flow that is raised.
    pub(crate) fn has_raised_in(&self, cgroup: u32) -> bool {
        self.raised_of(cgroup) > 0
    }

    /// Whether a raised flow of a cgroup has busy siblings that are not raised. Siblings of the root's flows are
    /// cgroups too.
    pub(crate) fn has_unraised_in(&self, cgroup: u32) -> bool {
        let group = self.groups.get(cgroup as usize).copied().unwrap_or(Group::EMPTY);
        group.raised < group.flows || (cgroup == ROOT && self.busy_groups > 1)
    }

    /// Whether other cgroups have busy flows that are not raised.
    pub(crate) fn has_unraised_beside(&self, cgroup: u32) -> bool {
        let group = self.groups.get(cgroup as usize).copied().unwrap_or(Group::EMPTY);
        self.flows() - self.raised > group.flows - group.raised
    }

    /// Notes that a flow raised at `since` is a stream and no application.
    pub(crate) fn note_stream(&mut self, cgroup: u32, since: Instant) {
        if let Some(group) = self.groups.get_mut(cgroup as usize) {
            group.stream_since = since;
        }
    }

    /// Whether a flow raised at `since` began together with such a stream.
    pub(crate) fn is_with_stream(&self, cgroup: u32, since: Instant) -> bool {
        let group = self.groups.get(cgroup as usize);
        group.map(|group| group.stream_since).filter(|&stream| stream != NEVER).is_some_and(
            |stream| since.nanos_since(stream).max(stream.nanos_since(since)) <= BURST_INTERVAL_NS,
        )
    }

    /// Whether the counts equal those of `fresh`, counted anew. O(weights + cgroups).
    pub(crate) fn counts_alike(&self, fresh: &Scenario) -> bool {
        let weights = |scenario: &Scenario| -> Vec<(u32, u32)> {
            scenario.weights.iter().copied().filter(|&(_, flows)| flows > 0).collect()
        };
        let group = |scenario: &Scenario, at: usize| {
            scenario.groups.get(at).map_or((0, 0), |group| (group.flows, group.raised))
        };
        let mut groups = 0..self.groups.len().max(fresh.groups.len());
        (self.distinct, self.raised, self.classes, self.busy_groups)
            == (fresh.distinct, fresh.raised, fresh.classes, fresh.busy_groups)
            && weights(self) == weights(fresh)
            && groups.all(|at| group(self, at) == group(fresh, at))
    }

    /// True if service guarantees for a flow of this weight require idling (asymmetric scenario). Never among equals,
    /// and not for the lightest of one class and cgroup. `None` while it is raised.
    pub(crate) fn is_asymmetric(&self, weight: Option<u32>) -> bool {
        let lightest =
            || self.weights.iter().find(|&&(_, flows)| flows > 0).map(|&(weight, _)| weight);
        let classes = self.classes.iter().filter(|&&flows| flows > 0).count();
        (self.distinct > 1 && lightest() != weight) || classes > 1 || self.busy_groups > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_and_other_flows_are_counted_by_cgroup() {
        let (class, mut scenario) = (PriorityClass::BestEffort, Scenario::default());
        // Cgroup 1 has a raised and a non-raised flow, 2 a raised and 3 a non-raised one.
        for (cgroup, weight) in [(1, None), (1, Some(100)), (2, None), (3, Some(100))] {
            scenario.enter(cgroup, class, weight);
        }
        let raised =
            |scenario: &Scenario| [1, 2, 3, 9].map(|cgroup| scenario.has_raised_in(cgroup));
        let plain =
            |scenario: &Scenario| [1, 2, 3, 9].map(|cgroup| scenario.has_unraised_in(cgroup));
        assert_eq!(raised(&scenario), [true, true, false, false]);
        assert_eq!(plain(&scenario), [true, false, true, false]);
        assert!(scenario.has_unraised_in(ROOT), "it has cgroups beside it");
        let beside = [1, 2, 3, 9].map(|cgroup| scenario.has_unraised_beside(cgroup));
        assert_eq!(beside, [true; 4]);
        scenario.leave(1, class, Some(100));
        scenario.leave(2, class, None);
        assert_eq!(raised(&scenario), [true, false, false, false]);
        assert_eq!(plain(&scenario), [false, false, true, false]);
        assert_eq!((scenario.flows(), scenario.raised()), (2, 1));
        assert!(scenario.has_unraised_beside(1) && !scenario.has_unraised_beside(3));
    }

    #[test]
    fn together_is_within_the_interval_of_a_burst() {
        let mut scenario = Scenario::default();
        scenario.enter(1, PriorityClass::BestEffort, None);
        let at = Instant::from_millis;
        assert!(!scenario.is_with_stream(1, at(1_000)));
        scenario.note_stream(1, at(1_000));
        let table = [(819, false), (820, true), (1_000, true), (1_180, true), (1_181, false)];
        for (since, is_with) in table {
            assert_eq!(scenario.is_with_stream(1, at(since)), is_with, "{since} ms");
        }
        assert!(!scenario.is_with_stream(2, at(1_000)), "another cgroup");
    }
}
