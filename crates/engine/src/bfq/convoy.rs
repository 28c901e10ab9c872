//! Flows that read one stream in turn, as one that merged, stay together on it.

use super::Bfq;
use super::owner::Owner;
use super::slot::Turn;
use crate::merge::Position;
use crate::requests::Requests;
use crate::time::Instant;
use crate::tree::{NO_INDEX, Tree};

/// Members that are kept in mind; of a larger set, those who had a request at the device last.
const MEMBERS_MAX: usize = 8;

/// Whoever reads as fast as it can has its next request here by then: an answer, a wake-up, a question.
const RETURN_NS: u64 = 1_000_000;

/// Waits in vain after which nobody is waited for in a slot any more.
const VAIN_MAX: u32 = 3;

/// Who of the shared flow in service may come back with a request before those that wait.
#[derive(Debug)]
pub(crate) struct Convoy {
    /// Those who had a request at the device and have sent none since it was back: the first `len`.
    members: [Member; MEMBERS_MAX],
    len: usize,
    /// While the next request is held for somebody who is away.
    until: Option<Instant>,
    /// Waits of this slot that were in vain.
    vain: u32,
    /// Whether the next request is held.
    is_held: bool,
}

/// One of those who share the flow, and its last request that was sent.
#[derive(Clone, Copy, Debug)]
struct Member {
    owner: Owner,
    /// The request's index.
    request: u32,
    /// Its first byte.
    at: u64,
    /// When it was back; `None` while it is at the device.
    back: Option<Instant>,
}

const NOBODY: Member = Member { owner: Owner::NOBODY, request: NO_INDEX, at: 0, back: None };

impl Convoy {
    pub(crate) const NONE: Convoy =
        Convoy { members: [NOBODY; MEMBERS_MAX], len: 0, until: None, vain: 0, is_held: false };

    /// Another flow's slot begins, or another one of the same flow.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.len, self.until, self.vain, self.is_held) = (0, None, 0, false);
    }

    /// A request of `owner` is here.
    #[inline]
    pub(crate) fn returned(&mut self, owner: Owner) {
        if self.len > 0 {
            self.forget(|member| member.owner == owner && member.back.is_some());
        }
    }

    /// A request of the flow in service goes to the device.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        (self.until, self.is_held) = (None, false);
    }

    /// When the next request may go whoever is away, while it is held for somebody.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|&until| now < until)
    }

    /// The request at `index` is back.
    #[inline]
    pub(crate) fn completed(&mut self, now: Instant, index: u32) {
        let mut members = self.members[..self.len].iter_mut();
        if let Some(member) = members.find(|member| member.request == index) {
            (member.request, member.back) = (NO_INDEX, Some(now));
        }
    }

    /// A member has sent a request to the device.
    fn sent(&mut self, member: Member) {
        self.forget(|other| other.owner == member.owner);
        if self.len == MEMBERS_MAX {
            self.members.rotate_left(1);
            self.len -= 1;
        }
        self.members[self.len] = member;
        self.len += 1;
    }

    /// Until when somebody may come back with what is before `at`.
    fn awaits(&mut self, now: Instant, at: u64) -> Option<Instant> {
        let since = |member: &Member| member.back.map_or(0, |back| now.nanos_since(back));
        self.forget(|member| since(member) >= RETURN_NS);
        if self.until.take().is_some_and(|until| until <= now) {
            self.vain += 1;
        }
        if self.vain >= VAIN_MAX {
            return None;
        }
        let behind = self.members[..self.len].iter().filter(|member| member.at < at);
        self.until =
            behind.filter_map(|member| member.back).max().map(|back| back.plus_nanos(RETURN_NS));
        self.until
    }

    fn forget(&mut self, is_past: impl Fn(&Member) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if !is_past(&self.members[at]) {
                self.members[kept] = self.members[at];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

impl Bfq {
    /// Whether flow `at` is a stream that several read in turn, on a disk that seeks.
    #[inline]
    fn is_convoy(&self, at: u32) -> bool {
        let flow = &self.flows[at];
        self.tunables.rotational
            && !flow.is_alone()
            && !flow.is_seeky()
            && self.merging.sets().members(self.flows.id(at)) > 1
    }

    /// The request of the flow in service, `at`, that goes now.
    ///
    /// Of a shared stream it is the hindmost.
    #[inline]
    pub(super) fn pick(&self, requests: &Requests, at: u32) -> Option<u32> {
        let flow = &self.flows[at];
        let picked = flow.pick(self.now, requests, &self.tunables)?;
        if flow.queued == 1 || !self.is_convoy(at) || self.is_held_for_long(requests, picked) {
            return Some(picked);
        }
        let first = flow.waiting().first(&self.places)?;
        let is_near = self.places[picked].at - self.places[first].at <= self.tunables.back_seek_max;
        Some(if is_near { first } else { picked })
    }

    /// Whether the request at `index`, which is next of the flow in service, waits for another member of the stream,
    /// who is behind it.
    ///
    /// The members of a shared flow read one stream in turn. If one of them comes later than the others, these must not
    /// go on without it: a disk that serves first what it reaches first would leave it out for as long as they come back
    /// in time, and take them ever farther away.
    #[inline]
    pub(super) fn waits_for_hindmost(&mut self, requests: &Requests, at: u32, index: u32) -> bool {
        let Some(Turn { last_end: Some(Position(end)), .. }) = self.turn else { return false };
        let place = self.places[index].at;
        let is_ahead = place > end && place - end <= self.tunables.back_seek_max;
        if !is_ahead || !self.is_convoy(at) || self.is_held_for_long(requests, index) {
            return false;
        }
        let waits = self.flows[at].in_flight > 0 || self.convoy.awaits(self.now, place).is_some();
        if waits && !core::mem::replace(&mut self.convoy.is_held, true) {
            self.counters.held();
        }
        waits
    }

    /// Whether a request of the flow in service could have gone for too long: whom it is held for may have turned back
    /// for good.
    fn is_held_for_long(&self, requests: &Requests, index: u32) -> bool {
        let since = requests[index].since;
        let from = self.turn.map_or(since, |turn| turn.since.max(since));
        self.now.nanos_since(from) >= self.tunables.fifo_expire_sync_ns
    }

    /// The flow in service, `at`, sends the request at `index`.
    #[inline]
    pub(super) fn note_member(&mut self, tree: &Tree, requests: &Requests, at: u32, index: u32) {
        self.convoy.go_on();
        if self.is_convoy(at) {
            let owner = Owner::of(tree, requests, index);
            let member = Member { owner, request: index, at: self.places[index].at, back: None };
            self.convoy.sent(member);
        }
    }
}
