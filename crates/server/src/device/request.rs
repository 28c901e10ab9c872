//! A request between its arrival and its reply.

use std::ops::Range;

use weir_cache::{Overlay, Reason, WriteId};
use weir_engine::{CgroupId, Extent, Op, RequestId, Ticket};
use weir_nbd::{Command, Op as NbdOp};
use weir_uring::IoBuf;

use super::quota::Reservation;

/// One request inside the engine or at the device. Its key is the engine's tag and the device's token.
pub(super) struct PendingRequest {
    pub(super) origin: Origin,
    pub(super) command: Command,
    /// Where on the device; of a command longer than [`PART_BYTES_MAX`], the part that the engine has.
    pub(super) extent: Extent,
    /// The part of it that is at the device: all, unless it is long.
    pub(super) piece: Extent,
    /// Bytes of the command after `extent`, which are submitted when that is done.
    pub(super) rest: u64,
    /// A write's payload, until the device has it; a read's bytes between two pieces.
    pub(super) buffer: Option<IoBuf>,
    /// The engine's name of a client's request, while the engine has it.
    pub(super) id: Option<RequestId>,
    /// Set when it is dispatched.
    pub(super) ticket: Option<Ticket>,
    /// The one that is joined to it at an emulated device.
    pub(super) joined: Option<usize>,
    /// For a read at the device, what the cache had when it went there.
    pub(super) overlay: Option<Box<Overlay>>,
}

impl PendingRequest {
    /// Whether the piece at the device is its first one.
    pub(super) fn is_at_first_piece(&self) -> bool {
        self.piece.offset == self.extent.offset
    }

    /// Whether the piece at the device is its last one.
    pub(super) fn is_at_last_piece(&self) -> bool {
        let end = |extent: Extent| extent.offset + u64::from(extent.len);
        end(self.piece) == end(self.extent)
    }

    /// Whether the piece at the device is durable before it ends: each piece of a write is, and the last piece of zeroes and
    /// trims makes all of them so.
    pub(super) fn is_durable(&self) -> bool {
        let is_last = self.is_at_last_piece() && self.rest == 0;
        self.command.fua && (self.command.op == NbdOp::Write || is_last)
    }

    /// Goes on to the next part of a command that is longer than the engine takes.
    pub(super) fn advance(&mut self, part_bytes_max: u32) {
        let part = part_of(self.rest, part_bytes_max);
        self.extent = Extent::new(self.extent.offset + u64::from(self.extent.len), part);
        self.piece = self.extent;
        self.rest -= u64::from(part);
    }

    /// Where the piece at the device lies within its buffer.
    fn piece_range(&self) -> Range<usize> {
        let start = (self.piece.offset - self.extent.offset) as usize;
        start..start + self.piece.len as usize
    }

    /// The buffer of a read or write, with the piece at the device in view.
    pub(super) fn show_piece(&self, buffer: &mut IoBuf) {
        buffer.set_window(self.piece_range());
    }

    /// The buffer of a read or write, with all of it in view.
    pub(super) fn show_whole(&self, buffer: &mut IoBuf) {
        buffer.set_window(0..self.extent.len as usize);
    }
}

/// Origin of a request.
pub(super) enum Origin {
    /// A client.
    Client(Client),
    /// The cache, for the cgroup that wrote what is written back.
    Cache(WrittenBack),
}

/// The client's side of a request.
pub(super) struct Client {
    pub(super) connection: usize,
    /// The connection's serial: it may be gone, and its place another's, before the device is done.
    pub(super) serial: u64,
    /// When its head arrived, in nanoseconds.
    pub(super) received_ns: u64,
    /// The cgroup that the engine has it in, where its connection has moved to another one since.
    pub(super) former: Option<CgroupId>,
    /// How long it was inside as one of that cgroup, from the arrival of its head on.
    pub(super) elsewhere_ns: u64,
    /// Syncs of the device that had failed before it.
    pub(super) syncs_failed: u64,
    /// Its part of what its client may hold.
    pub(super) reservation: Reservation,
}

impl Client {
    /// The engine is done with it, or with a part of it: the cgroup that this is to be added to, and how long it was inside.
    pub(super) fn left_former(&mut self, now_ns: u64) -> Option<(CgroupId, u64)> {
        let former = self.former.take()?;
        let inside_ns = now_ns.saturating_sub(self.received_ns + self.elsewhere_ns);
        self.elsewhere_ns += inside_ns;
        Some((former, inside_ns))
    }
}

/// The cache's side.
pub(super) struct WrittenBack {
    pub(super) id: WriteId,
    /// The cgroup that pays.
    pub(super) owner: CgroupId,
    /// Its parts that the device has not finished with.
    pub(super) parts: usize,
    /// Why the device has failed one of them.
    pub(super) failure: Option<Reason>,
}

/// Longest part of a command that has no bytes: trims, zeroes and prefetches. With extended headers they may be longer than
/// the engine can count; each part pays when the one before it is done. A multiple of every block.
pub(crate) const PART_BYTES_MAX: u32 = 1 << 30;

/// The length of the first part of a command, and what is left after it. Block status is one part, however long: it is
/// asked for at once, and costs one look.
pub(super) fn first_part(command: &Command, part_bytes_max: u32) -> (u32, u64) {
    match command.op {
        NbdOp::Trim | NbdOp::WriteZeroes { .. } | NbdOp::Cache => {
            let part = part_of(command.len, part_bytes_max);
            (part, command.len - u64::from(part))
        }
        NbdOp::BlockStatus { .. } => (part_of(command.len, PART_BYTES_MAX), 0),
        // At most the longest payload.
        NbdOp::Read { .. } | NbdOp::Write | NbdOp::Flush => (command.len as u32, 0),
    }
}

/// Bytes of the next part where `left` are left.
fn part_of(left: u64, part_bytes_max: u32) -> u32 {
    u32::try_from(left).map_or(part_bytes_max, |left| left.min(part_bytes_max))
}

/// What a command is to the engine.
pub(super) fn engine_op(op: NbdOp) -> Op {
    match op {
        NbdOp::Read { .. } => Op::Read,
        NbdOp::Write => Op::Write,
        NbdOp::Flush => Op::Flush,
        NbdOp::Trim => Op::Discard,
        NbdOp::WriteZeroes { .. } => Op::WriteZeroes,
        NbdOp::Cache => Op::Cache,
        NbdOp::BlockStatus { .. } => Op::Status,
    }
}

/// Bytes of memory that a request needs on its way.
pub(super) fn memory_of(command: &Command) -> usize {
    match command.op {
        NbdOp::Read { .. } | NbdOp::Write => command.len as usize,
        _ => 0,
    }
}
