//! Slice of one direction of a group: its spending, and the two checks (spec/throttle 1.5 and 1.6).

use super::bio::Bio;
use super::profile::{Carry, Combine, IosWait, IosWindow, Profile, Remainder};

/// The limits of one direction, per second; `None` is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// Bytes a second.
    pub bps: Option<u64>,
    /// Bios a second.
    pub iops: Option<u64>,
}

/// Ticks that a bio has to wait; `None` if it may go. One profile answers a wait of 0 ticks, which is not "go".
pub(super) type Wait = Option<u64>;

/// Common settings of all slices of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) profile: Profile,
    /// Ticks a second.
    pub(super) hz: u64,
    /// Ticks a slice.
    pub(super) slice: u64,
}

impl Scale {
    /// The first multiple of a slice that is not before `ticks`.
    fn up(&self, ticks: u64) -> u64 {
        ticks.div_ceil(self.slice) * self.slice
    }

    /// Whether `bio` pays nothing: it waits for nothing but its turn, and touches no slice.
    pub(super) fn is_free(&self, bio: &Bio) -> bool {
        bio.flags.remainder && self.profile.remainder == Remainder::Nothing
    }

    fn bytes_in(&self, bps: u64, ticks: u64) -> i128 {
        (i128::from(bps) * i128::from(ticks) / i128::from(self.hz)).min(i128::from(u64::MAX))
    }

    fn ios_in(&self, iops: u64, ticks: u64) -> i128 {
        (i128::from(iops) * i128::from(ticks) / i128::from(self.hz)).min(i128::from(u32::MAX))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) start: u64,
    end: u64,
    bytes: i128,
    ios: i128,
    carry_bytes: i128,
    carry_ios: i128,
}

impl Slice {
    pub(super) fn is_over(&self, now: u64) -> bool {
        now < self.start || now > self.end
    }

    fn start_new(&mut self, scale: &Scale, now: u64) {
        *self = Slice { start: now, end: now + scale.slice, ..Slice::default() };
    }

    fn extend(&mut self, scale: &Scale, until: u64) {
        if self.end < until {
            self.end = scale.up(until);
        }
    }

    /// The parent's side of a bio passed up: time served at the child counts here.
    pub(super) fn credit(&mut self, scale: &Scale, now: u64, child_start: u64) {
        if self.is_over(now) {
            let start = self.start.max(child_start);
            *self = Slice { start, end: now + scale.slice, ..Slice::default() };
        }
    }

    /// Ticks until `bio` may go, `None` if it may go now. `queued`: a bio waits in this direction of the group.
    ///
    /// Pays the bio's bytes where the profile pays them ahead of its I/O.
    pub(super) fn check(
        &mut self,
        scale: &Scale,
        limit: Limit,
        now: u64,
        bio: &mut Bio,
        queued: bool,
    ) -> Wait {
        if limit == Limit::default() || scale.is_free(bio) {
            return None;
        }
        if self.is_over(now) && !queued {
            self.start_new(scale, now);
        } else {
            self.extend(scale, now + scale.slice);
        }
        let bytes = limit.bps.and_then(|bps| self.bytes_wait(scale, bps, now, bio));
        let ios = limit.iops.and_then(|iops| self.ios_wait(scale, iops, now));
        let wait = match scale.profile.combine {
            Combine::IosIfBytesPass => bytes.or(ios),
            Combine::Longer => bytes.max(ios),
            Combine::PayBytesThenIos if bytes.is_some() => bytes,
            Combine::PayBytesThenIos => {
                self.pay_bytes(bio);
                ios
            }
        };
        if let Some(wait) = wait {
            self.extend(scale, now + wait);
        }
        wait
    }

    fn bytes_wait(&self, scale: &Scale, bps: u64, now: u64, bio: &Bio) -> Wait {
        if bio.owes_no_bytes() {
            return None;
        }
        let elapsed = now - self.start;
        let window = if elapsed == 0 { scale.slice } else { scale.up(elapsed) };
        let earned = scale.bytes_in(bps, window);
        let allowed = match scale.profile.carry {
            Carry::Unsigned => (earned + self.carry_bytes).rem_euclid(1 << 64),
            _ => earned + self.carry_bytes,
        };
        let wanted = self.bytes + i128::from(bio.bytes);
        if wanted <= allowed && allowed > 0 {
            return None;
        }
        let missing = (wanted - allowed) * i128::from(scale.hz) / i128::from(bps);
        Some(ticks(missing.max(1)) + (window - elapsed))
    }

    fn ios_wait(&self, scale: &Scale, iops: u64, now: u64) -> Wait {
        let elapsed = now - self.start;
        let window = match scale.profile.ios_window {
            IosWindow::Elapsed if elapsed == 0 => scale.slice,
            IosWindow::Elapsed => scale.up(elapsed),
            IosWindow::ElapsedPlusOne => scale.up(elapsed + 1),
        };
        let earned = scale.ios_in(iops, window);
        let allowed = match scale.profile.carry {
            Carry::Unsigned => (earned + self.carry_ios).rem_euclid(1 << 32),
            _ => (earned + self.carry_ios).min(i128::from(u32::MAX)),
        };
        if self.ios < allowed && allowed > 0 {
            return None;
        }
        Some(match scale.profile.ios_wait {
            IosWait::AverageRate => {
                let due = ticks((self.ios + 1) * i128::from(scale.hz) / i128::from(iops) + 1);
                due.saturating_sub(elapsed).max(1)
            }
            IosWait::SliceEnd => window - elapsed,
            IosWait::SliceEndOrOneIo => (window - elapsed).max(scale.hz / iops + 1),
        })
    }

