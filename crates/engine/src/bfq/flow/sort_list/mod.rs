//! Sort list: requests of a flow by position and by age (`bfqq->sort_list`; spec/bfq 4.2).

mod treap;

use alloc::vec::Vec;

use crate::bfq::tunables::Tunables;
use crate::tree::{Link, Links, List, NO_INDEX};

/// Nodes of all sort lists, by index of the request.
#[derive(Default)]
pub(crate) struct SortNodes(Vec<SortNode>);

/// Request in a sort list: linked by age and, where that is not the order by position, by position; and a treap node
/// if its flow has many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortNode {
    /// First byte.
    pub(crate) at: u64,
    /// Parent in the treap; the node itself while there is no treap.
    parent: u32,
    left: u32,
    right: u32,
    /// Neighbours by position.
    neighbours: Neighbours,
    by_age: Link,
    /// Flow that the request waits in, or was dispatched from.
    pub(crate) flow: u32,
    pub(crate) is_metadata: bool,
}

/// Request to insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewNode {
    /// First byte.
    pub(crate) at: u64,
    pub(crate) flow: u32,
    pub(crate) is_metadata: bool,
}

const UNLINKED: SortNode = SortNode {
    at: 0,
    parent: NO_INDEX,
    left: NO_INDEX,
    right: NO_INDEX,
    neighbours: Neighbours { before: NO_INDEX, after: NO_INDEX },
    by_age: Link::NONE,
    flow: NO_INDEX,
    is_metadata: false,
};

/// Requests of a flow by position, and by age where that is equal. In one of three forms until the flow is empty:
///
/// - While each request lies behind the one that came before it, as in a stream, the list by age is the order by
///   position.
/// - From the first that does not, a list by position. A place is found from the last insertion in [`STEPS_MAX`] steps.
/// - From the first whose place is farther away, a treap. A place is found in O(log requests).
///
/// Removal is O(1), expected in a treap. A change of form is O(requests), each of which came in O(1).
///
/// A standard set would allocate on the hot path, and take 200 bytes for an empty flow. Ranks in the treap are scrambled
/// indices, so its shape does not depend on the caller's values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortList {
    by_age: List,
    /// Root of the treap, or first by position without a treap; [`NO_INDEX`] while age is the order by position.
    root: u32,
}

/// Longest search by position from the last insertion. A third of it on average, among as many requests, is cheaper
/// than a treap.
const STEPS_MAX: u32 = 32;

/// Neighbours of a request by position, or [`NO_INDEX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

impl SortList {
    pub(crate) const EMPTY: SortList = SortList { by_age: List::EMPTY, root: NO_INDEX };

    /// The requests by age, oldest first.
    #[inline]
    pub(crate) fn by_age(&self) -> List {
        self.by_age
    }

    /// Inserts `index`, younger than all others.
    #[inline]
    pub(crate) fn insert(&mut self, sort_nodes: &mut SortNodes, index: u32, new: NewNode) {
        if sort_nodes.0.len() <= index as usize {
            sort_nodes.0.resize(index as usize + 1, UNLINKED);
        }
        let NewNode { at, flow, is_metadata } = new;
        let last = self.by_age.tail;
        let is_in_order = last == NO_INDEX || (self.root == NO_INDEX && sort_nodes[last].at <= at);
        let node = &mut sort_nodes[index];
        (node.at, node.flow, node.is_metadata) = (at, flow, is_metadata);
        if !is_in_order {
            self.insert_anywhere(sort_nodes, index);
        }
        self.by_age.push_back(sort_nodes, index);
    }

    fn insert_anywhere(&mut self, sort_nodes: &mut SortNodes, index: u32) {
        if self.root == NO_INDEX {
            self.make_list(sort_nodes);
        }
        let (at, last) = (sort_nodes[index].at, self.by_age.tail);
        let is_list = sort_nodes.is_listed(last);
        let near = sort_nodes.near(at, last, if is_list { STEPS_MAX } else { 1 });
        if is_list && let Some(neighbours) = near {
            self.list_insert(sort_nodes, index, neighbours);
            return;
        }
        if is_list {
            self.make_treap(sort_nodes);
        }
        let neighbours = near.unwrap_or_else(|| sort_nodes.between(at, self.root));
        self.treap_insert(sort_nodes, index, neighbours);
    }

    /// Makes a list by position of requests that came in order.
    fn make_list(&mut self, sort_nodes: &mut SortNodes) {
        self.root = self.by_age.head;
        let (mut before, mut here) = (NO_INDEX, self.root);
        while here != NO_INDEX {
            let node = &mut sort_nodes[here];
            let after = node.by_age.next();
            (node.parent, node.neighbours) = (here, Neighbours { before, after });
            (before, here) = (here, after);
        }
    }

