//! Large bursts: many flows created at once by a service with workers, a boot or a parallel build (spec/bfq 6.4).
//!
//! No user waits for one of them more than for the others, so none is raised. The first flows are marked when the
//! eighth is created.

use crate::types::Instant;

/// Longest time from one creation to the next in a burst.
pub(crate) const BURST_INTERVAL_NS: u64 = 180_000_000;
/// Number of flows that makes a burst large.
const LARGE: usize = 8;

/// Flows created shortly after each other in one cgroup, until the burst is large. One a device.
#[derive(Clone, Debug)]
pub(crate) struct Burst {
    last: Instant,
    cgroup: u32,
    is_large: bool,
    /// Number of listed flows.
    len: u8,
    /// Flows to mark if the burst becomes large.
    listed: [u32; LARGE - 1],
}

/// Effect of a creation on weight raising.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Created {
    /// None so far.
    Alone,
    /// The flow belongs to a large burst.
    AmongMany,
    /// The flow and these belong to a large burst.
    MadeMany([u32; LARGE - 1]),
}

impl Burst {
    pub(crate) const fn new() -> Burst {
        Burst { last: Instant::ZERO, cgroup: 0, is_large: false, len: 0, listed: [0; LARGE - 1] }
    }

    /// `flow` of `cgroup` has its first request. `is_anyone_busy`: other flows have requests.
    ///
    /// A burst begins only on an idle device: beside others, flows come one by one and stay.
    pub(crate) fn created(
        &mut self,
        now: Instant,
        flow: u32,
        cgroup: u32,
        is_anyone_busy: bool,
    ) -> Created {
        let is_going_on = self.is_large || self.len > 0;
        if !is_going_on && is_anyone_busy {
            return Created::Alone;
        }
        let is_over = now > self.last.plus_nanos(BURST_INTERVAL_NS) || cgroup != self.cgroup;
        self.last = now;
        if is_over {
            *self = Burst { last: now, cgroup, ..Burst::new() };
            if is_anyone_busy {
                return Created::Alone;
            }
        }
        if self.is_large {
            return Created::AmongMany;
        }
        let len = usize::from(self.len);
        if len == self.listed.len() {
            (self.is_large, self.len) = (true, 0);
            return Created::MadeMany(self.listed);
        }
        self.listed[len] = flow;
        self.len += 1;
        Created::Alone
    }

    /// Takes out a closed flow. Short-lived helpers make no burst.
    pub(crate) fn forget(&mut self, flow: u32) {
        let len = usize::from(self.len);
        if let Some(at) = self.listed[..len].iter().position(|&listed| listed == flow) {
            self.listed.copy_within(at + 1..len, at);
            self.len -= 1;
        }
    }

    /// Whether `flow` is marked if the burst becomes large.
    #[cfg(test)]
    pub(crate) fn lists(&self, flow: u32) -> bool {
        self.listed[..usize::from(self.len)].contains(&flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(burst: &mut Burst, ms: u64, flow: u32, busy: bool) -> Created {
        burst.created(Instant::from_millis(ms), flow, 0, busy)
    }

    #[test]
    fn eight_make_a_burst_large() {
        // spec/bfq EX-18. Only the first finds an idle device.
        let mut burst = Burst::new();
        for flow in 0..7 {
            let at = 1_000 + u64::from(flow) * 100;
            assert_eq!(created(&mut burst, at, flow, flow > 0), Created::Alone);
            assert!(burst.lists(flow));
            assert_eq!(usize::from(burst.len), 1 + flow as usize);
        }
        let eighth = created(&mut burst, 1_700, 7, true);
        assert_eq!(eighth, Created::MadeMany([0, 1, 2, 3, 4, 5, 6]));
        let mut other = burst.clone();
        assert_eq!(created(&mut burst, 1_850, 8, true), Created::AmongMany);
        assert!(!burst.lists(8));
        assert_eq!(created(&mut other, 1_881, 8, false), Created::Alone);
        assert!(other.lists(8) && !other.is_large);
    }

    #[test]
    fn a_burst_goes_on_while_each_creation_follows_the_last_in_time() {
        let mut burst = Burst::new();
        for flow in 0..7 {
            created(&mut burst, u64::from(flow) * 180, flow, false);
        }
        assert_eq!(burst.len, 7);
        assert_ne!(created(&mut burst, 7 * 180, 7, false), Created::Alone);
        let mut burst = Burst::new();
        for flow in 0..20 {
            assert_eq!(created(&mut burst, u64::from(flow) * 181, flow, false), Created::Alone);
            assert_eq!(burst.len, 1, "each begins anew");
        }
    }

    #[test]
    fn no_burst_begins_beside_others() {
        let mut burst = Burst::new();
        for flow in 0..20 {
            assert_eq!(created(&mut burst, u64::from(flow), flow, true), Created::Alone);
        }
        assert!(!burst.lists(0));
        // Nor does one that was over.
        created(&mut burst, 100, 20, false);
        assert!(burst.lists(20));
        created(&mut burst, 281, 21, true);
        assert!(!burst.lists(20) && !burst.lists(21));
    }

    #[test]
    fn another_cgroup_is_another_burst() {
        let mut burst = Burst::new();
        for flow in 0..16 {
            let now = Instant::from_millis(u64::from(flow));
            assert_eq!(burst.created(now, flow, flow % 2, false), Created::Alone);
        }
        assert_eq!(burst.len, 1);
    }

    #[test]
    fn short_lived_flows_make_no_burst() {
        let mut burst = Burst::new();
        for flow in 0..20 {
            let at = u64::from(flow) * 10;
            assert_eq!(created(&mut burst, at, flow, false), Created::Alone);
            if flow != 3 {
                burst.forget(flow);
            }
        }
        assert!(burst.lists(3) && burst.len == 1);
        burst.forget(99);
        assert_eq!(burst.len, 1);
    }
}
