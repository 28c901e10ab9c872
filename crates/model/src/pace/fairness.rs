//! spec/throttle P12: sources that wait together share by weight.
//!
//! For two sources that both wait, and may both go as far as their own limits are concerned, during a whole interval,
//! start-time fair queueing promises that their service, each divided by its weight, differs by no more than the
//! largest request of one plus the largest of the other (each divided by its weight), however the server's rate varies
//! (Goyal, Vin and Cheng, "Start-time Fair Queuing", 1996, theorem 1).

use std::collections::BTreeMap;

/// Shares of one node's capacity in one direction among sources named by `S`.
#[derive(Clone, Debug)]
pub(super) struct Shares<S: Ord> {
    bound: Bound,
    /// Service divided by weight, summed over all time.
    service: BTreeMap<S, i128>,
    /// Largest service of one pick divided by the weight it had.
    largest: BTreeMap<S, i128>,
    /// Picks so far: each may be rounded.
    picks: i128,
    /// Bound of the picks beyond `service`.
    doubt: i128,
    /// For two sources that have waited together since: the range of the difference of their services.
    pairs: BTreeMap<(S, S), Range>,
}

/// How far apart two sources that wait together may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bound {
    /// The largest service of one and the largest of the other.
    LargestOfBoth,
    /// So much: 1 where sources take turns and each turn counts 1.
    Fixed(i128),
}

#[derive(Clone, Copy, Debug)]
struct Range {
    least: i128,
    most: i128,
    picks_before: i128,
    doubt_before: i128,
}

/// Two sources with unfair shares: their difference, and the allowed one.
pub(super) struct Unfair<S> {
    pub(super) sources: (S, S),
    pub(super) difference: i128,
    pub(super) allowed: i128,
}

impl<S: Copy + Ord> Shares<S> {
    pub(super) fn new(bound: Bound) -> Shares<S> {
        Shares {
            bound,
            service: BTreeMap::new(),
            largest: BTreeMap::new(),
            picks: 0,
            doubt: 0,
            pairs: BTreeMap::new(),
        }
    }

    /// These sources, and no others, wait now and may go.
    pub(super) fn observe(&mut self, waiting: &[S]) {
        self.pairs.retain(|(a, b), _| waiting.contains(a) && waiting.contains(b));
        for (place, &a) in waiting.iter().enumerate() {
            for &b in &waiting[place + 1..] {
                let pair = (a.min(b), a.max(b));
                let now = self.difference(pair);
                let (picks_before, doubt_before) = (self.picks, self.doubt);
                let fresh = Range { least: now, most: now, picks_before, doubt_before };
                self.pairs.entry(pair).or_insert(fresh);
            }
        }
    }

    /// Resets the waiting sources after a change that the promise does not span.
    pub(super) fn interrupt(&mut self) {
        self.pairs.clear();
    }

    /// `source` was picked and took `service`, already divided by its weight.
    pub(super) fn pick(&mut self, source: S, service: i128) {
        self.pick_between(source, service, service);
    }

    /// The same where the weight is not known, so that the service was something between `least` and `most`.
    pub(super) fn pick_between(&mut self, source: S, least: i128, most: i128) {
        *self.service.entry(source).or_insert(0) += least;
        let largest = self.largest.entry(source).or_insert(0);
        *largest = (*largest).max(most);
        self.picks += 1;
        self.doubt += most - least;
    }

    /// The first two sources that have waited together and got too far apart. `rounding` is how far off one pick may
    /// be.
    ///
    /// Asked when everything that goes at one instant has gone: which of those goes first is not recorded. A source that
    /// waits before and after has waited all the while, since what it owes its own limits only grows meanwhile.
    pub(super) fn unfair(&mut self, rounding: i128) -> Option<Unfair<S>> {
        for pair in self.pairs.keys().copied().collect::<Vec<_>>() {
            let now = self.difference(pair);
            let bound = match self.bound {
                Bound::LargestOfBoth => self.largest(pair.0) + self.largest(pair.1),
                Bound::Fixed(bound) => bound,
            };
            let Some(range) = self.pairs.get_mut(&pair) else { continue };
            range.least = range.least.min(now);
            range.most = range.most.max(now);
            let rounded = rounding * (self.picks - range.picks_before);
            let allowed = bound + rounded + (self.doubt - range.doubt_before);
            let difference = range.most - range.least;
            if difference > allowed {
                return Some(Unfair { sources: pair, difference, allowed });
            }
        }
        None
    }

    fn difference(&self, (a, b): (S, S)) -> i128 {
        let service = |source| self.service.get(&source).copied().unwrap_or(0);
        service(a) - service(b)
    }

    fn largest(&self, source: S) -> i128 {
        self.largest.get(&source).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fair(shares: &mut Shares<char>, order: &str) -> bool {
        order.chars().all(|source| {
            shares.pick(source, 10);
            shares.unfair(0).is_none()
        })
    }

    #[test]
    fn the_checker_accepts_turns_and_rejects_runs() {
        for (bound, order, fair) in [
            (Bound::Fixed(10), "abababab", true),
            (Bound::Fixed(10), "ababba", false),
            (Bound::LargestOfBoth, "ababba", true),
            (Bound::LargestOfBoth, "ababbaaa", false),
        ] {
            let mut shares = Shares::new(bound);
            shares.observe(&['a', 'b']);
            assert_eq!(is_fair(&mut shares, order), fair, "{order} with {bound:?}");
        }
    }

    #[test]
    fn a_source_that_did_not_wait_is_owed_nothing() {
        let mut shares = Shares::new(Bound::LargestOfBoth);
        shares.observe(&['a']);
        assert!(is_fair(&mut shares, "aaaaa"));
        shares.observe(&['a', 'b']);
        assert!(is_fair(&mut shares, "abb"));
        assert!(!is_fair(&mut shares, "b"));
    }
}
