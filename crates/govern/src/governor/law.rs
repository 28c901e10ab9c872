//! The law: from the use of the device and what cgroups attained to a new factor.
//!
//! Requests served at λ took the share `u` of the device. So λ · g / u would have taken `g`, as long as all limits bind:
//! one step, and no gain to tune. A limit that does not bind makes the step too small, never too large.

use super::scale::{LIFTED, ONE};

/// How limits are raised while the device has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// All limits by the same factor.
    #[default]
    Proportional,
    /// Limits go altogether while the device is used less than the watermark.
    Gate,
}

/// What an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Utilisation, in thousandths, up to which limits are raised.
    pub watermark_permille: u16,
    /// How limits are raised.
    pub mode: Mode,
}

/// Target while only limited cgroups use the device: the reserve has no use then, but at 100 % limits would not bind,
/// and the device would decide on the ratio.
const ALONE_PERMILLE: u64 = 970;

/// Above this the device is full: what it did says nothing of what was asked.
const FULL_PERMILLE: u64 = 985;

/// Above this a cgroup that gets less than its limit may be held back by the device.
const HIGH_PERMILLE: u64 = 850;

/// Above this, over a short window, limits are as written at once if there are others.
const YIELD_PERMILLE: u32 = 950;

/// Largest step up, and down.
const STEP: u64 = 2;

/// Smaller changes are not worth a write, in thousandths.
const DEAD_PERMILLE: u64 = 30;

/// How far λ may be above what the least served cgroup attained, in thousandths.
const AHEAD_PERMILLE: u64 = 1080;

/// Step back from a device that is full, in thousandths.
const BACK_PERMILLE: u64 = 900;

/// The factor at which the device was full is tried again by and by: this part more with each window.
const CEILING_GROWTH: u64 = 16;

/// Windows with limits far from binding until λ follows down.
const SLACK_WINDOWS: u32 = 5;

/// How long limits stay as written after they had to yield: at first, and at most.
const HOLD_NS: u64 = 1_000_000_000;
const HOLD_NS_MAX: u64 = 16_000_000_000;

/// What the cgroups of a domain attained in a window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attainment {
    /// Some limit bound.
    pub(super) is_bound: bool,
    /// Least multiple of its limits that a cgroup attained which wants more.
    pub(super) least: Option<u64>,
    /// Largest multiple that any attained.
    pub(super) most: u64,
    /// A cgroup that used less than its limits gets less now than as written, or than before.
    pub(super) is_squeezed: bool,
}

/// The device over a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) now_ns: u64,
    pub(super) permille: u64,
    /// Cgroups without limits used it lately.
    pub(super) is_others: bool,
}

impl View {
    /// Whether what was done says nothing of what was asked.
    pub(super) fn is_full(&self) -> bool {
        self.permille >= FULL_PERMILLE
    }

    /// Whether the device may hold a cgroup back.
    pub(super) fn is_high(&self) -> bool {
        self.permille >= HIGH_PERMILLE
    }
}

/// Cgroups with one factor: the device's, or those of a cgroup with settings of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain {
    pub(super) settings: Settings,
    /// The factor, in millionths; [`LIFTED`] for none.
    pub(super) lambda: u64,
    pub(super) attainment: Attainment,
    hold_until_ns: u64,
    hold_ns: u64,
    slack_windows: u32,
    /// The factor that would take all of the device, as far as is known.
    whole: u64,
    /// Somewhat less than the factor at which the device was full lately.
    ceiling: u64,
    /// It was near the target.
    is_settled: bool,
    /// Windows that were far from `whole`, one after the other.
    far_windows: u32,
}

impl Domain {
    pub(super) fn new(settings: Settings) -> Domain {
        Domain {
            settings,
            lambda: ONE,
            attainment: Attainment::default(),
            hold_until_ns: 0,
            hold_ns: HOLD_NS,
            slack_windows: 0,
            whole: ONE,
            ceiling: LIFTED - 1,
            is_settled: false,
            far_windows: 0,
        }
    }

    /// What the device is used up to.
    pub(super) fn target(&self, is_others: bool) -> u64 {
        let watermark = u64::from(self.settings.watermark_permille).min(1000);
        if is_others { watermark } else { watermark.max(ALONE_PERMILLE) }
    }

