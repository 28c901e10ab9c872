//! Stable merging of queues created shortly after each other: flows of one task, which gain nothing from being kept
//! apart.
//!
//! The first queue of its time is the *anchor* of its cgroup. Later ones merge with it, at once on queueing flash.
//! Elsewhere they merge later, if serving them alone has proved no faster by then. See spec/bfq 7.5.

use alloc::vec::Vec;

use super::settings::{Rules, Settings, StableTimes};
use super::{QueueId, Traits};
use crate::types::Instant;

/// Creation times of queues, anchors of cgroups, and candidates of delayed merges.
///
/// Tables up to the largest index of a queue and of a cgroup created with stable merging on. Each call is O(1).
#[derive(Clone, Debug, Default)]
pub struct Stable {
    queues: Vec<Option<Record>>,
    anchors: Vec<Option<QueueId>>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    generation: u32,
    created: Instant,
    /// Its last split.
    split: Option<Instant>,
    traits: Traits,
    candidate: Option<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    queue: QueueId,
    tries: u32,
}

// Each queue has one, and what is kept for an idle flow is to fit in 300 bytes.
const _: () = assert!(size_of::<Record>() <= 64);

/// Relation of a new queue to earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Creation {
    /// The first of its time: later ones are measured against it.
    Anchor,
    /// It should merge with this queue now, before its first request.
    MergeNow(QueueId),
    /// It may merge with this queue later, see [`Stable::judge`].
    Later(QueueId),
    /// It came after the creation window, while the anchor lives: the dead zone of the kernel's times (spec/bfq D-1).
    DeadZone,
    /// Stable merging is off, or not for this kind of queue.
    Never,
}

/// Evidence about a queue for its delayed merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// Whether it had no insertion yet.
    pub just_created: bool,
    /// Insertions since its creation or last split.
    pub insertions: u32,
    /// Whether idling for this queue raises throughput (spec/bfq 5.2).
    pub boosts_throughput: bool,
}

/// Result of a check of a delayed merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// There is no candidate.
    NoCandidate,
    /// It is too early.
    NotYet,
    /// Too little evidence to cancel: asked again at the next request (spec/bfq D-2).
    Postponed,
    /// Merge with this queue.
    Merge(QueueId),
    /// Cancelled for good.
    Cancelled,
}

impl Stable {
    /// No queue yet.
    pub const fn new() -> Stable {
        Stable { queues: Vec::new(), anchors: Vec::new() }
    }

    /// Notes a new queue.
    pub fn created(
        &mut self,
        settings: &Settings,
        now: Instant,
        queue: QueueId,
        traits: Traits,
        queueing_flash: bool,
    ) -> Creation {
        let (index, group) = (queue.index as usize, traits.group as usize);
        // A queue created without stable merging is never measured against another, nor another against it.
        let Some(times) = settings.stable else { return Creation::Never };
        if self.queues.len() <= index {
            self.queues.resize(index + 1, None);
        }
        let generation = queue.generation;
        self.queues[index] =
            Some(Record { generation, created: now, split: None, traits, candidate: None });
        if !traits.sync {
            return Creation::Never;
        }
        if self.anchors.len() <= group {
            self.anchors.resize(group + 1, None);
        }
        let Some(anchor) = self.fitting_anchor(&times, now, traits) else {
            self.anchors[group] = Some(queue);
            return Creation::Anchor;
        };
        let since = self.record(anchor).map_or(Instant::ZERO, |record| record.created);
        if now > since + times.create_window() {
            Creation::DeadZone
        } else if queueing_flash {
            Creation::MergeNow(anchor)
        } else {
            if let Some(record) = self.record_mut(queue) {
                record.candidate = Some(Candidate { queue: anchor, tries: 0 });
            }
            Creation::Later(anchor)
        }
    }