    /// Inserts `index` between two neighbours of the list.
    fn list_insert(&mut self, sort_nodes: &mut SortNodes, index: u32, neighbours: Neighbours) {
        sort_nodes[index].parent = index;
        sort_nodes.join(index, neighbours);
        if neighbours.before == NO_INDEX {
            self.root = index;
        }
    }

    /// Takes `index` out of the list.
    fn list_remove(&mut self, sort_nodes: &mut SortNodes, index: u32) -> Neighbours {
        let neighbours = sort_nodes.part(index);
        if neighbours.before == NO_INDEX {
            self.root = neighbours.after;
        }
        neighbours
    }

    /// Takes out `index`; returns its neighbours.
    #[inline]
    pub(crate) fn remove(&mut self, sort_nodes: &mut SortNodes, index: u32) -> Neighbours {
        let neighbours = match self.root {
            NO_INDEX => {
                let link = sort_nodes[index].by_age;
                let before = if index == self.by_age.head { NO_INDEX } else { link.prev() };
                Neighbours { before, after: link.next() }
            }
            _ if sort_nodes.is_listed(index) => self.list_remove(sort_nodes, index),
            _ => self.treap_remove(sort_nodes, index),
        };
        self.by_age.remove(sort_nodes, index);
        if self.by_age.is_empty() {
            self.root = NO_INDEX;
        }
        neighbours
    }

    /// The request with the lowest position.
    pub(crate) fn first(&self, sort_nodes: &SortNodes) -> Option<u32> {
        if self.root == NO_INDEX {
            return Some(self.by_age.head).filter(|&head| head != NO_INDEX);
        }
        if sort_nodes.is_listed(self.root) {
            return Some(self.root);
        }
        let (mut at, mut found) = (self.root, None);
        while at != NO_INDEX {
            found = Some(at);
            at = sort_nodes[at].left;
        }
        found
    }

    /// The request behind `index`.
    pub(crate) fn after(&self, sort_nodes: &SortNodes, index: u32) -> Option<u32> {
        let SortNode { by_age, neighbours, .. } = sort_nodes[index];
        let after = if self.root == NO_INDEX { by_age.next() } else { neighbours.after };
        Some(after).filter(|&after| after != NO_INDEX)
    }
}

impl SortNodes {
    /// Notes the flow of the request at `index`, which is at the device.
    pub(crate) fn adopt(&mut self, index: u32, flow: u32) {
        if self.0.len() <= index as usize {
            self.0.resize(index as usize + 1, UNLINKED);
        }
        self[index].flow = flow;
    }

    /// Whether `index` is in a list by position and in no treap.
    #[inline]
    fn is_listed(&self, index: u32) -> bool {
        self[index].parent == index
    }

    /// Neighbours for a request at `at`, if found in so many steps from `last`.
    fn near(&self, at: u64, last: u32, steps: u32) -> Option<Neighbours> {
        let node = &self[last];
        if node.at <= at {
            let (mut before, mut after) = (last, node.neighbours.after);
            for _ in 0..steps {
                if after == NO_INDEX || at < self[after].at {
                    return Some(Neighbours { before, after });
                }
                (before, after) = (after, self[after].neighbours.after);
            }
        } else {
            let (mut before, mut after) = (node.neighbours.before, last);
            for _ in 0..steps {
                if before == NO_INDEX || self[before].at <= at {
                    return Some(Neighbours { before, after });
                }
                (before, after) = (self[before].neighbours.before, before);
            }
        }
        None
    }

    /// Links `index` between two neighbours.
    #[inline]
    fn join(&mut self, index: u32, neighbours: Neighbours) {
        self[index].neighbours = neighbours;
        let Neighbours { before, after } = neighbours;
        if before != NO_INDEX {
            self[before].neighbours.after = index;
        }
        if after != NO_INDEX {
            self[after].neighbours.before = index;
        }
    }

    /// Unlinks `index`.
    #[inline]
    fn part(&mut self, index: u32) -> Neighbours {
        let neighbours = self[index].neighbours;
        let Neighbours { before, after } = neighbours;
        if before != NO_INDEX {
            self[before].neighbours.after = after;
        }
        if after != NO_INDEX {
            self[after].neighbours.before = before;
        }
        neighbours
    }
}

impl core::ops::Index<u32> for SortNodes {
    type Output = SortNode;

    fn index(&self, index: u32) -> &SortNode {
        &self.0[index as usize]
    }
}

impl core::ops::IndexMut<u32> for SortNodes {
    fn index_mut(&mut self, index: u32) -> &mut SortNode {
        &mut self.0[index as usize]
    }
}

