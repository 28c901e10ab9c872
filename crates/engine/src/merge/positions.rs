//! Where each queue reads or writes next, so that a neighbour can be found.

use alloc::vec::Vec;

use super::{Position, QueueId};

/// The next position of the queues that may still merge, by cgroup.
///
/// A queue is in it while it has a next request, is not of the idle class and is not late
/// ([`super::cooperation::Start::is_late`]): not having to keep late queues here is where the 3 to 4 % of the patch of
/// 2017 come from. Each queue has one place at most, each place of a cgroup one queue: who came first stays.
///
/// A treap whose nodes are the slots of the queues: O(log n) expected for each call, no allocation but to grow with the
/// largest index. Priorities are a fixed scramble of the index, so that equal calls build equal trees.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    nodes: Vec<Node>,
    root: Option<u32>,
    len: usize,
}

type Key = (u32, Position);

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// `None` while the queue has no place.
    key: Option<Key>,
    generation: u32,
    children: [Option<u32>; 2],
}

// Each queue has one, idle or not, and all that is kept for an idle flow is to fit in 300 bytes.
const _: () = assert!(size_of::<Node>() <= 48);

/// A link: the root's, or one of a node's two.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Child(u32, usize),
}

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Positions {
    /// No queue at all.
    pub const fn new() -> Positions {
        Positions { nodes: Vec::new(), root: None, len: 0 }
    }

    /// How many queues have a place.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocates now what `queue` needs.
    pub fn make_room(&mut self, queue: QueueId) {
        let index = queue.index as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, Node::default());
        }
    }

    /// `queue`, of the cgroup `group`, will go on at `at`; it leaves its former place.
    ///
    /// `false` if another queue is exactly there: `queue` then has no place. O(log n).
    pub fn place(&mut self, queue: QueueId, group: u32, at: Position) -> bool {
        let index = queue.index as usize;
        self.make_room(queue);
        let key = (group, at);
        if self.nodes[index].key == Some(key) && self.nodes[index].generation == queue.generation {
            return true;
        }
        self.take(queue.index);
        if self.holder(key).is_some() {
            return false;
        }
        self.nodes[index] =
            Node { key: Some(key), generation: queue.generation, children: [None; 2] };
        self.insert(queue.index, key);
        self.len += 1;
        true
    }

    /// `queue` has no next request any more, or is late. Without effect if it has no place. O(log n).
    pub fn remove(&mut self, queue: QueueId) {
        if self.nodes.get(queue.index as usize).is_some_and(|n| n.generation == queue.generation) {
            self.take(queue.index);
        }
    }

    /// Where `queue` has its place, if it has one. O(1).
    pub fn place_of(&self, queue: QueueId) -> Option<Position> {
        let node = self.nodes.get(queue.index as usize)?;
        let (_, at) = node.key.filter(|_| node.generation == queue.generation)?;
        Some(at)
    }

    /// The queue of `group`, other than `asker`, whose place is nearest to `at` and at most `close_bytes` away.
    ///
    /// Of two that are equally near, the one before. O(log n).
    pub fn nearest(
        &self,
        asker: QueueId,
        group: u32,
        at: Position,
        close_bytes: u64,
    ) -> Option<QueueId> {
        let before = self.beside(asker, (group, at), BEFORE);
        let after = self.beside(asker, (group, at), AFTER);
        let distance = |index: u32| {
            let (other, place) = self.nodes[index as usize].key?;
            (other == group).then(|| place.distance(at)).filter(|bytes| *bytes <= close_bytes)
        };
        let near = |index: Option<u32>| index.and_then(|index| Some((distance(index)?, index)));
        let index = match (near(before), near(after)) {
            (Some(before), Some(after)) if after.0 < before.0 => after.1,
            (Some(before), _) => before.1,
            (None, after) => after?.1,
        };
        Some(QueueId { index, generation: self.nodes[index as usize].generation })
    }

    /// The nearest node on one side of `key`, itself included, that is not `asker`'s.
    fn beside(&self, asker: QueueId, key: Key, side: usize) -> Option<u32> {
        let found = self.bound(key, side, true)?;
        let node = &self.nodes[found as usize];
        let is_asker = found == asker.index && node.generation == asker.generation;
        if is_asker { self.bound(node.key?, side, false) } else { Some(found) }
    }

    /// The last node before `key`, or the first after it; one at `key` itself counts if `inclusive`.
    fn bound(&self, key: Key, side: usize, inclusive: bool) -> Option<u32> {
        let mut found = None;
        let mut at = self.root;
        while let Some(index) = at {
            let node = &self.nodes[index as usize];
            let place = node.key?;
            let fits = match side {
                BEFORE => place < key,
                _ => place > key,
            };
            if fits || (inclusive && place == key) {
                found = Some(index);
                at = node.children[1 - side];
            } else {
                at = node.children[side];
            }
        }
        found
    }

    fn holder(&self, key: Key) -> Option<u32> {
        let mut at = self.root;
        while let Some(index) = at {
            let node = &self.nodes[index as usize];
            let place = node.key?;
            if place == key {
                return Some(index);
            }
            at = node.children[usize::from(key > place)];
        }
        None
    }

    fn link(&self, link: Link) -> Option<u32> {
        match link {
            Link::Root => self.root,
            Link::Child(parent, side) => self.nodes[parent as usize].children[side],
        }
    }

    fn set_link(&mut self, link: Link, to: Option<u32>) {
        match link {
            Link::Root => self.root = to,
            Link::Child(parent, side) => self.nodes[parent as usize].children[side] = to,
        }
    }

    /// Which way `key` lies from the node `index`, whose key is another.
    fn way(&self, index: u32, key: Key) -> usize {
        usize::from(self.nodes[index as usize].key.is_some_and(|place| key > place))
    }

    /// Hangs the node `new` in: goes down while the priority allows, then parts what is below around `key`.
    fn insert(&mut self, new: u32, key: Key) {
        let mut link = Link::Root;
        while let Some(index) = self.link(link)
            && priority(index) > priority(new)
        {
            link = Link::Child(index, self.way(index, key));
        }
        let mut rest = self.link(link);
        self.set_link(link, Some(new));
        // The two open ends: who comes before `key` goes to the first, who comes after it to the second.
        let mut ends = [Link::Child(new, BEFORE), Link::Child(new, AFTER)];
        while let Some(index) = rest {
            let way = self.way(index, key);
            self.set_link(ends[1 - way], Some(index));
            ends[1 - way] = Link::Child(index, way);
            rest = self.link(ends[1 - way]);
        }
        self.set_link(ends[BEFORE], None);
        self.set_link(ends[AFTER], None);
    }

    /// Takes the node `index` out, if it is in, and puts its children together in its place.
    fn take(&mut self, index: u32) {
        let Some(key) = self.nodes[index as usize].key.take() else { return };
        self.len -= 1;
        let mut link = Link::Root;
        while let Some(at) = self.link(link)
            && at != index
        {
            link = Link::Child(at, self.way(at, key));
        }
        let [mut before, mut after] = self.nodes[index as usize].children;
        loop {
            match (before, after) {
                (Some(b), Some(a)) if priority(b) > priority(a) => {
                    self.set_link(link, Some(b));
                    link = Link::Child(b, AFTER);
                    before = self.link(link);
                }
                (Some(_), Some(a)) => {
                    self.set_link(link, Some(a));
                    link = Link::Child(a, BEFORE);
                    after = self.link(link);
                }
                (rest, None) | (None, rest) => return self.set_link(link, rest),
            }
        }
    }
}

