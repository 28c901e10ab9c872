//! Queues that merged: sets with one representative, instead of chains from queue to queue.
//!
//! The kernel redirects a queue to another, that one perhaps to a third, and every process walks the chain when it next
//! asks; a long series of its lifetime bugs lived there (D-13, D-14). Here each queue knows its representative, no walk
//! is longer than one step, and there can be no cycle. Each queue belongs to one process and stays its home: it is
//! where the process goes when the set parts.

use alloc::vec::Vec;

use super::{QueueId, Rules};

const NONE: u32 = u32::MAX;

/// All queues of a device, each in exactly one set; most of them alone in theirs.
///
/// `S` is what a queue gets back when it leaves a set it joined: its habits, say, or a [`super::split::Raising`].
/// [`Sets::representative`] is O(1), everything else O(members of the sets concerned).
#[derive(Clone, Debug)]
pub struct Sets<S> {
    nodes: Vec<Node>,
    /// What members of sets have put aside; few queues share, so that the others need no room for it.
    shelf: Vec<Option<S>>,
    /// Free places of the shelf.
    free: Vec<u32>,
    rules: Rules,
}

#[derive(Clone, Debug)]
struct Node {
    open: bool,
    generation: u32,
    /// Who gets this queue's requests; itself if it is alone.
    representative: u32,
    /// The next member of the set, in a ring.
    next: u32,
    /// The member before it.
    previous: u32,
    /// Members of the set. Only the representative's counts.
    members: u32,
    /// Members that merged stably. Only the representative's counts.
    stable_members: u32,
    /// Whether this one merged stably.
    stable: bool,
    /// Whether the set is to part, member by member. Only the representative's counts.
    parting: bool,
    /// Where the process of this queue last went.
    using: u32,
    /// How many processes last went to this queue.
    users: u32,
    /// The place on the shelf where its state is; [`NONE`] while it is alone.
    saved: u32,
}

// Each queue has one, idle or not, and all that is kept for an idle flow is to fit in 300 bytes.
const _: () = assert!(size_of::<Node>() <= 44);

/// Why two queues do not become one set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// They are one already.
    SameSet,
    /// One of both was closed.
    UnknownQueue,
}

/// What became of a set when a queue left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// The queue was the representative, and this one is now: it takes over the place in the schedule.
    pub successor: Option<QueueId>,
    /// Queues that are alone now and got their saved state back, the one that left included.
    pub restored: u32,
}

impl<S> Sets<S> {
    /// No queue yet.
    pub const fn new(rules: Rules) -> Sets<S> {
        Sets { nodes: Vec::new(), shelf: Vec::new(), free: Vec::new(), rules }
    }

    /// A queue was created, alone in its set.
    ///
    /// # Panics
    /// If a queue of that index is open.
    pub fn open(&mut self, queue: QueueId) {
        let index = queue.index as usize;
        while self.nodes.len() <= index {
            self.nodes.push(Node::closed());
        }
        assert!(!self.nodes[index].open, "{queue:?} is opened twice");
        // Requests of the former queue in this slot are gone, and so are its users.
        self.nodes[index] = Node { open: true, generation: queue.generation, ..Node::closed() };
        self.reset_alone(queue.index);
    }

    /// Whether `queue` was opened and not closed.
    pub fn is_open(&self, queue: QueueId) -> bool {
        self.index(queue).is_some()
    }

    /// Where requests of `queue`'s process go. `None` for a closed queue. O(1).
    pub fn representative(&self, queue: QueueId) -> Option<QueueId> {
        self.index(queue).map(|index| self.id(self.nodes[index].representative))
    }

    /// How many processes a queue serves: the whole set for its representative, none for its other members.
    ///
    /// As the kernel sees it, members that have not asked since the merge still count where they were. 0 for a closed
    /// queue. A queue in service that is empty and has none should expire at once: nobody will come back (D-9).
    pub fn users(&self, queue: QueueId) -> u32 {
        self.index(queue).map_or(0, |index| self.nodes[index].users)
    }

    /// How many queues are in the set of `queue`; 0 for a closed one.
    pub fn members(&self, queue: QueueId) -> u32 {
        self.index(queue).map_or(0, |index| self.head(index).members)
    }

    /// Whether both are open and in one set.
    pub fn is_together(&self, a: QueueId, b: QueueId) -> bool {
        self.index(a).is_some() && self.representative(a) == self.representative(b)
    }

