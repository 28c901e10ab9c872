//! One connection: what it has sent, what it waits for, what it is owed.

use crate::view::ExportCounters;
use std::rc::Rc;
use std::sync::Arc;

use weir_nbd::{Command, ExportId, Session};
use weir_uring::{IoBuf, Message, ReceivedBuf, Socket};

use super::DeviceHandle;
use super::clients::{Member, Peer};
use super::quota::{ClientQuota, Memory, Reservation};
use super::waits::{Received, Replies, SharedWaits, StallClock, StallReason};
use crate::access::Access;
use crate::seats::{NoSeat, Seat};

/// Bytes of each [`Memory`] that the requests of one connection may hold, unless it is a single one.
const CONNECTION_BYTES: usize = 16 << 20;

/// Bytes of heads and short replies that may wait to be sent before nothing more is read: two thousand replies. What is
/// inside already, at most a task's requests in the engine, comes on top.
const UNSENT_BYTES: usize = 64 << 10;

/// The state of one connection of a device thread.
pub(super) struct Connection {
    /// `None` once it is being closed.
    pub(super) socket: Option<Socket>,
    /// Tells it from a later connection in the same place.
    pub(super) serial: u64,
    pub(super) peer: Peer,
    /// Its seat until it is closed, or reason it has none: then it is served no export.
    pub(super) seat: Result<Seat, NoSeat>,
    /// Exports that it may use.
    pub(super) access: Access,
    pub(super) session: Session,
    /// Where its requests go, once the handshake is done.
    pub(super) bound: Option<Bound>,
    /// What its client's requests hold, over all connections.
    pub(super) quota: Rc<ClientQuota>,
    /// Whether a receive is in flight.
    pub(super) receiving: bool,
    /// When the last bytes came from its client, in nanoseconds.
    pub(super) heard_ns: u64,
    /// Bytes of the send that is in flight; 0 while there is none.
    pub(super) sending_bytes: usize,
    /// Of these, those that are in no buffer of the pool.
    pub(super) sending_inline_bytes: usize,
    /// When it began, in nanoseconds.
    pub(super) sending_since_ns: u64,
    /// Whether replies are sent; not when its client is gone and has asked for things before.
    pub(super) takes_replies: bool,
    /// Replies for the next send.
    pub(super) outbox: Option<Message>,
    /// Whether it is in the list of those with something to send.
    pub(super) is_queued_to_send: bool,
    /// The write whose payload is coming in.
    pub(super) incoming: Option<IncomingWrite>,
    /// Why nothing is being taken from it, with what has arrived already.
    pub(super) stalled: Option<Stalled>,
    /// Bytes of requests inside by [`Memory`]: submitted, and not yet in a send that has ended.
    pub(super) held_bytes: [usize; 2],
    /// Requests inside: submitted and not yet replied to.
    pub(super) requests: u32,
    /// Of the bytes of replies, those in `outbox`, and those in the send in flight.
    pub(super) outbox_held_bytes: usize,
    pub(super) sending_held_bytes: usize,
    /// Their client's memory, likewise.
    pub(super) outbox_reservation: Option<Reservation>,
    pub(super) sending_reservation: Option<Reservation>,
    /// The device whose thread takes over once all is sent, and what arrived for it.
    pub(super) moving: Option<(DeviceHandle, Vec<u8>)>,
    /// Time for which it has been stalled, what its requests have waited for outside the engine, and the replies in `outbox`
    /// and in the send in flight.
    pub(super) stall_clock: StallClock,
    pub(super) waits: Arc<SharedWaits>,
    /// Where its export counts.
    pub(super) export_counters: Arc<ExportCounters>,
    pub(super) outbox_replies: Replies,
    pub(super) sending_replies: Replies,
    /// What its flushes have been told of bytes that could not be written back.
    pub(super) failures_seen: u64,
    /// Failed syncs of the device that it has been told of, or that were before it.
    pub(super) syncs_failed_seen: u64,
    /// The client is done, or we are: close when everything has been answered.
    pub(super) finishing: bool,
}

/// What a connection has been shaken hands for.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) member: Member,
    pub(super) export: ExportId,
    /// First byte of the device that the export serves.
    pub(super) start: u64,
    /// The byte after the last.
    pub(super) end: u64,
    pub(super) replies: weir_nbd::ReplyFormat,
}

impl Bound {
    /// Whether it is bound to `export` and its client has no limit of its own.
    pub(super) fn is_unlimited(&self, export: ExportId) -> bool {
        self.export == export && !self.member.has_limit()
    }
}

/// A write on its way in.
pub(super) struct IncomingWrite {
    pub(super) command: Command,
    /// `None` while the ring fills it.
    pub(super) buffer: Option<IoBuf>,
    pub(super) filled: usize,
    /// When its memory was taken, in nanoseconds.
    pub(super) since_ns: u64,
    pub(super) received: Received,
    pub(super) reservation: Reservation,
}

