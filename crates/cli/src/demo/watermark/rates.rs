//! Read rates of the tenants, over the last second and before.

use std::collections::VecDeque;

use weir_server::status::DeviceStatus;

use super::plan::{TENANTS, Tenant};
use crate::failure::Failure;

/// One look at the server.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Reading {
    at_ns: u64,
    busy_ns: u64,
    /// Bytes read so far, of each tenant.
    bytes: [u64; 3],
    /// Over the last half second.
    pub(super) utilisation_percent: f64,
    pub(super) multiplier: f64,
}

impl Reading {
    pub(super) fn of(device: &DeviceStatus) -> Result<Reading, Failure> {
        let bytes = |tenant: &Tenant| {
            let path = tenant.cgroup();
            let found = device.cgroups.iter().find(|cgroup| cgroup.cgroup == path);
            found.map_or(0, |cgroup| cgroup.read_bytes)
        };
        let mark = device.watermarks.first();
        let mark = mark.ok_or_else(|| Failure::failed("the demo's disk has no watermark"))?;
        Ok(Reading {
            at_ns: device.at_ns,
            busy_ns: device.busy_ns,
            bytes: TENANTS.each_ref().map(bytes),
            utilisation_percent: device.utilisation_percent_500ms.unwrap_or_default(),
            multiplier: mark.multiplier,
        })
    }

    /// Of each tenant, since an earlier reading.
    pub(super) fn bytes_per_sec_since(&self, earlier: &Reading) -> [f64; 3] {
        let seconds = self.at_ns.saturating_sub(earlier.at_ns).max(1) as f64 / 1e9;
        [0, 1, 2].map(|at| self.bytes[at].saturating_sub(earlier.bytes[at]) as f64 / seconds)
    }

    pub(super) fn utilisation_percent_since(&self, earlier: &Reading) -> f64 {
        let time = self.at_ns.saturating_sub(earlier.at_ns).max(1) as f64;
        self.busy_ns.saturating_sub(earlier.busy_ns) as f64 / time * 100.0
    }
}

/// Readings so far, and the rates between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    recent: VecDeque<Reading>,
    /// Bytes a second between two readings, of each tenant; the newest last.
    past: VecDeque<[f64; 3]>,
}

/// How long a rate is taken over.
const OVER_NS: u64 = 1_000_000_000;
/// Rates that are remembered.
const PAST_MAX: usize = 28;

impl Rates {
    pub(super) fn note(&mut self, reading: Reading) {
        if let Some(last) = self.recent.back() {
            self.past.push_back(reading.bytes_per_sec_since(last));
        }
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        self.recent.push_back(reading);
        let newest = self.recent.back().map_or(0, |reading| reading.at_ns);
        // The oldest remaining one is at least a second old.
        while self.recent.get(1).is_some_and(|second| second.at_ns + OVER_NS <= newest) {
            self.recent.pop_front();
        }
    }

    /// The last reading.
    pub(super) fn last(&self) -> Option<&Reading> {
        self.recent.back()
    }

    /// Bytes a second over the last second, of each tenant; none before there are two readings.
    pub(super) fn now(&self) -> Option<[f64; 3]> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        (first.at_ns < last.at_ns).then(|| last.bytes_per_sec_since(first))
    }

    /// One tenant's rates, the oldest first.
    pub(super) fn past(&self, tenant: usize) -> impl Iterator<Item = f64> {
        self.past.iter().map(move |rates| rates[tenant])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut rates = Rates::default();
        for tick in 0..100 {
            let bytes = if tick < 80 { tick * 250 } else { 80 * 250 };
            rates.note(Reading {
                at_ns: tick * 250_000_000,
                busy_ns: 0,
                bytes: [bytes, 0, 7],
                utilisation_percent: 0.0,
                multiplier: 1.0,
            });
            let now = rates.now().map(|rates| rates[0]);
            match tick {
                0 => assert_eq!(now, None),
                1..=80 => assert_eq!(now, Some(1000.0), "{tick}"),
                84.. => assert_eq!(now, Some(0.0), "{tick}"),
                _ => {}
            }
        }
        assert_eq!(rates.past(0).count(), PAST_MAX);
        assert_eq!(rates.past(1).sum::<f64>(), 0.0);
    }
}
