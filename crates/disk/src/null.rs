//! Disk of fixed rate and latency, after the kernel's `null_blk`.

use alloc::collections::VecDeque;
use core::num::NonZeroU64;

use crate::model::{DiskModel, DiskOp};

const NANOS: u128 = 1_000_000_000;

/// The settings of a [`Null`] disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NullSpec {
    /// Bytes a second of reads and writes together; `None` for no bound.
    pub rate: Option<NonZeroU64>,
    /// Nanoseconds from the end of the transfer to completion.
    pub latency_ns: u64,
    /// Bytes on the disk.
    pub size: u64,
}

/// A disk that serves requests in order: reads and writes one after the other at a fixed rate, and completes each a
/// fixed latency after its transfer. Flushes, discards and zeroing transfer nothing and wait their turn.
///
/// Errors do not add up: a transfer ends at a fraction of a nanosecond, and the next begins there. Only the reported time is
/// rounded, up.
#[derive(Clone, Debug)]
pub struct Null {
    spec: NullSpec,
    now_ns: u64,
    /// The transfers so far end at `free_ns + carry / rate`; `carry` is less than the rate.
    free_ns: u64,
    carry: u64,
    /// Time of completion and id, in order.
    in_flight: VecDeque<(u64, u64)>,
}

impl Null {
    /// An idle disk.
    pub fn new(spec: NullSpec) -> Null {
        Null { spec, now_ns: 0, free_ns: 0, carry: 0, in_flight: VecDeque::new() }
    }

    /// Queues a transfer; returns its end, rounded up.
    fn transfer(&mut self, bytes: u64) -> u64 {
        if self.now_ns > self.free_ns {
            (self.free_ns, self.carry) = (self.now_ns, 0);
        }
        if let Some(rate) = self.spec.rate {
            let rate = u128::from(rate.get());
            // In units of 1/rate ns; at most 2^64 x 10^9, far below 2^128.
            let time = u128::from(bytes) * NANOS + u128::from(self.carry);
            self.free_ns = self.free_ns.saturating_add(saturate(time / rate));
            self.carry = saturate(time % rate);
        }
        self.free_ns.saturating_add(u64::from(self.carry > 0))
    }
}

impl DiskModel for Null {
    fn submit(&mut self, now_ns: u64, id: u64, op: DiskOp, _offset: u64, len: u32) {
        self.now_ns = self.now_ns.max(now_ns);
        let bytes = match op {
            DiskOp::Read | DiskOp::Write | DiskOp::WriteFua => u64::from(len),
            DiskOp::Flush | DiskOp::Discard | DiskOp::WriteZeroes => 0,
        };
        let done = self.transfer(bytes).saturating_add(self.spec.latency_ns);
        self.in_flight.push_back((done, id));
    }

    fn next_event(&self) -> Option<u64> {
        self.in_flight.front().map(|&(done, _)| done)
    }

    fn poll_complete(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = self.now_ns.max(now_ns);
        match self.in_flight.front() {
            Some(&(done, id)) if done <= self.now_ns => {
                self.in_flight.pop_front();
                Some(id)
            }
            _ => None,
        }
    }

    fn capacity(&self) -> u64 {
        self.spec.size
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn disk(rate: u64, latency_ns: u64) -> Null {
        Null::new(NullSpec { rate: NonZeroU64::new(rate), latency_ns, size: 1 << 30 })
    }

    /// All completions as (time, id), by jumping from event to event.
    fn drain(disk: &mut Null) -> Vec<(u64, u64)> {
        let mut seen = Vec::new();
        while let Some(at) = disk.next_event() {
            if at > disk.now_ns {
                assert_eq!(disk.poll_complete(at - 1), None);
            }
            let id = disk.poll_complete(at).expect("the event that was announced");
            seen.push((at, id));
        }
        seen
    }

    #[test]
    fn requests_queue_up_and_complete_a_latency_later() {
        let mut disk = disk(1_000_000, 500);
        for id in 1..=3 {
            disk.submit(100, id, DiskOp::Read, 0, 4000);
        }
        // 4,000 bytes at 1 MB/s: 4 ms each.
        let ms = 1_000_000;
        assert_eq!(drain(&mut disk), [(4 * ms + 600, 1), (8 * ms + 600, 2), (12 * ms + 600, 3)]);
    }

    #[test]
    fn an_idle_disk_starts_a_request_at_once() {
        let mut disk = disk(1_000_000_000, 0);
        disk.submit(0, 1, DiskOp::Write, 0, 10);
        disk.submit(1000, 2, DiskOp::Write, 0, 10);
        assert_eq!(drain(&mut disk), [(10, 1), (1010, 2)]);
    }

    #[test]
    fn fractions_are_carried() {
        // 3 bytes a second: one byte takes a third of a second, and three take exactly one.
        let mut disk = disk(3, 0);
        for id in 1..=6 {
            disk.submit(0, id, DiskOp::Read, 0, 1);
        }
        let times: Vec<u64> = drain(&mut disk).into_iter().map(|(at, _)| at).collect();
        let second = 1_000_000_000;
        assert_eq!(
            times,
            [
                333_333_334,
                666_666_667,
                second,
                second + 333_333_334,
                second + 666_666_667,
                2 * second
            ]
        );
    }

    /// The n-th of a row of transfers ends at n x bytes / rate, rounded up, whatever the rate; nothing drifts.
    #[test]
    fn a_long_row_ends_where_arithmetic_says() {
        for rate in [3, 7, 4 << 20, 999_999_937, 123_456_789_012] {
            let mut disk = disk(rate, 10_000);
            let len = 4097;
            for n in 1..=10_000u64 {
                disk.submit(0, n, DiskOp::Read, 0, len);
                let exact = (u128::from(n) * u128::from(len) * NANOS).div_ceil(u128::from(rate));
                let &(done, _) = disk.in_flight.back().unwrap();
                assert_eq!(u128::from(done), exact + 10_000, "request {n} at rate {rate}");
            }
        }
    }

    #[test]
    fn what_transfers_nothing_waits_its_turn() {
        let mut disk = disk(1_000_000_000, 5);
        disk.submit(0, 1, DiskOp::Write, 0, 100);
        disk.submit(0, 2, DiskOp::Flush, 0, 0);
        disk.submit(0, 3, DiskOp::Discard, 0, u32::MAX);
        disk.submit(0, 4, DiskOp::WriteZeroes, 0, u32::MAX);
        assert_eq!(drain(&mut disk), [(105, 1), (105, 2), (105, 3), (105, 4)]);
    }

    #[test]
    fn without_a_rate_only_the_latency_counts() {
        let mut disk = disk(0, 7);
        disk.submit(10, 1, DiskOp::Read, 0, u32::MAX);
        disk.submit(11, 2, DiskOp::Read, 0, u32::MAX);
        assert_eq!(drain(&mut disk), [(17, 1), (18, 2)]);
        assert_eq!((disk.next_event(), disk.poll_complete(u64::MAX)), (None, None));
    }

    #[test]
    fn time_does_not_go_back_or_over() {
        let mut disk = disk(1, u64::MAX);
        disk.submit(100, 1, DiskOp::Read, 0, u32::MAX);
        disk.submit(50, 2, DiskOp::Read, 0, 1);
        assert_eq!(disk.next_event(), Some(u64::MAX));
        assert_eq!(disk.poll_complete(u64::MAX - 1), None);
        assert_eq!(disk.poll_complete(u64::MAX), Some(1));
        assert_eq!(disk.poll_complete(0), Some(2));
        assert_eq!(disk.capacity(), 1 << 30);
    }
}