/// A write's payload, all of it.
pub(super) struct Payload {
    pub(super) buffer: IoBuf,
    pub(super) reservation: Reservation,
}

/// A connection that has to wait before anything more is taken from it: back-pressure.
pub(super) struct Stalled {
    pub(super) reason: StallReason,
    /// Since when, in nanoseconds.
    pub(super) since_ns: u64,
    /// Held no memory when it came into the row in which it waits now.
    pub(super) holds_none: bool,
    /// The request that could not be taken, with its incoming.
    pub(super) request: Option<(Command, Received, Option<Payload>)>,
    /// What came after it.
    pub(super) rest: Option<Arrival>,
}

/// Bytes that have arrived, and how many of them are dealt with.
pub(super) struct Arrival {
    pub(super) bytes: Bytes,
    pub(super) at: usize,
    pub(super) received: Received,
}

/// Where arrived bytes are.
pub(super) enum Bytes {
    /// In a buffer of the ring.
    Ring(ReceivedBuf),
    /// In memory of their own: waiting long, or from another thread.
    Own(Vec<u8>),
}

impl Arrival {
    pub(super) fn ring(bytes: ReceivedBuf, received: Received) -> Arrival {
        Arrival { bytes: Bytes::Ring(bytes), at: 0, received }
    }

    pub(super) fn own(bytes: Vec<u8>, received: Received) -> Arrival {
        Arrival { bytes: Bytes::Own(bytes), at: 0, received }
    }

    /// Nothing: what comes next will arrive later.
    pub(super) fn none() -> Arrival {
        Arrival::own(Vec::new(), Received::default())
    }

    /// `len` bytes from `from` on, counted from the first that arrived.
    pub(super) fn slice(&self, from: usize, len: usize) -> &[u8] {
        &self.all()[from..from + len]
    }

    pub(super) fn left(&self) -> &[u8] {
        &self.all()[self.at..]
    }

    fn all(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Ring(buffer) => buffer,
            Bytes::Own(bytes) => bytes,
        }
    }

    /// The same bytes without a buffer of the ring, which all connections share: for a connection that may wait long.
    pub(super) fn detach(self) -> Option<Arrival> {
        let left = self.left();
        if left.is_empty() {
            return None;
        }
        Some(match self.bytes {
            Bytes::Own(_) => self,
            Bytes::Ring(_) => Arrival::own(left.to_vec(), self.received),
        })
    }
}

impl Connection {
    pub(super) fn new(
        socket: Socket,
        serial: u64,
        peer: Peer,
        seat: Result<Seat, NoSeat>,
        access: Access,
        session: Session,
    ) -> Connection {
        Connection {
            socket: Some(socket),
            serial,
            peer,
            seat,
            access,
            session,
            bound: None,
            quota: Rc::default(),
            receiving: false,
            heard_ns: 0,
            sending_bytes: 0,
            sending_inline_bytes: 0,
            sending_since_ns: 0,
            takes_replies: true,
            outbox: None,
            is_queued_to_send: false,
            incoming: None,
            stalled: None,
            held_bytes: [0; 2],
            requests: 0,
            outbox_held_bytes: 0,
            sending_held_bytes: 0,
            outbox_reservation: None,
            sending_reservation: None,
            moving: None,
            failures_seen: 0,
            stall_clock: StallClock::default(),
            waits: Arc::default(),
            export_counters: Arc::default(),
            outbox_replies: Replies::default(),
            sending_replies: Replies::default(),
            syncs_failed_seen: 0,
            finishing: false,
        }
    }

    /// Sends nothing from now on, and gives back the memory of what was to be sent.
    pub(super) fn drop_replies(&mut self) {
        self.takes_replies = false;
        self.outbox = None;
        self.held_bytes[Memory::Replies as usize] -= std::mem::take(&mut self.outbox_held_bytes);
        self.outbox_reservation = None;
    }

    /// Whether it holds no memory.
    pub(super) fn holds_none(&self) -> bool {
        self.held_bytes == [0; 2]
    }

    /// Whether it holds no memory of one kind.
    pub(super) fn holds_no(&self, memory: Memory) -> bool {
        self.held_bytes[memory as usize] == 0
    }

    /// Whether `bytes` more of `memory` are too many. A single request is never too large.
    pub(super) fn is_full(&self, memory: Memory, bytes: usize) -> bool {
        let held = self.held_bytes[memory as usize];
        held > 0 && held + bytes > CONNECTION_BYTES
    }

    /// Whether its client is to take replies before anything more is read from it. Not in the middle of a payload, which
    /// has its memory already and an end.
    pub(super) fn is_behind(&self) -> bool {
        let outbox_bytes = self.outbox.as_ref().map_or(0, Message::inline_len);
        self.sending_inline_bytes + outbox_bytes > UNSENT_BYTES && self.incoming.is_none()
    }

    /// Whether nothing is left to answer or to send.
    pub(super) fn is_answered(&self) -> bool {
        self.requests == 0 && self.sending_bytes == 0 && self.outbox.is_none()
    }
}
