//! Position tree: next positions of the queues that may merge, by cgroup (spec/bfq 7.2).

use alloc::vec::Vec;

use super::{Position, QueueId};

/// Position tree of a device.
///
/// A queue is in it while it has a next request, is not of the idle class and is not late
/// ([`super::cooperation::Start::is_late`]). Leaving out late queues is where the 3 to 4 % of the patch of 2017 come
/// from. Each position of a cgroup has one queue: the first stays.
///
/// A treap: O(log n) expected for each call. Allocates with the largest index, four bytes each, and when more queues
/// are in it than ever before. Priorities are scrambled node numbers, so that equal calls build equal trees.
#[derive(Clone, Debug)]
pub struct PositionTree {
    nodes: Vec<Node>,
    /// Node of each queue, or [`NONE`].
    of: Vec<u32>,
    root: u32,
    /// First free node; each has the next as a child.
    free: u32,
    len: usize,
}

type Key = (u32, Position);

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    queue: QueueId,
    children: [u32; 2],
}

/// No node.
const NONE: u32 = u32::MAX;

/// Link of the root, or of a node to a child.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Child(u32, usize),
}

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Default for PositionTree {
    fn default() -> PositionTree {
        PositionTree::new()
    }
}

impl PositionTree {
    /// An empty tree.
    pub const fn new() -> PositionTree {
        PositionTree { nodes: Vec::new(), of: Vec::new(), root: NONE, free: NONE, len: 0 }
    }

    /// Number of queues in the tree.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no queue is in the tree.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocates what `queue` needs.
    pub fn make_room(&mut self, queue: QueueId) {
        let index = queue.index as usize;
        if self.of.len() <= index {
            self.of.resize(index + 1, NONE);
        }
    }

    /// Puts `queue` of cgroup `group` at `at`, and takes it out of its old position.
    ///
    /// Returns `false` if another queue has that position: `queue` then has none. O(log n).
    pub fn place(&mut self, queue: QueueId, group: u32, at: Position) -> bool {
        self.make_room(queue);
        let key = (group, at);
        let old = self.of[queue.index as usize];
        if self.nodes.get(old as usize).is_some_and(|node| node.key == key && node.queue == queue) {
            return true;
        }
        self.take(old);
        if self.holder(key) != NONE {
            return false;
        }
        let new = self.obtain(Node { key, queue, children: [NONE; 2] });
        self.insert(new, key);
        self.of[queue.index as usize] = new;
        self.len += 1;
        true
    }

    /// Takes `queue` out. Without effect if it is not in the tree. O(log n).
    pub fn remove(&mut self, queue: QueueId) {
        let at = self.node_of(queue);
        self.take(at);
    }

    /// Position of `queue` in the tree. O(1).
    pub fn place_of(&self, queue: QueueId) -> Option<Position> {
        self.nodes.get(self.node_of(queue) as usize).map(|node| node.key.1)
    }

    /// Node of a queue, but not of an earlier queue with its index.
    fn node_of(&self, queue: QueueId) -> u32 {
        let at = self.of.get(queue.index as usize).copied().unwrap_or(NONE);
        let is_its_own = self.nodes.get(at as usize).is_some_and(|node| node.queue == queue);
        if is_its_own { at } else { NONE }
    }

    /// Stores `node` and returns its index.
    fn obtain(&mut self, node: Node) -> u32 {
        let at = self.free;
        if at == NONE {
            self.nodes.push(node);
            // Nodes are no more than queues, whose indices fit.
            return self.nodes.len() as u32 - 1;
        }
        self.free = self.nodes[at as usize].children[BEFORE];
        self.nodes[at as usize] = node;
        at
    }

    /// The queue of `group`, other than `asker`, nearest to `at` and at most `close_bytes` away.
    ///
    /// Of two at equal distance, the one before. O(log n).
    pub fn nearest(
        &self,
        asker: QueueId,
        group: u32,
        at: Position,
        close_bytes: u64,
    ) -> Option<QueueId> {
        let distance = |node: u32| {
            let (other, place) = self.nodes.get(node as usize)?.key;
            (other == group).then(|| place.distance(at)).filter(|bytes| *bytes <= close_bytes)
        };
        let near = |side| {
            let node = self.beside(asker, (group, at), side);
            Some((distance(node)?, node))
        };
        let node = match (near(BEFORE), near(AFTER)) {
            (Some(before), Some(after)) if after.0 < before.0 => after.1,
            (Some(before), _) => before.1,
            (None, after) => after?.1,
        };
        Some(self.nodes[node as usize].queue)
    }

    /// Nearest node on one side of `key`, itself included, that is not `asker`'s.
    fn beside(&self, asker: QueueId, key: Key, side: usize) -> u32 {
        let found = self.bound(key, side, true);
        match self.nodes.get(found as usize) {
            Some(node) if node.queue == asker => self.bound(node.key, side, false),
            _ => found,
        }
    }

