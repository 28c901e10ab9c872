//! The requests of a flow by position, and which of two is nearer (spec/bfq 4.2).

mod treap;

use alloc::vec::Vec;

use crate::bfq::tunables::Tunables;
use crate::tree::{Link, Links, List, NO_INDEX};

/// What BFQ keeps of each request, at the request's index.
#[derive(Default)]
pub(crate) struct SortNodes(Vec<SortNode>);

/// One request among its flow's: in a list by age and, where that is not the order by position, in a list by position, and
/// a node of a tree where that is long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortNode {
    /// First byte.
    pub(crate) at: u64,
    /// Itself, while there is no tree.
    parent: u32,
    left: u32,
    right: u32,
    /// Who is beside it, however far that is in the tree.
    neighbours: Neighbours,
    by_age: Link,
    /// The flow that it waits in, or was dispatched from.
    pub(crate) flow: u32,
    pub(crate) is_metadata: bool,
}

/// What is known of a request when it comes.
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

/// A flow's requests by position, and by age where that is equal. In one of three forms, each for more than the one before
/// it, until the flow is empty:
///
/// - As long as each lies behind the one that came before it, as those of a stream do, or is the only one, the list by
///   age is also the order by position, and there is nothing else to keep.
/// - From the first that does not, they are a list by position besides. The place of a new one is found from the one that
///   came last, in [`STEPS_MAX`] steps at most.
/// - From the first whose place is farther away, they are a treap besides. It is O(log requests) to find a place.
///
/// To leave takes O(1), expected where there is a treap. The first of a form is O(requests), each of which came in O(1).
///
/// A standard library's set would allocate in the middle of a request's way, and keep 200 bytes for an empty flow. A
/// request's rank in the treap is a mix of its index's bits, so the shape depends on nothing that a caller chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortList {
    by_age: List,
    /// [`NO_INDEX`] while all are in order; the first by position while they are a list of their own.
    root: u32,
}

/// How far the list by position is gone through for the place of a new one: a third of that on average, among as many
/// requests, which is less than it takes to go down a treap of them and to keep it in shape.
const STEPS_MAX: u32 = 32;

/// Who is beside a request; [`NO_INDEX`] for nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

impl SortList {
    pub(crate) const EMPTY: SortList = SortList { by_age: List::EMPTY, root: NO_INDEX };

    /// Oldest first.
    #[inline]
    pub(crate) fn by_age(&self) -> List {
        self.by_age
    }

    /// Takes in `index`, which is younger than all that are in here.
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

    /// Makes a list by position of those that came in order.
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

    /// Puts `index` between two neighbours in the list by position.
    fn list_insert(&mut self, sort_nodes: &mut SortNodes, index: u32, neighbours: Neighbours) {
        sort_nodes[index].parent = index;
        sort_nodes.join(index, neighbours);
        if neighbours.before == NO_INDEX {
            self.root = index;
        }
    }

    /// Takes `index` out of that.
    fn list_remove(&mut self, sort_nodes: &mut SortNodes, index: u32) -> Neighbours {
        let neighbours = sort_nodes.part(index);
        if neighbours.before == NO_INDEX {
            self.root = neighbours.after;
        }
        neighbours
    }

    /// Takes out `index`, which is in here; answers its neighbours.
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

    /// The one with the lowest position.
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

    /// The one behind `index`, which is in here.
    pub(crate) fn after(&self, sort_nodes: &SortNodes, index: u32) -> Option<u32> {
        let SortNode { by_age, neighbours, .. } = sort_nodes[index];
        let after = if self.root == NO_INDEX { by_age.next() } else { neighbours.after };
        Some(after).filter(|&after| after != NO_INDEX)
    }
}

impl SortNodes {
    /// The request at `index`, which waits nowhere, is one of `flow` at the device.
    pub(crate) fn adopt(&mut self, index: u32, flow: u32) {
        if self.0.len() <= index as usize {
            self.0.resize(index as usize + 1, UNLINKED);
        }
        self[index].flow = flow;
    }

    /// Whether `index`, which is not in order, is in no treap.
    #[inline]
    fn is_listed(&self, index: u32) -> bool {
        self[index].parent == index
    }

    /// Who the youngest one, at `at`, comes between, if that is found in so many steps from `last`.
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

    /// Puts `index` between two neighbours.
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

    /// Takes it out from between them.
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

/// Whether `new` goes before `old`, from `from` on: metadata first, then the shorter way, forward where they are equal.
pub(crate) fn goes_before(new: &SortNode, old: &SortNode, from: u64, tunables: &Tunables) -> bool {
    // Mostly the new one lies behind the old one, on the way ahead.
    if from <= old.at && old.at <= new.at && !new.is_metadata {
        return false;
    }
    if new.is_metadata != old.is_metadata {
        return new.is_metadata;
    }
    // Whether it is so far back that a new sweep begins, and how far the way is: within one sweep, in bytes, backwards
    // counting more; in a new one from the lowest position.
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
        /// Neighbours are those that a sorted list has, in whatever order requests come; those of a stream come in theirs.
        #[test]
        fn neighbours(
            steps in prop::collection::vec((0..20_u64, 0..60_u32, 0..3_u8), 1..200),
            // So many come before any leaves: more than are looked through one by one.
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
