//! Thread that replies when the disk model completes requests.

use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use weir_disk::DiskModel;

use crate::clock::now_ns;
use crate::pending_replies::{PendingReplies, Work};

/// A disk in real time. Dropping it drops the owners of requests in flight.
pub(crate) struct Timing<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Wakes the thread: an earlier deadline, or the end.
    wake: Condvar,
}

struct State<T> {
    pending: PendingReplies<T>,
    /// Deadline of the sleeping thread: 0 while it is awake, `FOR_EVER` while nothing is in flight.
    asleep_until_ns: u64,
    is_closed: bool,
}

const FOR_EVER: u64 = u64::MAX;

/// Timer slack of the kernel. The default, 50 us, is as long as a whole request of a fast disk.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();

impl<T: Send + 'static> Timing<T> {
    /// Starts the thread, which calls `answer` with each owner when its work is done, in that order.
    pub(crate) fn start(
        model: Box<dyn DiskModel>,
        answer: impl FnMut(T) + Send + 'static,
    ) -> io::Result<Timing<T>> {
        let state =
            State { pending: PendingReplies::new(model), asleep_until_ns: 0, is_closed: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() });
        let seen = shared.clone();
        let thread =
            thread::Builder::new().name("disk".into()).spawn(move || run(&seen, answer))?;
        Ok(Timing { shared, thread: Some(thread) })
    }

    /// Submits `work` now.
    pub(crate) fn submit(&self, work: Work, owner: T) {
        let mut state = self.shared.lock();
        // Read under the lock, so that requests reach the disk in the order of their times.
        state.pending.submit(now_ns(), work, owner);
        let is_early = state.pending.next_event().is_some_and(|at| at < state.asleep_until_ns);
        drop(state);
        if is_early {
            self.shared.wake.notify_one();
        }
    }
}

impl<T> Drop for Timing<T> {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.wake.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the disk's thread panicked");
        }
    }
}

impl<T> Shared<T> {
    /// A panicked thread has left the state valid: replies are sent outside the lock.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run<T>(shared: &Shared<T>, mut answer: impl FnMut(T)) {
    if let Err(error) = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS)) {
        tracing::warn!("the disk's times are up to 50 us late: no finer timer slack: {error}");
    }
    let mut late = Lateness::default();
    let mut done = Vec::new();
    let mut state = shared.lock();
    while !state.is_closed {
        let now_ns = now_ns();
        late.look(state.asleep_until_ns, now_ns);
        state.asleep_until_ns = 0;
        while let Some(owner) = state.pending.poll(now_ns) {
            done.push(owner);
        }
        if !done.is_empty() {
            drop(state);
            done.drain(..).for_each(&mut answer);
            state = shared.lock();
            continue;
        }
        let until_ns = state.pending.next_event().unwrap_or(FOR_EVER);
        state.asleep_until_ns = until_ns;
        // The standard library makes an absolute time of this, and waits on a futex.
        let time = Duration::from_nanos(until_ns.saturating_sub(now_ns));
        state = match until_ns {
            FOR_EVER => shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            _ => {
                let waited = shared.wake.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
    tracing::debug!("{late}");
}

/// Lateness of wake-ups.
#[derive(Default)]
struct Lateness {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Lateness {
    /// Notes a wake-up at `now_ns` from a sleep until `until_ns`; an earlier one was for another reason.
    fn look(&mut self, until_ns: u64, now_ns: u64) {
        if until_ns == 0 || now_ns < until_ns {
            return;
        }
        let late_ns = now_ns - until_ns;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
    }
}

impl std::fmt::Display for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mean_ns = self.sum_ns / self.count.max(1);
        let (count, max_ns) = (self.count, self.max_ns);
        write!(f, "the disk's thread woke {count} times, late by {mean_ns} ns, at most {max_ns} ns")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weir_disk::{DiskOp, Spec};

    use super::*;

    fn model(line: &str) -> Box<dyn DiskModel> {
        line.parse::<Spec>().unwrap().build()
    }

    #[test]
    fn each_owner_comes_back_once_and_never_early() {
        let (sender, done) = mpsc::channel();
        let timing = Timing::start(model("null,rate=512M,latency=100us,size=1G"), move |owner| {
            sender.send((now_ns(), owner)).unwrap();
        });
        let timing = timing.unwrap();
        let mut begun = Vec::new();
        for owner in 0..100 {
            begun.push(now_ns());
            timing.submit(Work::new(DiskOp::Read, 0, 4096), owner);
        }
        for (wanted, begun_ns) in begun.into_iter().enumerate() {
            let (at, owner) = done.recv().unwrap();
            assert_eq!(owner, wanted);
            assert!(at >= begun_ns + 100_000);
        }
        drop(timing);
        assert!(done.recv().is_err());
    }

    #[test]
    fn what_is_due_earlier_does_not_wait_for_what_is_due_later() {
        let (sender, done) = mpsc::channel();
        let model = model("hdd7200,overhead=1ms");
        let timing = Timing::start(model, move |owner| sender.send(owner).unwrap()).unwrap();
        // A write is done when it is in the cache, before the read, whose heads have to move.
        timing.submit(Work::new(DiskOp::Read, 500 << 30, 1 << 20), "read");
        timing.submit(Work::new(DiskOp::Write, 0, 4096), "write");
        assert_eq!(done.recv(), Ok("write"));
        assert_eq!(done.recv(), Ok("read"));
    }

    #[test]
    fn submitted_work_is_dropped_at_the_end() {
        let timing = Timing::start(model("null,latency=60s,size=1G"), |_: Arc<()>| {}).unwrap();
        let owner = Arc::new(());
        timing.submit(Work::new(DiskOp::Read, 0, 512), owner.clone());
        drop(timing);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
