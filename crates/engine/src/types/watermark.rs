//! Utilisation of a device from which on limits bind.

use core::num::NonZeroU64;

/// The device's utilisation from which on limits bind, in percent, and how they are lifted below it: `io.watermark`.
///
/// Written `90`, `90 mode=gate`, `90 mode=gate period=100ms` or `90 reserve=kept`. 0 is the default: limits always bind.
/// Source: io-throttle v16's `blockio.watermark` (spec/throttle 2.6); `proportional` is Weir's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Watermark {
    percent: u8,
    mode: WatermarkMode,
}

/// What happens to limits while the device is used less than the watermark says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum WatermarkMode {
    /// All of them grow in the same proportion, just enough for the device to be used up to the watermark.
    Proportional {
        /// What becomes of the rest of the device while it has no requests without limits.
        headroom: Headroom,
    },
    /// All of them are lifted, or none, as the utilisation of the last period says: io-throttle's switch.
    Gate {
        /// How long utilisation is looked at before it is decided anew, in nanoseconds.
        period_ns: NonZeroU64,
    },
}

/// The part of the device above the watermark: whom it is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Headroom {
    /// For those without limits while they are there, and until a second after; otherwise it is lent to the others.
    #[default]
    Borrowable,
    /// For clients without limits, present or not. The device idles for them, and does not idle for anticipated clients.
    Strict,
}

impl WatermarkMode {
    /// [`WatermarkMode::Proportional`] that lends its reserve.
    pub const DEFAULT: WatermarkMode =
        WatermarkMode::Proportional { headroom: Headroom::Borrowable };
    /// A gate with the period of io-throttle's description, 1 s.
    pub const GATE: WatermarkMode =
        WatermarkMode::Gate { period_ns: NonZeroU64::new(1_000_000_000).unwrap() };
}

impl Watermark {
    /// Limits always bind.
    pub const HARD: Watermark = Watermark { percent: 0, mode: WatermarkMode::DEFAULT };
    /// The largest.
    pub const PERCENT_MAX: u8 = 100;

    /// A watermark of `percent`; `None` above 100. Where it is 0 the mode makes no difference and is forgotten.
    pub const fn new(percent: u8, mode: WatermarkMode) -> Option<Watermark> {
        match percent {
            0 => Some(Watermark::HARD),
            1..=Watermark::PERCENT_MAX => Some(Watermark { percent, mode }),
            _ => None,
        }
    }

    /// In percent, 0 to 100.
    pub const fn percent(self) -> u8 {
        self.percent
    }

    /// How limits are lifted below it.
    pub const fn mode(self) -> WatermarkMode {
        self.mode
    }
}

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark::HARD
    }
}