/// A fixed scramble of the index, and the index itself to tell equals apart. The multiplier is 2^64 divided by the
/// golden ratio, made odd, which spreads consecutive numbers widely (Knuth, volume 3, section 6.4).
const fn priority(index: u32) -> (u64, u32) {
    let mixed = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let folded = (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (folded, index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn queue(index: u32) -> QueueId {
        QueueId { index, generation: index ^ 5 }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Place { queue: u32, group: u32, at: u64 },
        Remove { queue: u32 },
        Near { asker: u32, group: u32, at: u64, close: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40u32, 0..3u32, 0..200u64)
                .prop_map(|(queue, group, at)| Step::Place { queue, group, at }),
            1 => (0..40u32).prop_map(|queue| Step::Remove { queue }),
            4 => (0..40u32, 0..3u32, 0..200u64, 0..30u64)
                .prop_map(|(asker, group, at, close)| Step::Near { asker, group, at, close }),
        ]
    }

    proptest! {
        #[test]
        fn finds_what_a_look_at_all_of_them_finds(steps in vec(step(), 1..300)) {
            let mut positions = Positions::new();
            let mut model: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Place { queue: index, group, at } => {
                        model.remove(&index);
                        let free = model.values().all(|place| *place != (group, at));
                        prop_assert_eq!(positions.place(queue(index), group, Position(at)), free);
                        if free {
                            model.insert(index, (group, at));
                        }
                    }
                    Step::Remove { queue: index } => {
                        positions.remove(queue(index));
                        model.remove(&index);
                    }
                    Step::Near { asker, group, at, close } => {
                        let expected = model
                            .iter()
                            .filter(|(index, place)| **index != asker && place.0 == group)
                            .map(|(index, place)| (place.1.abs_diff(at), place.1, *index))
                            .filter(|found| found.0 <= close)
                            .min()
                            .map(|found| queue(found.2));
                        let found = positions.nearest(queue(asker), group, Position(at), close);
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(positions.len(), model.len());
            }
        }
    }

    #[test]
    fn a_stale_id_removes_nobody() {
        let mut positions = Positions::new();
        positions.place(queue(3), 0, Position(0));
        positions.remove(QueueId { index: 3, generation: 77 });
        positions.remove(QueueId { index: 9, generation: 0 });
        assert_eq!(positions.nearest(queue(1), 0, Position(0), 0), Some(queue(3)));
    }

    #[test]
    fn a_hundred_thousand_in_order_make_no_list() {
        let mut positions = Positions::new();
        for index in 0..100_000 {
            positions.place(queue(index), 0, Position(u64::from(index)));
        }
        let depth = |mut at: Option<u32>, side: usize| {
            let mut depth = 0;
            while let Some(index) = at {
                depth += 1;
                at = positions.nodes[index as usize].children[side];
            }
            depth
        };
        assert!(depth(positions.root, BEFORE) < 60 && depth(positions.root, AFTER) < 60);
    }
}
