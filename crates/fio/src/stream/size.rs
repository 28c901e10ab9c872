//! Sizes of requests.

use crate::BlockSize;
use crate::random::Random;

#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Fixed(u64),
    /// Multiples of `min`, and `max`; any length between if `unaligned`.
    Range {
        min: u64,
        max: u64,
        unaligned: bool,
    },
    /// Sizes and their percents, in the file's order.
    Split(Box<[(u64, u64)]>),
}

impl Sizes {
    pub(super) fn new(sizes: &BlockSize, unaligned: bool) -> Sizes {
        match sizes {
            BlockSize::Fixed(bytes) => Sizes::Fixed(*bytes),
            BlockSize::Range { min, max } if min == max => Sizes::Fixed(*min),
            BlockSize::Range { min, max } => Sizes::Range { min: *min, max: *max, unaligned },
            BlockSize::Split(splits) => Sizes::Split(
                splits.iter().map(|split| (split.bytes, split.percent.into())).collect(),
            ),
        }
    }

    /// One of the sizes that are at most `room`; None if none is.
    ///
    /// fio draws until a size fits; this draws at once, among those that do.
    #[inline]
    pub(super) fn draw(&self, random: &mut Random, room: u64) -> Option<u64> {
        match self {
            Sizes::Fixed(bytes) => Some(*bytes).filter(|bytes| *bytes <= room),
            Sizes::Range { min, max, unaligned } => {
                draw_range(random, *min, *max, *unaligned, room)
            }
            Sizes::Split(splits) => draw_split(random, splits, room),
        }
    }
}

/// fio counts from the smallest up over a width of the largest, and cuts: the largest is a little heavier where it is
/// no multiple of the smallest, and all others weigh the same.
fn draw_range(random: &mut Random, min: u64, max: u64, unaligned: bool, room: u64) -> Option<u64> {
    if min > room {
        return None;
    }
    let grain = if unaligned { 1 } else { min };
    let drawn = min + random.below(max);
    let bytes = (drawn - drawn % grain).min(max);
    if bytes <= room {
        return Some(bytes);
    }
    Some(min + random.below((room - min) / grain + 1) * grain)
}

fn draw_split(random: &mut Random, splits: &[(u64, u64)], room: u64) -> Option<u64> {
    let fitting = || splits.iter().filter(|(bytes, _)| *bytes <= room);
    let all_fit = splits.iter().all(|(bytes, _)| *bytes <= room);
    // Shares of less than 100 leave the rest to the last size.
    let sum: u64 = if all_fit { 100 } else { fitting().map(|(_, percent)| percent).sum() };
    let mut drawn = random.below(sum);
    for (bytes, percent) in fitting() {
        if drawn < *percent {
            return Some(*bytes);
        }
        drawn -= percent;
    }
    fitting().next_back().map(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Sizes;
    use crate::random::Random;

    fn shares(sizes: &Sizes, room: u64) -> BTreeMap<u64, u64> {
        let mut random = Random::new(3);
        let mut shares = BTreeMap::new();
        for _ in 0..100_000 {
            let bytes = sizes.draw(&mut random, room).expect("something fits");
            *shares.entry(bytes).or_default() += 1;
        }
        shares.values_mut().for_each(|count| *count = (*count + 500) / 1000);
        shares
    }

    #[test]
    fn ranges() {
        let range = Sizes::Range { min: 4, max: 16, unaligned: false };
        assert_eq!(shares(&range, 100), [(4, 25), (8, 25), (12, 25), (16, 25)].into());
        assert_eq!(shares(&range, 11), [(4, 50), (8, 50)].into());
        // As fio 3.33 deals `bsrange=4k-10k`: 2484, 2379 and 1199 of 6062.
        let range = Sizes::Range { min: 4, max: 10, unaligned: false };
        assert_eq!(shares(&range, 100), [(4, 40), (8, 40), (10, 20)].into());
        let range = Sizes::Range { min: 1, max: 4, unaligned: true };
        assert_eq!(shares(&range, 2), [(1, 50), (2, 50)].into());
        assert_eq!(range.draw(&mut Random::new(0), 0), None);
    }

    #[test]
    fn splits() {
        let split = Sizes::Split([(4, 10), (64, 50), (32, 40)].into());
        assert_eq!(shares(&split, 100), [(4, 10), (32, 40), (64, 50)].into());
        assert_eq!(shares(&split, 40), [(4, 20), (32, 80)].into());
        assert_eq!(split.draw(&mut Random::new(0), 3), None);
        // The last size has the rest, and everything where only sizes without a share fit.
        let split = Sizes::Split([(4, 0), (8, 30), (2, 0)].into());
        assert_eq!(shares(&split, 100), [(2, 70), (8, 30)].into());
        assert_eq!(shares(&split, 4), [(2, 100)].into());
    }
}
