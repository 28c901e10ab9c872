//! Device as BFQ knows it: settings, measured speed, head position, and the requests at it.

use core::num::NonZeroU32;

use super::flash_bound::FlashBound;
use super::flow::is_far;
use super::peak_rate::{PeakRate, PeakSettings};
use super::seek_price::SeekPrice;
use super::settings::BfqSettings;
use super::tunables::Tunables;
use super::weight_raising;
use crate::types::{Extent, Instant};

/// Peak rate above which a device has no platters, or has a cache in front of many disks: 300 MB/s in sectors a
/// microsecond with 16 fractional bits. The fastest disks do 285 MB/s at their outer edge.
const FASTEST_PLATTERS: u32 = 38_400;

/// Settings and state of one device.
pub(crate) struct Device {
    settings: BfqSettings,
    tunables: Tunables,
    peak: PeakRate,
    /// See [`weight_raising::interactive_ms`].
    interactive_ms: u16,
    /// End of the last request dispatched, in bytes.
    position: u64,
    /// Requests at the device.
    in_flight: u32,
    flash_bound: FlashBound,
    seek_price: SeekPrice,
}

/// Settings.
impl Device {
    pub(crate) fn new(settings: &BfqSettings, rotational: bool, depth: NonZeroU32) -> Device {
        let tunables = Tunables::from(settings, rotational, depth);
        let peak = PeakSettings::new(rotational, tunables.timeout_ns);
        let peak = PeakRate::new(PeakSettings { max_budget: settings.max_budget(), ..peak });
        let mut flash_bound = FlashBound::default();
        flash_bound.follow(peak.nanos_for(1 << 20));
        Device {
            settings: *settings,
            tunables,
            interactive_ms: weight_raising::interactive_ms(peak.rate(), rotational),
            peak,
            position: 0,
            in_flight: 0,
            flash_bound,
            seek_price: SeekPrice::default(),
        }
    }

    #[inline]
    pub(crate) fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    /// Duration of an interactive period on this device, in milliseconds.
    pub(crate) fn interactive_ms(&self) -> u16 {
        self.interactive_ms
    }

    /// Changes the settings.
    pub(crate) fn set_settings(&mut self, settings: &BfqSettings) {
        self.settings = *settings;
        self.tunables = self.tunables.with(settings);
        self.peak.retune(self.tunables.timeout_ns, settings.max_budget());
        self.follow_speed();
    }

    /// Changes the queue depth.
    pub(crate) fn set_depth(&mut self, depth: NonZeroU32) {
        self.tunables.set_depth(depth);
    }

    /// Follows a changed estimate of the device's speed.
    fn follow_speed(&mut self) {
        self.tunables.follow(&self.peak, &self.settings);
        self.flash_bound.follow(self.peak.nanos_for(1 << 20));
        self.interactive_ms =
            weight_raising::interactive_ms(self.peak.rate(), self.tunables.rotational);
    }
}

/// Requests.
impl Device {
    /// End of the last request dispatched, in bytes.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Requests at the device.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Bytes of these.
    pub(crate) fn bytes(&self) -> u64 {
        self.flash_bound.bytes()
    }

    /// Counts a slot.
    pub(crate) fn selected(&mut self) {
        if !self.peak.is_trusted() {
            self.peak.selected();
            self.follow_speed();
        }
    }

    /// A request of `bytes` of data is dispatched.
    #[inline]
    pub(crate) fn dispatched(&mut self, bytes: u32) {
        self.in_flight += 1;
        self.flash_bound.dispatched(bytes);
    }

    /// The request just dispatched is at `extent`. `is_of_stream`: its flow is not seeky.
    #[inline]
    pub(crate) fn moved(&mut self, now: Instant, extent: Extent, is_of_stream: bool) {
        if is_of_stream {
            let is_near = !is_far(self.position, extent, &self.tunables);
            if self.peak.dispatched(now, extent.len, is_near, self.in_flight - 1) {
                self.follow_speed();
            }
        }
        self.position = extent.offset.saturating_add(u64::from(extent.len));
    }

    /// A request of `bytes` of data has completed.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, bytes: u32) {
        self.in_flight -= 1;
        self.flash_bound.completed(bytes);
        if self.peak.completed(now) {
            self.follow_speed();
        }
    }

    /// Leaves a seeky flow's slot of `ns`, until `now`, out of the estimate of the peak rate.
    pub(crate) fn leave_out(&mut self, now: Instant, ns: u64) {
        self.peak.leave_out(now, ns);
    }
}

/// Times, and the bound of a shared flash device.
impl Device {
    /// Whether the device has platters, and a cache to destage.
    #[inline]
    pub(crate) fn has_platters(&self) -> bool {
        self.tunables.rotational && self.peak.rate() <= FASTEST_PLATTERS
    }

    /// Time to destage a write of `bytes`. A disk's mean rate is three quarters of its peak at the outer edge.
    pub(crate) fn destage_ns(&self, bytes: u32) -> u64 {
        self.peak.nanos_for(bytes) / 3 * 4
    }

    /// Mean time of `requests` of a seeky flow, or the `ns` that they took while that is unknown; learns from them.
    pub(crate) fn mean_seek_ns(&mut self, requests: u32, ns: u64) -> u64 {
        let mean_ns = self.seek_price.of(requests).unwrap_or(ns);
        self.seek_price.learn(requests, ns);
        mean_ns
    }

    /// A budget under the flash bound.
    #[inline]
    pub(crate) fn bounded(&self, now: Instant, budget: u32) -> u64 {
        self.flash_bound.bound(now, budget)
    }

    /// Bounds the bytes at the device for a while.
    #[inline]
    pub(crate) fn extend_flash_bound(&mut self, now: Instant) {
        self.flash_bound.extend(now);
    }

    /// Whether a request of `bytes` has to wait for room.
    #[inline]
    pub(crate) fn is_full(&self, now: Instant, bytes: u32) -> bool {
        self.flash_bound.is_full(now, bytes)
    }

    /// Whether more than a quarter of the flash bound is at the device.
    pub(crate) fn is_quarter_full(&self) -> bool {
        self.flash_bound.is_quarter_full()
    }
}
