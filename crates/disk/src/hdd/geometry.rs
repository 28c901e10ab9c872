//! Geometry of platters: position of a sector, time when it passes the head, seek time.
//!
//! Mechanical times are in *ticks*: one turn is [`TURN`] ticks, so a nanosecond is `rpm` ticks and no mechanical time is
//! rounded. A rounded transfer would miss the next sector and take one more turn.

use alloc::vec::Vec;

use super::HddSpec;

/// Ticks in a turn, and nanoseconds in a minute.
pub(super) const TURN: u64 = 60_000_000_000;

/// Bytes in a sector.
pub(super) const SECTOR: u64 = 512;

/// Adjacent cylinders with equal numbers of sectors on a track.
#[derive(Clone, Debug)]
struct Zone {
    first_lba: u64,
    first_track: u64,
    /// Sectors on a track.
    sectors: u64,
}

/// The platters, laid out: zones of equally many cylinders, outermost first.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    rpm: u64,
    head_switch: u64,
    seek: Seek,
}

/// Position of a sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    track: u64,
    angle: u64,
}

/// Seek times in ticks by distance in cylinders: its square root up to a third of the stroke, linear beyond.
#[derive(Clone, Copy, Debug)]
struct Seek {
    track_to_track: u64,
    third: u64,
    full: u64,
    knee: u64,
    stroke: u64,
}

/// The time of a seek over a third of the stroke for which uniformly random seeks take `average` in the mean.
///
/// With distances of density 2 (1 - x), the mean of the curve is (27 t + 88 third + 20 full) / 135.
pub(crate) fn third_of_stroke(track_to_track: u64, average: u64, full: u64) -> Option<u64> {
    let third = (135 * average).checked_sub(27 * track_to_track + 20 * full)? / 88;
    (track_to_track <= third && third <= full).then_some(third)
}

impl Geometry {
    pub(super) fn new(spec: &HddSpec) -> Geometry {
        let (heads, rpm) = (spec.heads, spec.rpm);
        let head_switch = spec.head_switch_ns * rpm;
        let track_to_track = spec.track_to_track_ns * rpm;
        // One turn for each head, and the switches between them: what a track takes in a long transfer.
        let cylinder = heads * TURN + (heads - 1) * head_switch + track_to_track;
        let sectors = |zone: u64| {
            let step = if spec.zones > 1 {
                (spec.outer - spec.inner) * zone / (spec.zones - 1)
            } else {
                0
            };
            let rate = u128::from(spec.outer - step);
            let per_tick = u128::from(SECTOR) * u128::from(rpm) * 1_000_000_000;
            let sectors = rate * u128::from(cylinder) / (per_tick * u128::from(heads));
            (sectors as u64).max(1)
        };
        let sum: u64 = (0..spec.zones).map(sectors).sum();
        let each = (spec.size / SECTOR).div_ceil(sum * heads);
        let (mut first_lba, mut zones) = (0, Vec::new());
        for zone in 0..spec.zones {
            let sectors = sectors(zone);
            zones.push(Zone { first_lba, first_track: zone * each * heads, sectors });
            first_lba += each * heads * sectors;
        }
        let cylinders = each * spec.zones;
        let third = third_of_stroke(spec.track_to_track_ns, spec.average_ns, spec.full_ns);
        let seek = Seek {
            track_to_track,
            third: third.unwrap_or(spec.average_ns) * rpm,
            full: spec.full_ns * rpm,
            knee: cylinders / 3,
            stroke: cylinders - 1,
        };
        Geometry { zones, heads, rpm, head_switch, seek }
    }

    /// Ticks from a time in nanoseconds.
    pub(super) fn ticks(&self, ns: u64) -> u128 {
        u128::from(ns) * u128::from(self.rpm)
    }

    /// Nanoseconds from ticks, rounded up: nothing is complete early.
    pub(super) fn nanos(&self, ticks: u128) -> u64 {
        u64::try_from(ticks.div_ceil(u128::from(self.rpm))).unwrap_or(u64::MAX)
    }

