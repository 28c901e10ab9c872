//! Who is busy, as far as it decides whether shares need the device to wait (specification 1.8).

use alloc::vec::Vec;

use crate::priority::PriorityClass;

/// Counts of the flows that are busy or have requests at the device. Every step is O(log distinct weights), and
/// allocates only for a weight or a cgroup that was never seen.
#[derive(Default)]
pub(crate) struct Scenario {
    /// How many flows have a weight, by weight. Weights stay, with 0: there are few.
    weights: Vec<(u32, u32)>,
    /// Weights that somebody has.
    distinct: u32,
    /// Flows whose weight is raised; they are not among the weights.
    raised: u32,
    /// Busy flows by class.
    classes: [u32; 3],
    /// Flows by cgroup.
    groups: Vec<u32>,
    /// Cgroups that have some.
    busy_groups: u32,
}

impl Scenario {
    /// A flow is busy; `weight` is none while it is raised.
    pub(crate) fn enter(&mut self, cgroup: u32, class: PriorityClass, weight: Option<u32>) {
        match weight {
            Some(weight) => self.enter_weight(weight),
            None => self.raised += 1,
        }
        self.classes[class.index()] += 1;
        if self.groups.len() <= cgroup as usize {
            self.groups.resize(cgroup as usize + 1, 0);
        }
        let flows = &mut self.groups[cgroup as usize];
        self.busy_groups += u32::from(*flows == 0);
        *flows += 1;
    }

    fn enter_weight(&mut self, weight: u32) {
        let at = match self.weights.binary_search_by_key(&weight, |&(weight, _)| weight) {
            Ok(at) => at,
            Err(at) => {
                self.weights.insert(at, (weight, 0));
                at
            }
        };
        self.distinct += u32::from(self.weights[at].1 == 0);
        self.weights[at].1 += 1;
    }

    /// The opposite of [`Scenario::enter`], with what was entered.
    pub(crate) fn leave(&mut self, cgroup: u32, class: PriorityClass, weight: Option<u32>) {
        match weight {
            Some(weight) => {
                let at = self.weights.binary_search_by_key(&weight, |&(weight, _)| weight);
                let flows = &mut self.weights[at.expect("a weight that was entered")].1;
                *flows -= 1;
                self.distinct -= u32::from(*flows == 0);
            }
            None => self.raised -= 1,
        }
        self.classes[class.index()] -= 1;
        let flows = &mut self.groups[cgroup as usize];
        *flows -= 1;
        self.busy_groups -= u32::from(*flows == 0);
    }

    /// Flows that are counted.
    pub(crate) fn flows(&self) -> u32 {
        self.classes.iter().sum()
    }

    /// Flows that are counted and raised.
    pub(crate) fn raised(&self) -> u32 {
        self.raised
    }

    /// Whether somebody with this weight, none while it is raised, needs the device to wait, to get the share that is due:
    /// among equals, nobody does; the lightest does not among others of one class and one cgroup.
    pub(crate) fn is_asymmetric(&self, weight: Option<u32>) -> bool {
        let lightest =
            || self.weights.iter().find(|&&(_, flows)| flows > 0).map(|&(weight, _)| weight);
        let classes = self.classes.iter().filter(|&&flows| flows > 0).count();
        (self.distinct > 1 && lightest() != weight) || classes > 1 || self.busy_groups > 1
    }
}