    /// Limits as written at once, where others use the device and it is full. True if that is a change.
    pub(super) fn yields(&mut self, now_ns: u64, short_permille: u32) -> bool {
        let full = match self.settings.mode {
            Mode::Proportional => YIELD_PERMILLE,
            Mode::Gate => u32::from(self.settings.watermark_permille).min(YIELD_PERMILLE),
        };
        if short_permille < full || self.lambda == ONE {
            return false;
        }
        self.lambda = ONE;
        (self.is_settled, self.ceiling) = (false, LIFTED - 1);
        self.hold_until_ns = now_ns.saturating_add(self.hold_ns);
        self.hold_ns = (self.hold_ns * 2).min(HOLD_NS_MAX);
        true
    }

    /// Cgroups without limits have been away for a while.
    pub(super) fn alone(&mut self) {
        self.hold_ns = HOLD_NS;
        self.hold_until_ns = 0;
    }

    /// Decides at the end of a window. True if the factor is another now.
    pub(super) fn decide(&mut self, view: &View) -> bool {
        let may_rise = view.now_ns >= self.hold_until_ns;
        let next = match self.settings.mode {
            Mode::Gate => self.gate(view, may_rise),
            Mode::Proportional => self.proportional(view, may_rise),
        };
        let is_small = next != ONE
            && next != LIFTED
            && self.lambda != LIFTED
            && next.abs_diff(self.lambda) <= self.lambda / 1000 * DEAD_PERMILLE;
        if next == self.lambda || is_small {
            return false;
        }
        self.lambda = next;
        true
    }

    fn gate(&self, view: &View, may_rise: bool) -> u64 {
        let has_room = !view.is_others || view.permille < self.target(true);
        if self.lambda == LIFTED || (may_rise && has_room) { LIFTED } else { ONE }
    }

    fn proportional(&mut self, view: &View, may_rise: bool) -> u64 {
        let Attainment { is_bound, least, most, is_squeezed } = self.attainment;
        let lambda = self.lambda;
        let target = self.target(view.is_others);
        self.estimate(view, target);
        let mut next = part(self.whole, target, 1000).min(lambda.saturating_mul(STEP));
        next = next.min(self.ceiling);
        if is_squeezed || (view.is_full() && least.is_some_and(|least| least < ONE)) {
            next = next.min(lambda / STEP);
            self.is_settled = false;
        }
        if view.is_full() && next < part(lambda, 750, 1000) && !view.is_others {
            self.ceiling = self.ceiling.min(part(lambda, 950, 1000));
        }
        let is_slack = lambda > ONE && lambda / 3 > most;
        self.slack_windows = if is_slack { self.slack_windows + 1 } else { 0 };
        if self.slack_windows >= SLACK_WINDOWS {
            next = next.min(part(most, 1500, 1000));
        }
        if !(is_bound && may_rise) {
            next = next.min(lambda);
        }
        next.max(ONE)
    }

    /// Estimates the factor that would take all of the device. Near it, windows are averaged: what a disk can do
    /// differs from one to the next.
    fn estimate(&mut self, view: &View, target: u64) {
        let Attainment { is_bound, least, .. } = self.attainment;
        let mut whole = part(self.lambda, 1000, view.permille.max(1));
        if view.is_full() {
            // A step back from a jump may be enough. If not, the least of the multiples binds all: the sum of what was
            // served is all there is.
            whole = match self.is_settled {
                false => part(self.lambda, BACK_PERMILLE, target.max(1)),
                true => whole.min(least.unwrap_or(whole)),
            };
        } else if view.is_high() {
            let least = least.map_or(whole, |least| part(least, AHEAD_PERMILLE, target.max(1)));
            whole = whole.min(least);
        }
        let is_far = whole > part(self.whole, 1400, 1000) || whole < part(self.whole, 1000, 1400);
        self.far_windows = if is_far { self.far_windows + 1 } else { 0 };
        if !self.is_settled || self.far_windows > 1 {
            self.whole = whole;
        } else if is_bound || whole < self.whole {
            self.whole = (self.whole / 4 * 3).saturating_add(whole / 4);
        }
        self.is_settled = view.permille * 5 >= target * 4;
        if !view.is_full() {
            self.ceiling = self.ceiling.saturating_add(self.ceiling / CEILING_GROWTH);
        }
    }
}

/// `amount * numerator / denominator`; saturates below [`LIFTED`].
fn part(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(product).unwrap_or(u64::MAX).min(LIFTED - 1)
}