    /// Anchor for a queue of these traits created now; `None` if it becomes one.
    fn fitting_anchor(&self, times: &StableTimes, now: Instant, new: Traits) -> Option<QueueId> {
        let anchor = self.anchor(new.group)?;
        let record = self.record(anchor)?;
        let alive = now <= record.created + times.anchor_life();
        (alive && record.traits == new).then_some(anchor)
    }

    /// Anchor of a cgroup.
    pub fn anchor(&self, group: u32) -> Option<QueueId> {
        self.anchors.get(group as usize).copied().flatten()
    }

    /// Candidate for a delayed merge of `queue`.
    pub fn candidate(&self, queue: QueueId) -> Option<QueueId> {
        Some(self.record(queue)?.candidate?.queue)
    }

    /// Traits that `queue` was opened with or changed to; `None` for a closed queue, or one opened without stable
    /// merging.
    pub fn traits(&self, queue: QueueId) -> Option<Traits> {
        Some(self.record(queue)?.traits)
    }

    /// Judges the delayed merge of `queue`. Forgets its candidate unless it is early or postponed.
    pub fn judge(
        &mut self,
        settings: &Settings,
        now: Instant,
        queue: QueueId,
        evidence: Evidence,
    ) -> Judgement {
        let Some(times) = settings.stable else { return Judgement::NoCandidate };
        let Some(record) = self.record_mut(queue) else { return Judgement::NoCandidate };
        let Some(candidate) = &mut record.candidate else { return Judgement::NoCandidate };
        let is_past = |since: Instant| now > since + times.late();
        if evidence.just_created || !is_past(record.created) || !record.split.is_none_or(is_past) {
            return Judgement::NotYet;
        }
        if !evidence.boosts_throughput {
            let partner = candidate.queue;
            record.candidate = None;
            return Judgement::Merge(partner);
        }
        candidate.tries += 1;
        // A queue counts as sequential until enough requests have shown otherwise. The kernel believes it.
        if settings.rules == Rules::Weir
            && evidence.insertions < settings.evidence_insertions
            && candidate.tries < settings.stable_tries_max
        {
            return Judgement::Postponed;
        }
        record.candidate = None;
        Judgement::Cancelled
    }

    /// `from` merged into the set of `to`: an anchor moves along, and a candidate is forgotten.
    pub fn merged(&mut self, from: QueueId, to: QueueId) {
        let anchor = self.anchor_slot(from);
        if let Some(anchor) = anchor.filter(|anchor| **anchor == Some(from)) {
            *anchor = Some(to);
        }
        if let Some(record) = self.record_mut(from)
            && record.candidate.is_some_and(|candidate| candidate.queue == to)
        {
            record.candidate = None;
        }
    }

    /// A process has left `queue`, which is no anchor any more.
    pub fn detached(&mut self, queue: QueueId) {
        let anchor = self.anchor_slot(queue);
        if let Some(anchor) = anchor.filter(|anchor| **anchor == Some(queue)) {
            *anchor = None;
        }
    }

    /// `queue` left a set: its evidence starts anew.
    pub fn split(&mut self, now: Instant, queue: QueueId) {
        if let Some(record) = self.record_mut(queue) {
            record.split = Some(now);
        }
    }

    /// Changes the cgroup, class or level of `queue`.
    pub fn changed(&mut self, queue: QueueId, traits: Traits) {
        let Some(record) = self.record(queue) else { return };
        if record.traits.group != traits.group {
            self.detached(queue);
        }
        if let Some(record) = self.record_mut(queue) {
            if record.traits.group != traits.group {
                record.candidate = None;
            }
            record.traits = traits;
        }
    }

    /// Closes `queue`. Its candidate goes with it, and is not left to another queue in its slot (spec/bfq D-4).
    pub fn closed(&mut self, queue: QueueId) {
        self.detached(queue);
        if self.record(queue).is_some() {
            self.queues[queue.index as usize] = None;
        }
    }

