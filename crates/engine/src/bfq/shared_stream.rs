//! Shared stream: several clients, merged into one flow, that read one sequential stream in turn.

use super::flow::Owner;
use crate::tree::NO_INDEX;
use crate::types::{Extent, Instant};

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
    pub(crate) fn is_strided(&self, flow: u32, owner: Owner) -> bool {
        let mut members = self.members[..self.len].iter();
        self.flow == flow && members.any(|member| member.owner == owner && member.is_strided)
    }

    /// A member of `flow` has dispatched the request at `index`. A stride is at most `most` bytes.
    pub(crate) fn sent(&mut self, flow: u32, owner: Owner, index: u32, extent: Extent, most: u64) {
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
    pub(crate) fn awaits(&mut self, now: Instant, at: u64) -> Option<Instant> {
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

    /// Holds the next request for a straggler. Returns whether it was not held before.
    pub(crate) fn hold(&mut self) -> bool {
        !core::mem::replace(&mut self.is_held, true)
    }

    fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members[..self.len].iter_mut()
    }
}
