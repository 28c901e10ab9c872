//! Requests at a disk model, each with the owner of its reply.

use slab::Slab;
use weir_disk::{DiskModel, DiskOp};

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    pub(crate) op: DiskOp,
    /// Bytes; 0 for a flush.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Done only after a flush that follows it.
    pub(crate) is_durable: bool,
}

impl Work {
    pub(crate) fn new(op: DiskOp, offset: u64, len: u64) -> Work {
        Work { op, offset, len, is_durable: false }
    }

    pub(crate) fn flush() -> Work {
        Work::new(DiskOp::Flush, 0, 0)
    }
}

/// A model and its requests in flight. Time is an argument.
///
/// A model counts a request's bytes in 32 bits, and a hole can be as long as the disk. Such work goes to the model in parts,
/// one after the other, so that a hole of any length takes one place in the queue.
pub(crate) struct PendingReplies<T> {
    model: Box<dyn DiskModel>,
    jobs: Slab<Job<T>>,
}

struct Job<T> {
    op: DiskOp,
    /// Not handed to the model yet.
    next: u64,
    end: u64,
    is_durable: bool,
    owner: T,
}

/// Longest part of a piece of work: 1 GiB.
const PART: u64 = 1 << 30;

impl<T> PendingReplies<T> {
    pub(crate) fn new(model: Box<dyn DiskModel>) -> PendingReplies<T> {
        PendingReplies { model, jobs: Slab::new() }
    }

    /// Submits `work`. [`PendingReplies::poll`] returns `owner` when it is done.
    pub(crate) fn submit(&mut self, now_ns: u64, work: Work, owner: T) {
        let Work { op, offset, len, is_durable } = work;
        let end = offset.saturating_add(len);
        let key = self.jobs.insert(Job { op, next: offset, end, is_durable, owner });
        self.part(now_ns, key);
    }

    /// Owners of completed work, each once, in the disk's order. Poll until `None`.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<T> {
        loop {
            let key = self.model.poll_complete(now_ns)? as usize;
            let job = self.jobs.get_mut(key).expect("the model knows what it was given");
            if job.next == job.end {
                if !core::mem::take(&mut job.is_durable) {
                    return Some(self.jobs.remove(key).owner);
                }
                job.op = DiskOp::Flush;
            }
            self.part(now_ns, key);
        }
    }

    /// When to poll again if nothing is submitted; `None` if nothing is in flight.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.model.next_event()
    }

    /// Submits the next part of a job to the model.
    fn part(&mut self, now_ns: u64, key: usize) {
        let job = &mut self.jobs[key];
        let len = (job.end - job.next).min(PART);
        self.model.submit(now_ns, key as u64, job.op, job.next, len as u32);
        job.next += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of 1 KiB a second and no latency: one byte is 976,562.5 ns.
    fn pending() -> PendingReplies<&'static str> {
        let spec: weir_disk::Spec = "null,rate=1K,latency=0ns,size=64G".parse().unwrap();
        PendingReplies::new(spec.build())
    }

    fn done(pending: &mut PendingReplies<&'static str>, now_ns: u64) -> Vec<&'static str> {
        core::iter::from_fn(|| pending.poll(now_ns)).collect()
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn work_is_done_when_the_model_says_so() {
        let mut pending = pending();
        assert_eq!(pending.next_event(), None);
        pending.submit(0, Work::new(DiskOp::Write, 0, 1024), "first");
        pending.submit(0, Work::new(DiskOp::Read, 4096, 2048), "second");
        assert_eq!(pending.next_event(), Some(SECOND));
        assert_eq!(done(&mut pending, SECOND - 1), [""; 0]);
        assert_eq!(done(&mut pending, SECOND), ["first"]);
        assert_eq!(done(&mut pending, 3 * SECOND), ["second"]);
        assert_eq!(pending.next_event(), None);
    }

    #[test]
    fn a_durable_write_ends_with_a_flush() {
        let mut pending = pending();
        let write = Work { is_durable: true, ..Work::new(DiskOp::Write, 0, 1024) };
        pending.submit(0, write, "durable");
        // The flush waits for nothing but is an event of its own: it is submitted when the write is done.
        assert_eq!(done(&mut pending, SECOND), ["durable"]);
        assert_eq!(done(&mut pending, 9 * SECOND), [""; 0]);
    }

    #[test]
    fn a_hole_of_any_length_is_one_piece_of_work() {
        let mut pending = pending();
        pending.submit(0, Work::new(DiskOp::Discard, 512, 64 << 30), "hole");
        pending.submit(0, Work::flush(), "flush");
        let mut owners = Vec::new();
        let mut events = 0;
        while let Some(at) = pending.next_event() {
            owners.extend(done(&mut pending, at));
            events += 1;
            assert!(events < 1000);
        }
        owners.sort_unstable();
        assert_eq!(owners, ["flush", "hole"]);
        assert!(pending.jobs.is_empty());
    }

    #[test]
    fn a_request_of_no_bytes_completes() {
        let mut pending = pending();
        pending.submit(5, Work::new(DiskOp::Read, 512, 0), "nothing");
        assert_eq!(done(&mut pending, 5), ["nothing"]);
    }
}
