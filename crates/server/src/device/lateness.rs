//! Lateness of wake-ups for limits.

use weir_engine::Instant;

/// A wake-up that is later than this is counted.
const LATE_NS: u64 = 1_000_000;

/// Wake-ups that came late.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    count: u64,
    max_ns: u64,
}

impl Lateness {
    /// Takes note of a wake-up at `now` that was `due`; how late it is, if that counts.
    pub(super) fn note(&mut self, now: Instant, due: Option<Instant>) -> Option<u64> {
        let late_ns = due.map_or(0, |due| now.nanos_since(due));
        self.max_ns = self.max_ns.max(late_ns);
        if late_ns <= LATE_NS {
            return None;
        }
        self.count += 1;
        Some(late_ns)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.max_ns
    }
}
