//! Waker detection, and the injection limit.
//!
//! While the device idles for an empty queue in service, requests of another queue can be *injected*. The best
//! candidate is the *waker*, whose completions let the queue in service go on; after it any other, as far as the
//! latency of the queue in service allows. See spec/bfq 7.8 and 7.9. All times are nanoseconds; one comparison of the
//! kernel mixes them with ticks (spec/bfq D-6).

use super::QueueId;
use crate::types::Instant;

/// Parameters of waker detection and injection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InjectSettings {
    /// Longest time from a completion to a request that it caused: 4 ms.
    pub waker_gap_ns: u64,
    /// Time for [`InjectSettings::WAKER_TRIES`] requests to make a waker: 128 times `slice_idle`, 1024 ms.
    pub waker_span_ns: u64,
    /// Length of idling: 8 ms.
    pub slice_idle_ns: u64,
    /// Requests of wakers and woken queues injected while a queue is empty; unbounded in the kernel (spec/bfq D-29).
    pub injections_max: u32,
    /// Time since the last decrease after which the limit starts anew: 1 s.
    pub limit_life_ns: u64,
    /// Time from a decrease to the next sample: 10 ms.
    pub sample_pause_ns: u64,
}

impl InjectSettings {
    /// Requests in a row, each soon after a completion of the same queue, that make it a waker.
    pub const WAKER_TRIES: u8 = 3;
}

impl Default for InjectSettings {
    fn default() -> InjectSettings {
        InjectSettings {
            waker_gap_ns: 4_000_000,
            waker_span_ns: 128 * 8_000_000,
            slice_idle_ns: 8_000_000,
            injections_max: 16,
            limit_life_ns: 1_000_000_000,
            sample_pause_ns: 10_000_000,
        }
    }
}

/// Waker of a queue, and the tentative one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waker {
    known: Option<QueueId>,
    suspect: Option<Suspect>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Suspect {
    queue: QueueId,
    count: u8,
    since: Instant,
}

impl Waker {
    /// No waker.
    pub const NONE: Waker = Waker { known: None, suspect: None };

    /// The waker, if known.
    pub fn get(&self) -> Option<QueueId> {
        self.known
    }

    /// The only request of `queue`'s process arrived. `completed` is the queue of the last completion, never a shared
    /// one, and its instant.
    ///
    /// Returns a newly found waker; `queue` is woken by it. A queue that thinks briefly needs none, since idling for
    /// it is short.
    pub fn observe(
        &mut self,
        settings: &InjectSettings,
        now: Instant,
        queue: QueueId,
        thinks_briefly: bool,
        completed: Option<(QueueId, Instant)>,
    ) -> Option<QueueId> {
        let (cause, at) = completed?;
        if cause == queue || thinks_briefly || now.nanos_since(at) >= settings.waker_gap_ns {
            return None;
        }
        let suspect = self.suspect.filter(|suspect| {
            suspect.queue == cause && now <= suspect.since.plus_nanos(settings.waker_span_ns)
        });
        let mut suspect = suspect.unwrap_or(Suspect { queue: cause, count: 0, since: now });
        suspect.count += 1;
        if suspect.count < InjectSettings::WAKER_TRIES {
            self.suspect = Some(suspect);
            return None;
        }
        self.suspect = None;
        self.known = Some(cause);
        Some(cause)
    }

    /// `from`'s queue merges into `target`, whose waker is `self`: it takes over the waker, unless that is itself.
    pub fn inherit(&mut self, target: QueueId, from: &Waker) {
        if self.known.is_none() {
            self.known = from.known.filter(|waker| *waker != target);
        }
    }

    /// `gone` was closed: it is no waker any more.
    pub fn forget(&mut self, gone: QueueId) {
        self.known = self.known.filter(|waker| *waker != gone);
        self.suspect = self.suspect.filter(|suspect| suspect.queue != gone);
    }
}

/// Limit of requests in the device with injection, found by trying.
///
/// The baseline is the latency of a request without injection. While injection adds less than half of it the limit
/// rises by one, otherwise it falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InjectLimit {
    /// Number of requests in the device from which on nothing is injected; 0 for no injection.
    pub limit: u32,
    /// Nanoseconds from arrival to completion without injection. `None` until known.
    pub baseline_ns: Option<u64>,
    /// When the limit was last lowered or reset.
    pub lowered: Instant,
}

/// Measurement for an [`InjectLimit`], of the queue in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    started: Option<Instant>,
    /// Whether a request was injected since its start. Set by the caller.
    pub injected: bool,
}

impl Sample {
    /// Whether the next dispatch of the queue is to be measured.
    pub fn is_waiting(&self) -> bool {
        self.started.is_some()
    }

    /// Ends the measurement at an expiration.
    pub fn reset(&mut self) {
        *self = Sample::default();
    }
}

impl InjectLimit {
    /// For a queue created or reset at `now`: one request if it thinks long, none otherwise.
    pub const fn new(now: Instant, thinks_briefly: bool) -> InjectLimit {
        InjectLimit { limit: !thinks_briefly as u32, baseline_ns: None, lowered: now }
    }

