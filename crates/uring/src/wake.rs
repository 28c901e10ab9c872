//! Ending a sleep from another thread.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a ring's thread: its [`crate::Ring::wait`] returns and [`crate::Completion::Woken`] follows.
///
/// Can be sent and shared between threads. Waking several times before the ring looks counts as once; waking after
/// the ring is gone does nothing.
#[derive(Clone)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// Wakes the ring. Costs one system call and never blocks.
    pub fn wake(&self) {
        // Fails only when 2^64 - 2 wake-ups are waiting to be seen, and then one is enough.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// A waker and the ring's end of it.
pub(crate) fn pair() -> io::Result<(Waker, OwnedFd)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let ring = fd.try_clone()?;
    Ok((Waker { fd: Arc::new(fd) }, ring))
}

/// Forgets the wake-ups so far.
pub(crate) fn reset(fd: BorrowedFd<'_>) {
    let mut count = [0; 8];
    // Nothing to read means nothing to forget.
    let _ = rustix::io::read(fd, &mut count);
}
