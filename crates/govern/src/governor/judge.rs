//! Judgement of the cgroups at the end of a window.

use super::Governor;
use super::attained::{Attained, attained};
use super::law::{Attainment, View};
use super::samples::{CgroupSample, Counters};
use super::scale::ONE;
use super::tree::Demand;

/// A limit binds a cgroup that attains this part of it, in thousandths.
const BOUND_PERMILLE: u64 = 900;

/// A cgroup in which some task waits for this part of the time wants more, in thousandths.
const WAITING_PERMILLE: u128 = 900;

/// A cgroup that gets less than this part of what it used before is squeezed, in thousandths.
const SQUEEZED_PERMILLE: u64 = 900;

impl Governor {
    /// Gathers for each domain what its cgroups attained since the window began. O(cgroups).
    pub(super) fn judge(&mut self, view: &View) {
        let time_ns = self.device.window_ns();
        let domains = &mut self.domains;
        for domain in domains.iter_mut() {
            domain.attainment = Attainment::default();
        }
        self.tree.visit(|_, node, is_held_above| {
            let done = node.last.and_then(|last| last.counters.since(node.base.counters));
            let done = done.unwrap_or_default();
            let Attained { least, most } = attained(node.cgroup.limits, done, time_ns);
            let domain = &mut domains[node.domain as usize];
            let is_bound = most >= thousandths(node.lambda, BOUND_PERMILLE);
            node.is_held = is_bound || is_held_above;
            let of_domain = &mut domain.attainment;
            of_domain.most = of_domain.most.max(least);
            of_domain.is_bound |= is_bound;
            if node.lambda != domain.lambda || done == Counters::default() {
                return;
            }
            if is_bound {
                node.demand = Demand::More;
            } else if !view.is_high() && !is_held_above {
                node.demand = Demand::Content(least);
            }
            let waits = node.last.and_then(|last| is_waiting(last, node.base, time_ns));
            // At less use it did not want more than it gets now.
            let is_content = matches!(node.demand, Demand::Content(wanted)
                if most >= thousandths(wanted, SQUEEZED_PERMILLE));
            let wants_more =
                is_bound || (!is_held_above && !is_content && waits.unwrap_or(view.is_full()));
            if wants_more {
                of_domain.least = Some(of_domain.least.map_or(most, |other| other.min(most)));
            } else if let Demand::Content(wanted) = node.demand
                && view.is_full()
                && most < thousandths(wanted.min(ONE), SQUEEZED_PERMILLE)
            {
                of_domain.is_squeezed = true;
            }
        });
    }
}

/// Whether some task waited most of the time, where that is told.
fn is_waiting(last: CgroupSample, base: CgroupSample, time_ns: u64) -> Option<bool> {
    let waited_ns = last.waited_ns?.checked_sub(base.waited_ns?)?;
    Some(u128::from(waited_ns) * 1000 >= WAITING_PERMILLE * u128::from(time_ns))
}

fn thousandths(amount: u64, permille: u64) -> u64 {
    let product = u128::from(amount) * u128::from(permille) / 1000;
    u64::try_from(product).unwrap_or(u64::MAX)
}
