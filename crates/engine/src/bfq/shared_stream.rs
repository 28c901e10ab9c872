//! Shared stream: several clients, merged into one flow, that read one sequential stream in turn.

use super::data::BfqData;
use super::flow::Owner;
use super::in_service::InService;
use super::merger::Merger;
use crate::merge::Position;
use crate::requests::Requests;
use crate::tree::{NO_INDEX, Tree};
use crate::types::{Extent, Instant};

/// Members remembered; of a larger set, those with the latest requests.
const MEMBERS_MAX: usize = 8;

/// Time within which a member that reads as fast as it can has its next request here.
const RETURN_NS: u64 = 1_000_000;

/// Vain waits after which no straggler is waited for in this slot.
const VAIN_WAITS_MAX: u32 = 3;

/// Members of the flow in service, and the wait for a straggler.
#[derive(Debug)]
pub(super) struct SharedStream {
    /// The flow that the members share.
    flow: u32,
    /// Members with the latest requests: the first `len`.
    members: [Member; MEMBERS_MAX],
    len: usize,
    /// End of the wait for a straggler.
    until: Option<Instant>,
    /// Waits in this slot that ended without its request.
    vain_waits: u32,
    /// Whether the next request is held for a straggler.
    is_held: bool,
}

/// Member of a shared flow and its last dispatched request.
#[derive(Clone, Copy, Debug)]
struct Member {
    owner: Owner,
    /// Index of the request; [`NO_INDEX`] once it has completed.
    request: u32,
    /// End of the request, in bytes.
    end: u64,
    /// When it completed, until the member's next request.
    back: Option<Instant>,
    /// Whether it skipped bytes since its previous request, for other members to read. A stream of its own has no
    /// gaps, and a seeky member skips more.
    is_strided: bool,
}

const NOBODY: Member =
    Member { owner: Owner::NONE, request: NO_INDEX, end: 0, back: None, is_strided: false };

impl SharedStream {
    pub(super) const NONE: SharedStream = SharedStream {
        flow: NO_INDEX,
        members: [NOBODY; MEMBERS_MAX],
        len: 0,
        until: None,
        vain_waits: 0,
        is_held: false,
    };

    /// A slot begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.until, self.vain_waits, self.is_held) = (None, 0, false);
    }

    /// A request of `owner` has arrived.
    #[inline]
    pub(super) fn returned(&mut self, owner: Owner) {
        if let Some(member) = self.members_mut().find(|member| member.owner == owner) {
            member.back = None;
        }
    }

    /// End of the wait for a straggler.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|&until| now < until)
    }

    /// The request at `index`, of `flow`, has completed.
    #[inline]
    pub(super) fn completed(&mut self, now: Instant, flow: u32, index: u32) {
        if flow == self.flow
            && let Some(member) = self.members_mut().find(|member| member.request == index)
        {
            (member.request, member.back) = (NO_INDEX, Some(now));
        }
    }

    /// The flow in service dispatches the request at `index`.
    #[inline]
    pub(super) fn dispatched(
        &mut self,
        data: &BfqData,
        merger: &Merger,
        tree: &Tree,
        requests: &Requests,
        [at, index]: [u32; 2],
    ) {
        (self.until, self.is_held) = (None, false);
        if merger.is_shared_stream(data, at) {
            let owner = Owner::of(tree, requests, index);
            let most = data.tunables().back_seek_max;
            self.sent(at, owner, index, requests[index].request.extent, most);
        }
    }

    /// The next request of the flow in service: of a shared stream that of the straggler.
    #[inline]
    pub(super) fn pick(
        &self,
        data: &BfqData,
        merger: &Merger,
        in_service: &InService,
        tree: &Tree,
        requests: &Requests,
    ) -> Option<u32> {
        let at = in_service.flow();
        let flow = &data.flows[at];
        let picked = flow.pick(data.now, requests, data.tunables())?;
        if !merger.is_shared_stream(data, at)
            || flow.queued == 1
            || is_held_for_long(data, in_service, requests, picked)
        {
            return Some(picked);
        }
        let first = data.flows.first_of(at)?;
        let is_near = data.flows.position_of(picked) - data.flows.position_of(first)
            <= data.tunables().back_seek_max;
        let is_member = || self.is_strided(at, Owner::of(tree, requests, first));
        Some(if is_near && is_member() { first } else { picked })
    }

    /// Whether the request at `index`, next of the flow in service, waits for a straggler behind it.
    ///
    /// If the others went on without it, a disk that serves the nearest request first would leave it ever further
    /// behind.
    #[inline]
    pub(super) fn waits(
        &mut self,
        data: &mut BfqData,
        merger: &Merger,
        in_service: &InService,
        tree: &Tree,
        requests: &Requests,
        index: u32,
    ) -> bool {
        let at = in_service.flow();
        if !merger.is_shared_stream(data, at) {
            return false;
        }
        let Some(Position(end)) = in_service.last_end() else { return false };
        let place = data.flows.position_of(index);
        let is_ahead = place > end && place - end <= data.tunables().back_seek_max;
        let is_member = || self.is_strided(at, Owner::of(tree, requests, index));
        if !is_ahead || !is_member() || is_held_for_long(data, in_service, requests, index) {
            return false;
        }
        let waits = data.flows[at].in_flight > 0 || self.awaits(data.now, place).is_some();
        if waits && !core::mem::replace(&mut self.is_held, true) {
            data.counters.held();
        }
        waits
    }

    /// Whether `owner` reads a stream of `flow` in strides.
    fn is_strided(&self, flow: u32, owner: Owner) -> bool {
        let mut members = self.members[..self.len].iter();
        self.flow == flow && members.any(|member| member.owner == owner && member.is_strided)
    }

    /// A member of `flow` has dispatched the request at `index`. A stride is at most `most` bytes.
    fn sent(&mut self, flow: u32, owner: Owner, index: u32, extent: Extent, most: u64) {
        if self.flow != flow {
            (self.flow, self.len) = (flow, 0);
        }
        let at = self.members_mut().position(|member| member.owner == owner);
        let is_strided = at.is_some_and(|at| {
            let left_out = extent.offset.checked_sub(self.members[at].end);
            left_out.is_some_and(|bytes| (1..=most).contains(&bytes))
        });
        let place = at.unwrap_or_else(|| {
            if self.len == MEMBERS_MAX {
                self.members.rotate_left(1);
                self.len -= 1;
            }
            self.len += 1;
            self.len - 1
        });
        let end = extent.offset.saturating_add(u64::from(extent.len));
        self.members[place] = Member { owner, request: index, end, back: None, is_strided };
    }

    /// Until when a straggler may come with a request before `at`.
    fn awaits(&mut self, now: Instant, at: u64) -> Option<Instant> {
        if self.until.take().is_some_and(|until| until <= now) {
            self.vain_waits += 1;
        }
        if self.vain_waits >= VAIN_WAITS_MAX {
            return None;
        }
        let behind =
            self.members[..self.len].iter().filter(|member| member.is_strided && member.end < at);
        let until = behind.filter_map(|member| member.back).max()?.plus_nanos(RETURN_NS);
        self.until = Some(until).filter(|&until| now < until);
        self.until
    }

    fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members[..self.len].iter_mut()
    }
}

/// Whether a request of the flow in service has waited too long: the straggler may be gone for good.
fn is_held_for_long(
    data: &BfqData,
    in_service: &InService,
    requests: &Requests,
    index: u32,
) -> bool {
    let from = in_service.since().max(requests[index].since);
    data.now.nanos_since(from) >= data.tunables().fifo_expire_sync_ns
}
