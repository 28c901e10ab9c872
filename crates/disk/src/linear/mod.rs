//! Disk with the service times of io.cost's linear model.

mod drives;
mod line;

use alloc::collections::VecDeque;

use weir_engine::utilisation::{CostModel, DeviceTime, Positions};
use weir_engine::{Extent, Op};

use crate::model::{DiskModel, DiskOp};
pub(crate) use drives::DRIVES;
pub(crate) use line::{KEYS, TABLE};

/// Settings of a [`Linear`] disk: six figures of benchmarks. As in the kernel's `io.cost.model`, a part whose figure is 0
/// takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinearSpec {
    /// Bytes on the disk, a multiple of 512.
    pub size: u64,
    /// Bytes a second of long reads.
    pub read_bps: u64,
    /// Reads of 4 KiB a second, one after the other on the disk.
    pub read_seq_iops: u64,
    /// Reads of 4 KiB a second at random places.
    pub read_rand_iops: u64,
    /// Bytes a second of long writes.
    pub write_bps: u64,
    /// Writes of 4 KiB a second, one after the other.
    pub write_seq_iops: u64,
    /// Writes of 4 KiB a second at random places.
    pub write_rand_iops: u64,
    /// Nanoseconds from the end of service to completion, overlapping with other requests.
    pub latency_ns: u64,
    /// Places near which a request is sequential, 1 to 64: the ends of the requests that came last.
    pub streams: u64,
}

impl LinearSpec {
    /// Prices of requests.
    pub const fn costs(&self) -> CostModel {
        let reads = [self.read_bps, self.read_seq_iops, self.read_rand_iops];
        let writes = [self.write_bps, self.write_seq_iops, self.write_rand_iops];
        CostModel::from_io_cost(reads, writes)
    }
}

/// A disk that serves requests in order, each for as long as the linear model says, and completes each a fixed latency
/// later.
///
/// A request costs a base, by direction and whether it is random, and a price for each 4 KiB ([`CostModel`]). Costs are in
/// 2^-37 s, rounded up once: requests without a pause complete at the sum of their costs, and only the reported time is
/// rounded, up. Flushes, discards and zeroing cost nothing and wait their turn.
///
/// It is io.cost's ideal device: one request at a time, the same capacity at every depth, no cache and no tail. A lone
/// request takes its cost and the latency. The kernel's profiles and the drives have a latency of 0, so they reach their
/// full rate at depth 1, which a real flash disk does not.
///
/// Costs O(`streams`) a request. Memory: 16 bytes for each request in flight.
///
/// Source: Heo et al., "IOCost: Block IO Control for Containers in Datacenters", ASPLOS 2022.
#[derive(Clone, Debug)]
pub struct Linear {
    size: u64,
    latency_ns: u64,
    costs: CostModel,
    now_ns: u64,
    /// Service so far ends at `free_ns + carry / 2^37`.
    free_ns: u64,
    carry: u64,
    positions: Positions,
    /// Time of completion and id, in order.
    in_flight: VecDeque<(u64, u64)>,
}

impl Linear {
    /// An idle disk, whose last request ended at offset 0.
    pub fn new(spec: LinearSpec) -> Linear {
        let disk = Linear::priced(spec.costs(), spec.streams as usize, spec.size);
        Linear { latency_ns: spec.latency_ns, ..disk }
    }

    /// An idle disk of `size` bytes with these prices, without latency; `streams` as [`LinearSpec::streams`].
    pub fn priced(costs: CostModel, streams: usize, size: u64) -> Linear {
        Linear {
            size,
            latency_ns: 0,
            costs,
            now_ns: 0,
            free_ns: 0,
            carry: 0,
            positions: Positions::new(streams),
            in_flight: VecDeque::new(),
        }
    }

    /// Queues a request; returns its end of service, rounded up.
    fn serve(&mut self, cost: DeviceTime) -> u64 {
        if self.now_ns > self.free_ns {
            (self.free_ns, self.carry) = (self.now_ns, 0);
        }
        // In units of 2^-37 ns.
        let time = u128::from(cost.units()) * 1_000_000_000 + u128::from(self.carry);
        let whole = u64::try_from(time >> DeviceTime::SECOND_SHIFT).unwrap_or(u64::MAX);
        self.free_ns = self.free_ns.saturating_add(whole);
        self.carry = (time & ((1 << DeviceTime::SECOND_SHIFT) - 1)) as u64;
        self.free_ns.saturating_add(u64::from(self.carry > 0))
    }
}

impl DiskModel for Linear {
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, offset: u64, len: u32) {
        self.now_ns = self.now_ns.max(now_ns);
        let op = match op {
            DiskOp::Read => Some(Op::Read),
            DiskOp::Write | DiskOp::WriteFua => Some(Op::Write),
            DiskOp::Flush | DiskOp::Discard | DiskOp::WriteZeroes => None,
        };
        let cost = op.map_or(DeviceTime::ZERO, |op| {
            self.costs.price(op, len, self.positions.is_sequential(Extent::new(offset, len)))
        });
        let done_ns = self.serve(cost).saturating_add(self.latency_ns);
        self.in_flight.push_back((done_ns, id));
    }

    fn next_event(&self) -> Option<u64> {
        self.in_flight.front().map(|(done_ns, _)| *done_ns)
    }

    fn poll_complete(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = self.now_ns.max(now_ns);
        let is_done = self.in_flight.front().is_some_and(|(done_ns, _)| *done_ns <= self.now_ns);
        if !is_done {
            return None;
        }
        self.in_flight.pop_front().map(|(_, id)| id)
    }

    fn capacity(&self) -> u64 {
        self.size
    }
}
