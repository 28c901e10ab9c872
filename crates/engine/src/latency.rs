//! Latency histograms of a cgroup, each allocated with its first time.

use alloc::boxed::Box;

use once_cell::race::OnceBox;
use weir_counters::{Histogram, SharedHistogram};

use crate::latencies::{DirectionLatencies, WaitCause};

/// A histogram that is there once it has a time.
#[derive(Default)]
pub(crate) struct Times(OnceBox<SharedHistogram>);

impl Times {
    #[inline]
    pub(crate) fn record(&self, ns: u64) {
        self.0.get_or_init(Box::default).record(ns);
    }

    pub(crate) fn add_to(&self, histogram: &mut Histogram) {
        if let Some(times) = self.0.get() {
            times.add_to(histogram);
        }
    }
}

/// Times of the requests of one cgroup and direction; those for limits are in its [`crate::throttle::WaitAccount`].
#[derive(Default)]
pub(crate) struct Latency {
    /// Of requests that have waited for nothing but the device: the whole and what the device took, which are the same.
    unheld: Times,
    /// Of the others, the whole.
    whole: Times,
    /// Of the others, what the device took.
    device: Times,
    window: Times,
    lifted: Times,
}

impl Latency {
    /// A request was completed after `device_ns` at the device. `whole_ns`: how long it was inside, if it had waited before.
    #[inline]
    pub(crate) fn completed(&self, device_ns: u64, whole_ns: Option<u64>) {
        match whole_ns {
            None => self.unheld.record(device_ns),
            Some(whole_ns) => {
                self.whole.record(whole_ns);
                self.device.record(device_ns);
            }
        }
    }

    pub(crate) fn piece_completed(&self, device_ns: u64) {
        self.device.record(device_ns);
    }

    pub(crate) fn waited_for_room(&self, ns: u64) {
        self.window.record(ns);
    }

    pub(crate) fn waited_for_lifted(&self, ns: u64) {
        self.lifted.record(ns);
    }

    /// Adds the whole times alone.
    pub(crate) fn add_whole_to(&self, sum: &mut Histogram) {
        for times in [&self.unheld, &self.whole] {
            times.add_to(sum);
        }
    }

    pub(crate) fn add_to(&self, sums: &mut DirectionLatencies) {
        self.add_whole_to(&mut sums.whole);
        for times in [&self.unheld, &self.device] {
            times.add_to(sums.cause_mut(WaitCause::Device));
        }
        self.window.add_to(sums.cause_mut(WaitCause::Window));
        self.lifted.add_to(sums.cause_mut(WaitCause::LiftedLimit));
    }
}
