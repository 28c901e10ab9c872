//! Device as BFQ knows it: settings, measured speed and seeks, head position, the requests at it, and their bound.

use core::num::NonZeroU32;

use super::flow::is_far;
use super::peak_rate::{PeakRate, PeakSettings};
use super::settings::BfqSettings;
use super::tunables::Tunables;
use super::weight_raising::{self, WrParams};
use crate::types::{Extent, Instant};

/// Peak rate above which a device has no platters, or has a cache in front of many disks: 300 MB/s in sectors a
/// microsecond with 16 fractional bits. The fastest disks do 285 MB/s at their outer edge.
const FASTEST_PLATTERS: u32 = 38_400;

/// Settings and state of one device.
pub(crate) struct Device {
    settings: BfqSettings,
    tunables: Tunables,
    peak: PeakRate,
    wr_params: WrParams,
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
            wr_params: wr_params_of(&tunables, peak.rate()),
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

    /// Parameters of weight raising on this device.
    #[inline]
    pub(crate) fn wr_params(&self) -> WrParams {
        self.wr_params
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
        self.wr_params = wr_params_of(&self.tunables, self.peak.rate());
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

/// Parameters of weight raising on a device of peak rate `rate`.
fn wr_params_of(tunables: &Tunables, rate: u32) -> WrParams {
    WrParams {
        enabled: tunables.low_latency,
        interactive_ms: weight_raising::interactive_ms(rate, tunables.rotational),
        slice_idle_ns: tunables.slice_idle_ns,
    }
}

/// Length from which a request is not injected beside others on flash, since it would delay them (spec/bfq 7.9).
pub(crate) const LONG_ON_FLASH: u32 = 32 << 10;

/// How long the bound holds after the last flow became busy on a shared device.
const COUNTED_ON_NS: u64 = 1_000_000_000;

/// Work at the device under the bound.
const AT_DEVICE_NS: u64 = 750_000;

/// Bound of the bytes at a flash device that several cgroups, weights or classes share, and until when it holds.
///
/// Flash that queues need not idle for a flow that comes now and then: other flows go meanwhile. But the flow waits
/// for what is at the device when it comes, and 32 requests of 128 KiB take 8 ms of a disk of 550 MB/s. Three
/// quarters of a millisecond of work keep the device as busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlashBound {
    until: Instant,
    /// Bytes of the requests at the device.
    bytes: u64,
    /// What the device does in [`AT_DEVICE_NS`] at its best, in bytes.
    most: u64,
}

impl FlashBound {
    /// Follows the estimate of the device's speed.
    pub(crate) fn follow(&mut self, ns_for_mib: u64) {
        self.most = (1 << 20) * AT_DEVICE_NS / ns_for_mib.max(1);
    }

    /// A request of `bytes` is dispatched.
    #[inline]
    pub(crate) fn dispatched(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// A request of `bytes` has completed.
    #[inline]
    pub(crate) fn completed(&mut self, bytes: u32) {
        self.bytes -= u64::from(bytes);
    }

    /// Bytes of the requests at the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A budget under the bound: another flow may have to wait for what is left of it.
    #[inline]
    pub(crate) fn bound(&self, now: Instant, budget: u32) -> u64 {
        let budget = u64::from(budget);
        if now < self.until { budget.min(self.most) } else { budget }
    }

    /// Whether a request of `bytes` has to wait. Small ones never do, since the device's depth bounds them.
    #[inline]
    pub(crate) fn is_full(&self, now: Instant, bytes: u32) -> bool {
        let is_much = self.bytes > 0 && self.bytes >= self.most;
        is_much && now < self.until && bytes >= LONG_ON_FLASH
    }

    /// Bounds the bytes for a while from `now` on.
    #[inline]
    pub(crate) fn extend(&mut self, now: Instant) {
        self.until = now.plus_nanos(COUNTED_ON_NS);
    }

    /// Whether more than a quarter of the bound is at the device.
    pub(crate) fn is_quarter_full(&self) -> bool {
        self.bytes * 4 > self.most
    }
}

/// Requests after which a sample has half its weight.
const SEEKS_REMEMBERED: u64 = 512;

/// Samples below which there is no mean.
const SEEKS_ENOUGH: u64 = 32;

/// Mean over the last few hundred requests of seeky flows, whichever.
///
/// A random request takes a seek of any length and up to one rotation: 12 ms give or take 4. A flow with a small
/// share has a hundred in ten seconds, which chance makes 3 % cheaper or more expensive. Charging the mean gives
/// equal flows the same number of requests instead of the same time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeekPrice {
    ns: u64,
    requests: u64,
}

impl SeekPrice {
    /// `requests` have taken `ns`.
    pub(crate) fn learn(&mut self, requests: u32, ns: u64) {
        self.requests += u64::from(requests);
        self.ns = self.ns.saturating_add(ns);
        if self.requests > SEEKS_REMEMBERED {
            self.requests /= 2;
            self.ns /= 2;
        }
    }

    /// Time of `requests`; `None` while too few were seen.
    pub(crate) fn of(&self, requests: u32) -> Option<u64> {
        (self.requests >= SEEKS_ENOUGH).then(|| self.ns / self.requests * u64::from(requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_and_cheap_requests_average_out() {
        let mut price = SeekPrice::default();
        price.learn(31, 31 * 12);
        assert_eq!(price.of(1), None);
        price.learn(1, 12);
        assert_eq!(price.of(3), Some(36));
        // Expensive and cheap ones in turn.
        for _ in 0..1_000 {
            price.learn(1, 16);
            price.learn(1, 8);
        }
        assert_eq!(price.of(100), Some(1_200));
    }

    #[test]
    fn the_mean_follows_a_faster_disk() {
        let mut price = SeekPrice::default();
        price.learn(SEEKS_REMEMBERED as u32, SEEKS_REMEMBERED * 12_000);
        for _ in 0..10 * SEEKS_REMEMBERED {
            price.learn(1, 4_000);
        }
        assert!((4_000..4_100).contains(&price.of(1).unwrap()));
    }
}
