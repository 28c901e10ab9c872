//! Distributions of random offsets, where any block may come again.

use std::f64::consts::TAU;
use std::sync::Arc;

use libm::{cos, exp, expm1, floor, log, log1p, pow, sqrt};

use super::permute::shuffled;
use crate::Zone;
use crate::random::Random;

/// Draws of a normal offset outside of the file, before the file's edge is taken.
const BELL_DRAWS_MAX: u32 = 64;

#[derive(Debug, Clone)]
pub(super) enum Distribution {
    Uniform,
    /// The k-th hottest block in proportion to k^-exponent.
    Zipf {
        zipf: Zipf,
        heap: Heap,
    },
    /// The hottest share x of the blocks gets the share x^(1/power) of the requests.
    Pareto {
        power: f64,
        heap: Heap,
    },
    /// A bell; both are shares of the region.
    Normal {
        center: f64,
        deviation: f64,
    },
    Zoned {
        zones: [Arc<[Zone]>; 3],
        absolute: bool,
    },
}

/// Places of blocks by rank: the hottest at `center` (0 to 1 of the region), the others scattered, as in fio.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heap {
    pub(super) center: f64,
    pub(super) key: u64,
}

impl Heap {
    /// The block of a rank, which counts from 0, hottest first.
    fn block(self, rank: u64, blocks: u64) -> u64 {
        let center = part(self.center, blocks);
        // Moved so that rank 0 falls on the centre.
        let from = shuffled(self.key, blocks, 0);
        let to = shuffled(self.key, blocks, rank);
        let shift = if to >= from { to - from } else { blocks - (from - to) };
        if center < blocks - shift { center + shift } else { center - (blocks - shift) }
    }
}

/// The block at a share of the region, from 0 to `blocks` - 1.
fn part(share: f64, blocks: u64) -> u64 {
    (floor(share * blocks as f64) as u64).min(blocks - 1)
}

impl Distribution {
    /// A block of `blocks`, at least one. `align` is the distance from one to the next in bytes.
    pub(super) fn draw(
        &self,
        random: &mut Random,
        direction: usize,
        blocks: u64,
        align: u64,
    ) -> u64 {
        match self {
            Distribution::Uniform => random.below(blocks),
            Distribution::Zipf { zipf, heap } => heap.block(zipf.rank(random, blocks), blocks),
            Distribution::Pareto { power, heap } => {
                heap.block(part(pow(random.fraction(), *power), blocks), blocks)
            }
            Distribution::Normal { center, deviation } => {
                normal(random, *center, *deviation, blocks)
            }
            Distribution::Zoned { zones, absolute } => {
                zoned(random, &zones[direction], *absolute, blocks, align)
            }
        }
    }
}

/// Pareto's exponent: with it, a share `power` of the blocks gets the share 1 - `power` of the requests (0.2: 80 to
/// 20).
pub(super) fn pareto_power(power: f64) -> f64 {
    log(power) / log1p(-power)
}

/// Zipf's law in constant time and memory, for any number of ranks.
///
/// Source: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
/// 1996. fio sums the law over up to ten million ranks before the start; this draws from the same law without.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zipf {
    exponent: f64,
    /// Start of the area: rank 1 counts whole.
    first: f64,
    /// Distance from the curve within which no comparison is needed.
    squeeze: f64,
}

