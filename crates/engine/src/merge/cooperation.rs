//! Cooperation: may two queues that read or write close to each other merge?
//!
//! Only shortly after both began. Later, queues close to each other are mostly unrelated, and a light queue that
//! merges with a heavy one by mistake takes a share that is not its own. See spec/bfq 7.3 and 7.4.

use super::settings::{MergeWindow, Rules, Settings};
use super::{Position, PriorityClass, QueueId, Refusal, Traits};
use crate::types::Instant;

/// First service of a queue since it last (re)started: the clock of the merge window.
///
/// A queue (re)starts when it becomes busy; emptying while the device idles for it is no restart. The clock runs from
/// its first *dispatch* after that, so that waiting for the device does not use up the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// [`Start::NOT_YET`] before: a flow has one cache line.
    first_served: Instant,
}

impl Start {
    /// A queue that was not served yet.
    pub const NEW: Start = Start { first_served: Start::NOT_YET };

    const NOT_YET: Instant = Instant::from_nanos(u64::MAX);

    /// The queue becomes busy: its window opens again.
    pub fn restart(&mut self) {
        *self = Start::NEW;
    }

    /// The queue is charged for service, injected service and time charges included. Only the first charge counts.
    pub fn serve(&mut self, now: Instant) {
        if self.first_served == Start::NOT_YET {
            self.first_served = now;
        }
    }

    /// Whether `window` is over at `now`; at its very end it is not. Never for a queue that was not served yet.
    ///
    /// A late queue need not be in [`super::PositionTree`]: no queue may merge with it.
    pub fn is_late(&self, now: Instant, window: MergeWindow) -> bool {
        match (window, self.first_served) {
            (MergeWindow::Closed, _) => true,
            (MergeWindow::Unlimited, _) | (_, Start::NOT_YET) => false,
            (MergeWindow::For(window), first) => now > first + window,
        }
    }
}

/// Facts about a queue that cooperation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFacts {
    /// Id of the queue; of a merged set, its representative.
    pub queue: QueueId,
    /// Its traits.
    pub traits: Traits,
    /// Whether its requests are far apart: there is no stream to join.
    pub seeky: bool,
    /// Whether it has requests or is in service.
    pub busy: bool,
    /// Its first service.
    pub start: Start,
}

/// The queue in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedQueue {
    /// The queue.
    pub facts: QueueFacts,
    /// End of its last dispatched request. `None` until its first dispatch in this slot.
    pub last_end: Option<Position>,
}

/// Facts about the device that cooperation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Flash that queues commands: order hardly matters to it, and queues merge at creation or not at all.
    pub queueing_flash: bool,
    /// Queues that are busy.
    pub busy_queues: u32,
    /// The queue in service.
    pub in_service: Option<ServedQueue>,
}

/// The queue that `asker`, about to read or write at `at`, should merge with: the one in service, else the one from
/// `nearest`, a queue of its cgroup whose next request is within [`Settings::close_bytes`] (see
/// [`super::PositionTree`]).
///
/// Calls `nearest` once at most, and only where its answer matters. The cost is that of `nearest`.
///
/// # Errors
///
/// The reason for no merge. Of two candidates that are refused, the first one's.
pub fn find(
    settings: &Settings,
    now: Instant,
    asker: &QueueFacts,
    at: Position,
    device: &Device,
    nearest: impl FnOnce() -> Option<QueueFacts>,
) -> Result<QueueId, Refusal> {
    admit(settings, now, asker, device)?;
    let mut refusal = Refusal::NoneClose;
    if let Some(ServedQueue { facts, last_end: Some(end) }) = &device.in_service
        && facts.queue != asker.queue
        && at.distance(*end) <= settings.close_bytes
    {
        match compatible(settings, now, asker, facts) {
            Ok(()) => return Ok(facts.queue),
            Err(reason) => refusal = reason,
        }
    }
    match nearest().filter(|facts| facts.queue != asker.queue) {
        None => Err(refusal),
        Some(facts) => match compatible(settings, now, asker, &facts) {
            Ok(()) => Ok(facts.queue),
            Err(_) if refusal != Refusal::NoneClose => Err(refusal),
            Err(reason) => Err(reason),
        },
    }
}

/// Checks that need no candidate.
fn admit(
    settings: &Settings,
    now: Instant,
    asker: &QueueFacts,
    device: &Device,
) -> Result<(), Refusal> {
    if settings.merge_window == MergeWindow::Closed {
        return Err(Refusal::Closed);
    }
    if device.queueing_flash {
        return Err(Refusal::QueueingFlash);
    }
    if !asker.traits.sync {
        return Err(Refusal::Asynchronous);
    }
    if asker.traits.class == PriorityClass::Idle {
        return Err(Refusal::IdleClass);
    }
    if asker.start.is_late(now, settings.merge_window) {
        return Err(Refusal::TooLate);
    }
    if asker.seeky {
        return Err(Refusal::Seeky);
    }
    let alone = match settings.rules {
        // The kernel counts all busy queues, so the second of two cooperating readers cannot join with its first
        // request.
        Rules::Kernel => device.busy_queues == 1,
        Rules::Weir => device.busy_queues == u32::from(asker.busy),
    };
    if alone { Err(Refusal::Alone) } else { Ok(()) }
}