    /// The members of `queue`'s set, itself first. Empty for a closed one.
    pub fn iter(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let first = self.index(queue).map(|_| queue.index);
        core::iter::successors(first, move |&at| {
            let next = self.nodes[at as usize].next;
            (next != queue.index).then_some(next)
        })
        .map(|index| self.id(index))
    }

    /// What `queue` will get back, while it shares a set.
    pub fn saved(&self, queue: QueueId) -> Option<&S> {
        let index = self.index(queue)?;
        self.shelf.get(self.nodes[index].saved as usize)?.as_ref()
    }

    /// Joins the set of `from` to that of `to`, whose representative is that of both afterwards, and returns it.
    ///
    /// `save` is asked for the state of each queue that was alone until now. With [`Rules::Weir`] all members of
    /// `from`'s set use the representative at once, with [`Rules::Kernel`] each when it next asks ([`Sets::follow`]).
    ///
    /// # Errors
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
        let (old, new) = (self.nodes[from].representative, self.nodes[to].representative);
        if old == new {
            return Err(JoinError::SameSet);
        }
        for head in [old, new] {
            if self.nodes[head as usize].members == 1 {
                let state = save(self.id(head));
                self.nodes[head as usize].saved = self.put_aside(state);
            }
        }
        let mut at = old;
        loop {
            let node = &mut self.nodes[at as usize];
            node.representative = new;
            let next = node.next;
            if self.rules == Rules::Weir {
                self.move_user(at, new);
            }
            at = next;
            if at == old {
                break;
            }
        }
        let (members, stable_members) = {
            let node = &mut self.nodes[old as usize];
            node.parting = false;
            (node.members, node.stable_members)
        };
        let node = &mut self.nodes[new as usize];
        node.members += members;
        node.stable_members += stable_members;
        let (last_new, last_old) = (node.previous, self.nodes[old as usize].previous);
        self.tie(last_new, old);
        self.tie(last_old, new);
        Ok(self.id(new))
    }

    /// The process of `queue` asks. If its set merged since it last did, it moves now, and this is where from and to.
    pub fn follow(&mut self, queue: QueueId) -> Option<(QueueId, QueueId)> {
        let index = self.index(queue)?;
        let (using, to) = (self.nodes[index].using, self.nodes[index].representative);
        self.move_user(queue.index, to).then(|| (self.id(using), self.id(to)))
    }

    /// Two queues of one set merged stably: that set does not part for being seeky.
    ///
    /// # Panics
    /// If they are not in one set.
    pub fn mark_stable(&mut self, a: QueueId, b: QueueId) {
        assert!(self.is_together(a, b), "{a:?} and {b:?} are not in one set");
        for queue in [a, b] {
            let index = queue.index as usize;
            if !core::mem::replace(&mut self.nodes[index].stable, true) {
                self.head_mut(index).stable_members += 1;
            }
        }
    }

    /// Whether `queue` stays when its set parts.
    ///
    /// With [`Rules::Weir`] the mark ends when either side leaves, unless others merged stably are still there (D-3).
    /// With [`Rules::Kernel`] it stays with the process for good.
    pub fn is_stable(&self, queue: QueueId) -> bool {
        self.index(queue).is_some_and(|index| self.stays(index))
    }

    /// A queue that is shared was found seeky at an expiration: whatever its members did, they do it no longer.
    ///
    /// With [`Rules::Weir`] all members that did not merge stably leave now, and `restore` is called for each queue
    /// that is alone afterwards, in no particular but always the same order. With [`Rules::Kernel`] the set is marked
    /// for good, and each leaves when it next asks ([`Sets::part_if_due`]).
    pub fn part(&mut self, queue: QueueId, restore: impl FnMut(QueueId, S)) -> Departure {
        let Some(index) = self.index(queue) else { return Departure::default() };
        let head = self.nodes[index].representative;
        if self.nodes[head as usize].members == 1 {
            return Departure::default();
        }
        if self.rules == Rules::Kernel {
            self.nodes[head as usize].parting = true;
            return Departure::default();
        }
        self.part_at_once(head, restore)
    }

    /// The process of `queue` asks: it leaves a set that is marked to part, unless it merged stably.
    ///
    /// Does nothing with [`Rules::Weir`], where everybody has left already.
    pub fn part_if_due(
        &mut self,
        queue: QueueId,
        restore: impl FnMut(QueueId, S),
    ) -> Option<Departure> {
        let index = self.index(queue)?;
        let due = self.head(index).parting && !self.stays(index);
        due.then(|| self.take_out(queue.index, restore))
    }

    /// The process of `queue` goes elsewhere, to another cgroup say: the queue leaves its set and stays open.
    pub fn leave(&mut self, queue: QueueId, restore: impl FnMut(QueueId, S)) -> Departure {
        match self.index(queue) {
            Some(_) => self.take_out(queue.index, restore),
            None => Departure::default(),
        }
    }

    /// The process of `queue` ended. `restore` is called for the last other member, if only one is left.
    pub fn close(&mut self, queue: QueueId, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = self.leave(queue, |id, saved| {
            if id != queue {
                restore(id, saved);
            }
        });
        if let Some(index) = self.index(queue) {
            self.nodes[index].open = false;
            // A queue that was alone had nothing to restore, one that closes needs nothing.
            departure.restored = departure.restored.saturating_sub(1);
        }
        departure
    }

    /// Everybody leaves the set of `head` but those who merged stably. Only with [`Rules::Weir`], where all members use
    /// their representative. O(members), however many leave.
    fn part_at_once(&mut self, head: u32, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = Departure::default();
        let pair_stays = self.nodes[head as usize].stable_members > 1;
        let mut first = None;
        let mut kept = 0;
        let mut at = head;
        loop {
            let next = self.nodes[at as usize].next;
            if pair_stays && self.nodes[at as usize].stable {
                let node = &mut self.nodes[at as usize];
                node.users = 0;
                let new_head = *first.get_or_insert(at);
                node.representative = new_head;
                node.using = new_head;
                let last = if kept == 0 { at } else { self.nodes[new_head as usize].previous };
                self.tie(last, at);
                self.tie(at, new_head);
                kept += 1;
            } else {
                self.reset_alone(at);
                departure.restored += self.restore(at, &mut restore);
            }
            at = next;
            if at == head {
                break;
            }
        }
        if let Some(first) = first {
            let node = &mut self.nodes[first as usize];
            node.members = kept;
            node.stable_members = kept;
            node.users = kept;
            departure.successor = (first != head).then(|| self.id(first));
        }
        departure
    }

    /// Takes `index` out of its set and restores it; if one other is left alone, that one too.
    fn take_out(&mut self, index: u32, mut restore: impl FnMut(QueueId, S)) -> Departure {
        let mut departure = Departure::default();
        let head = self.nodes[index as usize].representative;
        if self.nodes[head as usize].members == 1 {
            return departure;
        }
        let rest = self.nodes[index as usize].next;
        self.tie(self.nodes[index as usize].previous, rest);
        self.nodes[head as usize].members -= 1;
        self.nodes[head as usize].stable_members -= u32::from(self.nodes[index as usize].stable);
        if head == index {
            self.hand_over(head, rest);
            departure.successor = Some(self.id(rest));
        }
        self.move_user(index, index);
        let mut at = rest;
        while self.nodes[index as usize].users > 1 {
            // Who has not asked since a merge was still counted here, and the queue is not theirs any more.
            if self.nodes[at as usize].using == index {
                self.move_user(at, self.nodes[at as usize].representative);
            }
            at = self.nodes[at as usize].next;
        }
        let sticky = self.rules == Rules::Kernel && self.nodes[index as usize].stable;
        self.reset_alone(index);
        self.mark_alone(index, sticky);
        departure.restored += self.restore(index, &mut restore);
        let head = self.nodes[rest as usize].representative;
        if self.nodes[head as usize].members == 1 {
            let sticky = self.rules == Rules::Kernel && self.nodes[rest as usize].stable;
            self.reset_alone(rest);
            self.mark_alone(rest, sticky);
            departure.restored += self.restore(rest, &mut restore);
        }
        departure
    }

    fn restore(&mut self, index: u32, restore: &mut impl FnMut(QueueId, S)) -> u32 {
        let id = self.id(index);
        let place = core::mem::replace(&mut self.nodes[index as usize].saved, NONE);
        let state = self.shelf[place as usize].take();
        self.free.push(place);
        restore(id, state.expect("a queue that joined a set saved its state"));
        1
    }

    /// Puts a state on the shelf, which grows only if more queues share than ever before.
    fn put_aside(&mut self, state: S) -> u32 {
        if let Some(place) = self.free.pop() {
            self.shelf[place as usize] = Some(state);
            return place;
        }
        self.shelf.push(Some(state));
        self.shelf.len() as u32 - 1
    }

    /// Makes `new` the representative instead of `old`, which has just been taken out of the ring.
    fn hand_over(&mut self, old: u32, new: u32) {
        let from = &mut self.nodes[old as usize];
        let (members, stable_members, parting) = (from.members, from.stable_members, from.parting);
        let head = &mut self.nodes[new as usize];
        head.members = members;
        head.stable_members = stable_members;
        head.parting = parting;
        let mut at = new;
        loop {
            let node = &mut self.nodes[at as usize];
            node.representative = new;
            at = node.next;
            if at == new {
                break;
            }
        }
    }

    /// The process of `index` goes to `to` from now on; `false` if it did before.
    fn move_user(&mut self, index: u32, to: u32) -> bool {
        let using = core::mem::replace(&mut self.nodes[index as usize].using, to);
        if using == to {
            return false;
        }
        self.nodes[using as usize].users -= 1;
        self.nodes[to as usize].users += 1;
        true
    }

    /// In a ring, `after` comes after `before`.
    fn tie(&mut self, before: u32, after: u32) {
        self.nodes[before as usize].next = after;
        self.nodes[after as usize].previous = before;
    }

    /// A set of its own for `index`, whose process uses it alone.
    fn reset_alone(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.representative = index;
        node.next = index;
        node.previous = index;
        node.using = index;
        node.members = 1;
        node.users = 1;
        node.parting = false;
        node.stable = false;
        node.stable_members = 0;
    }

    fn mark_alone(&mut self, index: u32, stable: bool) {
        let node = &mut self.nodes[index as usize];
        node.stable = stable;
        node.stable_members = stable.into();
    }

    fn stays(&self, index: usize) -> bool {
        let paired = self.rules == Rules::Kernel || self.head(index).stable_members > 1;
        self.nodes[index].stable && paired
    }

    fn head(&self, index: usize) -> &Node {
        &self.nodes[self.nodes[index].representative as usize]
    }

    fn head_mut(&mut self, index: usize) -> &mut Node {
        let head = self.nodes[index].representative as usize;
        &mut self.nodes[head]
    }

    fn index(&self, queue: QueueId) -> Option<usize> {
        let node = self.nodes.get(queue.index as usize)?;
        (node.open && node.generation == queue.generation).then_some(queue.index as usize)
    }

    fn id(&self, index: u32) -> QueueId {
        QueueId { index, generation: self.nodes[index as usize].generation }
    }

    /// What must hold between calls, for tests. O(queues).
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self) {
        let mut users = alloc::vec![0; self.nodes.len()];
        let mut members = alloc::vec![(0, 0); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.open) {
            let head = &self.nodes[node.representative as usize];
            assert!(head.open, "the representative of {index} is closed");
            assert_eq!(head.representative, node.representative, "a chain from {index}");
            let next = &self.nodes[node.next as usize];
            assert_eq!(next.representative, node.representative, "the ring of {index}");
            assert_eq!(next.previous as usize, index, "the ring after {index}");
            assert!(self.nodes[node.using as usize].open, "{index} uses a closed queue");
            let saved = self.shelf.get(node.saved as usize).is_some_and(Option::is_some);
            assert_eq!(saved, head.members > 1, "what {index} has saved");
            let using = self.nodes[node.using as usize].representative;
            assert_eq!(using, node.representative, "{index} is used across sets");
            assert_eq!(self.iter(self.id(index as u32)).count(), head.members as usize);
            users[node.using as usize] += 1;
            members[node.representative as usize].0 += 1;
            members[node.representative as usize].1 += u32::from(node.stable);
        }
        let sharing = self.nodes.iter().filter(|node| node.open && node.saved != NONE).count();
        assert_eq!(self.shelf.len() - self.free.len(), sharing, "states on the shelf");
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.open) {
            assert_eq!(node.users, users[index], "users of {index}");
            if node.representative as usize == index {
                assert_eq!((node.members, node.stable_members), members[index], "set of {index}");
            }
        }
    }
}

impl Node {
    fn closed() -> Node {
        Node {
            open: false,
            generation: 0,
            representative: NONE,
            next: NONE,
            previous: NONE,
            members: 0,
            stable_members: 0,
            stable: false,
            parting: false,
            using: NONE,
            users: 0,
            saved: NONE,
        }
    }
}
