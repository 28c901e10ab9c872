//! State that the device thread and its workers share: the device, the file system, and the queues between them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use weir_engine::Ticket;
use weir_passthrough::PassThrough;

use crate::clients::ClientKey;
use crate::device::messages::Message;

/// A request for a worker. With a ticket it is one of data.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) message: Message,
    pub(super) ticket: Option<(Ticket, ClientKey)>,
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Shared {
    fuse: OwnedFd,
    fs: PassThrough,
    jobs: Mutex<Jobs>,
    has_job: Condvar,
    done: Mutex<Vec<Job>>,
    stop: Stop,
}

#[derive(Debug, Default)]
struct Jobs {
    queue: VecDeque<Job>,
    is_closed: bool,
}

/// Ends the device thread, from any other.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    wake: Arc<OwnedFd>,
    is_stopping: Arc<AtomicBool>,
}

impl Stop {
    /// Ends it.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // Fails only where it is full of wake-ups that have not been seen.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Shared {
    pub(crate) fn new(fuse: OwnedFd, fs: PassThrough) -> io::Result<(Arc<Shared>, Stop)> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stop = Stop { wake, is_stopping: Arc::default() };
        let shared = Shared {
            fuse,
            fs,
            jobs: Mutex::default(),
            has_job: Condvar::new(),
            done: Mutex::default(),
            stop: stop.clone(),
        };
        Ok((Arc::new(shared), stop))
    }

    pub(crate) fn fuse(&self) -> &OwnedFd {
        &self.fuse
    }

    pub(super) fn fs(&self) -> &PassThrough {
        &self.fs
    }

    pub(super) fn wake(&self) -> &OwnedFd {
        &self.stop.wake
    }

    pub(super) fn clear_wake(&self) {
        let _ = rustix::io::read(&self.stop.wake, &mut [0; 8]);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_stopping.load(Ordering::Acquire)
    }

    /// Sends a reply. That the kernel does not want it any more is no error: its request was interrupted, or the mount is gone.
    pub(super) fn reply(&self, message: &[u8]) {
        match rustix::io::write(&self.fuse, message) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::PERM) => {}
            Err(error) => tracing::error!("a reply of {} bytes is refused: {error}", message.len()),
        }
    }

    /// Gives a worker something to do.
    pub(super) fn push(&self, job: Job) {
        lock(&self.jobs).queue.push_back(job);
        self.has_job.notify_one();
    }

    /// The next job, waited for; `None` at the end.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.is_closed {
                return None;
            }
            if let Some(job) = jobs.queue.pop_front() {
                return Some(job);
            }
            jobs = self.has_job.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job is done, and its reply sent.
    pub(super) fn finish(&self, job: Job) {
        // A request without data has nothing that the engine waits for: its buffer goes back with the next wake-up.
        let wakes = job.ticket.is_some();
        let mut done = lock(&self.done);
        done.push(job);
        drop(done);
        if wakes {
            self.stop.wake();
        }
    }

    /// Moves what is done to `out`, which is empty.
    pub(super) fn take_done(&self, out: &mut Vec<Job>) {
        std::mem::swap(&mut *lock(&self.done), out);
    }

    /// Ends the workers.
    pub(super) fn close(&self) {
        lock(&self.jobs).is_closed = true;
        self.has_job.notify_all();
    }
}

/// Each change under these locks is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
