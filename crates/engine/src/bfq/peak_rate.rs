//! Peak rate of the device, and the largest budget that follows from it (spec/bfq 3.1, 3.3).
//!
//! ```text
//!  dispatches, completions ─► window ─► closed: its rate, weighted by how sequential and how long it was
//!                                                        └─► estimate ─► what the device does in the longest slot
//! ```
//!
//! A window begins with a dispatch and ends after a second, after a pause, or when completions come so rarely that the
//! device is not at its best. Windows that are short, or seek and are no faster than the estimate, say nothing. Other
//! than in the kernel, time in which the device had nothing to do is no part of a window, so that pauses do not make a
//! device look slow.

use crate::types::Instant;

/// Settings of the estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeakSettings {
    /// Whether the device seeks; only the first estimate depends on it.
    pub(crate) rotational: bool,
    /// Longest slot: the largest budget is what the device does in this time at its best.
    pub(crate) timeout_ns: u64,
    /// The largest budget in bytes, if configured.
    pub(crate) max_budget: Option<u32>,
    /// Bytes a second. A window ends when the largest recent request, over the time between two completions, is
    /// slower.
    pub(crate) low_rate: u64,
}

/// 977 sectors a second, as in the kernel's code; its comment says a million (spec/bfq D-7).
///
/// The test applies from 2 ms between two completions on. There a million, 512 MB/s, would end a window with each
/// large request of a disk, so that nothing is learnt and the first estimate stays. See the test
/// `the_kernels_low_rate_teaches_most`.
pub(crate) const LOW_RATE: u64 = 500_000;

impl PeakSettings {
    pub(crate) const fn new(rotational: bool, timeout_ns: u64) -> PeakSettings {
        PeakSettings { rotational, timeout_ns, max_budget: None, low_rate: LOW_RATE }
    }
}

const MS: u64 = 1_000_000;
const SECTOR: u64 = 512;

/// A pause of this length ends a window.
const PAUSE_NS: u64 = 100 * MS;
/// Time after a completion without requests from which on the device counts as idle.
const BUSY_GAP_NS: u64 = 2 * MS;
/// Windows of fewer requests, or shorter ones, say nothing.
const SAMPLES_MIN: u32 = 32;
const WINDOW_MIN_NS: u64 = 300 * MS;
/// A window of this length is over, and has its full weight.
const WINDOW_NS: u64 = 1000 * MS;
/// Rates above 20 sectors a microsecond, 10 GB/s, are errors of measurement.
const RATE_MAX: u64 = 20 << RATE_SHIFT;
/// Fractional bits of a rate in sectors a microsecond, as in the kernel: 7,812.5 bytes a second each.
const RATE_SHIFT: u32 = 16;
/// Typical disks: 109 MB/s and 258 MB/s. The first estimate is two thirds of that.
const REFERENCE_ROTATIONAL: u32 = 14_000;
const REFERENCE_FLASH: u32 = 33_000;
/// Largest budget until enough slots were seen: 8 MiB.
const BUDGET_DEFAULT: u32 = 16_384 * 512;
/// So that the least budget, a 32nd, is a sector.
const BUDGET_MIN: u64 = 32 * SECTOR;
/// Count of slots from which on the estimate is trusted: the eleventh (spec/bfq EX-8).
const TRUSTED: u8 = 194;

/// Peak rate of one device. A step is O(1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeakRate {
    settings: PeakSettings,
    /// Sectors per microsecond, with [`RATE_SHIFT`] bits after the point; at least 1.
    rate: u32,
    /// The largest budget, in bytes.
    cap: u32,
    /// Smoothed count of slots, up to 249.
    slots: u8,
    window: Window,
    last_dispatch: Instant,
    last_completion: Option<Instant>,
}

/// Measurement window: requests dispatched since the first that counts.
#[derive(Clone, Copy, Default, Debug)]
struct Window {
    since: Instant,
    /// From the first dispatch to the last.
    elapsed_ns: u64,
    samples: u32,
    /// Requests that followed the one before in time and position.
    sequential: u32,
    bytes: u64,
    /// Largest recent request.
    longest: u32,
}

