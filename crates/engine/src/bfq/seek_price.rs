//! Mean time of a seeky flow's request.

/// Requests after which a sample has half its weight.
const MEMORY: u64 = 512;

/// Samples below which there is no mean.
const ENOUGH: u64 = 32;

/// Mean over the last few hundred requests of seeky flows, whichever.
///
/// A random request takes a seek of any length and up to one rotation: 12 ms give or take 4. A flow with a small
/// share has a hundred in ten seconds, which chance makes 3 % cheaper or more expensive. Charging the mean gives
/// equal flows the same number of requests instead of the same time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeekPrice {
    ns: u64,
    requests: u64,
}

impl SeekPrice {
    /// `requests` have taken `ns`.
    pub(crate) fn learn(&mut self, requests: u32, ns: u64) {
        self.requests += u64::from(requests);
        self.ns = self.ns.saturating_add(ns);
        if self.requests > MEMORY {
            self.requests /= 2;
            self.ns /= 2;
        }
    }

    /// Time of `requests`; `None` while too few were seen.
    pub(crate) fn of(&self, requests: u32) -> Option<u64> {
        (self.requests >= ENOUGH).then(|| self.ns / self.requests * u64::from(requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_and_cheap_requests_average_out() {
        let mut price = SeekPrice::default();
        price.learn(31, 31 * 12);
        assert_eq!(price.of(1), None);
        price.learn(1, 12);
        assert_eq!(price.of(3), Some(36));
        // Expensive and cheap ones in turn.
        for _ in 0..1_000 {
            price.learn(1, 16);
            price.learn(1, 8);
        }
        assert_eq!(price.of(100), Some(1_200));
    }

    #[test]
    fn the_mean_follows_a_faster_disk() {
        let mut price = SeekPrice::default();
        price.learn(MEMORY as u32, MEMORY * 12_000);
        for _ in 0..10 * MEMORY {
            price.learn(1, 4_000);
        }
        assert!((4_000..4_100).contains(&price.of(1).unwrap()));
    }
}
