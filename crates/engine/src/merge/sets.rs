//! Sets of merged queues, with one representative each.
//!
//! The kernel redirects a queue to another, that one perhaps to a third, and every process walks the chain; a series
//! of lifetime bugs came from that (spec/bfq D-13, D-14). Here each queue knows its representative, so there are no
//! chains and no cycles. Each queue belongs to one process, which returns to it when the set splits.

use alloc::vec;
use alloc::vec::Vec;

use super::{QueueId, Rules};

/// All queues of a device, each in one set; most are alone.
///
/// `S` is the state that a queue gets back when it leaves a set. [`Sets::representative`] is O(1), everything else
/// O(members of the sets concerned).
#[derive(Clone, Debug)]
pub struct Sets<S> {
    nodes: Vec<Node>,
    /// State of the queues in shared sets, which are few.
    shared_slots: Vec<Option<Shared<S>>>,
    /// Free slots of these.
    free: Vec<u32>,
    rules: Rules,
}

/// Queue; all there is of one that is alone.
#[derive(Clone, Debug)]
struct Node {
    generation: u32,
    /// Its slot, or [`ALONE`], or [`CLOSED`].
    place: u32,
}

const ALONE: u32 = u32::MAX - 1;
const CLOSED: u32 = u32::MAX;

// Each queue has one, and what is kept for an idle flow is to fit in 300 bytes.
const _: () = assert!(size_of::<Node>() == 8);

/// A member of a set.
#[derive(Clone, Debug)]
struct Shared<S> {
    member: Member,
    /// Saved state; `None` while the queue is alone and other processes still use it.
    saved: Option<S>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Representative of its set; itself if it is alone.
    representative: u32,
    /// Next member of the set, in a ring.
    next: u32,
    /// Previous member.
    previous: u32,
    /// Number of members; valid in the representative.
    members: u32,
    /// Number of stably merged members; valid in the representative.
    stable_members: u32,
    /// Whether this member merged stably.
    stable: bool,
    /// Whether the set splits, member by member; valid in the representative.
    parting: bool,
    /// Queue that the process of this one last used.
    using: u32,
    /// Processes that last used this queue.
    users: u32,
}

/// Reason why two sets do not join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// They are one already.
    SameSet,
    /// One of both is closed.
    UnknownQueue,
}

/// Result of a queue's leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// New representative, if the queue was it. It takes over the place in the schedule.
    pub successor: Option<QueueId>,
    /// Queues restored to being alone, the one that left included.
    pub restored: u32,
}

impl<S> Sets<S> {
    /// Without queues.
    pub const fn new(rules: Rules) -> Sets<S> {
        Sets { nodes: Vec::new(), shared_slots: Vec::new(), free: Vec::new(), rules }
    }

    /// Opens a queue, alone in its set.
    ///
    /// # Panics
    ///
    /// If a queue of that index is open.
    pub fn open(&mut self, queue: QueueId) {
        let index = queue.index as usize;
        while self.nodes.len() <= index {
            self.nodes.push(Node { generation: 0, place: CLOSED });
        }
        assert!(self.nodes[index].place == CLOSED, "{queue:?} is opened twice");
        // Requests of an earlier queue in this slot are gone.
        self.nodes[index] = Node { generation: queue.generation, place: ALONE };
    }

    /// Whether `queue` is open.
    pub fn is_open(&self, queue: QueueId) -> bool {
        self.index(queue).is_some()
    }

    /// Effective queue of `queue`'s process. `None` for a closed queue. O(1).
    pub fn representative(&self, queue: QueueId) -> Option<QueueId> {
        self.index(queue).map(|index| self.id(self.get(index).representative))
    }

    /// Number of processes that a queue serves: the whole set for its representative, none for other members.
    ///
    /// With the kernel's rules, members that have not asked since the merge count where they were. 0 for a closed
    /// queue. An empty queue in service without users should expire at once (spec/bfq D-9).
    pub fn users(&self, queue: QueueId) -> u32 {
        self.index(queue).map_or(0, |index| self.get(index).users)
    }

    /// Number of queues in the set of `queue`; 0 for a closed one.
    pub fn members(&self, queue: QueueId) -> u32 {
        self.index(queue).map_or(0, |index| self.head(index).members)
    }

    /// Whether both are open and in one set.
    pub fn is_together(&self, a: QueueId, b: QueueId) -> bool {
        self.index(a).is_some() && self.representative(a) == self.representative(b)
    }