/// Whether `asker`, which was admitted, and the close queue `other` may merge.
fn compatible(
    settings: &Settings,
    now: Instant,
    asker: &QueueFacts,
    other: &QueueFacts,
) -> Result<(), Refusal> {
    if other.traits.group != asker.traits.group {
        return Err(Refusal::OtherGroup);
    }
    if other.start.is_late(now, settings.merge_window) {
        return Err(Refusal::TargetTooLate);
    }
    if other.traits.class == PriorityClass::Idle {
        return Err(Refusal::IdleClass);
    }
    if other.traits.class != asker.traits.class {
        return Err(Refusal::OtherClass);
    }
    if other.seeky {
        return Err(Refusal::Seeky);
    }
    if !other.traits.sync {
        return Err(Refusal::TargetAsynchronous);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MB: u64 = 1_000_000;

    fn facts(index: u32) -> QueueFacts {
        QueueFacts {
            queue: QueueId { index, generation: 0 },
            traits: Traits { sync: true, level: 4, ..Traits::default() },
            seeky: false,
            busy: true,
            start: Start::NEW,
        }
    }

    fn device(in_service: QueueFacts, end: Option<u64>) -> Device {
        let in_service = Some(ServedQueue { facts: in_service, last_end: end.map(Position) });
        Device { queueing_flash: false, busy_queues: 2, in_service }
    }

    fn ask(
        asker: &QueueFacts,
        device: &Device,
        nearest: Option<QueueFacts>,
    ) -> Result<u32, Refusal> {
        let now = Instant::from_millis(1000);
        find(&Settings::WEIR, now, asker, Position(10 * MB), device, || nearest)
            .map(|queue| queue.index)
    }

    #[test]
    fn the_window_runs_from_the_first_dispatch_and_includes_its_end() {
        let window = MergeWindow::For(Duration::from_millis(100));
        let mut start = Start::NEW;
        assert!(!start.is_late(Instant::FAR_FUTURE, window), "never served");
        start.serve(Instant::from_millis(8));
        start.serve(Instant::from_millis(70));
        let end = Instant::from_millis(108);
        assert!(!start.is_late(end, window));
        assert!(start.is_late(end.plus_nanos(1), window));
        assert!(!start.is_late(Instant::FAR_FUTURE, MergeWindow::Unlimited));
        start.restart();
        assert!(!start.is_late(Instant::FAR_FUTURE, window));
        assert!(start.is_late(Instant::ZERO, MergeWindow::Closed));
    }

    #[test]
    fn each_refusal_has_its_case() {
        let me = facts(0);
        let close = Some(10 * MB);
        let with = |change: fn(&mut QueueFacts)| {
            let mut other = facts(1);
            change(&mut other);
            other
        };
        let late = with(|other| other.start.serve(Instant::from_millis(899)));
        assert_eq!(ask(&me, &device(facts(1), close), None), Ok(1));
        for (other, reason) in [
            (late, Refusal::TargetTooLate),
            (with(|other| other.traits.group = 7), Refusal::OtherGroup),
            (with(|other| other.traits.class = PriorityClass::RealTime), Refusal::OtherClass),
            (with(|other| other.traits.class = PriorityClass::Idle), Refusal::IdleClass),
            (with(|other| other.seeky = true), Refusal::Seeky),
            (with(|other| other.traits.sync = false), Refusal::TargetAsynchronous),
        ] {
            assert_eq!(ask(&me, &device(other, close), None), Err(reason));
            assert_eq!(ask(&me, &device(other, None), Some(other)), Err(reason));
            assert_eq!(ask(&me, &device(other, close), Some(facts(2))), Ok(2), "second chance");
        }
        let late = QueueFacts { queue: me.queue, ..late };
        let idle = Traits { class: PriorityClass::Idle, ..me.traits };
        for (asker, reason) in [
            (late, Refusal::TooLate),
            (QueueFacts { traits: idle, ..me }, Refusal::IdleClass),
            (QueueFacts { seeky: true, ..me }, Refusal::Seeky),
            (
                QueueFacts { traits: Traits { sync: false, ..me.traits }, ..me },
                Refusal::Asynchronous,
            ),
        ] {
            assert_eq!(ask(&asker, &device(facts(1), close), None), Err(reason));
        }
    }

    #[test]
    fn close_is_four_mebibytes_inclusive_and_an_unknown_place_is_far() {
        let me = facts(0);
        let edge = 8192 * 512;
        assert_eq!(ask(&me, &device(facts(1), Some(10 * MB + edge)), None), Ok(1));
        let beyond = device(facts(1), Some(10 * MB + edge + 1));
        assert_eq!(ask(&me, &beyond, None), Err(Refusal::NoneClose));
        let fresh = device(facts(1), None);
        let near_zero = find(&Settings::WEIR, Instant::ZERO, &me, Position(512), &fresh, || None);
        assert_eq!(near_zero, Err(Refusal::NoneClose), "spec/bfq D-11");
    }

    #[test]
    fn keys_and_indices_agree() {
        let mut keys: std::vec::Vec<_> = Refusal::ALL.iter().map(|reason| reason.key()).collect();
        for (index, reason) in Refusal::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Refusal::ALL.len());
    }
}
