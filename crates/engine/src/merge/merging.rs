//! Merging on one device: cooperation, stable merging and sets, as a scheduler calls them.

use super::QueueId;
use super::Refusal;
use super::cooperation::{self, Device, QueueFacts};
use super::counters::Counters;
use super::sets::{Departure, Sets};
use super::settings::{Rules, Settings};
use super::stable::{Creation, Evidence, Judgement, Stable};
use super::{Position, Traits};
use crate::types::Instant;

/// All merging of one device.
///
/// A queue belongs to one process, whose requests go to [`Merging::representative`]. The scheduler calls
/// [`Merging::open`] and [`Merging::close`] as queues come and go, [`Merging::check`] when a request arrives, and
/// [`Merging::part`] when a shared queue that expires is seeky. `S` is the state that a queue gets back at a split, for
/// example a [`super::split::Raising`].
#[derive(Clone, Debug)]
pub struct Merging<S> {
    settings: Settings,
    sets: Sets<S>,
    stable: Stable,
    counters: Counters,
}

/// Request of a process, before it is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The process's own queue.
    pub queue: QueueId,
    /// Its effective queue: [`Merging::representative`] of its own.
    pub facts: QueueFacts,
    /// Position of the request.
    pub at: Position,
    /// Evidence about the effective queue.
    pub evidence: Evidence,
}

/// Reason for a merge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Their requests are close to each other.
    Cooperation,
    /// They were created shortly after each other, just now.
    StableAtCreation,
    /// They were created shortly after each other, some time ago.
    StableLate,
}

/// Decided merge, for [`Merging::merge`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a merge is counted when it is decided, and happens in Merging::merge"]
pub struct Merge {
    /// Queue of the process that asked.
    pub asker: QueueId,
    /// The queue that merges, with its whole set.
    pub from: QueueId,
    /// The queue that it merges into, representative of its set.
    pub to: QueueId,
    /// Reason.
    pub kind: Kind,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The request goes to the effective queue.
    Stay(Option<Refusal>),
    /// The process's set has merged since it last asked; the request goes to this queue. Only with [`Rules::Kernel`].
    Follow(QueueId),
    /// The merge comes first.
    Merge(Merge),
}

/// Result of opening a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Its relation to earlier queues.
    pub creation: Creation,
    /// Merge to carry out before the queue is used.
    pub merge: Option<Merge>,
}

