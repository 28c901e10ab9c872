//! Shared stream: several clients, merged into one flow, that read one sequential stream in turn.

use super::Bfq;
use super::flow::Owner;
use super::slot::InService;
use crate::merge::Position;
use crate::request::Extent;
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::{NO_INDEX, Tree};

/// Members remembered; of a larger set, those with the latest requests.
const MEMBERS_MAX: usize = 8;

/// Time within which a member that reads as fast as it can has its next request here.
const RETURN_NS: u64 = 1_000_000;

/// Vain waits after which no straggler is waited for in this slot.
const VAIN_WAITS_MAX: u32 = 3;

/// Members of the flow in service, and the wait for a straggler.
#[derive(Debug)]
pub(crate) struct SharedStream {
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
    pub(crate) const NONE: SharedStream = SharedStream {
        flow: NO_INDEX,
        members: [NOBODY; MEMBERS_MAX],
        len: 0,
        until: None,
        vain_waits: 0,
        is_held: false,
    };

    /// A slot begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.until, self.vain_waits, self.is_held) = (None, 0, false);
    }

    /// A request of `owner` has arrived.
    #[inline]
    pub(crate) fn returned(&mut self, owner: Owner) {
        if let Some(member) = self.members_mut().find(|member| member.owner == owner) {
            member.back = None;
        }
    }

    /// A request of the flow in service is dispatched.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        (self.until, self.is_held) = (None, false);
    }

    /// End of the wait for a straggler.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|&until| now < until)
    }

    /// The request at `index`, of `flow`, has completed.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, flow: u32, index: u32) {
        if flow == self.flow
            && let Some(member) = self.members_mut().find(|member| member.request == index)
        {
            (member.request, member.back) = (NO_INDEX, Some(now));
        }
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

impl Bfq {
    /// Whether flow `at` is a shared stream, on a rotational device.
    #[inline]
    pub(super) fn is_shared_stream(&self, at: u32) -> bool {
        if !self.tunables.rotational {
            return false;
        }
        let flow = &self.flows[at];
        !flow.is_alone() && !flow.is_seeky() && self.merging.sets().members(self.flows.id(at)) > 1
    }

    /// The next request of flow `at`, in service: of a shared stream that of the straggler.
    #[inline]
    pub(super) fn pick(&self, tree: &Tree, requests: &Requests, at: u32) -> Option<u32> {
        let flow = &self.flows[at];
        let picked = flow.pick(self.now, requests, &self.tunables)?;
        if !self.is_shared_stream(at) || flow.queued == 1 || self.is_held_for_long(requests, picked)
        {
            return Some(picked);
        }
        let first = flow.sort_list().first(&self.sort_nodes)?;
        let is_near =
            self.sort_nodes[picked].at - self.sort_nodes[first].at <= self.tunables.back_seek_max;
        let is_member = || self.shared_stream.is_strided(at, Owner::of(tree, requests, first));
        Some(if is_near && is_member() { first } else { picked })
    }

    /// Whether the request at `index`, next of the flow in service, waits for a straggler behind it.
    ///
    /// If the others went on without it, a disk that serves the nearest request first would leave it ever further
    /// behind.
    #[inline]
    pub(super) fn waits_for_straggler(
        &mut self,
        tree: &Tree,
        requests: &Requests,
        at: u32,
        index: u32,
    ) -> bool {
        if !self.is_shared_stream(at) {
            return false;
        }
        let Some(InService { last_end: Some(Position(end)), .. }) = self.in_service else {
            return false;
        };
        let place = self.sort_nodes[index].at;
        let is_ahead = place > end && place - end <= self.tunables.back_seek_max;
        let is_member = || self.shared_stream.is_strided(at, Owner::of(tree, requests, index));
        if !is_ahead || !is_member() || self.is_held_for_long(requests, index) {
            return false;
        }
        let waits =
            self.flows[at].in_flight > 0 || self.shared_stream.awaits(self.now, place).is_some();
        if waits && !core::mem::replace(&mut self.shared_stream.is_held, true) {
            self.counters.held();
        }
        waits
    }

    /// Whether a request of the flow in service has waited too long: the straggler may be gone for good.
    fn is_held_for_long(&self, requests: &Requests, index: u32) -> bool {
        let since = requests[index].since;
        let from = self.in_service.map_or(since, |in_service| in_service.since.max(since));
        self.now.nanos_since(from) >= self.tunables.fifo_expire_sync_ns
    }

    /// Notes that flow `at`, in service, dispatches the request at `index`.
    #[inline]
    pub(super) fn note_member(&mut self, tree: &Tree, requests: &Requests, at: u32, index: u32) {
        self.shared_stream.go_on();
        if self.is_shared_stream(at) {
            let owner = Owner::of(tree, requests, index);
            let most = self.tunables.back_seek_max;
            self.shared_stream.sent(at, owner, index, requests[index].request.extent, most);
        }
    }
}
