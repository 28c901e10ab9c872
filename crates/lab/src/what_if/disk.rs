//! Devices of tried arrivals: a disk model, or one that takes as long as was recorded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_disk::{DiskModel, DiskOp};
use weir_driver::Device;
use weir_engine::{Dispatch, Event, Instant, Op, Ticket};
use weir_recording::Arrivals;

/// A disk on which each request takes as long as it did when it was recorded, whatever else is there; one whose time is not
/// known takes the median.
///
/// Only for requests whose ids are their places among the `arrivals`. O(log in flight) a request.
#[derive(Debug)]
pub struct AsRecorded {
    device_ns: Vec<u64>,
    now_ns: u64,
    submitted: u64,
    /// When each is done, its place among the submitted, its id.
    in_flight: BinaryHeap<Reverse<(u64, u64, u64)>>,
}

impl AsRecorded {
    /// The device of `arrivals`; `None` where no time is known.
    pub fn of(arrivals: &Arrivals) -> Option<AsRecorded> {
        let known = arrivals.requests.iter().filter_map(|arrival| arrival.device_ns);
        let mut known: Vec<u64> = known.collect();
        if known.is_empty() {
            return None;
        }
        let middle = known.len() / 2;
        let median = *known.select_nth_unstable(middle).1;
        let device_ns =
            arrivals.requests.iter().map(|arrival| arrival.device_ns.unwrap_or(median)).collect();
        Some(AsRecorded { device_ns, now_ns: 0, submitted: 0, in_flight: BinaryHeap::new() })
    }
}

impl DiskModel for AsRecorded {
    fn submit(&mut self, now_ns: u64, id: u64, _op: DiskOp, _offset: u64, _len: u32) {
        self.now_ns = self.now_ns.max(now_ns);
        let device_ns = usize::try_from(id).ok().and_then(|id| self.device_ns.get(id));
        let done_ns = self.now_ns.saturating_add(device_ns.copied().unwrap_or_default());
        self.in_flight.push(Reverse((done_ns, self.submitted, id)));
        self.submitted += 1;
    }

    fn next_event(&self) -> Option<u64> {
        self.in_flight.peek().map(|Reverse((done_ns, ..))| *done_ns)
    }

    fn poll_complete(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = self.now_ns.max(now_ns);
        if self.next_event()? > self.now_ns {
            return None;
        }
        self.in_flight.pop().map(|Reverse((.., id))| id)
    }

    fn capacity(&self) -> u64 {
        u64::MAX >> 1
    }
}

/// Requests at the modelled disk.
pub(super) struct AtDisk {
    pub(super) disk: Box<dyn DiskModel>,
    /// The disk's clock begins with the arrivals.
    pub(super) start_ns: u64,
    pub(super) tickets: HashMap<u64, Ticket>,
    /// When each went there first, by its place among the arrivals.
    pub(super) dispatched_ns: Vec<u64>,
}

impl Device for AtDisk {
    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let request = dispatch.request;
        let op = match request.op {
            Op::Read | Op::Cache | Op::Status => DiskOp::Read,
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            Op::Discard => DiskOp::Discard,
            Op::WriteZeroes => DiskOp::WriteZeroes,
        };
        let len = match op {
            DiskOp::Flush => 0,
            _ => u64::from(request.extent.len).clamp(1, self.disk.capacity()),
        };
        // A smaller disk has the requests beyond its end from its beginning on.
        let offset = request.extent.offset % (self.disk.capacity() - len).max(1);
        let first_ns = &mut self.dispatched_ns[request.tag as usize];
        *first_ns = (*first_ns).min(now.as_nanos());
        self.tickets.insert(request.tag, dispatch.ticket);
        self.disk.submit(now.as_nanos() - self.start_ns, request.tag, op, offset, len as u32);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}