    /// The track of a sector, the sector's index on it, and the number of sectors of the track.
    fn place(&self, lba: u64) -> (u64, u64, u64) {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba) - 1];
        let rest = lba - zone.first_lba;
        (zone.first_track + rest / zone.sectors, rest % zone.sectors, zone.sectors)
    }

    /// The track of a sector.
    pub(super) fn track(&self, lba: u64) -> u64 {
        self.place(lba).0
    }

    /// The first sector of a track.
    pub(super) fn first_lba(&self, track: u64) -> u64 {
        let after = self.zones.partition_point(|zone| zone.first_track <= track);
        let zone = &self.zones[after - 1];
        zone.first_lba + (track - zone.first_track) * zone.sectors
    }

    /// The angle at which a track begins: skewed by the time that it takes to get there from the previous one.
    fn skew(&self, track: u64) -> u64 {
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let each = (self.heads - 1) * self.head_switch + self.seek.track_to_track;
        let ticks = u128::from(cylinder) * u128::from(each)
            + u128::from(head) * u128::from(self.head_switch);
        (ticks % u128::from(TURN)) as u64
    }

    /// Ticks from one track to another.
    pub(super) fn travel(&self, from: u64, to: u64) -> u64 {
        match (from / self.heads).abs_diff(to / self.heads) {
            0 if from == to => 0,
            0 => self.head_switch,
            cylinders => self.seek.time(cylinders),
        }
    }

    /// The track of a sector and the angle at which it begins.
    pub(super) fn spot(&self, lba: u64) -> Spot {
        let (track, sector, sectors) = self.place(lba);
        Spot { track, angle: (self.skew(track) + turned(sector, sectors)) % TURN }
    }

    /// Ticks until a position begins to pass the head, if the head leaves track `from` at `angle`, less than [`TURN`].
    pub(super) fn wait(&self, angle: u64, from: u64, spot: Spot) -> u64 {
        self.wait_below(angle, from, spot, u64::MAX).unwrap_or(u64::MAX)
    }

    /// The same if it is less than `bound`. Later positions need no seek time, which is most of the work.
    pub(super) fn wait_below(&self, angle: u64, from: u64, spot: Spot, bound: u64) -> Option<u64> {
        let turn = (spot.angle + TURN - angle) % TURN;
        if turn >= bound {
            return None;
        }
        // The first pass after the seek.
        let missed = self.travel(from, spot.track).saturating_sub(turn).div_ceil(TURN);
        Some(turn + missed * TURN).filter(|wait| *wait < bound)
    }

    /// Time when sector `lba` begins to pass the head, if the head leaves track `from` at `start`.
    pub(super) fn reach(&self, start: u128, from: u64, lba: u64) -> u128 {
        start + u128::from(self.wait(angle(start), from, self.spot(lba)))
    }

    /// Time when sector `lba + count - 1` has passed, if the head leaves track `from` at `start` for `lba`. O(tracks).
    pub(super) fn pass(&self, start: u128, from: u64, lba: u64, count: u64) -> u128 {
        let (mut time, mut from, mut at, end) = (start, from, lba, lba + count);
        while at < end {
            let (track, sector, sectors) = self.place(at);
            let last = (sector + (end - at)).min(sectors);
            time = self.reach(time, from, at);
            time += u128::from(turned(last, sectors) - turned(sector, sectors));
            (from, at) = (track, at + last - sector);
        }
        time
    }

    /// The first sector from `lba` on, `limit` at most, that has not passed at `now`, if `lba` begins to pass at `time`.
    pub(super) fn reached(&self, time: u128, lba: u64, limit: u64, now: u128) -> u64 {
        let (mut time, mut from, mut at) = (time, self.track(lba), lba);
        while at < limit {
            let (track, sector, sectors) = self.place(at);
            time = self.reach(time, from, at);
            if now < time {
                break;
            }
            let last = (sector + (limit - at)).min(sectors);
            let end = time + u128::from(turned(last, sectors) - turned(sector, sectors));
            if now < end {
                // The last sector whose angle, rounded down, has passed.
                let angle = u128::from(turned(sector, sectors)) + (now - time);
                let passed = ((angle + 1) * u128::from(sectors) - 1) / u128::from(TURN);
                return at + (passed as u64).clamp(sector, last) - sector;
            }
            (time, from, at) = (end, track, at + last - sector);
        }
        at
    }
}