impl Window {
    const EMPTY: Window = Window {
        since: Instant::ZERO,
        elapsed_ns: 0,
        samples: 0,
        sequential: 0,
        bytes: 0,
        longest: 0,
    };

    fn new(now: Instant, len: u32) -> Window {
        Window { since: now, samples: 1, bytes: len.into(), longest: len, ..Window::EMPTY }
    }
}

impl PeakRate {
    pub(crate) fn new(settings: PeakSettings) -> PeakRate {
        let reference = match settings.rotational {
            true => REFERENCE_ROTATIONAL,
            false => REFERENCE_FLASH,
        };
        PeakRate {
            settings,
            rate: reference * 2 / 3,
            cap: settings.max_budget.unwrap_or(BUDGET_DEFAULT),
            slots: 0,
            window: Window::EMPTY,
            last_dispatch: Instant::ZERO,
            last_completion: None,
        }
    }

    /// The estimate in the unit of spec/bfq 3.3: sectors per microsecond, 16 bits after the point.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    /// Largest budget in bytes: configured, or what the device does at its best in the longest slot (`CAP` of
    /// spec/bfq 3.2 and 3.7).
    pub(crate) fn cap(&self) -> u32 {
        self.cap
    }

    /// Time that the device takes for `bytes` at its best.
    pub(crate) fn nanos_for(&self, bytes: u32) -> u64 {
        // Sectors of 32 bits of bytes, 16 bits and a thousand: 49 bits.
        ((u64::from(bytes) / SECTOR) << RATE_SHIFT) * 1000 / u64::from(self.rate)
    }

    /// Budget to plan with, in bytes: [`PeakRate::cap`] once trusted (`MB()` of spec/bfq 3.1).
    pub(crate) fn max_budget(&self) -> u32 {
        if self.is_trusted() || self.settings.max_budget.is_some() {
            self.cap
        } else {
            BUDGET_DEFAULT
        }
    }

    /// Whether enough slots were seen to trust the estimate.
    pub(crate) fn is_trusted(&self) -> bool {
        self.slots >= TRUSTED
    }

    /// Counts a slot.
    pub(crate) fn selected(&mut self) {
        // At most 249, where 7/8 of it and 32 are 249 again.
        self.slots = ((u32::from(self.slots) * 7 + 256) / 8) as u8;
    }

    /// Changes the longest slot and the configured largest budget.
    pub(crate) fn retune(&mut self, timeout_ns: u64, max_budget: Option<u32>) {
        self.settings.timeout_ns = timeout_ns;
        self.settings.max_budget = max_budget;
        self.cap = max_budget.unwrap_or_else(|| self.budget_at_best());
    }

    /// A request of `len` bytes is dispatched; `in_device` were there before it. `is_near`: it is no seek from the
    /// end of the request before it. Returns whether the estimate has changed.
    pub(crate) fn dispatched(
        &mut self,
        now: Instant,
        len: u32,
        is_near: bool,
        in_device: u32,
    ) -> bool {
        let mut changed = false;
        let paused = in_device == 0 && now.nanos_since(self.last_dispatch) > PAUSE_NS;
        if self.window.samples == 0 || paused {
            changed = self.close();
            self.window = Window::new(now, len);
        } else {
            let idle_ns = self.last_completion.map_or(0, |at| now.nanos_since(at));
            let window = &mut self.window;
            if in_device == 0 && idle_ns >= BUSY_GAP_NS {
                // As if the window had begun that much later.
                window.since = window.since.plus_nanos(idle_ns).min(now);
            }
            window.samples = window.samples.saturating_add(1);
            let follows = self.last_completion.is_some() && idle_ns < BUSY_GAP_NS;
            window.sequential += u32::from(is_near && (in_device > 0 || follows));
            window.bytes = window.bytes.saturating_add(len.into());
            window.longest =
                if window.samples.is_multiple_of(32) { len } else { window.longest.max(len) };
            window.elapsed_ns = now.nanos_since(window.since);
            if window.elapsed_ns >= WINDOW_NS {
                changed = self.close();
                self.window = Window::new(now, len);
            }
        }
        self.last_dispatch = now;
        changed
    }