impl Links for SortNodes {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self[index].by_age
    }
}

/// Whether `new` is dispatched before `old`, from `from` on: metadata first, then the shorter way, forward if equal.
pub(crate) fn goes_before(new: &SortNode, old: &SortNode, from: u64, tunables: &Tunables) -> bool {
    // Mostly the new request lies behind the old one, ahead of the device.
    if from <= old.at && old.at <= new.at && !new.is_metadata {
        return false;
    }
    if new.is_metadata != old.is_metadata {
        return new.is_metadata;
    }
    // Whether a new sweep begins, and the distance: within a sweep in bytes, with a penalty backwards; in a new sweep
    // from the lowest position.
    let way = |node: &SortNode| {
        let back = from.saturating_sub(node.at);
        match back {
            0 => (false, node.at - from),
            _ if back <= tunables.back_seek_max => (false, back * tunables.back_seek_penalty),
            _ => (true, node.at),
        }
    };
    let [mine, theirs] = [way(new), way(old)];
    mine < theirs || (mine == theirs && new.at > old.at)
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;
    use core::iter;
    use core::num::NonZeroU32;

    use proptest::prelude::*;

    use super::treap::{Hook, rank};
    use super::*;

    #[test]
    fn the_nearer_of_two() {
        // spec/bfq EX-13, in sectors.
        let tunables = Tunables::new(true, NonZeroU32::MIN);
        let node = |sector: u64| SortNode { at: sector * 512, ..UNLINKED };
        for (from, nearer, other) in [
            (10_000, 9_960, 10_100),
            (10_000, 10_100, 9_950),
            (10_000, 10_100, 9_940),
            (100_000, 50_000, 60_000),
            (100_000, 900_000, 50_000),
            (100_000, 67_232, 67_231),
        ] {
            let (nearer, other) = (node(nearer), node(other));
            assert!(goes_before(&nearer, &other, from * 512, &tunables), "{nearer:?} from {from}");
            assert!(!goes_before(&other, &nearer, from * 512, &tunables), "{other:?} from {from}");
        }
        let metadata = SortNode { is_metadata: true, ..node(0) };
        assert!(goes_before(&metadata, &node(100_000), 100_000 * 512, &tunables));
    }

    proptest! {
        /// Neighbours equal those in a sorted set, in any order of arrival and in that of a stream.
        #[test]
        fn neighbours(
            steps in prop::collection::vec((0..20_u64, 0..60_u32, 0..3_u8), 1..200),
            // So many come before any leaves, more than the list searches.
            crowd in prop_oneof![Just(0), 60..120_usize],
            is_stream: bool,
        ) {
            let (mut sort_nodes, mut tree) = (SortNodes::default(), SortList::EMPTY);
            // By position and then by age.
            let mut model = BTreeSet::<(u64, usize, u32)>::new();
            let mut inside = BTreeMap::new();
            for (age, (at, index, kind)) in steps.into_iter().enumerate() {
                let at = if is_stream { age as u64 / 2 + at * u64::from(kind == 0) } else { at };
                let index = if age < crowd { 100 + age as u32 } else { index };
                match inside.remove(&index) {
                    Some(old) => {
                        let neighbours = tree.remove(&mut sort_nodes, index);
                        model.remove(&old);
                        let before = model.range(..old).next_back();
                        let after = model.range(old..).next();
                        let [before, after] =
                            [before, after].map(|key| key.map_or(NO_INDEX, |&(.., index)| index));
                        prop_assert_eq!(neighbours, Neighbours { before, after });
                    }
                    None => {
                        tree.insert(&mut sort_nodes, index, NewNode { at, flow: 0, is_metadata: false });
                        let key = (at, age, index);
                        inside.insert(index, key);
                        model.insert(key);
                    }
                }
                let walk = iter::successors(tree.first(&sort_nodes), |&index| {
                    tree.after(&sort_nodes, index)
                });
                let order: Vec<u32> = walk.take(model.len() + 1).collect();
                let expected: Vec<u32> =
                    model.iter().map(|&(.., index)| index).collect();
                prop_assert_eq!(order, expected);
                if tree.root == NO_INDEX || sort_nodes.is_listed(tree.root) {
                    continue;
                }
                for index in inside.keys().copied() {
                    match sort_nodes.hook(index) {
                        Hook::Root => prop_assert_eq!(tree.root, index),
                        Hook::Left(above) => prop_assert!(sort_nodes[above].at >= sort_nodes[index].at),
                        Hook::Right(above) => prop_assert!(sort_nodes[above].at <= sort_nodes[index].at),
                    }
                    let above = sort_nodes[index].parent;
                    prop_assert!(above == NO_INDEX || rank(above) > rank(index));
                }
            }
        }
    }
}