/// The angle of the platters at a time.
pub(super) fn angle(time: u128) -> u64 {
    (time % u128::from(TURN)) as u64
}

/// Ticks from the beginning of a track to that of a sector on it.
fn turned(sector: u64, sectors: u64) -> u64 {
    (u128::from(sector) * u128::from(TURN) / u128::from(sectors)) as u64
}

impl Seek {
    fn time(&self, cylinders: u64) -> u64 {
        if cylinders <= 1 {
            self.track_to_track
        } else if cylinders <= self.knee {
            // The root of the share of the knee, in 2^-20.
            let (part, whole) = (cylinders - 1, self.knee - 1);
            // Fast path for nearly all disks.
            let root = match part.checked_mul(1 << 40) {
                Some(part) => u128::from((part / whole).isqrt()),
                None => ((u128::from(part) << 40) / u128::from(whole)).isqrt(),
            };
            let rise = u128::from(self.third - self.track_to_track);
            self.track_to_track + ((rise * root) >> 20) as u64
        } else {
            let (over, rest) = (cylinders - self.knee, (self.stroke - self.knee).max(1));
            let rise = u128::from(self.full - self.third) * u128::from(over) / u128::from(rest);
            self.third + rise as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdd::HddSpec;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_seek_curve_meets_its_three_times() {
        for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
            let geometry = Geometry::new(&spec);
            let last = geometry.seek.stroke;
            let time = |cylinders: u64| geometry.seek.time(cylinders) / spec.rpm;
            assert_eq!(time(1), spec.track_to_track_ns);
            assert_eq!(time(last), spec.full_ns);
            // The mean over all pairs of cylinders, by distance.
            let (mut sum, mut pairs) = (0u128, 0u128);
            for distance in (0..=last).step_by(17) {
                let weight = u128::from(last + 1 - distance);
                let took = if distance == 0 { 0 } else { time(distance) };
                sum += u128::from(took) * weight;
                pairs += weight;
            }
            let mean = (sum / pairs) as u64;
            assert!(mean.abs_diff(spec.average_ns) < MS / 20, "{mean} for {}", spec.average_ns);
            assert!((1..last).all(|distance| time(distance) <= time(distance + 1)));
        }
    }

    #[test]
    fn the_mean_wait_for_a_sector_is_half_a_turn() {
        let geometry = Geometry::new(&HddSpec::HDD7200);
        let turns = 1000;
        let sum: u128 = (0..turns)
            .map(|n| {
                let start = u128::from(n * (TURN / turns));
                geometry.reach(start, 0, 17) - start
            })
            .sum();
        let mean = sum / u128::from(turns);
        assert!(mean.abs_diff(u128::from(TURN / 2)) <= u128::from(TURN / turns), "{mean}");
    }

    #[test]
    fn the_buffer_holds_what_has_passed_the_heads() {
        let geometry = Geometry::new(&HddSpec::DISK2009);
        let (lba, count) = (123_456, 4000);
        let start = geometry.reach(0, 7, lba);
        let track = geometry.track(lba);
        for sectors in (0..count).step_by(37) {
            let end = geometry.pass(start, track, lba, sectors);
            assert_eq!(geometry.reached(start, lba, lba + count, end), lba + sectors);
            if sectors > 0 {
                let before = geometry.reached(start, lba, lba + count, end - 1);
                assert_eq!(before, lba + sectors - 1);
            }
        }
        assert_eq!(geometry.reached(start, lba, lba + count, u128::MAX / 4), lba + count);
    }

    #[test]
    fn zones_transfer_at_their_rates() {
        for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
            let geometry = Geometry::new(&spec);
            let sectors = (256 << 20) / SECTOR;
            for (lba, rate) in [(0, spec.outer), (spec.size / SECTOR - sectors, spec.inner)] {
                let start = geometry.reach(0, geometry.track(lba), lba);
                let ns =
                    geometry.nanos(geometry.pass(start, geometry.track(lba), lba, sectors) - start);
                let seen = (u128::from(sectors * SECTOR) * 1_000_000_000 / u128::from(ns)) as u64;
                // A track has a whole number of sectors, and the stretch not a whole number of tracks.
                assert!(seen.abs_diff(rate) < rate / 100, "{seen} for {rate}");
            }
        }
    }
}
