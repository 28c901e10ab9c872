//! Requests inside the engine, from submit to complete.

use crate::tree::{Arena, Line, Link, Links};
use crate::types::{Cost, Instant, Request, RequestId};

/// Stage of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Queued in its task, for a limit of its path.
    Waiting,
    /// Past the limit of this cgroup (by index) and queued there for one further up.
    DispatchedToParent(u32),
    /// Past every limit; waits for the device.
    Ready,
    /// At the device.
    Dispatched,
}

/// A request and its state.
pub(crate) struct Record {
    pub(crate) request: Request,
    /// When it was submitted, in ticks; see [`Record::inside_ns`].
    arrived: u32,
    /// Price; while it waits for a limit, the unpaid part.
    pub(crate) cost: Cost,
    pub(crate) stage: Stage,
    /// Cut of a request that goes to the device in pieces; `request.extent` is the current piece.
    pub(crate) cut: Option<Cut>,
    /// Whether it was coalesced with the request before it.
    pub(crate) is_joined: bool,
    /// Whether it waits after some instalments.
    pub(crate) is_part_paid: bool,
    /// Link in the list of its stage.
    link: Link,
    /// Begin of the time that is not blamed yet.
    pub(crate) since: Instant,
    /// Service of its nearest limit at arrival: to all, and to its client.
    pub(crate) served_before: Served,
}

/// State of a request that goes to the device in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Bytes after the current piece.
    pub(crate) left: u32,
    /// Whether a piece was dispatched: then all of it counts as dispatched.
    pub(crate) has_begun: bool,
}

/// Service of a limit, in nanoseconds of its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Served {
    pub(crate) to_all_ns: u64,
    pub(crate) to_client_ns: u64,
}

impl Record {
    /// Its task.
    #[inline]
    pub(crate) fn task(&self) -> u32 {
        self.request.task.index
    }

    /// Time from its submission to `now`, in nanoseconds, to about a microsecond; modulo 73 minutes.
    #[inline]
    pub(crate) fn inside_ns(&self, now: Instant) -> u64 {
        u64::from(now.tick().wrapping_sub(self.arrived)) << Instant::TICK_LOG2
    }

    /// Cuts a longer request after its first `bytes_max`.
    pub(crate) fn cut_to(&mut self, bytes_max: u32) {
        let extent = &mut self.request.extent;
        if extent.len > bytes_max {
            self.cut = Some(Cut { left: extent.len - bytes_max, has_begun: false });
            extent.len = bytes_max;
        }
    }

    /// Advances to the next piece, of at most `bytes_max`.
    pub(crate) fn next_piece(&mut self, bytes_max: u32) {
        let extent = &mut self.request.extent;
        let cut = self.cut.as_mut().expect("a request in pieces");
        extent.offset += u64::from(extent.len);
        extent.len = cut.left.min(bytes_max);
        cut.left -= extent.len;
    }

    /// The request from the current piece to its end.
    pub(crate) fn uncut(&self) -> Request {
        let mut request = self.request;
        request.extent.len += self.cut.map_or(0, |cut| cut.left);
        request
    }
}

impl Served {
    /// Service to other clients since then, given the totals up to now.
    pub(crate) fn to_others(self, to_all_ns: u64, to_client_ns: u64) -> u64 {
        let to_all = to_all_ns.wrapping_sub(self.to_all_ns);
        to_all.saturating_sub(to_client_ns.wrapping_sub(self.to_client_ns))
    }
}

/// All requests, by id.
pub(crate) struct Requests(Arena<Record, Line>);

impl Requests {
    pub(crate) fn new() -> Requests {
        Requests(Arena::new())
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }

    /// Takes in a request.
    #[inline]
    pub(crate) fn insert(&mut self, now: Instant, request: &Request, cost: Cost) -> RequestId {
        let (index, generation) = self.0.insert(Record {
            request: *request,
            arrived: now.tick(),
            cost,
            stage: Stage::Waiting,
            cut: None,
            is_joined: false,
            is_part_paid: false,
            link: Link::NONE,
            since: now,
            served_before: Served::default(),
        });
        RequestId { index, generation }
    }

    pub(crate) fn remove(&mut self, index: u32) -> Record {
        self.0.remove(index)
    }

    /// Frees the slot of a request whose record is not needed: it is left where it is.
    pub(crate) fn free(&mut self, index: u32) {
        self.0.free(index);
    }

    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId { index, generation: self.0.generation(index) }
    }

    /// The id of a request, and what is remembered of it.
    #[inline]
    pub(crate) fn entry_mut(&mut self, index: u32) -> (RequestId, &mut Record) {
        let (generation, record) = self.0.entry_mut(index);
        (RequestId { index, generation }, record)
    }

    /// The index behind an id, if the request is still inside.
    pub(crate) fn index(&self, id: RequestId) -> Option<u32> {
        self.0.is_current(id.index, id.generation).then_some(id.index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.0.iter()
    }
}

impl core::ops::Index<u32> for Requests {
    type Output = Record;

    fn index(&self, index: u32) -> &Record {
        &self.0[index]
    }
}

impl core::ops::IndexMut<u32> for Requests {
    fn index_mut(&mut self, index: u32) -> &mut Record {
        &mut self.0[index]
    }
}

impl Links for Requests {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self.0[index].link
    }
}

/// A request that has passed every limit, with what the scheduler would look up.
#[derive(Clone, Copy)]
pub(crate) struct Arriving<'a> {
    pub(crate) request: &'a Request,
    /// Its task.
    pub(crate) task: u32,
    /// Its index.
    pub(crate) index: u32,
}