impl<S> Merging<S> {
    /// A device without queues.
    pub const fn new(settings: Settings) -> Merging<S> {
        Merging {
            settings,
            sets: Sets::new(settings.rules),
            stable: Stable::new(),
            counters: Counters::new(),
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes every setting but [`Settings::rules`]. Counts from the next decision on; sets and candidates stay.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.settings = Settings { rules: self.settings.rules, ..settings };
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets of merged queues.
    pub const fn sets(&self) -> &Sets<S> {
        &self.sets
    }

    /// Anchors and candidates.
    pub const fn stable(&self) -> &Stable {
        &self.stable
    }

    /// The effective queue of `queue`'s process; `None` for a closed queue. O(1).
    pub fn representative(&self, queue: QueueId) -> Option<QueueId> {
        self.sets.representative(queue)
    }

    /// Whether the weight of `queue` may be raised: it is alone, or shared by flows of one task (spec/bfq 7.1).
    pub fn may_be_raised(&self, queue: QueueId) -> bool {
        self.sets.members(queue) == 1 || self.sets.is_stable(queue)
    }

    /// Opens a queue. With [`Device::queueing_flash`] it may have to merge before its first request.
    ///
    /// # Panics
    ///
    /// If a queue of that index is open.
    pub fn open(
        &mut self,
        now: Instant,
        queue: QueueId,
        traits: Traits,
        queueing_flash: bool,
    ) -> Opened {
        self.sets.open(queue);
        let creation = self.stable.created(&self.settings, now, queue, traits, queueing_flash);
        let merge = match creation {
            Creation::MergeNow(anchor) => self.sets.representative(anchor).map(|to| {
                self.counters.stable_at_creation += 1;
                Merge { asker: queue, from: queue, to, kind: Kind::StableAtCreation }
            }),
            Creation::DeadZone => {
                self.counters.stable_dead_zone += 1;
                None
            }
            Creation::Anchor | Creation::Later(_) | Creation::Never => None,
        };
        Opened { creation, merge }
    }

    /// Decides where a request goes, and whether queues merge before (spec/bfq 7.3).
    ///
    /// `nearest` finds the queue of the same cgroup with the nearest next position, see
    /// [`super::PositionTree::nearest`]; it is called once at most, and not for a queue that is too late. O(1) beside
    /// it; a merge that follows is O(members).
    pub fn check(
        &mut self,
        now: Instant,
        ask: &Ask,
        device: &Device,
        nearest: impl FnOnce() -> Option<QueueFacts>,
    ) -> Check {
        self.counters.checks += 1;
        if let Some((_, to)) = self.sets.follow(ask.queue) {
            self.counters.already_merged += 1;
            self.counters.redirections += 1;
            return Check::Follow(to);
        }
        if !device.queueing_flash
            && let Some(end) = self.check_stable(now, ask)
        {
            return end;
        }
        let found = cooperation::find(&self.settings, now, &ask.facts, ask.at, device, nearest);
        match found.and_then(|target| self.admit_target(ask, target)) {
            Ok(to) => {
                self.counters.cooperations += 1;
                let from = ask.facts.queue;
                Check::Merge(Merge { asker: ask.queue, from, to, kind: Kind::Cooperation })
            }
            Err(reason) => {
                self.counters.refuse(reason);
                Check::Stay(Some(reason))
            }
        }
    }

    /// Delayed stable merge; `None` if the check goes on to cooperation.
    fn check_stable(&mut self, now: Instant, ask: &Ask) -> Option<Check> {
        match self.stable.judge(&self.settings, now, ask.queue, ask.evidence) {
            Judgement::NoCandidate | Judgement::NotYet => None,
            Judgement::Postponed => {
                self.counters.stable_postponed += 1;
                None
            }
            Judgement::Merge(partner)
                if self.sets.is_open(partner)
                    && !self.sets.is_together(ask.queue, partner)
                    && self.stable.traits(partner).map(|traits| traits.group)
                        == Some(ask.facts.traits.group) =>
            {
                self.counters.stable_late += 1;
                let (asker, from) = (ask.queue, ask.facts.queue);
                Some(Check::Merge(Merge { asker, from, to: partner, kind: Kind::StableLate }))
            }
            Judgement::Merge(_) | Judgement::Cancelled => {
                self.counters.stable_cancelled += 1;
                Some(Check::Stay(None))
            }
        }
    }

    /// Representative of a target that cooperation found.
    fn admit_target(&self, ask: &Ask, target: QueueId) -> Result<QueueId, Refusal> {
        if self.sets.users(target) == 0 {
            return Err(Refusal::NoProcess);
        }
        if self.sets.is_together(ask.queue, target) {
            return Err(Refusal::SameSet);
        }
        self.sets.representative(target).ok_or(Refusal::NoProcess)
    }

    /// Carries out a merge. Returns the effective queue of the process that asked.
    ///
    /// `save` returns the state of each queue that was alone until now, before any change. Queued requests stay in
    /// their queue. O(members of the set that merges).
    ///
    /// # Panics
    ///
    /// If queues of the merge were closed, or merged otherwise, since it was decided.
    pub fn merge(&mut self, merge: Merge, save: impl FnMut(QueueId) -> S) -> QueueId {
        let moved = self.sets.members(merge.from);
        let joined = self.sets.join(merge.from, merge.to, save);
        let to = joined.unwrap_or_else(|error| panic!("{merge:?} is out of date: {error:?}"));
        self.counters.redirections += match self.settings.rules {
            Rules::Kernel => self.sets.follow(merge.asker).map_or(0, |_| 1),
            Rules::Weir => moved.into(),
        };
        self.stable.merged(merge.from, to);
        if merge.asker != merge.from {
            self.stable.merged(merge.asker, to);
        }
        if merge.kind != Kind::Cooperation {
            self.sets.mark_stable(merge.asker, merge.to);
        }
        to
    }

    /// Splits a shared queue that is seeky at its expiration: see [`Sets::part`]. `restore` gets each queue's saved
    /// state.
    pub fn part(
        &mut self,
        now: Instant,
        queue: QueueId,
        mut restore: impl FnMut(QueueId, S),
    ) -> Departure {
        let before = self.sets.representative(queue);
        let stable = &mut self.stable;
        let departure = self.sets.part(queue, |id, saved| {
            stable.split(now, id);
            restore(id, saved);
        });
        self.count_split(before, departure);
        departure
    }

    /// With the kernel's rules, a process that asks leaves a seeky set, see [`Sets::part_if_due`].
    pub fn part_if_due(
        &mut self,
        now: Instant,
        queue: QueueId,
        mut restore: impl FnMut(QueueId, S),
    ) -> Option<Departure> {
        let before = self.sets.representative(queue);
        let stable = &mut self.stable;
        let departure = self.sets.part_if_due(queue, |id, saved| {
            stable.split(now, id);
            restore(id, saved);
        })?;
        self.count_split(before, departure);
        Some(departure)
    }

    fn count_split(&mut self, before: Option<QueueId>, departure: Departure) {
        if departure.restored > 0 {
            self.counters.splits += 1;
            self.counters.restored += u64::from(departure.restored);
            if let Some(before) = before {
                self.stable.detached(before);
            }
        }
    }

    /// Changes the traits of `queue`. In another cgroup it leaves its set.
    pub fn change(
        &mut self,
        queue: QueueId,
        traits: Traits,
        restore: impl FnMut(QueueId, S),
    ) -> Departure {
        let moves = self.stable.traits(queue).is_some_and(|old| old.group != traits.group);
        let mut departure = Departure::default();
        if moves {
            if let Some(before) = self.sets.representative(queue) {
                self.stable.detached(before);
            }
            departure = self.sets.leave(queue, restore);
            self.counters.restored += u64::from(departure.restored);
        }
        self.stable.changed(queue, traits);
        departure
    }

    /// Closes `queue`: its process has ended.
    ///
    /// If it was the representative of others, [`Departure::successor`] takes its place; its requests stay where they
    /// are. Without effect for a closed queue.
    pub fn close(&mut self, queue: QueueId, restore: impl FnMut(QueueId, S)) -> Departure {
        if let Some(before) = self.sets.representative(queue) {
            self.stable.detached(before);
        }
        let departure = self.sets.close(queue, restore);
        self.counters.restored += u64::from(departure.restored);
        self.stable.closed(queue);
        departure
    }

    /// Removes a cgroup whose queues are elsewhere or closed.
    pub fn remove_group(&mut self, group: u32) {
        self.stable.group_removed(group);
    }
}