    /// The only request of its process arrived for the queue in service; `in_device` are there already.
    pub fn arrived(
        &mut self,
        settings: &InjectSettings,
        now: Instant,
        thinks_briefly: bool,
        in_device: u32,
        sample: &mut Sample,
    ) {
        if now.nanos_since(self.lowered) >= settings.limit_life_ns {
            *self = InjectLimit::new(now, thinks_briefly);
            sample.started = None;
        }
        let compares = self.baseline_ns.is_some() && sample.injected;
        let rested = now.nanos_since(self.lowered) >= settings.sample_pause_ns;
        if rested && (in_device == 0 || compares) {
            sample.started = Some(now);
            if in_device == 0 {
                sample.injected = false;
            }
        }
    }

    /// The measured request completed; `in_device` still counts it, `in_device_max` is the recent maximum.
    pub fn completed(
        &mut self,
        now: Instant,
        in_device: u32,
        in_device_max: u32,
        sample: &mut Sample,
    ) {
        let Some(started) = sample.started.take() else { return };
        let took = now.nanos_since(started);
        let injected = sample.injected;
        if let Some(baseline) = self.baseline_ns
            && injected
        {
            // took >= 1.5 x baseline, without a fraction and without overflow.
            let is_slow = took.saturating_sub(baseline) >= baseline.div_ceil(2);
            if is_slow && self.limit > 0 {
                self.limit -= 1;
                self.lowered = now;
            } else if !is_slow && self.limit <= in_device_max {
                self.limit += 1;
            }
        }
        let alone = in_device == 1;
        match self.baseline_ns {
            None if alone => {
                self.limit = self.limit.max(1);
                self.baseline_ns = Some(took);
            }
            Some(baseline) if took < baseline || (!injected && alone) => {
                self.baseline_ns = Some(took);
            }
            _ => {}
        }
        sample.injected = false;
    }

    /// Whether one more request may be injected while `in_device` are there.
    ///
    /// A queue without a baseline gets one once the device has idled longer than usual, or there would never be a
    /// comparison.
    pub fn admits(
        &self,
        settings: &InjectSettings,
        now: Instant,
        idling_since: Option<Instant>,
        in_device: u32,
    ) -> bool {
        let long = |since: Instant| now.nanos_since(since) > settings.slice_idle_ns;
        let unknown = self.limit == 0 && self.baseline_ns.is_none();
        let limit = if unknown && idling_since.is_some_and(long) { 1 } else { self.limit };
        in_device < limit
    }
}

/// Candidates for injection. Each has a request that fits the budget left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InjectionCandidates {
    /// The asynchronous queue of the same process.
    pub own_async: Option<QueueId>,
    /// The waker, if it has requests.
    pub waker: Option<QueueId>,
    /// The first woken queue with requests.
    pub woken: Option<QueueId>,
    /// Requests injected while the queue in service is empty.
    pub injected: u32,
    /// Whether idling for the queue raises throughput; then no unrelated request is injected.
    pub boosts_throughput: bool,
    /// Whether the queue is raised, others are not, and it thinks briefly: its latency matters more than the device.
    pub is_precious: bool,
}

/// Source of an injected request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectionSource {
    /// This queue.
    Queue(QueueId),
    /// Any active queue, newest first, as far as [`InjectLimit::admits`].
    Any,
    /// None.
    None,
}

