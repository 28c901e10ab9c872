//! The requests of a flow by position, and which of two is nearer (specification 4.2).

use alloc::vec::Vec;

use super::tunables::Tunables;
use crate::tree::{Link, Links, NO_INDEX};

/// What BFQ keeps of each request, at the request's index.
#[derive(Default)]
pub(crate) struct Places(Vec<Place>);

/// One request among its flow's: a node of a tree by position, and of lists by position and by age.
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

/// A flow's requests by position, and by index where that is equal: a treap.
///
/// A standard library's set would allocate in the middle of a request's way, and keep 200 bytes for an empty flow. A
/// request's rank in the treap is a mix of its index's bits, so the shape depends on nothing that a caller chooses.
/// To leave takes O(1) expected, and so does to come beside who came last, as those of a stream do; elsewhere it is
/// O(log requests) to find the place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByPosition {
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
    pub(crate) const EMPTY: ByPosition = ByPosition { root: NO_INDEX };

    /// Takes in `index`; `last` came before it, if anybody is in here.
    pub(crate) fn insert(&mut self, places: &mut Places, index: u32, spot: Spot, last: u32) {
        if places.0.len() <= index as usize {
            places.0.resize(index as usize + 1, NOWHERE);
        }
        let Spot { at, flow, is_metadata } = spot;
        let neighbours = match self.root {
            NO_INDEX => NOWHERE.neighbours,
            root => places.between((at, index), last, root),
        };
        let Neighbours { before, after } = neighbours;
        // Of two neighbours, one is above the other: there is room for a leaf below the lower one.
        let is_right = before != NO_INDEX && places[before].right == NO_INDEX;
        let parent = if is_right { before } else { after };
        places.0[index as usize] = Place { at, flow, is_metadata, parent, neighbours, ..NOWHERE };
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
    pub(crate) fn remove(&mut self, places: &mut Places, index: u32) -> Neighbours {
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

    /// The first one after `index`, which need not be in here.
    pub(crate) fn after(&self, places: &Places, index: u32) -> Option<u32> {
        let (mut at, mut found) = (self.root, None);
        while at != NO_INDEX {
            let node = &places[at];
            if places.key(at) > places.key(index) {
                found = Some(at);
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }

    pub(crate) fn first(&self, places: &Places) -> Option<u32> {
        let (mut at, mut found) = (self.root, None);
        while at != NO_INDEX {
            found = Some(at);
            at = places[at].left;
        }
        found
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

    fn key(&self, index: u32) -> (u64, u32) {
        (self[index].at, index)
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

    /// Who `key` comes between in the treap below `root`: mostly `last` and the one beside it.
    fn between(&self, key: (u64, u32), last: u32, root: u32) -> Neighbours {
        let Neighbours { before, after } = self[last].neighbours;
        if key > self.key(last) {
            if after == NO_INDEX || key < self.key(after) {
                return Neighbours { before: last, after };
            }
        } else if before == NO_INDEX || key > self.key(before) {
            return Neighbours { before, after: last };
        }
        let (mut node, mut found) = (root, NOWHERE.neighbours);
        while node != NO_INDEX {
            let place = &self[node];
            if key < (place.at, node) {
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
        /// Neighbours are those that a sorted list has.
        #[test]
        fn neighbours(steps in prop::collection::vec((0..20_u64, 0..60_u32), 1..120)) {
            let (mut places, mut tree) = (Places::default(), ByPosition::EMPTY);
            let mut model = alloc::collections::BTreeSet::new();
            let mut inside = alloc::collections::BTreeMap::new();
            // Beside whom others are put: whoever of them it is.
            let mut last = NO_INDEX;
            for (at, index) in steps {
                match inside.remove(&index) {
                    Some(old) => {
                        let neighbours = tree.remove(&mut places, index);
                        model.remove(&(old, index));
                        let before = model.range(..(old, index)).next_back();
                        let after = model.range((old, index)..).next();
                        let [before, after] =
                            [before, after].map(|key| key.map_or(NO_INDEX, |&(_, index)| index));
                        prop_assert_eq!(neighbours, Neighbours { before, after });
                        last = inside.keys().next().copied().unwrap_or(NO_INDEX);
                    }
                    None => {
                        let spot = Spot { at, flow: 0, is_metadata: false };
                        tree.insert(&mut places, index, spot, last);
                        last = index;
                        inside.insert(index, at);
                        model.insert((at, index));
                    }
                }
                let here = (places[index].at, index);
                let after = model.range(here..).find(|&&key| key != here).map(|&(_, index)| index);
                prop_assert_eq!(tree.after(&places, index), after);
                prop_assert_eq!(tree.first(&places), model.first().map(|&(_, index)| index));
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
