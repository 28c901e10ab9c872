//! Samples: what a kernel says at one instant.

/// Sums since some instant in the past; they never fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Bytes read.
    pub rbytes: u64,
    /// Bytes written.
    pub wbytes: u64,
    /// Reads.
    pub rios: u64,
    /// Writes.
    pub wios: u64,
}

impl Counters {
    /// What was added since `old`; `None` if a sum fell: these are other counters.
    pub(super) fn since(self, old: Counters) -> Option<Counters> {
        Some(Counters {
            rbytes: self.rbytes.checked_sub(old.rbytes)?,
            wbytes: self.wbytes.checked_sub(old.wbytes)?,
            rios: self.rios.checked_sub(old.rios)?,
            wios: self.wios.checked_sub(old.wios)?,
        })
    }
}

/// What the kernel says of the device at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceSample {
    /// Everything the device did. Requests that were merged into others count as well (the fields for merges of `stat`).
    pub counters: Counters,
    /// Time used: that of [`BusyTime`], or the cost by a model.
    pub used_ns: u64,
    /// Requests at the device, which are not in `counters` yet; 0 if unknown. Cgroups count requests as they are
    /// submitted: without this a queue that grows hides others' requests, and one that shrinks looks like some.
    pub in_flight_ios: u64,
}

/// What the kernel says of a cgroup at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupSample {
    /// What it did, with all below it.
    pub counters: Counters,
    /// Time in which some task waited for I/O (`io.pressure`), where the kernel tells it.
    pub waited_ns: Option<u64>,
}

/// Time that a device was busy, from two fields of `stat` that are both too large: `io_ticks` counts a tick of the kernel's
/// clock for each in which a request began or ended, and the time of all requests counts overlapping ones twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct BusyTime {
    seen: Option<(u64, u64)>,
    busy_ns: u64,
}

impl BusyTime {
    /// Adds a sample; returns the sum. `io_ticks_ns` and `requests_ns` are sums: the device was not busy for longer than
    /// either grew. Where one falls, it is another device's, and nothing is added.
    pub fn add(&mut self, io_ticks_ns: u64, requests_ns: u64) -> u64 {
        if let Some((ticks_ns, times_ns)) = self.seen.replace((io_ticks_ns, requests_ns)) {
            let ticks_ns = io_ticks_ns.saturating_sub(ticks_ns);
            self.busy_ns += ticks_ns.min(requests_ns.saturating_sub(times_ns));
        }
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_the_shorter_of_two() {
        let mut busy = BusyTime::default();
        assert_eq!(busy.add(70, 70), 0);
        assert_eq!(busy.add(120, 75), 5, "few short requests");
        assert_eq!(busy.add(170, 900), 55, "many at once");
        assert_eq!(busy.add(10, 5), 55, "another device");
        assert_eq!(busy.add(20, 15), 65);
    }
}
