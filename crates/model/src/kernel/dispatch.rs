//! Timers, rounds and visits (spec/throttle 1.7).

use super::bio::Direction;
use super::slice::Wait;
use super::{DEVICE, GroupId, Kernel, Trim};

/// Bios that one visit to a group may take: reads, then writes.
const VISIT: [(Direction, usize); 2] = [(Direction::Read, 6), (Direction::Write, 2)];
/// Bios of a round.
const ROUND: usize = 32;
/// Longest timer, in slices.
const LONGEST_SLEEP_SLICES: u64 = 8;

impl Kernel {
    /// Fires, in order, every timer that is due at `last` or before.
    pub(super) fn fire_timers(&mut self, last: u64) {
        while let Some((tick, queue)) = self.first_timer().filter(|&(tick, _)| tick <= last) {
            self.now = self.now.max(tick);
            self.group_mut(queue).timer = None;
            self.fire(queue);
            self.mark_dispatched();
        }
    }

    /// The next timer; of several at one tick the deepest queue's, and of several there the oldest group's.
    fn first_timer(&self) -> Option<(u64, GroupId)> {
        let timers = (0..self.groups.len())
            .map(GroupId)
            .filter_map(|id| self.group(id).timer.map(|tick| (tick.max(self.now), id)));
        timers.min_by_key(|&(tick, id)| (tick, usize::MAX - self.group(id).depth, id))
    }

    /// The timer of `queue` has fired: rounds until nothing is due there, then on with its parent if that woke up.
    fn fire(&mut self, queue: GroupId) {
        let mut sent = 0;
        let mut round = 1;
        while round > 0 && self.has_due(queue) {
            round = self.round(queue);
            sent += round;
        }
        self.arm(queue);
        // Due, and yet not allowed: only a profile that answers a wait of 0 ticks gets here. Linux spins until the
        // next tick.
        while let Some((_, group)) = self.first_pending(queue).filter(|(due, _)| *due <= self.now) {
            self.insertions += 1;
            self.group_mut(group).pending = Some((self.now + 1, self.insertions));
            self.group_mut(queue).timer = Some(self.now + 1);
        }
        if sent == 0 || queue == DEVICE || !self.group(queue).was_empty {
            return;
        }
        self.recompute_disptime(queue);
        let parent = self.group(queue).parent;
        if self.has_due(parent) {
            // Dispatching goes on there in this tick, after what is still due further down: deepest queue first.
            self.group_mut(parent).timer = Some(self.now);
        } else {
            self.arm(parent);
        }
    }

    /// One round over the pending children of `queue`; answers how many bios it moved up.
    fn round(&mut self, queue: GroupId) -> usize {
        let mut sent = 0;
        let mut fruitless = Vec::new();
        while let Some((due, group)) = self.first_pending(queue) {
            if due > self.now || sent >= ROUND || fruitless.contains(&group) {
                break;
            }
            let visit = self.visit(group);
            if visit == 0 {
                fruitless.push(group);
            }
            sent += visit;
            self.group_mut(group).pending = None;
            self.recompute_disptime(group);
        }
        sent
    }

    /// One visit to `group`; answers how many bios it moved up.
    fn visit(&mut self, group: GroupId) -> usize {
        let mut sent = 0;
        for (direction, most) in VISIT {
            for _ in 0..most {
                if self.head_wait(group, direction) != Some(None) {
                    break;
                }
                self.pass_up(group, direction);
                sent += 1;
            }
        }
        sent
    }

    /// Wait of the head, if there is one. May charge its bytes.
    fn head_wait(&mut self, group: GroupId, direction: Direction) -> Option<Wait> {
        let mut head = self.group(group).rings[direction.index()].head()?;
        let had_paid = head.bytes_paid_here;
        let wait = self.check(group, &mut head);
        if head.bytes_paid_here && !had_paid {
            self.group_mut(group).rings[direction.index()].head_has_paid_bytes();
        }
        Some(wait)
    }

    /// The head of `group` leaves for its parent's queue or the device.
    fn pass_up(&mut self, group: GroupId, direction: Direction) {
        let (scale, now, at) = (self.scale, self.now, direction.index());
        let Some(mut bio) = self.group_mut(group).rings[at].pop() else { return };
        // The parent still counts what a trim would cut off here.
        let child_start = self.group(group).slices[at].start;
        self.charge(group, &mut bio, Trim::Yes);
        bio.bytes_paid_here = false;
        let parent = self.group(group).parent;
        if parent == DEVICE {
            self.ready[at].push(bio.id);
        } else {
            self.enqueue(parent, group, bio);
            self.group_mut(parent).slices[at].credit(&scale, now, child_start);
        }
    }

    /// Computes when `group` is to be visited next, and gives it its place among its siblings: behind those that are
    /// due at the same tick, unless it is pending for that tick already.
    pub(super) fn recompute_disptime(&mut self, group: GroupId) {
        let read = self.head_wait(group, Direction::Read);
        let write = self.head_wait(group, Direction::Write);
        let wait = read.into_iter().chain(write).min();
        self.insertions += 1;
        let (now, insertion) = (self.now, self.insertions);
        let group = self.group_mut(group);
        let due = wait.map(|wait| now + wait.unwrap_or(0));
        if due != group.pending.map(|(due, _)| due) {
            group.pending = due.map(|due| (due, insertion));
        }
        group.was_empty = false;
    }

    /// Sets the timer of `queue` to its first pending child.
    pub(super) fn arm(&mut self, queue: GroupId) {
        let longest = LONGEST_SLEEP_SLICES * self.scale.slice;
        let expires =
            self.first_pending(queue).map(|(due, _)| due.min(self.now + longest) + self.late);
        self.group_mut(queue).timer = expires;
    }

    fn has_due(&self, queue: GroupId) -> bool {
        self.first_pending(queue).is_some_and(|(due, _)| due <= self.now)
    }

    /// The child group of `queue` that is due first, and when.
    fn first_pending(&self, queue: GroupId) -> Option<(u64, GroupId)> {
        let children = (1..self.groups.len())
            .map(GroupId)
            .filter(|&id| id != queue && self.group(id).parent == queue);
        let pending = children.filter_map(|id| self.group(id).pending.map(|key| (key, id)));
        pending.min().map(|((due, _), id)| (due, id))
    }

    /// The worker at the top: all reads of the batch, then all writes.
    fn mark_dispatched(&mut self) {
        for direction in Direction::BOTH {
            for id in std::mem::take(&mut self.ready[direction.index()]) {
                self.dispatched.push((self.now, id));
            }
        }
    }
}