    /// The cgroup was removed: the next one with its index starts without an anchor.
    pub fn group_removed(&mut self, group: u32) {
        if let Some(anchor) = self.anchors.get_mut(group as usize) {
            *anchor = None;
        }
    }

    /// Anchor slot of the cgroup of `queue`.
    fn anchor_slot(&mut self, queue: QueueId) -> Option<&mut Option<QueueId>> {
        let group = self.record(queue)?.traits.group;
        self.anchors.get_mut(group as usize)
    }

    fn record(&self, queue: QueueId) -> Option<&Record> {
        let record = self.queues.get(queue.index as usize)?.as_ref();
        record.filter(|record| record.generation == queue.generation)
    }

    fn record_mut(&mut self, queue: QueueId) -> Option<&mut Record> {
        let record = self.queues.get_mut(queue.index as usize)?.as_mut();
        record.filter(|record| record.generation == queue.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PriorityClass;
    use super::*;
    use std::string::String;

    const TRAITS: Traits =
        Traits { group: 0, class: PriorityClass::BestEffort, level: 4, sync: true };

    fn queue(index: u32) -> QueueId {
        QueueId { index, generation: 0 }
    }

    /// One letter a creation: A becomes the anchor, m merges with it, - neither.
    fn creations(times: &str, millis: &[u64], queueing_flash: bool) -> String {
        let settings = Settings { stable: Some(times.parse().unwrap()), ..Settings::KERNEL };
        let mut stable = Stable::new();
        let mut anchor = 0;
        let letter = |(index, &at): (usize, &u64)| {
            let id = queue(index as u32);
            let now = Instant::from_millis(at);
            match stable.created(&settings, now, id, TRAITS, queueing_flash) {
                Creation::Anchor => {
                    anchor = index as u32;
                    'A'
                }
                Creation::MergeNow(with) if queueing_flash && with == queue(anchor) => 'm',
                Creation::Later(with) if !queueing_flash && with == queue(anchor) => 'm',
                Creation::DeadZone => '-',
                other => panic!("{at} ms: {other:?}"),
            }
        };
        millis.iter().enumerate().map(letter).collect()
    }

    #[test]
    fn creation_gaps_decide_stable_merges_as_in_table_c2() {
        for (millis, before, kernel, intent) in [
            (&[0, 200, 400, 600][..], "AAAA", "A---", "Ammm"),
            (&[0, 120, 200, 420, 560, 650, 700], "AmAAmAm", "Am---Am", "AmmmmAm"),
            (&[0, 150, 300, 450, 600], "AmAmA", "Am---", "Ammmm"),
            (&[0, 181, 600, 601], "AAAm", "A--A", "AmmA"),
        ] {
            for flash in [false, true] {
                assert_eq!(creations("kernel-before-2021", millis, flash), before, "{millis:?}");
                assert_eq!(creations("kernel", millis, flash), kernel, "{millis:?}");
                assert_eq!(creations("intent", millis, flash), intent, "{millis:?}");
            }
        }
    }

    #[test]
    fn another_kind_of_queue_is_an_anchor_and_a_group_has_its_own() {
        let mut stable = Stable::new();
        let mut next = 0;
        let mut create = |stable: &mut Stable, traits| {
            next += 1;
            stable.created(&Settings::WEIR, Instant::ZERO, queue(next - 1), traits, false)
        };
        assert_eq!(create(&mut stable, TRAITS), Creation::Anchor);
        assert_eq!(create(&mut stable, Traits { group: 3, ..TRAITS }), Creation::Anchor);
        assert_eq!(create(&mut stable, TRAITS), Creation::Later(queue(0)));
        assert_eq!(create(&mut stable, Traits { level: 5, ..TRAITS }), Creation::Anchor);
        let real_time = Traits { class: PriorityClass::RealTime, ..TRAITS };
        assert_eq!(create(&mut stable, real_time), Creation::Anchor);
        assert_eq!(create(&mut stable, Traits { sync: false, ..TRAITS }), Creation::Never);
        assert_eq!(create(&mut stable, Traits { group: 3, ..TRAITS }), Creation::Later(queue(1)));
        stable.group_removed(3);
        assert_eq!(create(&mut stable, Traits { group: 3, ..TRAITS }), Creation::Anchor);
    }

    #[test]
    fn a_slot_used_again_inherits_neither_candidate_nor_anchor() {
        let mut stable = Stable::new();
        stable.created(&Settings::WEIR, Instant::ZERO, queue(0), TRAITS, false);
        stable.created(&Settings::WEIR, Instant::ZERO, queue(1), TRAITS, false);
        assert_eq!(stable.candidate(queue(1)), Some(queue(0)));
        stable.closed(queue(1));
        stable.closed(queue(0));
        assert_eq!(stable.anchor(0), None);
        let again = QueueId { index: 1, generation: 1 };
        let creation = stable.created(&Settings::WEIR, Instant::ZERO, again, TRAITS, false);
        assert_eq!(creation, Creation::Anchor);
        assert_eq!((stable.candidate(queue(1)), stable.candidate(again)), (None, None));
    }

    #[test]
    fn thin_evidence_postpones_but_not_for_ever() {
        let late = Instant::from_millis(600).plus_nanos(1);
        let evidence = |insertions, boosts_throughput| Evidence {
            just_created: false,
            insertions,
            boosts_throughput,
        };
        let fresh = |settings: &Settings| {
            let mut stable = Stable::new();
            stable.created(settings, Instant::ZERO, queue(0), TRAITS, false);
            stable.created(settings, Instant::ZERO, queue(1), TRAITS, false);
            stable
        };
        let judge = |stable: &mut Stable, settings: &Settings, evidence| {
            stable.judge(settings, late, queue(1), evidence)
        };

        let mut stable = fresh(&Settings::KERNEL);
        let early = late.minus_nanos(1);
        let looked = stable.judge(&Settings::KERNEL, early, queue(1), evidence(7, true));
        assert_eq!(looked, Judgement::NotYet);
        let kernel = &Settings::KERNEL;
        assert_eq!(judge(&mut stable, kernel, evidence(7, true)), Judgement::Cancelled);
        assert_eq!(judge(&mut stable, kernel, evidence(21, false)), Judgement::NoCandidate);

        let weir = &Settings::WEIR;
        let mut stable = fresh(weir);
        for insertions in 7..20 {
            assert_eq!(judge(&mut stable, weir, evidence(insertions, true)), Judgement::Postponed);
        }
        assert_eq!(judge(&mut stable, weir, evidence(20, false)), Judgement::Merge(queue(0)));

        let mut stable = fresh(weir);
        assert_eq!(judge(&mut stable, weir, evidence(20, true)), Judgement::Cancelled);

        let mut stable = fresh(weir);
        for _ in 0..63 {
            assert_eq!(judge(&mut stable, weir, evidence(1, true)), Judgement::Postponed);
        }
        assert_eq!(judge(&mut stable, weir, evidence(1, true)), Judgement::Cancelled);
    }

    #[test]
    fn a_split_delays_the_judgement() {
        let mut stable = Stable::new();
        stable.created(&Settings::WEIR, Instant::ZERO, queue(0), TRAITS, false);
        stable.created(&Settings::WEIR, Instant::ZERO, queue(1), TRAITS, false);
        stable.split(Instant::from_millis(500), queue(1));
        let seeky = Evidence { just_created: false, insertions: 30, boosts_throughput: false };
        for (millis, judgement) in [(1100, Judgement::NotYet), (1101, Judgement::Merge(queue(0)))] {
            let now = Instant::from_millis(millis);
            assert_eq!(stable.judge(&Settings::WEIR, now, queue(1), seeky), judgement);
        }
    }
}
