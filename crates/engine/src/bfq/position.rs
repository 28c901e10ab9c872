//! The requests of a flow by position, and which of two is nearer (specification 4.2).

use alloc::vec::Vec;

use super::tunables::Tunables;
use crate::tree::{Link, Links, List, NO_INDEX};

/// What BFQ keeps of each request, at the request's index.
#[derive(Default)]
pub(crate) struct Places(Vec<Place>);

/// One request among its flow's: in a list by age and, where that is not the order by position, a node of a tree and of a
/// list by position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// First byte.
    pub(crate) at: u64,
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
pub(crate) struct Spot {
    /// First byte.
    pub(crate) at: u64,
    pub(crate) flow: u32,
    pub(crate) is_metadata: bool,
}

const NOWHERE: Place = Place {
    at: 0,
    parent: NO_INDEX,
    left: NO_INDEX,
    right: NO_INDEX,
    neighbours: Neighbours { before: NO_INDEX, after: NO_INDEX },
    by_age: Link::NONE,
    flow: NO_INDEX,
    is_metadata: false,
};

/// A flow's requests by position, and by age where that is equal.
///
/// As long as each lies behind the one that came before it, as those of a stream do, or is the only one, the list by age
/// is also the order by position, and there is nothing else to keep. From the first that does not, until the flow is
/// empty, they are a treap besides.
///
/// A standard library's set would allocate in the middle of a request's way, and keep 200 bytes for an empty flow. A
/// request's rank in the treap is a mix of its index's bits, so the shape depends on nothing that a caller chooses.
/// To leave takes O(1) expected, and so does to come beside who came last; elsewhere it is O(log requests) to find the
/// place. The first one out of order is O(requests), each of which came in O(1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByPosition {
    by_age: List,
    /// [`NO_INDEX`] while all are in order.
    root: u32,
}

/// Where a node of the treap hangs.
#[derive(Clone, Copy)]
enum Hook {
    Root,
    Left(u32),
    Right(u32),
}

/// Who is beside a request; [`NO_INDEX`] for nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

impl ByPosition {
    pub(crate) const EMPTY: ByPosition = ByPosition { by_age: List::EMPTY, root: NO_INDEX };

    /// Oldest first.
    #[inline]
    pub(crate) fn by_age(&self) -> List {
        self.by_age
    }

    /// Takes in `index`, which is younger than all that are in here.
    #[inline]
    pub(crate) fn insert(&mut self, places: &mut Places, index: u32, spot: Spot) {
        if places.0.len() <= index as usize {
            places.0.resize(index as usize + 1, NOWHERE);
        }
        let Spot { at, flow, is_metadata } = spot;
        let last = self.by_age.tail;
        let is_in_order = last == NO_INDEX || (self.root == NO_INDEX && places[last].at <= at);
        let place = &mut places[index];
        (place.at, place.flow, place.is_metadata) = (at, flow, is_metadata);
        if !is_in_order {
            self.insert_anywhere(places, index);
        }
        self.by_age.push_back(places, index);
    }

    fn insert_anywhere(&mut self, places: &mut Places, index: u32) {
        if self.root == NO_INDEX {
            self.plant(places);
        }
        let neighbours = places.between(places[index].at, self.by_age.tail, self.root);
        self.hook_in(places, index, neighbours);
    }

    /// Makes a treap of those that came in order.
    fn plant(&mut self, places: &mut Places) {
        let (mut before, mut here) = (NO_INDEX, self.by_age.head);
        while here != NO_INDEX {
            self.hook_in(places, here, Neighbours { before, after: NO_INDEX });
            (before, here) = (here, places[here].by_age.next());
        }
    }

    /// Puts `index` between two neighbours in the treap.
    fn hook_in(&mut self, places: &mut Places, index: u32, neighbours: Neighbours) {
        let Neighbours { before, after } = neighbours;
        // Of two neighbours, one is above the other: there is room for a leaf below the lower one.
        let is_right = before != NO_INDEX && places[before].right == NO_INDEX;
        let parent = if is_right { before } else { after };
        let place = &mut places[index];
        (place.left, place.right) = (NO_INDEX, NO_INDEX);
        (place.parent, place.neighbours) = (parent, neighbours);
        if before != NO_INDEX {
            places[before].neighbours.after = index;
        }
        if after != NO_INDEX {
            places[after].neighbours.before = index;
        }
        match (parent, is_right) {
            (NO_INDEX, _) => self.root = index,
            (parent, true) => places[parent].right = index,
            (parent, false) => places[parent].left = index,
        }
        self.rise(places, index);
    }

