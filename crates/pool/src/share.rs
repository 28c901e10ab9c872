//! Weighted max-min shares of a capacity, in integers.

/// A server's part in the division of one capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// At least 1.
    pub(crate) weight: u64,
    /// The most that it uses; `u64::MAX` while something waits for the limit.
    pub(crate) demand: u64,
}

/// Divides `capacity` among `claims`: each gets `floor` first, as far as that goes round; then up to its demand, by weight
/// (weighted max-min); what is left then is lent to all by weight. The shares add up to the capacity where there is a
/// claim. What integers leave over goes to claims that are later in the order of demand over weight, ties by place.
/// O(n log n).
///
/// Weighting a server by its waiting clients makes the servers behave as one limiter: B. Raghavan et al., "Cloud Control
/// with Distributed Rate Limiting", SIGCOMM 2007.
pub(crate) fn divide(capacity: u64, floor: u64, claims: &[Claim]) -> Vec<u64> {
    if claims.is_empty() {
        return Vec::new();
    }
    let floor = floor.min(capacity / claims.len() as u64);
    let mut left = capacity - floor * claims.len() as u64;
    let mut shares = vec![floor; claims.len()];
    let beyond_floor = |claim: &Claim| claim.demand.saturating_sub(floor);

    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by(|&one, &other| {
        let (a, b) = (&claims[one], &claims[other]);
        let a_first = u128::from(beyond_floor(a)) * u128::from(b.weight);
        let b_first = u128::from(beyond_floor(b)) * u128::from(a.weight);
        a_first.cmp(&b_first).then(one.cmp(&other))
    });
    let mut weights = Weights::of(claims);
    for index in order {
        let share = weights.take(left, claims[index].weight).min(beyond_floor(&claims[index]));
        shares[index] += share;
        left -= share;
    }
    let mut weights = Weights::of(claims);
    for (share, claim) in shares.iter_mut().zip(claims) {
        let lent = weights.take(left, claim.weight);
        *share += lent;
        left -= lent;
    }
    shares
}

/// The sum of weights that have not had their part.
struct Weights(u128);

impl Weights {
    fn of(claims: &[Claim]) -> Weights {
        Weights(claims.iter().map(|claim| u128::from(claim.weight)).sum())
    }

    /// The part of `weight` in what is `left` for it and all that follow, rounded down.
    fn take(&mut self, left: u64, weight: u64) -> u64 {
        let part = u128::from(left) * u128::from(weight) / self.0;
        self.0 -= u128::from(weight);
        u64::try_from(part).expect("a part of a u64")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HUNGRY: u64 = u64::MAX;

    fn shares(capacity: u64, floor: u64, claims: &[(u64, u64)]) -> Vec<u64> {
        let claims: Vec<Claim> =
            claims.iter().map(|&(weight, demand)| Claim { weight, demand }).collect();
        divide(capacity, floor, &claims)
    }

    #[test]
    fn a_capacity_is_divided_by_weight_and_demand() {
        for (capacity, floor, claims, expected) in [
            (900, 0, &[(1, HUNGRY), (1, HUNGRY), (1, HUNGRY)][..], &[300, 300, 300][..]),
            // A client on one server and three on another: a quarter each.
            (900, 0, &[(1, HUNGRY), (3, HUNGRY)], &[225, 675]),
            // What one does not want, the others get.
            (900, 0, &[(1, 100), (1, HUNGRY), (1, HUNGRY)], &[100, 400, 400]),
            // Where all have what they want, the rest is lent.
            (900, 0, &[(1, 100), (1, 200)], &[400, 500]),
            (900, 0, &[(1, 0), (2, 0)], &[300, 600]),
            // The floor comes first, as far as it goes round.
            (900, 10, &[(1, 0), (1, HUNGRY)], &[10, 890]),
            (9, 10, &[(1, 0), (1, HUNGRY)], &[4, 5]),
            // Units that are left over go to later ones.
            (10, 0, &[(1, HUNGRY), (1, HUNGRY), (1, HUNGRY)], &[3, 3, 4]),
            (2, 1, &[(1, HUNGRY), (1, HUNGRY), (1, HUNGRY)], &[0, 1, 1]),
            (0, 1, &[(1, HUNGRY)], &[0]),
            (7, 1, &[], &[]),
        ] {
            assert_eq!(shares(capacity, floor, claims), expected, "{capacity} {floor} {claims:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_max_min_fair(
            capacity in prop_oneof![0..100u64, 0..u64::MAX],
            floor in prop_oneof![Just(0), 0..50u64],
            claims in prop::collection::vec(
                (1..1000u64, prop_oneof![0..100u64, Just(HUNGRY), 0..u64::MAX]), 1..20),
        ) {
            let shares = shares(capacity, floor, &claims);
            let sum: u128 = shares.iter().map(|&share| u128::from(share)).sum();
            prop_assert_eq!(sum, u128::from(capacity));
            let floor = floor.min(capacity / claims.len() as u64);
            let is_full = shares.iter().zip(&claims).any(|(&share, claim)| share < claim.1);
            for (&share, &(weight, _)) in shares.iter().zip(&claims) {
                prop_assert!(share >= floor);
                for (&other, &(other_weight, demand)) in shares.iter().zip(&claims) {
                    // A server that has less than it wants has no less for its weight than any other.
                    let ahead = u128::from(share - floor) * u128::from(other_weight);
                    let behind = u128::from(other - floor) * u128::from(weight);
                    let rounding = u128::from(weight.max(other_weight)) * claims.len() as u128;
                    if is_full && other < demand {
                        prop_assert!(ahead <= behind + rounding, "{shares:?}");
                    }
                }
            }
        }
    }
}