impl Zipf {
    /// `exponent` is 0 or more, and not 1.
    pub(super) fn new(exponent: f64) -> Zipf {
        let mut zipf = Zipf { exponent, first: 0.0, squeeze: 0.0 };
        zipf.first = zipf.area(1.5) - 1.0;
        zipf.squeeze = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    fn height(&self, rank: f64) -> f64 {
        pow(rank, -self.exponent)
    }

    /// Area under the curve from 1 to `rank`. `expm1` and `log1p` keep their digits where the exponent is near 1.
    fn area(&self, rank: f64) -> f64 {
        let power = 1.0 - self.exponent;
        expm1(power * log(rank)) / power
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        exp(log1p((power * area).max(-1.0)) / power)
    }

    fn rank(&self, random: &mut Random, ranks: u64) -> u64 {
        let last = self.area(ranks as f64 + 0.5);
        loop {
            // Above the start, up to and including the end.
            let area = last + random.fraction() * (self.first - last);
            let place = self.area_inverse(area).clamp(1.0, ranks as f64);
            let rank = floor(place + 0.5);
            if rank - place <= self.squeeze || area >= self.area(rank + 0.5) - self.height(rank) {
                return (rank as u64 - 1).min(ranks - 1);
            }
        }
    }
}

/// Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
fn normal(random: &mut Random, center: f64, deviation: f64, blocks: u64) -> u64 {
    let whole = blocks as f64;
    for _ in 0..BELL_DRAWS_MAX {
        let radius = sqrt(-2.0 * log(1.0 - random.fraction()));
        let bell = radius * cos(TAU * random.fraction());
        let place = floor((center + deviation * bell) * whole);
        if place >= 0.0 && place < whole {
            return place as u64;
        }
    }
    part(center, blocks)
}

fn zoned(random: &mut Random, zones: &[Zone], absolute: bool, blocks: u64, align: u64) -> u64 {
    let mut drawn = random.below(100);
    let mut begin = 0;
    for zone in zones {
        let end = zone.length.saturating_add(begin);
        if drawn < u64::from(zone.access_percent) {
            let block = |place: u64| {
                let block = if absolute {
                    place.div_ceil(align)
                } else {
                    u64::try_from(u128::from(place) * u128::from(blocks) / 100).unwrap_or(u64::MAX)
                };
                block.min(blocks)
            };
            let (first, after) = (block(begin), block(end));
            // A part of less than a block is the block it is in.
            return if after > first {
                first + random.below(after - first)
            } else {
                first.min(blocks - 1)
            };
        }
        drawn -= u64::from(zone.access_percent);
        begin = end;
    }
    random.below(blocks)
}

#[cfg(test)]
mod tests {
    use libm::ceil;

    use super::{Distribution, Heap, Zipf, exp, pareto_power, pow, shuffled, sqrt};
    use crate::Zone;
    use crate::random::Random;

    const BLOCKS: u64 = 1000;
    const DRAWS: u64 = 400_000;

    fn counts(distribution: &Distribution) -> Vec<f64> {
        let mut random = Random::new(7);
        let mut counts = vec![0.0; BLOCKS as usize];
        for _ in 0..DRAWS {
            counts[distribution.draw(&mut random, 0, BLOCKS, 4096) as usize] += 1.0;
        }
        counts
    }

    /// Half a percent more or less than expected is five standard deviations here.
    fn check(share: f64, expected: f64, what: &str) {
        assert!((share - expected).abs() < 0.005, "{what}: {share}, by the formula {expected}");
    }

    #[test]
    fn zipf_draws_follow_the_formula() {
        for exponent in [0.0, 0.5, 0.99, 1.000_001, 1.2, 2.5, 30.0] {
            let heap = Heap { center: 0.25, key: 99 };
            let counts = counts(&Distribution::Zipf { zipf: Zipf::new(exponent), heap });
            let weight = |rank: u64| pow((rank + 1) as f64, -exponent);
            let sum: f64 = (0..BLOCKS).map(weight).sum();
            let mut hottest = 0.0;
            let mut expected = 0.0;
            for rank in 0..BLOCKS {
                hottest += counts[heap.block(rank, BLOCKS) as usize] / DRAWS as f64;
                expected += weight(rank) / sum;
                if [0, 1, 2, 9, 99, 499, 999].contains(&rank) {
                    check(hottest, expected, &format!("zipf:{exponent}, {} hottest", rank + 1));
                }
            }
            assert_eq!(heap.block(0, BLOCKS), 250);
        }
    }