    /// Leaves a seeky flow's slot of `ns`, until `now`, out of the window. Otherwise a stream beside a random reader
    /// would make the device look slow and the reader's time cheap.
    pub(crate) fn leave_out(&mut self, now: Instant, ns: u64) {
        self.window.since = self.window.since.plus_nanos(ns).min(now);
        // A slot is no pause.
        self.last_dispatch = self.last_dispatch.plus_nanos(ns).min(now);
    }

    /// A request has completed. Returns whether the estimate has changed.
    pub(crate) fn completed(&mut self, now: Instant) -> bool {
        let gap_ns = self.last_completion.map_or(0, |at| now.nanos_since(at));
        let changed = gap_ns > BUSY_GAP_NS && self.end_if_low(gap_ns);
        self.last_completion = Some(now);
        changed
    }

    /// Ends the window if the device was not at its best in the `gap_ns` since its last completion. Returns whether
    /// the estimate has changed.
    fn end_if_low(&mut self, gap_ns: u64) -> bool {
        // In 128 bits, because a gap may be long: bytes / gap < low rate, without a division.
        let at_best = u128::from(self.window.longest) * 1_000_000_000;
        let is_low = at_best < u128::from(self.settings.low_rate) * u128::from(gap_ns);
        is_low && {
            let changed = self.close();
            self.window = Window::EMPTY;
            changed
        }
    }

    /// Learns from the window. Returns whether the estimate has changed.
    fn close(&mut self) -> bool {
        let window = self.window;
        if window.samples < SAMPLES_MIN || window.elapsed_ns < WINDOW_MIN_NS {
            return false;
        }
        let until_back = self.last_completion.map_or(0, |at| at.nanos_since(window.since));
        let elapsed_ns = window.elapsed_ns.max(until_back);
        // sectors << 16 / microseconds, in bytes and nanoseconds.
        let units = u128::from(window.bytes) * ((1000 << RATE_SHIFT) / u128::from(SECTOR));
        let Ok(measured) = u64::try_from(units / u128::from(elapsed_ns)) else { return false };
        let [samples, sequential] = [window.samples, window.sequential].map(u64::from);
        let old = u64::from(self.rate);
        let seeks = sequential < samples * 3 / 4;
        if (seeks && measured <= old) || measured > RATE_MAX {
            return false;
        }
        // The new measurement has one to eight parts of ten.
        let weight = 9 * sequential / samples;
        let weight = u128::from(weight) * u128::from(elapsed_ns) / u128::from(WINDOW_NS);
        let divisor = 10 - weight.min(8) as u64;
        // At most RATE_MAX, for both are.
        self.rate = ((old * (divisor - 1) / divisor + measured / divisor).max(1)) as u32;
        if self.settings.max_budget.is_none() {
            self.cap = self.budget_at_best();
        }
        true
    }

