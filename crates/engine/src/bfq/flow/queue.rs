//! Queue of one flow: its waiting requests, their sort list and seek history (`bfq_queue`).

use core::num::NonZeroU64;

use super::sort_list::{Neighbours, NewNode, SortList, SortNodes, goes_before};
use crate::bfq::tunables::Tunables;
use crate::merge::cooperation::Start;
use crate::requests::Requests;
use crate::tree::NO_INDEX;
use crate::types::{Class, Extent, Instant, Op, Request};

/// Requests past every limit that are scheduled as one: the synchronous ones of all tasks of a client, or the
/// writeback of a cgroup.
///
/// The next request is the nearest by position, or the oldest once it has waited too long.
///
/// A cache line: with a million flows, loading them takes most of the time.
#[repr(align(64))]
pub(crate) struct Flow {
    /// Its requests, by position and by age.
    sort_list: SortList,
    /// The nearest request; [`NO_INDEX`] while there is none.
    next: u32,
    pub(crate) queued: u32,
    pub(crate) in_flight: u32,
    /// Budget at its next activation, in bytes.
    pub(crate) max_budget: u32,
    /// Budget left when it became empty; 0 if it may not resume that.
    pub(crate) budget_left: u32,
    /// Its last completion; its creation before the first.
    pub(crate) last_end: Instant,
    /// End of its last request; unknown before the first (spec/bfq D-11).
    end: Option<NonZeroU64>,
    /// One bit a request, the last lowest: whether it was far from the one before.
    seeks: u32,
    /// First service since it last became busy: the clock of the merge window.
    pub(crate) start: Start,
    /// Requests that still go by position before age counts again.
    batch_left: u8,
    /// Whether a client waits for its requests.
    pub(crate) sync: bool,
    pub(crate) state: FlowState,
    /// Number of requests in `seeks`, 32 at most, in the bits of [`SEEN`]; and two flags.
    seen: u8,
}

const SEEN: u8 = (1 << 6) - 1;
/// Result of [`Flow::is_seeky`], updated with each request.
const SEEKY: u8 = 1 << 6;
/// The flow may merge and has not, so that most requests need not look at sets.
const ALONE: u8 = 1 << 7;

/// Life cycle of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowState {
    /// It serves its owner, and clients merged into it.
    Live,
    /// It has merged into another flow.
    Merged,
    /// Its owner is gone; it is freed after its last request.
    Orphaned,
    /// Free slot of the table.
    Free,
}

/// Distance from which a request counts as far (spec/bfq 0.2): 400 KiB.
const SEEK_BYTES: u64 = 400 << 10;
/// On flash only requests below this can be far.
const SMALL_ON_FLASH: u32 = 32 << 10;
/// Far requests of the last 32 above which a flow is seeky.
const SEEKY_ABOVE: u32 = 19;

impl Flow {
    pub(crate) fn new(now: Instant, sync: bool, tunables: &Tunables) -> Flow {
        Flow {
            sort_list: SortList::EMPTY,
            next: NO_INDEX,
            queued: 0,
            in_flight: 0,
            max_budget: tunables.first_budget(),
            budget_left: 0,
            last_end: now,
            end: None,
            seeks: 1,
            start: Start::NEW,
            batch_left: 0,
            sync,
            state: FlowState::Live,
            seen: 0,
        }
    }

    /// Whether new requests may come to it.
    pub(crate) fn is_live(&self) -> bool {
        self.state == FlowState::Live
    }