    /// The last node before `key`, or the first after it; one at `key` itself counts if `inclusive`.
    fn bound(&self, key: Key, side: usize, inclusive: bool) -> u32 {
        let (mut at, mut found) = (self.root, NONE);
        while let Some(node) = self.nodes.get(at as usize) {
            let fits = match side {
                BEFORE => node.key < key,
                _ => node.key > key,
            };
            if fits || (inclusive && node.key == key) {
                found = at;
                at = node.children[1 - side];
            } else {
                at = node.children[side];
            }
        }
        found
    }

    fn holder(&self, key: Key) -> u32 {
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize)
            && node.key != key
        {
            at = node.children[usize::from(key > node.key)];
        }
        at
    }

    fn link(&self, link: Link) -> u32 {
        match link {
            Link::Root => self.root,
            Link::Child(parent, side) => self.nodes[parent as usize].children[side],
        }
    }

    fn set_link(&mut self, link: Link, to: u32) {
        match link {
            Link::Root => self.root = to,
            Link::Child(parent, side) => self.nodes[parent as usize].children[side] = to,
        }
    }

    /// Side of `node` on which `key` lies; the two differ.
    fn way(&self, node: u32, key: Key) -> usize {
        usize::from(key > self.nodes[node as usize].key)
    }

    /// Inserts node `new`: goes down while the priority allows, then splits the subtree at `key`.
    fn insert(&mut self, new: u32, key: Key) {
        let mut link = Link::Root;
        let mut rest = self.link(link);
        while rest != NONE && priority(rest) > priority(new) {
            link = Link::Child(rest, self.way(rest, key));
            rest = self.link(link);
        }
        self.set_link(link, new);
        // Open ends for nodes before and after `key`.
        let mut ends = [Link::Child(new, BEFORE), Link::Child(new, AFTER)];
        while rest != NONE {
            let way = self.way(rest, key);
            self.set_link(ends[1 - way], rest);
            ends[1 - way] = Link::Child(rest, way);
            rest = self.link(ends[1 - way]);
        }
        self.set_link(ends[BEFORE], NONE);
        self.set_link(ends[AFTER], NONE);
    }

    /// Takes out the node `gone`, if it is one, and joins its children in its place.
    fn take(&mut self, gone: u32) {
        let Some(&Node { key, queue, children }) = self.nodes.get(gone as usize) else { return };
        self.len -= 1;
        self.of[queue.index as usize] = NONE;
        let mut link = Link::Root;
        let mut at = self.root;
        while at != gone {
            link = Link::Child(at, self.way(at, key));
            at = self.link(link);
        }
        let [mut before, mut after] = children;
        while before != NONE && after != NONE {
            if priority(before) > priority(after) {
                self.set_link(link, before);
                link = Link::Child(before, AFTER);
                before = self.link(link);
            } else {
                self.set_link(link, after);
                link = Link::Child(after, BEFORE);
                after = self.link(link);
            }
        }
        self.set_link(link, if before == NONE { after } else { before });
        self.nodes[gone as usize].children[BEFORE] = self.free;
        self.free = gone;
    }
}

/// Scrambles a node's number, with the number itself to break ties. The multiplier is 2^64 divided by the golden
/// ratio, made odd, which spreads consecutive numbers (Knuth, volume 3, section 6.4).
const fn priority(node: u32) -> (u64, u32) {
    let mixed = (node as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let folded = (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (folded, node)
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
        fn the_nearest_is_that_of_a_scan(steps in vec(step(), 1..300)) {
            let mut position_tree = PositionTree::new();
            let mut model: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Place { queue: index, group, at } => {
                        model.remove(&index);
                        let free = model.values().all(|place| *place != (group, at));
                        prop_assert_eq!(position_tree.place(queue(index), group, Position(at)), free);
                        if free {
                            model.insert(index, (group, at));
                        }
                    }
                    Step::Remove { queue: index } => {
                        position_tree.remove(queue(index));
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
                        let found = position_tree.nearest(queue(asker), group, Position(at), close);
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(position_tree.len(), model.len());
                prop_assert!(position_tree.nodes.len() <= 40, "places are given back");
            }
        }
    }

    #[test]
    fn a_stale_id_removes_no_queue() {
        let mut position_tree = PositionTree::new();
        position_tree.place(queue(3), 0, Position(0));
        position_tree.remove(QueueId { index: 3, generation: 77 });
        position_tree.remove(QueueId { index: 9, generation: 0 });
        assert_eq!(position_tree.nearest(queue(1), 0, Position(0), 0), Some(queue(3)));
    }

    #[test]
    fn a_hundred_thousand_in_order_stay_shallow() {
        let mut position_tree = PositionTree::new();
        for index in 0..100_000 {
            position_tree.place(queue(index), 0, Position(u64::from(index)));
        }
        let depth = |mut at: u32, side: usize| {
            let mut depth = 0;
            while let Some(node) = position_tree.nodes.get(at as usize) {
                depth += 1;
                at = node.children[side];
            }
            depth
        };
        assert!(depth(position_tree.root, BEFORE) < 60 && depth(position_tree.root, AFTER) < 60);
    }
}
