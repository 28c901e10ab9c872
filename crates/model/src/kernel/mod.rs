//! Linux's blk-throttle as spec/throttle 1.3 to 1.9 describe it, one device, cgroup v2.
//!
//! Time is counted in ticks. The tree has a fixed top (the device), under it the root group, which is never
//! limited, and under that whatever [`Kernel::add_group`] adds. A call at a tick first lets every timer of an
//! *earlier* tick fire; timers of the same tick fire in [`Kernel::run_until`]. So `run_until(t)` before a call at `t`
//! makes the timer come first, and after it, second.

mod bio;
mod dispatch;
mod profile;
mod slice;

pub use bio::{BioId, Direction, Flags};
pub use profile::{Carry, Combine, IosWait, IosWindow, Profile, Remainder};
pub use slice::Limit;

use bio::{Bio, Ring, Source};
use slice::{Scale, Slice, Wait};

/// Names a group. Groups are never renumbered; a removed one keeps its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(usize);

/// The device's top queue, written as a group so that every queue can be found in one way.
const DEVICE: GroupId = GroupId(0);

/// The limits of a group: reads, then writes.
pub type Limits = [Limit; 2];

/// One device with its groups.
#[derive(Clone, Debug)]
pub struct Kernel {
    scale: Scale,
    /// Ticks by which every timer is late.
    late: u64,
    now: u64,
    groups: Vec<Group>,
    /// Bios submitted so far.
    bios: usize,
    /// Numbers insertions, so that ties go to the first inserted.
    insertions: u64,
    /// Bios that reached the device in this batch and were not returned yet, per direction.
    ready: [Vec<BioId>; 2],
    /// Handed out since the last `run_until`.
    dispatched: Vec<(u64, BioId)>,
}

/// A group, and the service queue in which its bios and its child groups wait.
#[derive(Clone, Debug)]
struct Group {
    /// Where it is pending; the device itself is its own parent and never pending.
    parent: GroupId,
    depth: usize,
    limits: Limits,
    slices: [Slice; 2],
    rings: [Ring; 2],
    /// When it is pending: its dispatch time and the number of its insertion.
    pending: Option<(u64, u64)>,
    /// It has got a bio in a direction that had none since its dispatch time was last computed.
    was_empty: bool,
    cancelling: bool,
    /// When the timer for its pending children fires.
    timer: Option<u64>,
}

/// Whether a charged slice is trimmed: not for bios that exceed the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    Yes,
    No,
}

impl Kernel {
    /// The root group: never limited.
    pub const ROOT: GroupId = GroupId(1);

    /// A device with a root group and nothing else, at tick 0.
    ///
    /// # Panics
    /// When `hz` or `slice_ticks` is 0.
    pub fn new(profile: Profile, hz: u64, slice_ticks: u64) -> Kernel {
        assert!(hz > 0 && slice_ticks > 0, "{hz} ticks a second, {slice_ticks} a slice");
        Kernel {
            scale: Scale { profile, hz, slice: slice_ticks },
            late: 0,
            now: 0,
            groups: vec![Group::new(DEVICE, 0), Group::new(DEVICE, 1)],
            bios: 0,
            insertions: 0,
            ready: [Vec::new(), Vec::new()],
            dispatched: Vec::new(),
        }
    }

    /// Makes every timer fire `ticks` after it was asked to; Linux behaves like 1.
    pub fn set_lateness(&mut self, ticks: u64) {
        self.late = ticks;
    }

    /// A new, unlimited group below `parent`.
    pub fn add_group(&mut self, parent: GroupId) -> GroupId {
        self.groups.push(Group::new(parent, self.groups[parent.0].depth + 1));
        GroupId(self.groups.len() - 1)
    }

    /// Changes the limits of `group`, all four of them, even to equal values.
    ///
    /// # Panics
    /// For the root group, for a limit of 0, or when `tick` is in the past.
    pub fn set_limits(&mut self, tick: u64, group: GroupId, limits: Limits) {
        assert!(group > Kernel::ROOT, "the root group has no limits");
        assert!(
            limits.iter().all(|limit| limit.bps != Some(0) && limit.iops != Some(0)),
            "a limit of 0: {limits:?}"
        );
        self.advance_to(tick);
        let old = self.group(group).limits;
        for direction in Direction::BOTH {
            let at = direction.index();
            let queued = !self.group(group).rings[at].is_empty();
            let (scale, now) = (self.scale, self.now);
            self.group_mut(group).slices[at].change(&scale, old[at], now, queued);
        }
        self.group_mut(group).limits = limits;
        if self.group(group).pending.is_some() {
            self.recompute_disptime(group);
            self.arm(self.group(group).parent);
        }
    }

    /// Removes `group`: depending on the kernel its bios drain at its old limits or are released at once.
    ///
    /// The caller submits nothing more to it.
    pub fn remove_group(&mut self, tick: u64, group: GroupId) {
        self.advance_to(tick);
        if self.scale.profile.removal_cancels {
            self.group_mut(group).cancelling = true;
            if self.group(group).pending.is_some() {
                self.recompute_disptime(group);
                self.arm(self.group(group).parent);
            }
        }
    }

