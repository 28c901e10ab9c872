//! Virtual time: service divided by weight, exact to 2^-29 of a byte at weight 1.

/// Fractional bits. Sixteen more than in the kernel, which counts sectors: there 512 bytes among 100,000 cgroups of
/// weight 1,000 are 0.02 units, and V would stand still. Here they are 2,748, and 274 at weight 10,000.
const FRACTION_BITS: u32 = 29;

/// Instant of a service tree's virtual time, on a circle of 2^64.
///
/// Two instants are comparable within half the circle, 16 GiB of service at weight 1. All that is compared lies
/// within two budgets of V, and a budget is at most 4 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vtime(u64);

impl Vtime {
    pub(crate) const ZERO: Vtime = Vtime(0);

    /// The instant as a number.
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The opposite of [`Vtime::bits`].
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Vtime {
        Vtime(bits)
    }

    pub(crate) fn is_after(self, other: Vtime) -> bool {
        self.ahead_of(other) > 0
    }

    /// Distance after another instant; negative if before, which is the upper half of the circle.
    pub(crate) fn ahead_of(self, other: Vtime) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    pub(crate) fn latest(self, other: Vtime) -> Vtime {
        if other.is_after(self) { other } else { self }
    }

    /// This instant after `bytes` of service at `weight`, at least 1. Rounds down: V lags by less than a unit a
    /// request, which at 4 KiB and a weight sum of 10,000,000 is one in 200,000, and of 1,000,000,000 one in 2,000.
    pub(crate) fn after(self, bytes: u64, weight: u64) -> Vtime {
        debug_assert!(bytes < 1 << (64 - FRACTION_BITS), "{bytes} bytes in one slot");
        Vtime(self.0.wrapping_add((bytes << FRACTION_BITS) / weight))
    }

    /// This instant, `old / new` times as far from `center`.
    pub(crate) fn scaled_about(self, center: Vtime, old: u32, new: u32) -> Vtime {
        let ahead = i128::from(self.ahead_of(center)) * i128::from(old) / i128::from(new.max(1));
        // A quarter of the circle is more than any two budgets.
        let ahead = ahead.clamp(-(1 << 62), 1 << 62) as i64;
        Vtime(center.0.wrapping_add_signed(ahead))
    }

    /// This instant, later by the distance from `from` to `to`.
    pub(crate) fn shifted(self, from: Vtime, to: Vtime) -> Vtime {
        Vtime(self.0.wrapping_add(to.0.wrapping_sub(from.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_counts_by_weight() {
        // spec/bfq EX-4: 1,200 sectors at weight 40 are 30 sectors at weight 1.
        let zero = Vtime::ZERO;
        assert_eq!(zero.after(1200 * 512, 40), zero.after(30 * 512, 1));
        assert_eq!(zero.after(30 * 512, 1), Vtime((30 << 22) << 16));
    }

    #[test]
    fn time_goes_on_past_the_end_of_the_circle() {
        let late = Vtime(u64::MAX - 5);
        let later = late.after(1, 1);
        assert!(later.is_after(late) && !late.is_after(later) && !late.is_after(late));
        assert_eq!(late.latest(later), later);
        assert_eq!(later.latest(late), later);
        assert_eq!(Vtime(7).shifted(late, later), Vtime(7 + (1 << FRACTION_BITS)));
    }

    #[test]
    fn a_distance_is_as_many_bytes_at_another_weight() {
        let center = Vtime(u64::MAX - 5);
        for (old, new) in [(1, 1000), (1000, 1), (40, 80)] {
            let bytes = 1000 << 10;
            let (ahead, wanted) =
                (center.after(bytes, old.into()), center.after(bytes, new.into()));
            assert_eq!(ahead.scaled_about(center, old, new), wanted);
            let behind = |at: Vtime| Vtime(center.0.wrapping_sub(at.0.wrapping_sub(center.0)));
            assert_eq!(behind(ahead).scaled_about(center, old, new), behind(wanted));
        }
        let far = center.after(8 << 30, 1);
        assert_eq!(far.scaled_about(center, 1000, 1).ahead_of(center), 1 << 62);
    }
}