    /// What the device does in the longest slot, in whole sectors.
    fn budget_at_best(&self) -> u32 {
        let sectors = u128::from(self.rate) * u128::from(self.settings.timeout_ns / 1000);
        let bytes = u64::try_from(sectors >> RATE_SHIFT).unwrap_or(u64::MAX).saturating_mul(SECTOR);
        // A budget is 32 bits.
        bytes.clamp(BUDGET_MIN, u64::from(u32::MAX) / SECTOR * SECTOR) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMEOUT_NS: u64 = 125 * MS;

    fn peak(rotational: bool) -> PeakRate {
        PeakRate::new(PeakSettings::new(rotational, TIMEOUT_NS))
    }

    #[test]
    fn ex_8_eleven_slots_make_trust() {
        let mut peak = peak(true);
        let counts = [32, 60, 84, 105, 123, 139, 153, 165, 176, 186, 194];
        for count in counts {
            assert!(!peak.is_trusted());
            assert_eq!(peak.max_budget(), BUDGET_DEFAULT);
            peak.selected();
            assert_eq!(peak.slots, count);
        }
        assert!(peak.is_trusted());
        (0..100).for_each(|_| peak.selected());
        assert_eq!(peak.slots, 249);
    }

    /// Closes a window of that much.
    fn window(peak: &mut PeakRate, elapsed_ms: u64, sectors: u64, samples: u32, sequential: u32) {
        let elapsed_ns = elapsed_ms * MS;
        let bytes = sectors * SECTOR;
        peak.window =
            Window { elapsed_ns, samples, sequential, bytes, ..Window::new(Instant::ZERO, 0) };
        peak.close();
    }

    #[test]
    fn ex_10_a_window_counts_by_how_sequential_and_long_it_was() {
        let table = [
            // From, milliseconds, sequential of 300, to, and the largest budget in sectors.
            (9333, 1000, 280, 9581, 18_274),
            (9333, 1000, 200, 9456, 18_035),
            (9333, 500, 280, 11_053, 21_081),
            (12_000, 1000, 100, 12_000, 16_384),
        ];
        for (from, elapsed_ms, sequential, to, sectors) in table {
            let mut peak = PeakRate { rate: from, ..peak(true) };
            window(&mut peak, elapsed_ms, 150_000, 300, sequential);
            assert_eq!((peak.rate(), peak.cap()), (to, sectors * 512), "{sequential} of 300");
        }
    }

    #[test]
    fn short_or_seeky_windows_leave_the_estimate() {
        for (what, elapsed_ms, sectors, samples) in [
            ("too few", 1000, 150_000, 31),
            ("too short", 299, 150_000, 300),
            ("too fast", 1000, 20_000_200, 300),
        ] {
            let mut peak = peak(true);
            window(&mut peak, elapsed_ms, sectors, samples, samples);
            assert_eq!(peak.rate(), 9333, "{what}");
        }
        let mut peak = peak(true);
        window(&mut peak, 300, 150_000, 32, 32);
        assert_ne!(peak.rate(), 9333, "just enough");
    }

    #[test]
    fn ex_11_the_largest_budget_is_what_a_slot_can_do() {
        for (rate, sectors) in
            [(9333, 17_801), (14_000, 26_702), (22_000, 41_961), (33_000, 62_942)]
        {
            let mut peak = PeakRate { rate, ..peak(true) };
            peak.retune(TIMEOUT_NS, None);
            assert_eq!(peak.cap(), sectors * 512);
        }
        assert_eq!([true, false].map(|rotational| peak(rotational).rate()), [9333, 22_000]);
        let mut peak = PeakRate { rate: 1, ..peak(true) };
        peak.retune(TIMEOUT_NS, None);
        assert_eq!(peak.cap(), 32 * 512, "a 32nd of it is a sector");
        peak.retune(u64::MAX, None);
        assert_eq!(peak.cap(), u32::MAX - 511);
    }

    #[test]
    fn a_chosen_budget_stays() {
        let mut peak = peak(true);
        peak.retune(TIMEOUT_NS, Some(1 << 20));
        window(&mut peak, 1000, 150_000, 300, 280);
        assert_eq!((peak.cap(), peak.max_budget(), peak.rate()), (1 << 20, 1 << 20, 9581));
        peak.retune(TIMEOUT_NS, None);
        assert_eq!(peak.cap(), 18_274 * 512);
    }

    /// A device with one request of `len` at a time, each taking `ns`, and a pause of `pause_ms` after every `burst`.
    /// Estimate after a minute, in bytes a second.
    fn learnt(low_rate: u64, len: u32, ns: u64, burst: u64, pause_ms: u64) -> u64 {
        let mut peak =
            PeakRate::new(PeakSettings { low_rate, ..PeakSettings::new(true, TIMEOUT_NS) });
        let mut now = Instant::ZERO;
        for number in 1_u64.. {
            peak.dispatched(now, len, true, 0);
            now = now.plus_nanos(ns);
            peak.completed(now);
            if number % burst == 0 {
                now = now.plus_nanos(pause_ms * MS);
            }
            if now > Instant::from_millis(60_000) {
                break;
            }
        }
        (u64::from(peak.rate()) * SECTOR * 1_000_000) >> RATE_SHIFT
    }

    #[test]
    fn the_kernels_low_rate_teaches_most() {
        // In MB/s: the device, then what is learnt with the low rate of the kernel's code, of its comment, and of none.
        // The first guess is 72. A window has both the request it begins with and the one it ends with.
        let forever = u64::MAX;
        for (what, len, ns, burst, pause_ms, learnt_with) in [
            ("100 MB/s by 128 KiB", 128 << 10, 1_310_720, forever, 0, [100, 100, 100]),
            ("100 MB/s by 1 MiB", 1 << 20, 10_485_760, forever, 0, [101, 72, 101]),
            ("100 MB/s, half of the time", 128 << 10, 1_310_720, 38, 50, [100, 72, 100]),
            ("1 MB/s by 4 KiB", 4 << 10, 4_096_000, forever, 0, [1, 72, 1]),
            ("0.4 MB/s by 4 KiB", 4 << 10, 10_240_000, forever, 0, [72, 72, 0]),
        ] {
            let learnt =
                [LOW_RATE, 512_000_000, 0].map(|low| learnt(low, len, ns, burst, pause_ms));
            assert_eq!(learnt.map(|rate| rate / 1_000_000), learnt_with, "{what}");
        }
    }

    proptest! {
        /// spec/bfq 11.21: an estimate is between the old one and what was measured, up to rounding, and at least 1.
        #[test]
        fn the_estimate_goes_towards_what_was_measured(
            rate in 1..=RATE_MAX as u32,
            elapsed_ms in 0..2000_u64,
            sectors in 0..40_000_000_u64,
            samples in 1..5000_u32,
            part in 0..=100_u32,
        ) {
            let mut peak = PeakRate { rate, ..peak(true) };
            window(&mut peak, elapsed_ms, sectors, samples, (u64::from(samples) * u64::from(part) / 100) as u32);
            let measured = (sectors << 16) / (elapsed_ms.max(1) * 1000);
            let (old, new) = (i128::from(rate), i128::from(peak.rate()));
            let measured = i128::from(measured);
            prop_assert!(new >= 1);
            prop_assert!(new <= i128::from(RATE_MAX));
            if new != old {
                let (least, most) = (old.min(measured), old.max(measured));
                prop_assert!(least - 2 <= new && new <= most.max(1), "{old} and {measured} gave {new}");
                // Half of the way at most.
                prop_assert!((new - old).abs() <= (measured - old).abs() / 2 + 2);
                prop_assert!(measured <= i128::from(RATE_MAX));
            }
        }

        /// Whatever happens, and however often at one instant: nothing overflows, and budgets are whole sectors.
        #[test]
        fn any_calls_keep_the_rate_and_budget_in_range(calls in prop::collection::vec((0..4_u32, any::<u64>(), any::<u32>(), any::<bool>()), 1..200)) {
            let (mut peak, mut now) = (peak(false), Instant::ZERO);
            for (what, wait, len, flag) in calls {
                now = now.plus_nanos(if flag { wait >> 40 } else { wait >> (len % 64) });
                match what {
                    0 => { peak.completed(now); }
                    1 => peak.selected(),
                    _ => { peak.dispatched(now, len, flag, what - 2); }
                }
                prop_assert!(peak.rate() >= 1 && peak.cap() % 512 == 0 && peak.cap() >= 32 * 512);
            }
        }
    }
}
