//! The device over the last moments: its use, and what was done by cgroups without limits.

use super::samples::{Counters, DeviceSample};

/// Shortest window that is judged: two samples of 50 ms, or one slice of the kernel's limiter, with some lateness.
const SHORT_NS: u64 = 90_000_000;

/// Samples closer than this replace each other.
const SPACING_NS: u64 = 10_000_000;

/// Samples that are kept; more than [`SHORT_NS`] needs.
const KEPT: usize = 16;

/// Cgroups without limits use the device if more than this of it is theirs, in thousandths.
const OTHERS_PERMILLE: u64 = 80;

/// Fewer requests of others are chance.
const OTHERS_IOS_MIN: i64 = 2;

/// Limited cgroups that do less than this part of what they did share the device with others, in thousandths.
const LESS_PERMILLE: u64 = 800;

/// Longest time that the end of a cgroup, whose last requests were not counted, excuses requests of others.
const EXCUSED_NS: u64 = 300_000_000;

/// Sums at one instant.
#[derive(Debug, Clone, Copy, Default)]
struct Point {
    at_ns: u64,
    used_ns: u64,
    bytes: u64,
    ios: u64,
    limited_ios: u64,
    /// What was not counted for any limited cgroup. Falls where that is counted before the device has it.
    other_bytes: i64,
    other_ios: i64,
    /// Their largest values so far: no less was done by others, whatever waits.
    most_bytes: i64,
    most_ios: i64,
}

/// Use of the device between two instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    /// Share of the time, in thousandths.
    pub(super) permille: u32,
    /// Cgroups without limits have a part in it.
    pub(super) is_others: bool,
}

/// Samples of the device.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// Cgroups are counted before their requests wait for a limit, as version 1 does: requests that waited, and go now,
    /// look like those of others.
    pub(super) is_blurred: bool,
    last: Option<DeviceSample>,
    now: Point,
    /// The last samples, by their number modulo [`KEPT`].
    points: [Point; KEPT],
    count: usize,
    /// Begin of the long window.
    window: Point,
    /// Requests of limited cgroups in the long window before, and its length.
    before: (u64, u64),
    excused_from_ns: Option<u64>,
}

impl Device {
    /// Adds a sample. `limited` is what limited cgroups did since the last; `is_exact` if nothing of that was missed.
    /// False if the counters are those of another device.
    pub(super) fn add(
        &mut self,
        now_ns: u64,
        sample: DeviceSample,
        limited: Counters,
        is_exact: bool,
    ) -> bool {
        let begun = |sample: DeviceSample| {
            let Counters { rios, wios, .. } = sample.counters;
            rios.saturating_add(wios).saturating_add(sample.in_flight_ios)
        };
        let old = self.last.replace(sample);
        let done = old.and_then(|old| {
            let used_ns = sample.used_ns.checked_sub(old.used_ns)?;
            Some((sample.counters.since(old.counters)?, used_ns, begun(old)))
        });
        let Some((done, used_ns, begun_before)) = done else {
            let is_blurred = self.is_blurred;
            *self = Device { is_blurred, last: Some(sample), ..Device::default() };
            self.now.at_ns = now_ns;
            self.points[0] = self.now;
            self.count = 1;
            self.window = self.now;
            return false;
        };
        let bytes = done.rbytes.saturating_add(done.wbytes);
        let mut other_bytes = signed(bytes) - signed(limited.rbytes.saturating_add(limited.wbytes));
        let ios = signed(begun(sample)).saturating_sub(signed(begun_before));
        let limited_ios = limited.rios.saturating_add(limited.wios);
        let mut other_ios = ios.saturating_sub(signed(limited_ios));
        if !self.is_excused(now_ns, is_exact) {
            // Counters of a cgroup that was just added have all its past.
            if !is_exact {
                (other_bytes, other_ios) = (other_bytes.max(0), other_ios.max(0));
            }
        } else {
            (other_bytes, other_ios) = (0, 0);
        }
        let now = &mut self.now;
        now.at_ns = now.at_ns.max(now_ns);
        now.used_ns = now.used_ns.saturating_add(used_ns);
        now.bytes = now.bytes.saturating_add(bytes);
        now.ios = now.ios.saturating_add(u64::try_from(ios).unwrap_or(0));
        now.limited_ios = now.limited_ios.saturating_add(limited_ios);
        now.other_bytes = now.other_bytes.saturating_add(other_bytes);
        now.other_ios = now.other_ios.saturating_add(other_ios);
        now.most_bytes = now.most_bytes.max(now.other_bytes);
        now.most_ios = now.most_ios.max(now.other_ios);
        let newest = self.points[(self.count - 1) % KEPT];
        if now.at_ns - newest.at_ns >= SPACING_NS {
            self.points[self.count % KEPT] = *now;
            self.count += 1;
        }
        true
    }

    fn is_excused(&mut self, now_ns: u64, is_exact: bool) -> bool {
        if is_exact {
            self.excused_from_ns = None;
            return false;
        }
        let from_ns = *self.excused_from_ns.get_or_insert(self.now.at_ns);
        now_ns.saturating_sub(from_ns) <= EXCUSED_NS
    }

    /// Use over the shortest window that is judged; `None` as long as there are no samples for it.
    pub(super) fn short(&self) -> Option<Use> {
        let kept = self.count.min(KEPT);
        let points = (1..=kept).map(|back| self.points[(self.count - back) % KEPT]);
        let from = points.into_iter().find(|from| self.now.at_ns - from.at_ns >= SHORT_NS)?;
        Some(self.since(from))
    }

    /// Begins a long window now.
    pub(super) fn begin_window(&mut self) {
        let ios = self.now.limited_ios - self.window.limited_ios;
        self.before = (ios, self.window_ns());
        self.window = self.now;
    }

    /// Length of the long window.
    pub(super) fn window_ns(&self) -> u64 {
        self.now.at_ns - self.window.at_ns
    }

    /// Use over the long window.
    pub(super) fn long(&self) -> Use {
        self.since(self.window)
    }

    fn since(&self, from: Point) -> Use {
        let time_ns = (self.now.at_ns - from.at_ns).max(1);
        let used_ns = self.now.used_ns - from.used_ns;
        let permille = u128::from(used_ns) * 1000 / u128::from(time_ns);
        let ios = self.now.ios - from.ios;
        let is_part = |part: i64, whole: u64| {
            let part = u128::try_from(part).unwrap_or(0) * 1000;
            part > u128::from(OTHERS_PERMILLE) * u128::from(whole)
        };
        let is_material = |other_ios: i64, other_bytes: i64| {
            other_ios >= OTHERS_IOS_MIN
                && (is_part(other_ios, ios) || is_part(other_bytes, self.now.bytes - from.bytes))
        };
        let is_grown = is_material(
            self.now.other_ios.saturating_sub(from.other_ios),
            self.now.other_bytes.saturating_sub(from.other_bytes),
        );
        let is_sure = is_material(
            self.now.most_ios.saturating_sub(from.most_ios),
            self.now.most_bytes.saturating_sub(from.most_bytes),
        );
        let (ios_before, before_ns) = self.before;
        let limited_ios = self.now.limited_ios - from.limited_ios;
        let is_less = u128::from(limited_ios) * u128::from(before_ns) * 1000
            < u128::from(ios_before) * u128::from(time_ns) * u128::from(LESS_PERMILLE);
        let is_others = if self.is_blurred { is_sure || (is_grown && is_less) } else { is_grown };
        Use { permille: u32::try_from(permille.min(1000)).unwrap_or(1000), is_others }
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