    /// Whether its owner is gone.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.state == FlowState::Orphaned
    }

    /// Whether it has no requests waiting or at the device.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued == 0 && self.in_flight == 0
    }

    /// Whether more than 19 of 32 requests are far from the one before.
    ///
    /// The kernel takes a flow for sequential until its 20th request. With a thousand random readers that would take
    /// minutes of device time, so here the proportion counts from the second request on.
    pub(crate) fn is_seeky(&self) -> bool {
        self.seen & SEEKY != 0
    }

    /// Whether it may merge and has not.
    pub(crate) fn is_alone(&self) -> bool {
        self.seen & ALONE != 0
    }

    pub(crate) fn set_alone(&mut self, is_alone: bool) {
        self.seen = if is_alone { self.seen | ALONE } else { self.seen & !ALONE };
    }

    /// Whether it had enough requests for [`Flow::is_seeky`].
    pub(crate) fn is_known(&self) -> bool {
        self.seen & SEEN > 1
    }

    /// Whether each of its last 32 requests was far from the one before.
    pub(crate) fn is_all_seeks(&self) -> bool {
        self.seeks == u32::MAX
    }

    /// The nearest request by position.
    pub(crate) fn next(&self) -> Option<u32> {
        (self.next != NO_INDEX).then_some(self.next)
    }

    /// Inserts the request in slot `index`, with the device at `from`. `flow` is the flow's own index.
    pub(crate) fn insert(
        &mut self,
        sort_nodes: &mut SortNodes,
        request: &Request,
        index: u32,
        flow: u32,
        from: u64,
        tunables: &Tunables,
    ) {
        // A flush has no position, so it is always nearest.
        let at = if request.op == Op::Flush { from } else { request.extent.offset };
        if request.op != Op::Flush {
            self.note_distance(request.extent, tunables);
        }
        let is_metadata = request.class == Class::Metadata;
        self.sort_list.insert(sort_nodes, index, NewNode { at, flow, is_metadata });
        self.queued += 1;
        let is_next = match self.next {
            NO_INDEX => true,
            old => goes_before(&sort_nodes[index], &sort_nodes[old], from, tunables),
        };
        if is_next {
            self.next = index;
        }
    }

    /// Takes out a request, dispatched or withdrawn.
    // Inline on the hot path, although withdrawal calls it too.
    #[inline(always)]
    pub(crate) fn remove(&mut self, sort_nodes: &mut SortNodes, index: u32, tunables: &Tunables) {
        if self.queued == 1 {
            debug_assert_eq!((self.next, self.sort_list.by_age().head), (index, index));
            (self.sort_list, self.queued, self.next) = (SortList::EMPTY, 0, NO_INDEX);
            return;
        }
        let neighbours = self.sort_list.remove(sort_nodes, index);
        self.queued -= 1;
        if index == self.next {
            self.next = self.nearer(sort_nodes, sort_nodes[index].at, neighbours, tunables);
        }
    }

    /// The next request after the one at `from` that had these neighbours. At its end a sweep starts anew.
    fn nearer(
        &self,
        sort_nodes: &SortNodes,
        from: u64,
        Neighbours { before, after }: Neighbours,
        tunables: &Tunables,
    ) -> u32 {
        if before == NO_INDEX {
            return after;
        }
        let after = match after {
            NO_INDEX => self.sort_list.first(sort_nodes).unwrap_or(NO_INDEX),
            after => after,
        };
        match goes_before(&sort_nodes[before], &sort_nodes[after], from, tunables) {
            true => before,
            false => after,
        }
    }

    /// The request to dispatch: the nearest, or the oldest if it has expired and no expired one went within the last
    /// batch. So an expired request leaves after at most 17 dispatches for itself and for each older one; in the kernel,
    /// one a slot (spec/bfq D-16).
    pub(crate) fn pick(
        &self,
        now: Instant,
        requests: &Requests,
        tunables: &Tunables,
    ) -> Option<u32> {
        let oldest = self.sort_list.by_age().head;
        if self.batch_left == 0
            && oldest != NO_INDEX
            && now.nanos_since(requests[oldest].since) >= self.fifo_expire_ns(tunables)
        {
            return Some(oldest);
        }
        self.next()
    }

    /// Takes out the request from [`Flow::pick`], which has been waiting since `since`, for dispatch.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        sort_nodes: &mut SortNodes,
        since: Instant,
        index: u32,
        tunables: &Tunables,
    ) {
        let is_old = now.nanos_since(since) >= self.fifo_expire_ns(tunables);
        if self.batch_left > 0 {
            self.batch_left -= 1;
        } else if is_old {
            self.batch_left = tunables.fifo_batch;
            // The sweep continues from there.
            self.next = index;
        }
        self.remove(sort_nodes, index, tunables);
        self.in_flight += 1;
    }

    pub(crate) fn sort_list(&self) -> SortList {
        self.sort_list
    }

    fn fifo_expire_ns(&self, tunables: &Tunables) -> u64 {
        if self.sync { tunables.fifo_expire_sync_ns } else { tunables.fifo_expire_async_ns }
    }

    fn note_distance(&mut self, extent: Extent, tunables: &Tunables) {
        // The first request has no distance (spec/bfq D-11).
        let is_far = self.end.is_some_and(|end| is_far(end.get(), extent, tunables));
        self.seeks = self.seeks << 1 | u32::from(is_far);
        let seen = ((self.seen & SEEN) + 1).min(32);
        let is_seeky = match (self.seeks, seen) {
            // No far request: counting bits is slow on some processors.
            (0, _) => false,
            // All far.
            (u32::MAX, 32) => true,
            (seeks, 32) => seeks.count_ones() > SEEKY_ABOVE,
            // Without the bit that the history starts with.
            (seeks, _) => (seeks.count_ones() - 1) * 32 > SEEKY_ABOVE * u32::from(seen - 1),
        };
        let seeky = if is_seeky { SEEKY } else { 0 };
        self.seen = self.seen & ALONE | seeky | seen;
        self.end = NonZeroU64::new(extent.offset.saturating_add(u64::from(extent.len)));
    }
}

