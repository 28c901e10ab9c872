//! `io_ticks`: the time a kernel says that a device was used, in ticks.

/// Length of a tick: 250 a second, as distributions have it.
const TICK_NS: u64 = 4_000_000;

/// Since Linux 5.0 a tick counts if a request began or ended in it, or one was at the device at both its ends (the
/// kernel's documentation of `iostats`).
#[derive(Debug, Default)]
pub(super) struct IoTicks {
    ticks: u64,
    seen_tick: u64,
}

impl IoTicks {
    /// A request begins or ends, or the file is read; `at_device` requests were there before.
    pub(super) fn pass(&mut self, now_ns: u64, at_device: u32) {
        let tick = now_ns / TICK_NS;
        if tick > self.seen_tick {
            self.ticks += if at_device > 0 { tick - self.seen_tick } else { 1 };
            self.seen_tick = tick;
        }
    }

    /// The file is read.
    pub(super) fn read(&mut self, now_ns: u64, at_device: u32) -> u64 {
        if at_device > 0 {
            self.pass(now_ns, at_device);
        }
        self.ticks * TICK_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn ticks_with_something_at_the_device_count() {
        let mut ticks = IoTicks::default();
        // From 5 to 18 ms.
        ticks.pass(5 * MS, 0);
        assert_eq!(ticks.read(13 * MS, 1), 12 * MS);
        ticks.pass(18 * MS, 1);
        assert_eq!(ticks.read(30 * MS, 0), 16 * MS);
        // A request of 100 us takes a tick, and so do two.
        for at_us in [40_000, 41_000] {
            ticks.pass(at_us * 1_000, 0);
            ticks.pass(at_us * 1_000 + 100_000, 1);
        }
        assert_eq!(ticks.read(50 * MS, 0), 20 * MS);
    }
}
