//! Detection of interactive and soft real-time flows: state kept for all flows, raised or not (spec/bfq 6.3, 6.5).

use crate::types::Instant;

const MS: u64 = 1_000_000;

/// Pause after which a flow counts as starting anew.
pub(super) const PAUSE_NS: u64 = 2_000 * MS;
/// Pause after which a flow no longer belongs to the large burst it was created in.
const BURST_FORGOTTEN_NS: u64 = 10_000 * MS;
/// Least time beyond the length of idling after which a flow has paused on its own.
const SOFT_SLACK_NS: u64 = 4 * MS;

/// Soft real-time flows take at least this many nanoseconds for so many bytes: 7,000 sectors a second are 3,584 bytes
/// a millisecond.
const SOFT_NS: u64 = 15_625;
const SOFT_BYTES: u64 = 56;

/// Bytes that most applications read to start. Of the traces of starts, xterm's is 3 MiB.
const START_BYTES: u32 = 16 << 20;

/// Parameters of weight raising beside the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrParams {
    /// The setting `low_latency`.
    pub(crate) enabled: bool,
    /// See [`super::interactive_ms`].
    pub(crate) interactive_ms: u16,
    /// Length of idling.
    pub(crate) slice_idle_ns: u64,
}

/// A flow that becomes backlogged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activation {
    /// Its last completion.
    pub(crate) last_end: Instant,
    /// Whether it has requests at the device.
    pub(crate) is_in_flight: bool,
    pub(crate) is_sync: bool,
    /// Whether each of its last 32 requests was far from the one before.
    pub(crate) is_all_seeks: bool,
    /// Whether its requests are those of one task: it is not merged, or merged stably.
    pub(crate) is_of_one_task: bool,
}

/// Reasons to raise a flow that becomes backlogged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrTrigger {
    pub(super) is_interactive: bool,
    pub(super) is_soft: bool,
}

/// Detection state of a flow.
///
/// Twenty-four bytes, since a million idle flows have one each. The rate is kept as an instant that moves with each
/// request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrDetection {
    /// A flow that becomes backlogged after this instant is soft real-time.
    pub(super) soft_rt_next_start: Instant,
    /// When a flow at the greatest soft real-time rate would have received what this one did since it last became
    /// backlogged; zero before its first request.
    pub(super) soft_rt_paced_until: Instant,
    /// Bytes served since it was first raised, at most 4 GiB.
    pub(super) served: u32,
    /// Slot of its [`super::WrPeriod`] while it is raised, else [`WrDetection::NOT_RAISED`]; and the flag
    /// [`IN_LARGE_BURST`].
    place: u32,
}

const _: () = assert!(size_of::<WrDetection>() == 24);

/// The flow belongs to a large burst.
const IN_LARGE_BURST: u32 = 1 << 31;

impl WrDetection {
    /// No slot: flows are fewer than 2^31.
    pub(super) const NOT_RAISED: u32 = IN_LARGE_BURST - 1;

    /// A flow without a request yet.
    pub(crate) const NEW: WrDetection = WrDetection {
        soft_rt_next_start: Instant::ZERO,
        soft_rt_paced_until: Instant::ZERO,
        served: 0,
        place: WrDetection::NOT_RAISED,
    };

    /// Whether it had no request yet, alone or merged.
    pub(crate) fn is_new(&self) -> bool {
        self.soft_rt_paced_until == Instant::ZERO
    }

    /// Whether the flow was served less since it was raised than most applications read to start.
    pub(crate) const fn has_just_started(&self) -> bool {
        self.served < START_BYTES
    }

    /// Whether it belongs to a large burst.
    pub(crate) const fn is_in_large_burst(&self) -> bool {
        self.place & IN_LARGE_BURST != 0
    }

    pub(crate) const fn set_in_large_burst(&mut self, is_in: bool) {
        self.place = self.place() | if is_in { IN_LARGE_BURST } else { 0 };
    }

    /// The flow becomes backlogged (spec/bfq 6.5). Returns what [`super::WeightRaising::begin`] has to decide, if
    /// anything may change.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        activation: &Activation,
        wr_params: &WrParams,
    ) -> Option<WrTrigger> {
        let (was_raised, is_new) = (self.is_raised(), self.is_new());
        self.soft_rt_paced_until = now.max(Instant::from_nanos(1));
        let away_ns = now.nanos_since(activation.last_end);
        if !is_new && !activation.is_in_flight && away_ns > BURST_FORGOTTEN_NS {
            self.set_in_large_burst(false);
        }
        let is_interactive = !activation.is_in_flight && (is_new || away_ns > PAUSE_NS);
        let is_soft =
            !activation.is_in_flight && !activation.is_all_seeks && now > self.soft_rt_next_start;
        // Writeback comes in bursts after pauses, and no client waits for it (spec/bfq D-22).
        let may_begin =
            activation.is_sync && activation.is_of_one_task && (is_interactive || is_soft);
        // Already-raised flows were checked when raised; setting changes re-check them.
        let goes_on = was_raised && !is_interactive && !is_soft;
        let is_settled = goes_on && wr_params.enabled && !self.is_in_large_burst();
        let is_open = !is_settled && (was_raised || may_begin);
        is_open.then_some(WrTrigger { is_interactive, is_soft })
    }

    /// A slot with a charge of `bytes` is over.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: u64) {
        // A slot is a few GiB at most, so the product fits. Rounding up delays by less than a nanosecond.
        self.soft_rt_paced_until =
            self.soft_rt_paced_until.plus_nanos((bytes * SOFT_NS).div_ceil(SOFT_BYTES));
        if self.is_raised() {
            self.served = self.served.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// The flow is empty and has nothing in flight (spec/bfq 6.3).
    pub(crate) fn update_soft_rt_next_start(&mut self, now: Instant, wr_params: &WrParams) {
        // A greedy flow comes back within the time of idling.
        let soonest = now.plus_nanos(wr_params.slice_idle_ns).plus_nanos(SOFT_SLACK_NS);
        self.soft_rt_next_start =
            self.soft_rt_next_start.max(self.soft_rt_paced_until).max(soonest);
    }

    pub(super) const fn is_raised(&self) -> bool {
        self.place() != WrDetection::NOT_RAISED
    }

    pub(super) const fn place(&self) -> u32 {
        self.place & !IN_LARGE_BURST
    }

    pub(super) const fn set_place(&mut self, place: u32) {
        self.place = self.place & IN_LARGE_BURST | place;
    }
}