/// Whether the way from `from` to a request is a seek (spec/bfq 5.5).
pub(crate) fn is_far(from: u64, extent: Extent, tunables: &Tunables) -> bool {
    extent.offset.abs_diff(from) > SEEK_BYTES
        && (tunables.rotational || extent.len < SMALL_ON_FLASH)
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_flow_is_a_line_of_cache() {
        assert_eq!(size_of::<Flow>(), 64);
    }

    #[test]
    fn seekiness_is_a_proportion() {
        let tunables = Tunables::new(true, NonZeroU32::MIN);
        let mut flow = Flow::new(Instant::ZERO, true, &tunables);
        let far = |number: u64| Extent::new((number % 2) << 30, 4096);
        let request = |flow: &mut Flow, number| {
            flow.note_distance(far(number), &tunables);
            flow.is_seeky()
        };
        // The first has no distance; of spec/bfq EX-15's history, the 20th request would say so.
        let seeky = (1..40).find(|&number| request(&mut flow, number));
        assert_eq!(seeky, Some(2));
        assert!((3..34).all(|number| request(&mut flow, number)));
        assert_eq!(flow.seeks, u32::MAX, "all seeks after the 33rd");
        // spec/bfq EX-15: 13 near ones of the last 32 are sequential.
        let near = (1..40).find(|_| {
            let next = Extent::new(flow.end.map_or(0, NonZeroU64::get), 4096);
            flow.note_distance(next, &tunables);
            !flow.is_seeky()
        });
        assert_eq!(near, Some(13));
    }

    #[test]
    fn a_stream_with_some_far_requests_is_not_seeky() {
        let tunables = Tunables::new(true, NonZeroU32::MIN);
        let mut flow = Flow::new(Instant::ZERO, true, &tunables);
        // Every second request is far, from the third on.
        for number in 0..200_u64 {
            let offset = (number / 2) << 30 | (number % 2) << 12;
            flow.note_distance(Extent::new(offset, 4096), &tunables);
            assert!(!flow.is_seeky(), "request {number}");
        }
    }

    #[test]
    fn large_requests_are_not_far_on_flash() {
        let flash = Tunables::new(false, NonZeroU32::MIN);
        let seeks = |len| {
            let mut flow = Flow::new(Instant::ZERO, true, &flash);
            (0..40).for_each(|number| {
                flow.note_distance(Extent::new((number % 2) << 30, len), &flash);
            });
            flow.is_seeky()
        };
        assert_eq!([4096, 32 << 10].map(seeks), [true, false]);
    }
}