    /// Members of `queue`'s set, itself first. None for a closed one.
    pub fn iter(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let first = self.index(queue).map(|_| queue.index);
        core::iter::successors(first, move |&at| {
            let next = self.get(at).next;
            (next != queue.index).then_some(next)
        })
        .map(|index| self.id(index))
    }

    /// Saved state of `queue`, while it shares a set.
    pub fn saved(&self, queue: QueueId) -> Option<&S> {
        let index = self.index(queue)?;
        self.shared_slots.get(self.nodes[index as usize].place as usize)?.as_ref()?.saved.as_ref()
    }

    /// Joins the set of `from` to that of `to`. Returns the representative, that of `to`.
    ///
    /// `save` returns the state of each queue that was alone until now. With [`Rules::Weir`] all members of `from`'s
    /// set use the representative at once, with [`Rules::Kernel`] each when it next asks ([`Sets::follow`]).
    ///
    /// # Errors
    ///
    /// [`JoinError`]; nothing has changed.
    pub fn join(
        &mut self,
        from: QueueId,
        to: QueueId,
        mut save: impl FnMut(QueueId) -> S,
    ) -> Result<QueueId, JoinError> {
        let (Some(from), Some(to)) = (self.index(from), self.index(to)) else {
            return Err(JoinError::UnknownQueue);
        };
        let (old, new) = (self.get(from).representative, self.get(to).representative);
        if old == new {
            return Err(JoinError::SameSet);
        }
        for head in [old, new] {
            if self.get(head).members == 1 {
                let state = save(self.id(head));
                self.shared(head).saved = Some(state);
            }
        }
        let mut at = old;
        loop {
            let member = self.edit(at);
            member.representative = new;
            let next = member.next;
            if self.rules == Rules::Weir {
                self.move_user(at, new);
            }
            at = next;
            if at == old {
                break;
            }
        }
        let (members, stable_members) = {
            let member = self.edit(old);
            member.parting = false;
            (member.members, member.stable_members)
        };
        let head = self.edit(new);
        head.members += members;
        head.stable_members += stable_members;
        let (last_new, last_old) = (head.previous, self.get(old).previous);
        self.tie(last_new, old);
        self.tie(last_old, new);
        Ok(self.id(new))
    }

    /// Moves the process of `queue` to its representative. Returns from and to, if it moved.
    pub fn follow(&mut self, queue: QueueId) -> Option<(QueueId, QueueId)> {
        let index = self.index(queue)?;
        let Member { using, representative: to, .. } = self.get(index);
        self.move_user(queue.index, to).then(|| (self.id(using), self.id(to)))
    }

    /// Marks two queues of one set as merged stably: that set does not split for being seeky.
    ///
    /// # Panics
    ///
    /// If they are not in one set.
    pub fn mark_stable(&mut self, a: QueueId, b: QueueId) {
        assert!(self.is_together(a, b), "{a:?} and {b:?} are not in one set");
        for queue in [a, b] {
            if !core::mem::replace(&mut self.edit(queue.index).stable, true) {
                let head = self.get(queue.index).representative;
                self.edit(head).stable_members += 1;
            }
        }
    }

    /// Whether `queue` stays when its set splits.
    ///
    /// With [`Rules::Weir`] the mark ends when either side leaves, unless other stably merged queues stay. With
    /// [`Rules::Kernel`] it stays for good (spec/bfq D-3).
    pub fn is_stable(&self, queue: QueueId) -> bool {
        self.index(queue).is_some_and(|index| self.stays(index))
    }

    /// Splits a set that is seeky at an expiration.
    ///
    /// With [`Rules::Weir`] all members that did not merge stably leave now, and `restore` is called for each queue
    /// that is alone afterwards, always in the same order. With [`Rules::Kernel`] the set is marked for good, and
    /// each leaves when it next asks ([`Sets::part_if_due`]).
    pub fn part(&mut self, queue: QueueId, restore: impl FnMut(QueueId, S)) -> Departure {
        let Some(index) = self.index(queue) else { return Departure::default() };
        let head = self.get(index).representative;
        if self.get(head).members == 1 {
            return Departure::default();
        }
        if self.rules == Rules::Kernel {
            self.edit(head).parting = true;
            return Departure::default();
        }
        self.part_at_once(head, restore)
    }

    /// Lets the process of `queue` leave a set that is marked to split, unless it merged stably.
    ///
    /// Does nothing with [`Rules::Weir`], where all have left already.
    pub fn part_if_due(
        &mut self,
        queue: QueueId,
        restore: impl FnMut(QueueId, S),
    ) -> Option<Departure> {
        let index = self.index(queue)?;
        let due = self.head(index).parting && !self.stays(index);
        due.then(|| self.take_out(queue.index, restore))
    }

