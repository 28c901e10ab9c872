//! Price of a request of a seeky flow.

/// Requests after which a sample is worth half.
const MEMORY: u64 = 512;

/// Fewer say little.
const ENOUGH: u64 = 32;

/// The mean over the last few hundred such requests, whoever's.
///
/// A request somewhere on a disk takes between no turn of it and one, and a seek of any length: 12 ms give or take 4.
/// A flow of a small share has a hundred of them in ten seconds, which are 3 % more or less expensive than another's
/// by nothing but luck. Charged for what they took, everybody has the same time and not the same number of requests;
/// charged what they take on average, luck evens out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeekPrice {
    ns: u64,
    requests: u64,
}

impl SeekPrice {
    /// So many requests have taken so long.
    pub(crate) fn learn(&mut self, requests: u32, ns: u64) {
        self.requests += u64::from(requests);
        self.ns = self.ns.saturating_add(ns);
        if self.requests > MEMORY {
            self.requests /= 2;
            self.ns /= 2;
        }
    }

    /// What so many take; none while too few were seen.
    pub(crate) fn of(&self, requests: u32) -> Option<u64> {
        (self.requests >= ENOUGH).then(|| self.ns / self.requests * u64::from(requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luck_evens_out() {
        let mut price = SeekPrice::default();
        price.learn(31, 31 * 12);
        assert_eq!(price.of(1), None);
        price.learn(1, 12);
        assert_eq!(price.of(3), Some(36));
        // Dear ones and cheap ones in turn.
        for _ in 0..1_000 {
            price.learn(1, 16);
            price.learn(1, 8);
        }
        assert_eq!(price.of(100), Some(1_200));
    }

    #[test]
    fn another_disk_is_learnt() {
        let mut price = SeekPrice::default();
        price.learn(MEMORY as u32, MEMORY * 12_000);
        for _ in 0..10 * MEMORY {
            price.learn(1, 4_000);
        }
        assert!((4_000..4_100).contains(&price.of(1).unwrap()));
    }
}