    /// Takes out `index`, which is in here; answers its neighbours.
    #[inline]
    pub(crate) fn remove(&mut self, places: &mut Places, index: u32) -> Neighbours {
        let neighbours = match self.root {
            NO_INDEX => {
                let link = places[index].by_age;
                let before = if index == self.by_age.head { NO_INDEX } else { link.prev() };
                Neighbours { before, after: link.next() }
            }
            _ => self.unhook(places, index),
        };
        self.by_age.remove(places, index);
        if self.by_age.is_empty() {
            self.root = NO_INDEX;
        }
        neighbours
    }

    /// Takes `index` out of the treap.
    fn unhook(&mut self, places: &mut Places, index: u32) -> Neighbours {
        let mut hook = places.hook(index);
        let Place { mut left, mut right, neighbours, .. } = places[index];
        while left != NO_INDEX && right != NO_INDEX {
            if rank(left) > rank(right) {
                self.hang(places, hook, left);
                hook = Hook::Right(left);
                left = places[left].right;
            } else {
                self.hang(places, hook, right);
                hook = Hook::Left(right);
                right = places[right].left;
            }
        }
        self.hang(places, hook, if left == NO_INDEX { right } else { left });
        let Neighbours { before, after } = neighbours;
        if before != NO_INDEX {
            places[before].neighbours.after = after;
        }
        if after != NO_INDEX {
            places[after].neighbours.before = before;
        }
        neighbours
    }

    /// Takes a new leaf up to where its rank belongs.
    fn rise(&mut self, places: &mut Places, index: u32) {
        loop {
            let below = places.hook(index);
            let (Hook::Left(parent) | Hook::Right(parent)) = below else { return };
            if rank(parent) > rank(index) {
                return;
            }
            let hook = places.hook(parent);
            let Place { left, right, .. } = places[index];
            match below {
                Hook::Left(_) => {
                    self.hang(places, below, right);
                    self.hang(places, Hook::Right(index), parent);
                }
                _ => {
                    self.hang(places, below, left);
                    self.hang(places, Hook::Left(index), parent);
                }
            }
            self.hang(places, hook, index);
        }
    }

    /// The one with the lowest position.
    pub(crate) fn first(&self, places: &Places) -> Option<u32> {
        if self.root == NO_INDEX {
            return Some(self.by_age.head).filter(|&head| head != NO_INDEX);
        }
        let (mut at, mut found) = (self.root, None);
        while at != NO_INDEX {
            found = Some(at);
            at = places[at].left;
        }
        found
    }

    /// The one behind `index`, which is in here.
    pub(crate) fn after(&self, places: &Places, index: u32) -> Option<u32> {
        let Place { by_age, neighbours, .. } = places[index];
        let after = if self.root == NO_INDEX { by_age.next() } else { neighbours.after };
        Some(after).filter(|&after| after != NO_INDEX)
    }

    /// Hangs `node`, or nobody, with all below it at `hook`.
    fn hang(&mut self, places: &mut Places, hook: Hook, node: u32) {
        let above = match hook {
            Hook::Root => {
                self.root = node;
                NO_INDEX
            }
            Hook::Left(above) => {
                places[above].left = node;
                above
            }
            Hook::Right(above) => {
                places[above].right = node;
                above
            }
        };
        if node != NO_INDEX {
            places[node].parent = above;
        }
    }
}

impl Places {
    /// The request at `index`, which waits nowhere, is one of `flow` at the device.
    pub(crate) fn adopt(&mut self, index: u32, flow: u32) {
        if self.0.len() <= index as usize {
            self.0.resize(index as usize + 1, NOWHERE);
        }
        self[index].flow = flow;
    }

    /// Where `node` hangs.
    #[inline]
    fn hook(&self, node: u32) -> Hook {
        match self[node].parent {
            NO_INDEX => Hook::Root,
            parent if self[parent].left == node => Hook::Left(parent),
            parent => Hook::Right(parent),
        }
    }

    /// Who the youngest one, at `at`, comes between in the treap below `root`: mostly `last` and the one beside it.
    fn between(&self, at: u64, last: u32, root: u32) -> Neighbours {
        let Place { at: beside, neighbours: Neighbours { before, after }, .. } = self[last];
        if at >= beside {
            if after == NO_INDEX || at < self[after].at {
                return Neighbours { before: last, after };
            }
        } else if before == NO_INDEX || at >= self[before].at {
            return Neighbours { before, after: last };
        }
        let (mut node, mut found) = (root, NOWHERE.neighbours);
        while node != NO_INDEX {
            let place = &self[node];
            if at < place.at {
                (found.after, node) = (node, place.left);
            } else {
                (found.before, node) = (node, place.right);
            }
        }
        found
    }
}