    /// Takes `queue` out of its set, for instance for another cgroup. It stays open.
    pub fn leave(&mut self, queue: QueueId, restore: impl FnMut(QueueId, S)) -> Departure {
        match self.index(queue) {
            Some(_) => self.take_out(queue.index, restore),
            None => Departure::default(),
        }
    }

    /// Closes `queue`. `restore` is called for the last other member, if only one is left.
    pub fn close(&mut self, queue: QueueId, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = self.leave(queue, |id, saved| {
            if id != queue {
                restore(id, saved);
            }
        });
        if let Some(index) = self.index(queue) {
            self.take_off(index);
            self.nodes[index as usize].place = CLOSED;
            // A queue that was alone had nothing to restore, one that closes needs nothing.
            departure.restored = departure.restored.saturating_sub(1);
        }
        departure
    }

    /// All members of the set leave, except stably merged ones. Only with [`Rules::Weir`], where all use their
    /// representative. O(members).
    fn part_at_once(&mut self, head: u32, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = Departure::default();
        let pair_stays = self.get(head).stable_members > 1;
        let mut first = None;
        let mut kept = 0;
        let mut at = head;
        loop {
            let next = self.get(at).next;
            if pair_stays && self.get(at).stable {
                let new_head = *first.get_or_insert(at);
                let member = self.edit(at);
                member.users = 0;
                member.representative = new_head;
                member.using = new_head;
                let last = if kept == 0 { at } else { self.get(new_head).previous };
                self.tie(last, at);
                self.tie(at, new_head);
                kept += 1;
            } else {
                departure.restored += self.restore(at, &mut restore);
            }
            at = next;
            if at == head {
                break;
            }
        }
        if let Some(first) = first {
            let member = self.edit(first);
            member.members = kept;
            member.stable_members = kept;
            member.users = kept;
            departure.successor = (first != head).then(|| self.id(first));
        }
        departure
    }

    /// Takes `index` out of its set and restores it; and the last other member, if only one is left.
    fn take_out(&mut self, index: u32, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = Departure::default();
        let head = self.get(index).representative;
        if self.get(head).members == 1 {
            return departure;
        }
        let Member { next: rest, previous, stable, .. } = self.get(index);
        self.tie(previous, rest);
        let former = self.edit(head);
        former.members -= 1;
        former.stable_members -= u32::from(stable);
        if head == index {
            self.hand_over(head, rest);
            departure.successor = Some(self.id(rest));
        }
        self.move_user(index, index);
        let mut at = rest;
        while self.get(index).users > 1 {
            // Processes that have not asked since a merge were counted here.
            let Member { using, representative, next, .. } = self.get(at);
            if using == index {
                self.move_user(at, representative);
            }
            at = next;
        }
        departure.restored += self.leave_alone(index, &mut restore);
        let head = self.get(rest).representative;
        if self.get(head).members == 1 {
            departure.restored += self.leave_alone(rest, &mut restore);
        }
        departure
    }

    /// Makes a set of its own for `index`. With the kernel's rules it keeps the mark of stable merging.
    fn leave_alone(&mut self, index: u32, restore: &mut impl FnMut(QueueId, S)) -> u32 {
        let sticky = self.rules == Rules::Kernel && self.get(index).stable;
        let restored = self.restore(index, restore);
        if sticky {
            let member = self.edit(index);
            member.stable = true;
            member.stable_members = 1;
        }
        restored
    }

    /// Makes a set of its own for `index` and restores its state.
    fn restore(&mut self, index: u32, restore: &mut impl FnMut(QueueId, S)) -> u32 {
        let saved = self.take_off(index).and_then(|shared| shared.saved);
        restore(self.id(index), saved.expect("a queue that joined a set saved its state"));
        1
    }

    /// Makes `new` the representative instead of `old`, which was just taken out of the ring.
    fn hand_over(&mut self, old: u32, new: u32) {
        let Member { members, stable_members, parting, .. } = self.get(old);
        let head = self.edit(new);
        head.members = members;
        head.stable_members = stable_members;
        head.parting = parting;
        let mut at = new;
        loop {
            let member = self.edit(at);
            member.representative = new;
            at = member.next;
            if at == new {
                break;
            }
        }
    }

