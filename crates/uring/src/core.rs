//! The slots that own what is in flight. The one place where memory is lent to the kernel and taken back.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use io_uring::{cqueue, opcode, types::CancelBuilder};

use crate::clock::monotonic_ns;
use crate::config::Config;
use crate::files::Files;
use crate::fixed::FixedBuffers;
use crate::op::Op;
use crate::pool::BufferPool;
use crate::queue::{Queue, Sleep};
use crate::receive::{ReceiveBuffers, ReceivedBuf};

/// Owner of an operation, which is told about its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The caller, with its token.
    Caller(u64),
    /// A job of several steps inside this crate, by its number.
    Job(u32),
}

/// An operation that has ended. It belongs to the holder of this.
pub(crate) struct Landed {
    pub(crate) origin: Origin,
    pub(crate) op: Op,
    /// What the kernel says, as a system call would: an error or a number.
    pub(crate) result: io::Result<u32>,
    /// The shared buffer that came with it.
    pub(crate) received: Option<ReceivedBuf>,
}

/// An operation's place while the kernel has it. `None` is a vacant place.
type Slot = Option<(Origin, Op)>;

/// A ring with its slots. Fields are dropped in this order: the kernel's side first, then what it pointed at.
pub(crate) struct Core {
    queue: Queue,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    pub(crate) files: Files,
    fixed: FixedBuffers,
    receive: Rc<ReceiveBuffers>,
    /// Some operations could not be cancelled in time.
    has_given_up: bool,
}

/// The user data of entries that have no slot.
const NO_SLOT: u64 = u64::MAX;

/// Longest that a ring is waited for when it is dropped.
const LET_GO_NS: u64 = 5_000_000_000;

impl Core {
    pub(crate) fn new(config: &Config, pool: BufferPool) -> io::Result<Core> {
        let queue = Queue::new(config.entries, config.setup)?;
        let submitter = queue.submitter();
        let receive =
            ReceiveBuffers::register(&submitter, config.receive_buffers, config.receive_bytes)?;
        let files = Files::new(&submitter, config.registered_files);
        let fixed = FixedBuffers::new(&submitter, pool, config.fixed_buffers);
        queue.enable()?;
        let (slots, vacant) = (Vec::new(), Vec::new());
        Ok(Core { queue, slots, vacant, files, fixed, receive, has_given_up: false })
    }

    /// Whether the ring runs with SINGLE_ISSUER and DEFER_TASKRUN.
    pub(crate) fn is_deferred(&self) -> bool {
        self.queue.is_deferred()
    }

    /// Whether a receive would find a buffer.
    pub(crate) fn can_receive(&self) -> bool {
        self.receive.has_idle()
    }

    /// Bytes in a shared receive buffer.
    pub(crate) fn receive_bytes(&self) -> u32 {
        self.receive.each()
    }

    /// Takes a descriptor into the ring's care.
    pub(crate) fn open(&mut self, fd: OwnedFd) -> u32 {
        self.files.insert(&self.queue.submitter(), fd)
    }

    /// Closes a descriptor on which nothing is in flight.
    pub(crate) fn close(&mut self, file: u32) {
        self.files.remove(&self.queue.submitter(), file);
    }

    /// Starts `op`: from here until it lands, only the kernel has it.
    pub(crate) fn start(&mut self, origin: Origin, op: Op) {
        self.files.begin(op.file());
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let (_, op) = self.slots[index as usize].insert((origin, op));
        let entry = op.entry(&self.files, &mut self.fixed).user_data(u64::from(index));
        // SAFETY: `Op::entry` points only at memory that `op` owns and that does not move with it. `op` now sits in a
        // slot that is not looked into until `next` has popped its only completion, and that is never dropped before
        // (see `drop`); that holds for cancelled operations too, which complete like all others. Its file was counted
        // as in use by `begin`, so its descriptor stays open. No safe way: this is the hand-over to the kernel.
        unsafe { self.queue.push(entry) };
    }

    /// Submits and sleeps; see [`Queue::enter`].
    pub(crate) fn enter(&mut self, sleep: Sleep) -> io::Result<()> {
        if self.fixed.is_wanted() {
            self.fixed.register(&self.queue.submitter());
        }
        self.queue.enter(sleep)
    }

    /// The next operation that has ended.
    pub(crate) fn next(&mut self) -> Option<Landed> {
        loop {
            let completion = self.queue.pop()?;
            if let Some(landed) = self.land(&completion) {
                return Some(landed);
            }
        }
    }

    /// Operations that the kernel has.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Cancels everything in flight and waits for its end, `within_ns` at most, because the kernel may write into buffers
    /// until then. What cannot be cancelled, as I/O to a device that does not answer, is left: so many operations.
    pub(crate) fn cancel_all(&mut self, within_ns: u64) -> usize {
        if self.in_flight() > 0 {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(NO_SLOT);
            // SAFETY: points at nothing. No safe way: `push` cannot tell.
            unsafe { self.queue.push(entry) };
        }
        let until = monotonic_ns().saturating_add(within_ns);
        while self.in_flight() > 0 {
            while let Some(completion) = self.queue.pop() {
                self.land(&completion);
            }
            let is_late = monotonic_ns() >= until;
            if self.in_flight() > 0 && (is_late || self.queue.enter(Sleep::Until(until)).is_err()) {
                self.has_given_up = true;
                break;
            }
        }
        self.in_flight()
    }

    fn land(&mut self, completion: &cqueue::Entry) -> Option<Landed> {
        if completion.user_data() == NO_SLOT {
            return None;
        }
        let index = completion.user_data() as usize;
        assert!(!cqueue::more(completion.flags()), "nothing here completes more than once");
        let (origin, op) = self.slots[index].take().expect("a completion of something in flight");
        self.vacant.push(index as u32);
        self.files.end(op.file());
        let result = match completion.result() {
            error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
            done => Ok(done as u32),
        };
        let received = cqueue::buffer_select(completion.flags()).map(|id| {
            let len = *result.as_ref().unwrap_or(&0);
            // SAFETY: number and length come from this completion, of the only group there is, and a completion is
            // popped once. No safe way: the kernel tells ownership by a number.
            unsafe { self.receive.claim(id, len) }
        });
        Some(Landed { origin, op, result, received })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.has_given_up || self.cancel_all(LET_GO_NS) > 0 {
            // The kernel lets go at some time, or the ring is broken: leak rather than free too early.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(Rc::clone(&self.receive));
            return;
        }
        // The kernel takes a closed ring apart in its own time. Files it knows by number would stay open, and locked,
        // until then.
        self.files.unregister(&self.queue.submitter());
    }
}