    /// A bio of `bytes` bytes of `group`. If nothing holds it back it is dispatched at once, which the next
    /// [`Kernel::run_until`] reports.
    ///
    /// # Panics
    /// When `tick` is in the past.
    pub fn submit(
        &mut self,
        tick: u64,
        group: GroupId,
        direction: Direction,
        bytes: u64,
        flags: Flags,
    ) -> BioId {
        self.advance_to(tick);
        let id = self.bios;
        self.bios += 1;
        let bio = Bio { id, direction, bytes, flags, bytes_paid_here: false };
        if self.has_rule(group, direction) {
            self.dispatch_up(group, bio);
        } else {
            self.dispatched.push((self.now, id));
        }
        id
    }

    /// Advances to the end of `tick`; returns the dispatches since the last call, in order.
    ///
    /// # Panics
    /// When `tick` is in the past.
    pub fn run_until(&mut self, tick: u64) -> Vec<(u64, BioId)> {
        assert!(tick >= self.now, "tick {tick} is before {}", self.now);
        self.fire_timers(tick);
        self.now = tick;
        std::mem::take(&mut self.dispatched)
    }

    /// When the next timer fires.
    pub fn next_timer(&self) -> Option<u64> {
        self.groups.iter().filter_map(|group| group.timer).min()
    }

    /// How many bios wait, anywhere.
    pub fn queued(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.rings).map(Ring::len).sum()
    }

    fn advance_to(&mut self, tick: u64) {
        assert!(tick >= self.now, "tick {tick} is before {}", self.now);
        if let Some(before) = tick.checked_sub(1) {
            self.fire_timers(before);
        }
        self.now = tick;
    }

    /// Whether any group of the path of `group` has a limit.
    fn has_rule(&self, group: GroupId, direction: Direction) -> bool {
        let mut at = group;
        while at != DEVICE {
            if self.group(at).limits[direction.index()] != Limit::default() {
                return true;
            }
            at = self.group(at).parent;
        }
        false
    }

    /// A fresh bio goes up until a group holds it back (spec/throttle 1.4).
    fn dispatch_up(&mut self, group: GroupId, mut bio: Bio) {
        let (mut level, mut source) = (group, group);
        while level != DEVICE {
            if self.passes(level, &mut bio) {
                self.charge(level, &mut bio, Trim::Yes);
            } else if bio.flags.meta && self.scale.profile.meta_overtakes {
                self.charge(level, &mut bio, Trim::No);
            } else {
                self.enqueue(level, source, bio);
                if self.group(level).was_empty {
                    self.recompute_disptime(level);
                    self.arm(self.group(level).parent);
                }
                return;
            }
            bio.bytes_paid_here = false;
            (level, source) = (self.group(level).parent, level);
        }
        self.dispatched.push((self.now, bio.id));
    }

    /// Whether a fresh bio need not wait at `level`.
    fn passes(&mut self, level: GroupId, bio: &mut Bio) -> bool {
        let ring = &self.group(level).rings[bio.direction.index()];
        let overtakes =
            bio.flags.remainder && self.scale.profile.remainder == Remainder::IoAheadOfBytes;
        let behind = if overtakes { ring.has_for_ios() } else { !ring.is_empty() };
        !behind && self.check(level, bio).is_none()
    }

    /// Wait of `bio` at `level`.
    fn check(&mut self, level: GroupId, bio: &mut Bio) -> Wait {
        let (scale, now, at) = (self.scale, self.now, bio.direction.index());
        let group = self.group_mut(level);
        if group.cancelling {
            return None;
        }
        let queued = !group.rings[at].is_empty();
        group.slices[at].check(&scale, group.limits[at], now, bio, queued)
    }

    fn charge(&mut self, level: GroupId, bio: &mut Bio, trim: Trim) {
        let (scale, now, at) = (self.scale, self.now, bio.direction.index());
        if scale.is_free(bio) {
            return;
        }
        let group = self.group_mut(level);
        let limit = group.limits[at];
        group.slices[at].charge(bio);
        if trim == Trim::Yes {
            group.slices[at].trim(&scale, limit, now);
        }
    }

    /// Queues `bio` at `level`, which becomes pending if it is not.
    fn enqueue(&mut self, level: GroupId, source: Source, bio: Bio) {
        let profile = self.scale.profile;
        let group = self.group_mut(level);
        let ring = &mut group.rings[bio.direction.index()];
        if ring.is_empty() {
            group.was_empty = true;
        }
        ring.push(&profile, source, bio);
    }

    fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.0]
    }

    fn group_mut(&mut self, id: GroupId) -> &mut Group {
        &mut self.groups[id.0]
    }
}

impl Group {
    fn new(parent: GroupId, depth: usize) -> Group {
        Group {
            parent,
            depth,
            limits: [Limit::default(); 2],
            slices: [Slice::default(), Slice::default()],
            rings: [Ring::default(), Ring::default()],
            pending: None,
            was_empty: false,
            cancelling: false,
            timer: None,
        }
    }
}