    fn pay_bytes(&mut self, bio: &mut Bio) {
        if !bio.owes_no_bytes() {
            self.bytes += i128::from(bio.bytes);
            bio.bytes_paid_here = true;
        }
    }

    /// Books `bio` as gone.
    pub(super) fn charge(&mut self, bio: &mut Bio) {
        self.pay_bytes(bio);
        self.ios += 1;
    }

    /// Cuts whole slices that lie behind off the slice, with what they allowed. Follows every normal charge.
    pub(super) fn trim(&mut self, scale: &Scale, limit: Limit, now: u64) {
        if self.is_over(now) {
            return;
        }
        self.end = scale.up(now + scale.slice);
        let behind = (now - self.start) / scale.slice * scale.slice;
        if behind < (scale.profile.trim_keeps + 1) * scale.slice {
            return;
        }
        let behind = behind - scale.profile.trim_keeps * scale.slice;
        let trimmed = if scale.profile.carry == Carry::InCounters {
            self.trim_counters(scale, limit, behind)
        } else {
            self.trim_with_carry(scale, limit, behind)
        };
        if trimmed {
            self.start += behind;
        }
    }

    fn trim_with_carry(&mut self, scale: &Scale, limit: Limit, behind: u64) -> bool {
        let bytes = scale.bytes_in(limit.bps.unwrap_or(u64::MAX), behind);
        let ios = scale.ios_in(limit.iops.unwrap_or(u32::MAX.into()), behind);
        let (bytes, ios) = match scale.profile.carry {
            Carry::Signed => (
                // The sum is kept in 64 signed bits: with unlimited bytes it is an enormous amount while little
                // time lies behind, and a negative one when more does.
                wrap_signed(bytes, 64) + self.carry_bytes,
                wrap_signed(ios, 32) + self.carry_ios,
            ),
            _ => (
                (bytes + self.carry_bytes).rem_euclid(1 << 64),
                (ios + self.carry_ios).rem_euclid(1 << 32),
            ),
        };
        if bytes <= 0 && ios <= 0 {
            return false;
        }
        self.bytes = (self.bytes - bytes).max(0);
        self.ios = (self.ios - ios).max(0);
        self.carry_bytes = 0;
        self.carry_ios = 0;
        true
    }

    fn trim_counters(&mut self, scale: &Scale, limit: Limit, behind: u64) -> bool {
        // An amount of 0 is taken for an overflow and forgives everything (spec/throttle 1.12.3).
        let trim = |counter: &mut i128, amount: i128| {
            let cut = if amount == 0 { *counter } else { amount.min(*counter) };
            *counter -= cut;
            cut
        };
        let bytes = limit.bps.map_or(0, |bps| trim(&mut self.bytes, scale.bytes_in(bps, behind)));
        let ios = limit.iops.map_or(0, |iops| trim(&mut self.ios, scale.ios_in(iops, behind)));
        bytes != 0 || ios != 0
    }

    /// The limits change from `old` at `now`.
    pub(super) fn change(&mut self, scale: &Scale, old: Limit, now: u64, queued: bool) {
        let elapsed = now - self.start;
        let credit_bytes = old.bps.map_or(0, |bps| scale.bytes_in(bps, elapsed) - self.bytes);
        let credit_ios = old.iops.map_or(0, |iops| scale.ios_in(iops, elapsed) - self.ios);
        let restarted = Slice { start: now, end: now + scale.slice, ..Slice::default() };
        *self = match scale.profile.carry {
            Carry::Nothing => restarted,
            Carry::Unsigned | Carry::Signed => {
                let (bytes, ios) = if queued { (credit_bytes, credit_ios) } else { (0, 0) };
                Slice {
                    carry_bytes: self.carry_bytes + bytes,
                    carry_ios: self.carry_ios + ios,
                    ..restarted
                }
            }
            Carry::InCounters if queued => {
                // A limit that has allowed nothing yet forgives everything (spec/throttle 1.12.12).
                let kept = |earned: i128, used: i128| if earned > 0 { used - earned } else { 0 };
                let bytes = old.bps.map_or(0, |bps| scale.bytes_in(bps, elapsed));
                let ios = old.iops.map_or(0, |iops| scale.ios_in(iops, elapsed));
                Slice { bytes: kept(bytes, self.bytes), ios: kept(ios, self.ios), ..restarted }
            }
            Carry::InCounters => restarted,
        };
    }
}

fn ticks(count: i128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX / 4)
}

/// `value` with its low `bits` as a signed number.
fn wrap_signed(value: i128, bits: u32) -> i128 {
    let half = 1i128 << (bits - 1);
    (value + half).rem_euclid(1 << bits) - half
}
