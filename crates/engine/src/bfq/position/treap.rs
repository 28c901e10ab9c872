//! The requests of a flow as a treap, by position.

use super::{ByPosition, NOWHERE, Neighbours, Place, Places};
use crate::tree::NO_INDEX;

/// Where a node of the treap hangs.
#[derive(Clone, Copy)]
pub(super) enum Hook {
    Root,
    Left(u32),
    Right(u32),
}

impl ByPosition {
    /// Makes a treap of those that are a list by position.
    pub(super) fn plant(&mut self, places: &mut Places) {
        let (mut before, mut here) = (NO_INDEX, core::mem::replace(&mut self.root, NO_INDEX));
        while here != NO_INDEX {
            let after = places[here].neighbours.after;
            self.hook_in(places, here, Neighbours { before, after: NO_INDEX });
            (before, here) = (here, after);
        }
    }

    /// Puts `index` between two neighbours in the treap.
    pub(super) fn hook_in(&mut self, places: &mut Places, index: u32, neighbours: Neighbours) {
        let Neighbours { before, after } = neighbours;
        // Of two neighbours, one is above the other: there is room for a leaf below the lower one.
        let is_right = before != NO_INDEX && places[before].right == NO_INDEX;
        let parent = if is_right { before } else { after };
        let place = &mut places[index];
        (place.left, place.right) = (NO_INDEX, NO_INDEX);
        place.parent = parent;
        places.join(index, neighbours);
        match (parent, is_right) {
            (NO_INDEX, _) => self.root = index,
            (parent, true) => places[parent].right = index,
            (parent, false) => places[parent].left = index,
        }
        self.rise(places, index);
    }

    /// Takes `index` out of the treap.
    pub(super) fn unhook(&mut self, places: &mut Places, index: u32) -> Neighbours {
        let mut hook = places.hook(index);
        let Place { mut left, mut right, .. } = places[index];
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
        places.part(index)
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
    /// Where `node` hangs.
    #[inline]
    pub(super) fn hook(&self, node: u32) -> Hook {
        match self[node].parent {
            NO_INDEX => Hook::Root,
            parent if self[parent].left == node => Hook::Left(parent),
            parent => Hook::Right(parent),
        }
    }

    /// Who the youngest one, at `at`, comes between in the treap below `root`.
    pub(super) fn between(&self, at: u64, root: u32) -> Neighbours {
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

/// A number that says nothing about `index`, and belongs to it alone (the finaliser of MurmurHash3, a bijection).
pub(super) fn rank(index: u32) -> u32 {
    let mixed = (index ^ (index >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}
