//! Detection state of weight raising, of flows that are not raised, which most are: their beginning, and their rate.

use super::WrParams;
use crate::time::Instant;

const MS: u64 = 1_000_000;

/// A flow that was away for longer than this begins anew.
pub(super) const PAUSE_NS: u64 = 2_000 * MS;
/// One that was away for longer than this is no member of the burst it was created in any more.
const BURST_FORGOTTEN_NS: u64 = 10_000 * MS;
/// How much later than idling would have ended a flow must come to have waited of its own will.
const SOFT_SLACK_NS: u64 = 4 * MS;

/// Nanoseconds that a soft real-time flow takes for a byte at most: 7,000 sectors a second are 3,584 bytes a
/// millisecond, 15,625 ns for 56 bytes.
const SOFT_NS: u64 = 15_625;
const SOFT_BYTES: u64 = 56;

/// Bytes that most applications read to start. Of the traces of starts, xterm's is 3 MiB.
const START_BYTES: u32 = 16 << 20;

/// A flow with its first request after having had none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activation {
    /// When its last request came back.
    pub(crate) last_end: Instant,
    /// Whether requests of it are at the device.
    pub(crate) is_in_flight: bool,
    pub(crate) is_sync: bool,
    /// Whether each of its last 32 requests was far from the one before.
    pub(crate) is_all_seeks: bool,
    /// Whether its requests are those of one task: it is alone, or merged stably.
    pub(crate) is_of_one_task: bool,
}

/// How a flow begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrTrigger {
    pub(super) is_interactive: bool,
    pub(super) is_soft: bool,
}

/// What is kept of a flow whether it is raised or not.
///
/// Twenty-four bytes, since a million idle flows have one each: a rate is told by an instant that moves with each
/// request, and what follows from the flow's other state is not kept again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrDetection {
    /// After this it is soft real-time if it begins.
    pub(super) soft_rt_next_start: Instant,
    /// When a soft real-time flow, as fast as those may be, would have got what this one got since it last began; zero
    /// before it first began.
    pub(super) soft_rt_paced_until: Instant,
    /// Bytes served since it was first raised, not counted on beyond four gigabytes.
    pub(super) served: u32,
    /// The place of its [`super::WrPeriod`] while it is raised, [`WrDetection::NOT_RAISED`] else; and the mark
    /// [`IN_LARGE_BURST`].
    place: u32,
}

const _: () = assert!(size_of::<WrDetection>() == 24);

/// Created together with many others: none of them is what somebody waits for.
const IN_LARGE_BURST: u32 = 1 << 31;

impl WrDetection {
    /// The place of none: flows are fewer than 2^31.
    pub(super) const NOT_RAISED: u32 = IN_LARGE_BURST - 1;

    /// A flow that did nothing yet.
    pub(crate) const NEW: WrDetection = WrDetection {
        soft_rt_next_start: Instant::ZERO,
        soft_rt_paced_until: Instant::ZERO,
        served: 0,
        place: WrDetection::NOT_RAISED,
    };

    /// Whether it has done nothing yet, alone or with others.
    pub(crate) fn is_new(&self) -> bool {
        self.soft_rt_paced_until == Instant::ZERO
    }

    /// Whether the flow was served less since it was raised than most applications read to start.
    pub(crate) const fn has_just_started(&self) -> bool {
        self.served < START_BYTES
    }

    /// Whether it was created together with many others.
    pub(crate) const fn is_in_large_burst(&self) -> bool {
        self.place & IN_LARGE_BURST != 0
    }

    pub(crate) const fn set_in_large_burst(&mut self, is_in: bool) {
        self.place = self.place() | if is_in { IN_LARGE_BURST } else { 0 };
    }

    /// The flow begins (spec/bfq 6.5): what [`super::WeightRaising::begin`] is to decide, if anything may be another
    /// than it was.
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
        // Writeback comes in bursts after pauses, and nobody waits for it (spec/bfq D-22).
        let may_begin =
            activation.is_sync && activation.is_of_one_task && (is_interactive || is_soft);
        // Who is raised already has been asked for, and settings that change are reviewed when they do.
        let goes_on = was_raised && !is_interactive && !is_soft;
        let is_settled = goes_on && wr_params.enabled && !self.is_in_large_burst();
        let is_open = !is_settled && (was_raised || may_begin);
        is_open.then_some(WrTrigger { is_interactive, is_soft })
    }

    /// A slot in which the flow was charged for `bytes` is over.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: u64) {
        // A slot is a few GiB at most, so that the product fits; later by less than a nanosecond is on the safe side.
        self.soft_rt_paced_until =
            self.soft_rt_paced_until.plus_nanos((bytes * SOFT_NS).div_ceil(SOFT_BYTES));
        if self.is_raised() {
            self.served = self.served.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// The flow has no request left and none at the device (spec/bfq 6.3).
    pub(crate) fn update_soft_rt_next_start(&mut self, now: Instant, wr_params: &WrParams) {
        // A flow that is served as fast as it asks comes back within the idling, and is greedy, not modest.
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
