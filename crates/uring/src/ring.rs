//! The ring as its one thread sees it.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use crate::completion::Completion;
use crate::config::Config;
use crate::core::{Core, Landed, Origin};
use crate::disk::Disks;
use crate::error::RingError;
use crate::mapping::Mapping;
use crate::message::{self, Message};
use crate::op::Op;
use crate::pool::BufferPool;
use crate::queue::Sleep;
use crate::support::support;
use crate::wake::{self, Waker};

/// One io_uring with everything that is in flight on it: sockets, devices, and the buffers between them.
///
/// Belongs to one thread. The turn of its loop: start operations, [`Ring::wait`], take completions from
/// [`Ring::poll_completion`] until there is none. Operations that are started cost no system call of their own; all of
/// a turn go to the kernel together in `wait`.
///
/// Dropping the ring cancels what is in flight and waits until the kernel has let go of every buffer.
pub struct Ring {
    pub(crate) core: Core,
    /// Completions that did not come from the kernel, or not directly.
    pub(crate) ready: VecDeque<Completion>,
    /// Receives that found no buffer: file and token.
    pub(crate) starved: VecDeque<(u32, u64)>,
    /// Messages whose memory is used again.
    pub(crate) spare: Vec<Message>,
    pub(crate) zeroes: Rc<Mapping>,
    pub(crate) disks: Disks,
    pool: BufferPool,
    waker: Waker,
}

/// Messages kept for the next send: one for each connection that is sent to in one turn, in reason.
const SPARE_MAX: usize = 256;

impl Ring {
    /// Sets up a ring for the calling thread.
    ///
    /// # Errors
    /// When the kernel has no io_uring, forbids it, or lacks an operation.
    pub fn new(config: &Config) -> Result<Ring, RingError> {
        let support = support()?;
        if !support.missing.is_empty() {
            return Err(RingError::TooOld(support.missing.join(", ")));
        }
        Ring::set_up(&config.in_range()).map_err(RingError::from_setup)
    }

    fn set_up(config: &Config) -> io::Result<Ring> {
        let pool = BufferPool::new(config.pool_bytes)?;
        let mut core = Core::new(config, pool.clone())?;
        let (waker, fd) = wake::pair()?;
        let file = core.open(fd);
        core.start(Origin::Caller(0), Op::Wake { file });
        let (ready, starved, spare) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (zeroes, disks) = (message::zeroes()?, Disks::new()?);
        Ok(Ring { core, ready, starved, spare, zeroes, disks, pool, waker })
    }

    /// The buffers for this ring's devices and messages; clones share them.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Something other threads can end [`Ring::wait`] with.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Whether completions are delivered in this thread on demand; see [`crate::Setup`].
    pub fn is_deferred(&self) -> bool {
        self.core.is_deferred()
    }

    /// Operations in flight at the kernel, with the one that waits for wake-ups.
    pub fn in_flight(&self) -> usize {
        self.core.in_flight()
    }

    /// Submits what was started and sleeps until something has completed, at most until `deadline` (a reading of
    /// [`crate::monotonic_ns`]; in the past: not at all; `None`: for ever). May return early, with nothing to poll.
    ///
    /// # Errors
    /// When the ring is broken; no more completions will come.
    pub fn wait(&mut self, deadline: Option<u64>) -> io::Result<()> {
        while !self.starved.is_empty() && self.core.can_receive() {
            // All of them: those that find no buffer again come back here.
            for _ in 0..self.starved.len() {
                let Some((file, token)) = self.starved.pop_front() else { break };
                self.start_receive(file, token);
            }
        }
        let sleep = match deadline {
            _ if !self.ready.is_empty() => Sleep::No,
            None => Sleep::Forever,
            Some(deadline) => Sleep::Until(deadline),
        };
        self.core.enter(sleep)
    }

    /// Ends everything in flight, without completions, and waits `within_ns` at most until the kernel has let go of it. So
    /// many operations are left: of a device that does not answer, they may still be carried out.
    pub fn cancel_all(&mut self, within_ns: u64) -> usize {
        self.core.cancel_all(within_ns)
    }

    /// The next completion of this turn, or `None`: then start what follows and [`Ring::wait`].
    pub fn poll_completion(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                return Some(completion);
            }
            let landed = self.core.next()?;
            if let Some(completion) = self.handle(landed) {
                return Some(completion);
            }
        }
    }

    /// An empty message to be filled and sent.
    pub fn message(&mut self) -> Message {
        self.spare.pop().unwrap_or_else(|| Message::new(Rc::clone(&self.zeroes)))
    }

    /// Takes a message back for its memory.
    pub(crate) fn recycle(&mut self, mut message: Message) {
        message.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(message);
        }
    }

    fn handle(&mut self, landed: Landed) -> Option<Completion> {
        match landed.op {
            Op::Receive { .. } | Op::Fill { .. } | Op::Send { .. } | Op::Cancel { .. } => {
                self.handle_socket(landed)
            }
            Op::Wake { file } => {
                wake::reset(self.core.files.fd(file));
                self.core.start(landed.origin, Op::Wake { file });
                Some(Completion::Woken)
            }
            Op::Read { .. }
            | Op::Write { .. }
            | Op::WriteZeroes { .. }
            | Op::Sync { .. }
            | Op::Fallocate { .. }
            | Op::Prefetch { .. }
            | Op::Discard { .. } => self.handle_disk(landed),
        }
    }
}