impl InjectionCandidates {
    /// The source to inject from: the process's own, its waker, a queue it wakes, any, or none.
    ///
    /// The first three need no limit of latency, since the process waits for them or made them, but
    /// [`InjectSettings::injections_max`] bounds their number (spec/bfq D-29).
    pub fn choose(&self, settings: &InjectSettings) -> InjectionSource {
        let related = self.own_async.or(self.waker).or(self.woken);
        match related {
            Some(queue) if self.injected < settings.injections_max => InjectionSource::Queue(queue),
            Some(_) => InjectionSource::None,
            None if !self.boosts_throughput && !self.is_precious => InjectionSource::Any,
            None => InjectionSource::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn settings() -> InjectSettings {
        InjectSettings::default()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn queue(index: u32) -> QueueId {
        QueueId { index, generation: 0 }
    }

    #[test]
    fn three_in_a_row_make_a_waker() {
        let me = queue(0);
        // Each line: when the request came, after which completion, and the waker then.
        for (story, arrivals, waker) in [
            ("three", &[(10, 1, 9), (20, 1, 19), (30, 1, 29)][..], Some(1)),
            ("two", &[(10, 1, 9), (20, 1, 19)], None),
            ("4 ms later", &[(10, 1, 9), (20, 1, 19), (30, 1, 26)], None),
            ("another between", &[(10, 1, 9), (20, 2, 19), (30, 1, 29), (40, 1, 39)], None),
            ("itself", &[(10, 0, 9), (20, 0, 19), (30, 0, 29)], None),
            ("in 1024 ms", &[(10, 1, 9), (20, 1, 19), (1034, 1, 1033)], Some(1)),
            ("in 1025 ms", &[(10, 1, 9), (20, 1, 19), (1035, 1, 1034)], None),
        ] {
            let mut state = Waker::NONE;
            for &(now, cause, completed) in arrivals {
                let completed = Some((queue(cause), at(completed)));
                state.observe(&settings(), at(now), me, false, completed);
            }
            assert_eq!(state.get(), waker.map(queue), "{story}");
            state.forget(queue(1));
            assert_eq!(state.get(), None);
        }
        let mut brief = Waker::NONE;
        for now in [10, 20, 30] {
            let completed = Some((queue(1), at(now)));
            assert_eq!(brief.observe(&settings(), at(now), me, true, completed), None);
        }
    }

    #[test]
    fn a_waker_is_inherited_but_not_by_itself() {
        let found = Waker { known: Some(queue(1)), suspect: None };
        for (target, own, after) in [(2, None, Some(1)), (1, None, None), (2, Some(5), Some(5))] {
            let mut state = Waker { known: own.map(queue), suspect: None };
            state.inherit(queue(target), &found);
            assert_eq!(state.get(), after.map(queue));
        }
    }

    #[test]
    fn ex_19_the_limit_follows_the_latency() {
        let mut limit = InjectLimit { limit: 1, baseline_ns: Some(4 * MS), lowered: at(0) };
        let mut now = 100;
        for (took, expected, baseline) in [(5, 2, 4), (6, 1, 4), (3, 2, 3)] {
            let mut sample = Sample { started: None, injected: true };
            limit.arrived(&settings(), at(now), true, 2, &mut sample);
            assert!(sample.is_waiting());
            limit.completed(at(now + took), 3, 8, &mut sample);
            assert_eq!((limit.limit, limit.baseline_ns), (expected, Some(baseline * MS)));
            now += 100;
        }
        assert_eq!(limit.lowered, at(206));
        for _ in 0..20 {
            let mut sample = Sample { started: Some(at(now)), injected: true };
            limit.completed(at(now + 3), 3, 8, &mut sample);
        }
        assert_eq!(limit.limit, 9, "one more than were in the device");
    }

    #[test]
    fn a_baseline_is_measured_alone() {
        let mut limit = InjectLimit::new(at(0), true);
        assert_eq!(limit.limit, 0);
        let mut sample = Sample::default();
        limit.arrived(&settings(), at(9), true, 0, &mut sample);
        assert!(!sample.is_waiting(), "10 ms have not passed");
        limit.arrived(&settings(), at(10), true, 1, &mut sample);
        assert!(!sample.is_waiting(), "somebody is in the device");
        limit.arrived(&settings(), at(10), true, 0, &mut sample);
        limit.completed(at(17), 1, 8, &mut sample);
        assert_eq!(limit, InjectLimit { limit: 1, baseline_ns: Some(7 * MS), lowered: at(0) });
        limit.arrived(&settings(), at(1000), false, 0, &mut sample);
        assert_eq!(limit, InjectLimit::new(at(1000), false), "after a second it starts anew");
    }

    #[test]
    fn long_idling_without_baseline_allows_one_injection() {
        let fresh = InjectLimit::new(at(0), true);
        let known = InjectLimit { baseline_ns: Some(MS), ..fresh };
        for (limit, idled_ns, in_device, admitted) in [
            (fresh, 8 * MS, 0, false),
            (fresh, 8 * MS + 1, 0, true),
            (fresh, 8 * MS + 1, 1, false),
            (known, 20 * MS, 0, false),
        ] {
            let now = at(100).plus_nanos(idled_ns);
            assert_eq!(
                limit.admits(&settings(), now, Some(at(100)), in_device),
                admitted,
                "spec/bfq D-6"
            );
            assert!(!limit.admits(&settings(), now, None, 0));
        }
    }

    #[test]
    fn related_queues_are_injected_first_and_not_without_end() {
        let candidates = InjectionCandidates {
            own_async: Some(queue(1)),
            waker: Some(queue(2)),
            woken: Some(queue(3)),
            injected: 0,
            boosts_throughput: true,
            is_precious: true,
        };
        let no_async = InjectionCandidates { own_async: None, ..candidates };
        let no_waker = InjectionCandidates { waker: None, ..no_async };
        let strangers = InjectionCandidates { woken: None, ..no_waker };
        for (candidates, choose) in [
            (candidates, InjectionSource::Queue(queue(1))),
            (no_async, InjectionSource::Queue(queue(2))),
            (no_waker, InjectionSource::Queue(queue(3))),
            (InjectionCandidates { injected: 15, ..candidates }, InjectionSource::Queue(queue(1))),
            (InjectionCandidates { injected: 16, ..candidates }, InjectionSource::None),
            (strangers, InjectionSource::None),
            (InjectionCandidates { boosts_throughput: false, ..strangers }, InjectionSource::None),
            (InjectionCandidates { is_precious: false, ..strangers }, InjectionSource::None),
            (
                InjectionCandidates { boosts_throughput: false, is_precious: false, ..strangers },
                InjectionSource::Any,
            ),
        ] {
            assert_eq!(candidates.choose(&settings()), choose, "spec/bfq D-29");
        }
    }
}