impl core::ops::Index<u32> for Places {
    type Output = Place;

    fn index(&self, index: u32) -> &Place {
        &self.0[index as usize]
    }
}

impl core::ops::IndexMut<u32> for Places {
    fn index_mut(&mut self, index: u32) -> &mut Place {
        &mut self.0[index as usize]
    }
}

impl Links for Places {
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self[index].by_age
    }
}

/// A number that says nothing about `index`, and belongs to it alone (the finaliser of MurmurHash3, a bijection).
fn rank(index: u32) -> u32 {
    let mixed = (index ^ (index >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

/// Whether `new` goes before `old`, from `from` on: metadata first, then the shorter way, forward where they are equal.
pub(crate) fn goes_before(new: &Place, old: &Place, from: u64, tunables: &Tunables) -> bool {
    // Mostly the new one lies behind the old one, on the way ahead.
    if from <= old.at && old.at <= new.at && !new.is_metadata {
        return false;
    }
    if new.is_metadata != old.is_metadata {
        return new.is_metadata;
    }
    // Whether it is so far back that a new sweep begins, and how far the way is: within one sweep, in bytes, backwards
    // counting more; in a new one from the lowest position.
    let way = |place: &Place| {
        let back = from.saturating_sub(place.at);
        match back {
            0 => (false, place.at - from),
            _ if back <= tunables.back_seek_max => (false, back * tunables.back_seek_penalty),
            _ => (true, place.at),
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

    use super::*;

    #[test]
    fn the_nearer_of_two() {
        // EX-13, in sectors.
        let tunables = Tunables::new(true, NonZeroU32::MIN);
        let place = |sector: u64| Place { at: sector * 512, ..NOWHERE };
        for (from, nearer, other) in [
            (10_000, 9_960, 10_100),
            (10_000, 10_100, 9_950),
            (10_000, 10_100, 9_940),
            (100_000, 50_000, 60_000),
            (100_000, 900_000, 50_000),
            (100_000, 67_232, 67_231),
        ] {
            let (nearer, other) = (place(nearer), place(other));
            assert!(goes_before(&nearer, &other, from * 512, &tunables), "{nearer:?} from {from}");
            assert!(!goes_before(&other, &nearer, from * 512, &tunables), "{other:?} from {from}");
        }
        let metadata = Place { is_metadata: true, ..place(0) };
        assert!(goes_before(&metadata, &place(100_000), 100_000 * 512, &tunables));
    }

    proptest! {
        /// Neighbours are those that a sorted list has, in whatever order requests come; those of a stream come in theirs.
        #[test]
        fn neighbours(
            steps in prop::collection::vec((0..20_u64, 0..60_u32, 0..3_u8), 1..120),
            is_stream: bool,
        ) {
            let (mut places, mut tree) = (Places::default(), ByPosition::EMPTY);
            // By position and then by age.
            let mut model = BTreeSet::<(u64, usize, u32)>::new();
            let mut inside = BTreeMap::new();
            for (age, (at, index, kind)) in steps.into_iter().enumerate() {
                let at = if is_stream { age as u64 / 2 + at * u64::from(kind == 0) } else { at };
                match inside.remove(&index) {
                    Some(old) => {
                        let neighbours = tree.remove(&mut places, index);
                        model.remove(&old);
                        let before = model.range(..old).next_back();
                        let after = model.range(old..).next();
                        let [before, after] =
                            [before, after].map(|key| key.map_or(NO_INDEX, |&(.., index)| index));
                        prop_assert_eq!(neighbours, Neighbours { before, after });
                    }
                    None => {
                        tree.insert(&mut places, index, Spot { at, flow: 0, is_metadata: false });
                        let key = (at, age, index);
                        inside.insert(index, key);
                        model.insert(key);
                    }
                }
                let walk = iter::successors(tree.first(&places), |&index| {
                    tree.after(&places, index)
                });
                let order: Vec<u32> = walk.take(model.len() + 1).collect();
                let expected: Vec<u32> =
                    model.iter().map(|&(.., index)| index).collect();
                prop_assert_eq!(order, expected);
                if tree.root == NO_INDEX {
                    continue;
                }
                for index in inside.keys().copied() {
                    match places.hook(index) {
                        Hook::Root => prop_assert_eq!(tree.root, index),
                        Hook::Left(above) => prop_assert!(places[above].at >= places[index].at),
                        Hook::Right(above) => prop_assert!(places[above].at <= places[index].at),
                    }
                    let above = places[index].parent;
                    prop_assert!(above == NO_INDEX || rank(above) > rank(index));
                }
            }
        }
    }
}