    /// Moves the process of `index` to `to`; `false` if it was there.
    fn move_user(&mut self, index: u32, to: u32) -> bool {
        let using = self.get(index).using;
        if using == to {
            return false;
        }
        self.edit(index).using = to;
        self.edit(using).users -= 1;
        self.edit(to).users += 1;
        true
    }

    /// Links `after` behind `before` in a ring.
    fn tie(&mut self, before: u32, after: u32) {
        self.edit(before).next = after;
        self.edit(after).previous = before;
    }

    fn stays(&self, index: u32) -> bool {
        let paired = self.rules == Rules::Kernel || self.head(index).stable_members > 1;
        self.get(index).stable && paired
    }

    fn head(&self, index: u32) -> Member {
        self.get(self.get(index).representative)
    }

    fn get(&self, index: u32) -> Member {
        let shared = self.shared_slots.get(self.nodes[index as usize].place as usize);
        shared.and_then(Option::as_ref).map_or(Member::alone(index), |shared| shared.member)
    }

    fn edit(&mut self, index: u32) -> &mut Member {
        &mut self.shared(index).member
    }

    /// State of `index` as a member, created if there is none. Allocates only if more queues share than ever before.
    fn shared(&mut self, index: u32) -> &mut Shared<S> {
        let node = &mut self.nodes[index as usize];
        if node.place == ALONE {
            node.place = self.free.pop().unwrap_or_else(|| {
                self.shared_slots.push(None);
                self.shared_slots.len() as u32 - 1
            });
        }
        let member = Member::alone(index);
        self.shared_slots[node.place as usize].get_or_insert(Shared { member, saved: None })
    }

    /// Takes out the state of `index`, which is alone then.
    fn take_off(&mut self, index: u32) -> Option<Shared<S>> {
        let place = core::mem::replace(&mut self.nodes[index as usize].place, ALONE);
        let shared = self.shared_slots.get_mut(place as usize)?.take();
        self.free.push(place);
        shared
    }

    fn index(&self, queue: QueueId) -> Option<u32> {
        let node = self.nodes.get(queue.index as usize)?;
        (node.place != CLOSED && node.generation == queue.generation).then_some(queue.index)
    }

    fn id(&self, index: u32) -> QueueId {
        QueueId { index, generation: self.nodes[index as usize].generation }
    }

    /// Checks invariants, for tests. O(queues).
    ///
    /// # Panics
    ///
    /// If one does not hold.
    pub fn check(&self) {
        let (mut users, mut members) = (vec![0; self.nodes.len()], vec![(0, 0); self.nodes.len()]);
        let open = || (0..self.nodes.len()).filter(|&index| self.nodes[index].place != CLOSED);
        for index in open() {
            // Indices are 32 bits: they come from ids.
            let (at, place) = (index as u32, self.nodes[index].place);
            let member = self.get(at);
            let head = self.get(member.representative);
            let is_open = |index: u32| self.nodes[index as usize].place != CLOSED;
            assert!(is_open(member.representative), "the representative of {index} is closed");
            assert_eq!(head.representative, member.representative, "a chain from {index}");
            let next = self.get(member.next);
            assert_eq!(next.representative, member.representative, "the ring of {index}");
            assert_eq!(next.previous, at, "the ring after {index}");
            assert!(is_open(member.using), "{index} uses a closed queue");
            assert_eq!(
                self.saved(self.id(at)).is_some(),
                head.members > 1,
                "what {index} has saved"
            );
            assert!(place == ALONE || head.members > 1 || member.stable, "{index} needs no room");
            let using = self.get(member.using).representative;
            assert_eq!(using, member.representative, "{index} is used across sets");
            assert_eq!(self.iter(self.id(at)).count(), head.members as usize);
            users[member.using as usize] += 1;
            members[member.representative as usize].0 += 1;
            members[member.representative as usize].1 += u32::from(member.stable);
        }
        let sharing = open().filter(|&index| self.nodes[index].place != ALONE).count();
        assert_eq!(self.shared_slots.len() - self.free.len(), sharing, "slots in use");
        for index in open() {
            let member = self.get(index as u32);
            assert_eq!(member.users, users[index], "users of {index}");
            if member.representative as usize == index {
                let counted = (member.members, member.stable_members);
                assert_eq!(counted, members[index], "set of {index}");
            }
        }
    }
}

impl Member {
    /// A queue in a set of its own.
    const fn alone(index: u32) -> Member {
        Member {
            representative: index,
            next: index,
            previous: index,
            members: 1,
            stable_members: 0,
            stable: false,
            parting: false,
            using: index,
            users: 1,
        }
    }
}