    #[test]
    fn pareto_draws_follow_the_formula() {
        for power in [0.1, 0.2, 0.4] {
            let heap = Heap { center: 0.5, key: 5 };
            let exponent = pareto_power(power);
            let counts = counts(&Distribution::Pareto { power: exponent, heap });
            let hottest = |share: f64| -> f64 {
                let ranks = ceil(share * BLOCKS as f64) as u64;
                (0..ranks).map(|rank| counts[heap.block(rank, BLOCKS) as usize]).sum::<f64>()
                    / DRAWS as f64
            };
            check(hottest(power), 1.0 - power, "80 to 20");
            for share in [0.01, 0.1, 0.5] {
                check(
                    hottest(share),
                    pow(share, 1.0 / exponent),
                    &format!("pareto:{power}, {share}"),
                );
            }
        }
    }

    #[test]
    fn normal_draws_follow_the_formula() {
        let counts = counts(&Distribution::Normal { center: 0.5, deviation: 0.1 });
        let density = |block: f64| exp(-0.5 * pow((block + 0.5 - 500.0) / 100.0, 2.0));
        let sum: f64 = (0..BLOCKS).map(|block| density(block as f64)).sum();
        for half in [10, 50, 100, 200, 300] {
            let within = 500 - half..500 + half;
            let share = counts[within.clone()].iter().sum::<f64>() / DRAWS as f64;
            let expected = within.map(|block| density(block as f64)).sum::<f64>() / sum;
            check(share, expected, &format!("normal:10, {half} on either side"));
        }
        let mean: f64 = counts.iter().zip(0..).map(|(n, block)| n * f64::from(block)).sum::<f64>()
            / DRAWS as f64;
        let square: f64 = counts
            .iter()
            .zip(0..)
            .map(|(n, block)| n * pow(f64::from(block) - mean, 2.0))
            .sum::<f64>();
        assert!((mean - 499.5).abs() < 1.0 && (sqrt(square / DRAWS as f64) - 100.0).abs() < 1.0);
        // No deviation: one block. A centre on the edge: half a bell.
        let narrow = Distribution::Normal { center: 1.0, deviation: 0.0 };
        assert_eq!(narrow.draw(&mut Random::new(0), 0, 10, 1), 9);
        let edge = Distribution::Normal { center: 0.0, deviation: 0.1 };
        assert!(edge.draw(&mut Random::new(0), 0, 10, 1) < 10);
    }

    #[test]
    fn zones_have_their_shares() {
        let zone = |access_percent, length| Zone { access_percent, length };
        let zones = [zone(60, 10), zone(30, 20), zone(8, 30), zone(2, 40)];
        let distribution =
            Distribution::Zoned { zones: std::array::from_fn(|_| zones.into()), absolute: false };
        let found = counts(&distribution);
        let share = |counts: &[f64], from: usize, to: usize| {
            counts[from..to].iter().sum::<f64>() / DRAWS as f64
        };
        check(share(&found, 0, 100), 0.6, "first");
        check(share(&found, 100, 300), 0.3, "second");
        check(share(&found, 300, 600), 0.08, "third");
        // The second half of a zone is as hot as its first.
        check(share(&found, 200, 300), 0.15, "half of the second");
        let zones = [zone(50, 4096), zone(50, 4096 * 3999)];
        let distribution =
            Distribution::Zoned { zones: std::array::from_fn(|_| zones.into()), absolute: true };
        let found = counts(&distribution);
        check(found[0] / DRAWS as f64, 0.5, "one block");
        check(share(&found, 1, 1000), 0.5, "cut at the region's end");
        // Parts smaller than a block.
        let zones = [zone(50, 1), zone(50, 1)];
        let distribution =
            Distribution::Zoned { zones: std::array::from_fn(|_| zones.into()), absolute: false };
        assert_eq!(distribution.draw(&mut Random::new(0), 1, 3, 1), 0);
    }

    #[test]
    fn every_rank_has_its_block() {
        for blocks in [1, 2, 3, 100, 1024] {
            for center in [0.0, 0.3, 1.0] {
                let heap = Heap { center, key: 3 };
                let mut all: Vec<u64> = (0..blocks).map(|rank| heap.block(rank, blocks)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..blocks).collect::<Vec<_>>());
            }
        }
        assert_eq!(shuffled(1, 1, 0), 0);
    }
}
