//! The pair of queues shared with the kernel: entries in, completions out, one system call a turn.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};

use crate::clock::monotonic_ns;
use crate::config::Setup;
use crate::restrictions;

/// How long [`Queue::enter`] may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sleep {
    /// Not at all.
    No,
    /// Until a completion, at most until this reading of [`monotonic_ns`].
    Until(u64),
    /// Until a completion.
    Forever,
}

pub(crate) struct Queue {
    uring: IoUring,
    /// Entries that found the submission queue full while the kernel would not take any; in order.
    backlog: VecDeque<squeue::Entry>,
    /// Whether the kernel takes absolute deadlines (Linux 6.12).
    absolute: bool,
    /// Whether completions are produced only inside `enter` (DEFER_TASKRUN, Linux 6.1).
    deferred: bool,
}

impl Queue {
    /// Sets up a ring of `entries`, in the cheapest way that the kernel knows and `setup` allows. It takes no entries before
    /// [`Queue::enable`].
    pub(crate) fn new(entries: u32, setup: Setup) -> io::Result<Queue> {
        let deferred = match setup {
            Setup::Auto => build(entries, true),
            Setup::Plain => Err(io::ErrorKind::Unsupported.into()),
        };
        let (uring, deferred) = match deferred {
            Ok(uring) => (uring, true),
            Err(_) => (build(entries, false)?, false),
        };
        // Both came with Linux 6.12; the deadline flag has no feature bit of its own.
        let absolute = uring.params().is_feature_min_timeout();
        Ok(Queue { uring, backlog: VecDeque::new(), absolute, deferred })
    }

    /// Restricts the ring to the operations of this crate, if the kernel does that, and has it take entries from here on.
    /// Returns whether it is restricted. What is registered once is to be registered before.
    pub(crate) fn enable(&self) -> io::Result<bool> {
        let submitter = self.uring.submitter();
        let is_restricted = submitter.register_restrictions(&mut restrictions::all()).is_ok();
        submitter.register_enable_rings()?;
        Ok(is_restricted)
    }

    /// For registering things.
    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.uring.submitter()
    }

    /// Whether the ring runs with SINGLE_ISSUER and DEFER_TASKRUN.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// Whether the kernel takes absolute deadlines.
    pub(crate) fn has_absolute_deadline(&self) -> bool {
        self.absolute
    }

    /// Queues `entry`. It reaches the kernel with the next [`Queue::enter`], or now if the queue is full.
    ///
    /// # Safety
    /// All memory that `entry` points at must stay valid, in place and untouched, and its file descriptor open, until
    /// the last completion for it was popped.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() {
            // SAFETY: the caller's promise. No safe way: the queue takes addresses.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return;
            }
            // Full: let the kernel have them. A refusal (it is short of memory, or wants completions reaped first)
            // is met again by the next `enter`.
            let _ = self.uring.submit();
            // SAFETY: as above.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// Submits what was pushed, and sleeps as told unless completions are there already.
    ///
    /// Returns early when a signal arrives. Costs one system call, or none if there is nothing to do.
    pub(crate) fn enter(&mut self, sleep: Sleep) -> io::Result<()> {
        self.refill();
        let (pending, ready) = {
            let (_, queue, completions) = self.uring.split();
            (queue.len() as u32, !completions.is_empty())
        };
        let sleep = if ready || !self.backlog.is_empty() { Sleep::No } else { sleep };
        if sleep == Sleep::No && ready && pending == 0 {
            return Ok(());
        }
        match self.enter_once(pending, sleep) {
            // EBUSY, EAGAIN: completions must be reaped, or memory found, before more is taken; what was pushed is
            // still queued and goes with the next call.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    /// The next completion, if one has come.
    pub(crate) fn pop(&mut self) -> Option<cqueue::Entry> {
        self.uring.completion().next()
    }

    fn enter_once(&mut self, pending: u32, sleep: Sleep) -> io::Result<()> {
        let submitter = self.uring.submitter();
        let mut flags = EnterFlags::GETEVENTS.bits();
        let want = u32::from(sleep != Sleep::No);
        let Sleep::Until(deadline) = sleep else {
            // SAFETY: no argument, and as many entries as are queued. No safe way: the safe calls do not collect
            // deferred completions unless they wait.
            let entered = unsafe { submitter.enter::<libc::sigset_t>(pending, want, flags, None) };
            return entered.map(drop);
        };
        let mut nanos = deadline;
        flags |= EnterFlags::EXT_ARG.bits();
        if self.absolute {
            flags |= EnterFlags::ABS_TIMER.bits();
        } else {
            nanos = deadline.saturating_sub(monotonic_ns());
        }
        let until = Timespec::new().sec(nanos / 1_000_000_000).nsec((nanos % 1_000_000_000) as u32);
        let arguments = SubmitArgs::new().timespec(&until);
        // SAFETY: `arguments` is what EXT_ARG asks for and lives until the call returns, as does the timespec in it.
        // No safe way: the safe call takes no absolute deadline.
        let entered = unsafe { submitter.enter(pending, want, flags, Some(&arguments)) };
        entered.map(drop)
    }

    /// Moves entries from the backlog into the submission queue as far as there is room.
    fn refill(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the caller of `push` promised what `push` asks for, until its completion, which cannot have
            // come yet. No safe way: as in `push`.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }
}

fn build(entries: u32, deferred: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // A completion for each of thousands of idle connections may come at once; the kernel keeps what does not fit,
    // but not for nothing.
    builder.setup_clamp().setup_cqsize(entries.saturating_mul(4)).setup_submit_all().dontfork();
    builder.setup_r_disabled();
    if deferred {
        builder.setup_single_issuer().setup_defer_taskrun();
    }
    builder.build(entries)
}

#[cfg(test)]
mod tests {
    use io_uring::{opcode, types};

    use super::*;

    /// The result of one operation.
    fn result(queue: &mut Queue, entry: squeue::Entry) -> i32 {
        // SAFETY: the entries below point at nothing, or at a literal. No safe way: as in `push`.
        unsafe { queue.push(entry) };
        loop {
            queue.enter(Sleep::Forever).unwrap();
            if let Some(completion) = queue.pop() {
                return completion.result();
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no io_uring")]
    fn a_ring_refuses_what_this_crate_never_does() {
        for setup in [Setup::Auto, Setup::Plain] {
            let mut queue = Queue::new(4, setup).expect("tests need io_uring");
            assert!(queue.enable().unwrap(), "kernels since 5.10 restrict rings");
            let path = c"/etc/passwd".as_ptr();
            let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path).build();
            let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build();
            let flagged = opcode::Fsync::new(types::Fd(-1)).build().flags(squeue::Flags::IO_DRAIN);
            for refused in [opcode::Nop::new().build(), open, socket, flagged] {
                assert_eq!(result(&mut queue, refused), -libc::EACCES);
            }
            let registered = queue.submitter().register_eventfd(2);
            assert_eq!(registered.unwrap_err().raw_os_error(), Some(libc::EACCES));
            let fsync = opcode::Fsync::new(types::Fd(-1)).build();
            assert_eq!(result(&mut queue, fsync), -libc::EBADF, "taken, and only then looked at");
        }
    }
}
