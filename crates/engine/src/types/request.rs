//! Requests: what they ask for, their ids and those of their senders, their price, and the tickets of dispatches.

use core::num::NonZeroU32;

/// Names a cgroup. An id of a removed cgroup is refused, never taken for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CgroupId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names a client: what shares a cgroup as one, be it one connection or eight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Names a task: one flow of requests, in order within each direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

macro_rules! slots {
    ($($id:ident $what:literal),*) => {$(
        impl $id {
            #[doc = concat!("Its slot: no other ", $what, " has it at the same time; one that comes later may.")]
            pub const fn slot(self) -> u32 {
                self.index
            }
        }
    )*};
}

slots!(CgroupId "cgroup", ClientId "client", TaskId "task", RequestId "request inside the engine");

/// What a request does to the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Op {
    /// Read `extent`, whether or not anything is allocated there.
    Read,
    /// Write `extent`.
    Write,
    /// Make everything acknowledged so far durable. The extent is ignored.
    Flush,
    /// Tell the device that `extent` is not needed any more (TRIM, discard).
    Discard,
    /// Make `extent` read as zeroes.
    WriteZeroes,
    /// Bring `extent` into a cache, if there is one.
    Cache,
    /// Ask which parts of `extent` are allocated.
    Status,
}

/// The two budgets that a limit speaks of: `rbps`/`riops` and `wbps`/`wiops` never share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// [`Op::Read`], [`Op::Cache`] and [`Op::Status`].
    Read,
    /// [`Op::Write`], [`Op::Flush`], [`Op::Discard`] and [`Op::WriteZeroes`].
    Write,
}

impl Direction {
    /// Both, in the order in which tables list them.
    pub const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    /// 0 for reads, 1 for writes: the index into per-direction arrays.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The one that it is not.
    pub const fn other(self) -> Direction {
        match self {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        }
    }
}

impl Op {
    /// The budget this operation is charged to.
    pub const fn direction(self) -> Direction {
        match self {
            Op::Read | Op::Cache | Op::Status => Direction::Read,
            Op::Write | Op::Flush | Op::Discard | Op::WriteZeroes => Direction::Write,
        }
    }
}

/// A contiguous range of the device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 is allowed (a flush has no extent).
    pub len: u32,
}

impl Extent {
    /// `len` bytes from `offset` on.
    pub const fn new(offset: u64, len: u32) -> Extent {
        Extent { offset, len }
    }
}

/// How much a request's delay would delay others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Class {
    /// Waits when its cgroup is over its limit.
    #[default]
    Data,
    /// File-system metadata and swap: everyone may be waiting for it, so it overtakes data at every limit and is
    /// charged as debt that later data pays (spec/throttle 1.4, kernels from 6.12 on).
    Metadata,
    /// Data that another cgroup waits for, such as write-back for its flush: passes every limit at once, whatever its
    /// kind, and is charged to its own cgroup and those above as debt.
    Owed,
}

/// Whether a request carries its bytes or is a later piece of one that already paid for them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Part {
    /// A request of its own: pays its bytes and one I/O.
    #[default]
    Whole,
    /// A later piece of a request that was split after it paid: pays an I/O, no bytes (spec/throttle 1.8).
    Remainder,
}

/// One request, as plain data. Buffers and handles stay with the caller, found again by `tag`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The sender. A task belongs to one client of one cgroup; see [`crate::Engine::open_task`].
    pub task: TaskId,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Whether it may overtake data.
    pub class: Class,
    /// Whether it pays for its bytes.
    pub part: Part,
    /// Whether something waits for it: all reads, and writes that a program waits for. Writeback is not: a scheduler may
    /// let it wait longer.
    pub sync: bool,
    /// The caller's own mark, handed back untouched.
    pub tag: u64,
}

impl Request {
    /// A whole data request that something waits for.
    pub const fn new(task: TaskId, op: Op, extent: Extent, tag: u64) -> Request {
        Request { task, op, extent, class: Class::Data, part: Part::Whole, sync: true, tag }
    }

    /// Bytes that it moves: none for a flush, and for what tells the device about blocks.
    pub(crate) const fn data_len(&self) -> u32 {
        match self.op {
            Op::Read | Op::Write => self.extent.len,
            _ => 0,
        }
    }
}

/// Names a request inside the engine from submit to complete. A stale id is an error, never another request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The right to complete one dispatched request, once. Not `Clone`: [`crate::Engine::complete`] consumes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a dispatched request holds its place in the device window until its ticket is completed"]
pub struct Ticket {
    /// The index, and one more: so a place for a ticket that may be empty is no larger than the ticket.
    place: NonZeroU32,
    generation: u32,
}

impl Ticket {
    /// The right to complete `id`.
    pub(crate) fn of(id: RequestId) -> Ticket {
        let place = id.index.checked_add(1).and_then(NonZeroU32::new);
        Ticket { place: place.expect("fewer than 2^32 requests"), generation: id.generation }
    }

    /// The request this ticket completes.
    pub fn id(&self) -> RequestId {
        RequestId { index: self.place.get() - 1, generation: self.generation }
    }
}

/// A request that may go to the device now.
#[derive(PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Dispatch {
    /// To be given back with [`crate::Engine::complete`].
    pub ticket: Ticket,
    /// The request, as it was submitted; its extent is a piece of that where [`crate::Config::piece_bytes_max`] says so.
    pub request: Request,
}

/// How a dispatched request ended at the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// The device failed it. It is charged all the same: the device was busy with it.
    Failed,
}

/// What one request is charged, fixed when it is submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Bytes; 0 for a remainder, whose bytes are paid already.
    pub(crate) bytes: u64,
    /// I/O units: 1 a request where no `iops_size` is set. Where it is, the unit is 1/`iops_size` of an I/O, and
    /// rates and bursts of I/Os are scaled by `iops_size` likewise.
    pub(crate) ios: u64,
    /// A later piece of a request that has paid; old kernels charge it nothing at all (spec/throttle 1.8).
    pub(crate) is_remainder: bool,
}

impl Cost {
    /// What a request of its own costs.
    pub(crate) const fn whole(bytes: u64, ios: u64) -> Cost {
        Cost { bytes, ios, is_remainder: false }
    }

    /// What is left of it once `part` of it is paid.
    pub(crate) fn less(self, part: Cost) -> Cost {
        Cost { bytes: self.bytes - part.bytes, ios: self.ios - part.ios, ..self }
    }

    /// So much `count` times.
    pub(crate) fn times(self, count: u64) -> Cost {
        Cost {
            bytes: self.bytes.saturating_mul(count),
            ios: self.ios.saturating_mul(count),
            ..self
        }
    }

    /// How often it is paid until all of `owed` is.
    pub(crate) fn count_in(self, owed: Cost) -> u64 {
        let count = |owed: u64, part: u64| if part == 0 { 0 } else { owed.div_ceil(part) };
        count(owed.bytes, self.bytes).max(count(owed.ios, self.ios))
    }

    /// How often it is in `amount` whole, in both kinds.
    pub(crate) fn times_in(self, amount: Cost) -> u64 {
        let times = |amount: u64, part: u64| amount.checked_div(part).unwrap_or(u64::MAX);
        times(amount.bytes, self.bytes).min(times(amount.ios, self.ios))
    }

    /// As much of it as is within `most`, in each kind.
    pub(crate) fn within(self, most: Cost) -> Cost {
        Cost { bytes: self.bytes.min(most.bytes), ios: self.ios.min(most.ios), ..self }
    }
}
