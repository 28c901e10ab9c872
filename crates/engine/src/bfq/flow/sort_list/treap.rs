//! Treap of a sort list, by position.

use super::{Neighbours, SortList, SortNode, SortNodes, UNLINKED};
use crate::tree::NO_INDEX;

/// Link to a node of the treap.
#[derive(Clone, Copy)]
pub(super) enum Hook {
    Root,
    Left(u32),
    Right(u32),
}

impl SortList {
    /// Makes a treap of a list by position.
    pub(super) fn make_treap(&mut self, sort_nodes: &mut SortNodes) {
        let (mut before, mut here) = (NO_INDEX, core::mem::replace(&mut self.root, NO_INDEX));
        while here != NO_INDEX {
            let after = sort_nodes[here].neighbours.after;
            self.treap_insert(sort_nodes, here, Neighbours { before, after: NO_INDEX });
            (before, here) = (here, after);
        }
    }

    /// Inserts `index` between two neighbours.
    pub(super) fn treap_insert(
        &mut self,
        sort_nodes: &mut SortNodes,
        index: u32,
        neighbours: Neighbours,
    ) {
        let Neighbours { before, after } = neighbours;
        // One of two neighbours is above the other, and the lower one has room for a leaf.
        let is_right = before != NO_INDEX && sort_nodes[before].right == NO_INDEX;
        let parent = if is_right { before } else { after };
        let node = &mut sort_nodes[index];
        (node.left, node.right) = (NO_INDEX, NO_INDEX);
        node.parent = parent;
        sort_nodes.join(index, neighbours);
        match (parent, is_right) {
            (NO_INDEX, _) => self.root = index,
            (parent, true) => sort_nodes[parent].right = index,
            (parent, false) => sort_nodes[parent].left = index,
        }
        self.rotate_up(sort_nodes, index);
    }

    /// Takes `index` out of the treap.
    pub(super) fn treap_remove(&mut self, sort_nodes: &mut SortNodes, index: u32) -> Neighbours {
        let mut hook = sort_nodes.hook(index);
        let SortNode { mut left, mut right, .. } = sort_nodes[index];
        while left != NO_INDEX && right != NO_INDEX {
            if rank(left) > rank(right) {
                self.hang(sort_nodes, hook, left);
                hook = Hook::Right(left);
                left = sort_nodes[left].right;
            } else {
                self.hang(sort_nodes, hook, right);
                hook = Hook::Left(right);
                right = sort_nodes[right].left;
            }
        }
        self.hang(sort_nodes, hook, if left == NO_INDEX { right } else { left });
        sort_nodes.part(index)
    }

    /// Rotates a new leaf up to where its rank belongs.
    fn rotate_up(&mut self, sort_nodes: &mut SortNodes, index: u32) {
        loop {
            let below = sort_nodes.hook(index);
            let (Hook::Left(parent) | Hook::Right(parent)) = below else { return };
            if rank(parent) > rank(index) {
                return;
            }
            let hook = sort_nodes.hook(parent);
            let SortNode { left, right, .. } = sort_nodes[index];
            match below {
                Hook::Left(_) => {
                    self.hang(sort_nodes, below, right);
                    self.hang(sort_nodes, Hook::Right(index), parent);
                }
                _ => {
                    self.hang(sort_nodes, below, left);
                    self.hang(sort_nodes, Hook::Left(index), parent);
                }
            }
            self.hang(sort_nodes, hook, index);
        }
    }

    /// Hangs `node`, or nothing, with its subtree at `hook`.
    fn hang(&mut self, sort_nodes: &mut SortNodes, hook: Hook, node: u32) {
        let above = match hook {
            Hook::Root => {
                self.root = node;
                NO_INDEX
            }
            Hook::Left(above) => {
                sort_nodes[above].left = node;
                above
            }
            Hook::Right(above) => {
                sort_nodes[above].right = node;
                above
            }
        };
        if node != NO_INDEX {
            sort_nodes[node].parent = above;
        }
    }
}

impl SortNodes {
    /// Link to `node`.
    #[inline]
    pub(super) fn hook(&self, node: u32) -> Hook {
        match self[node].parent {
            NO_INDEX => Hook::Root,
            parent if self[parent].left == node => Hook::Left(parent),
            parent => Hook::Right(parent),
        }
    }

    /// Neighbours for a request at `at` in the treap below `root`.
    pub(super) fn between(&self, at: u64, root: u32) -> Neighbours {
        let (mut at_node, mut found) = (root, UNLINKED.neighbours);
        while at_node != NO_INDEX {
            let node = &self[at_node];
            if at < node.at {
                (found.after, at_node) = (at_node, node.left);
            } else {
                (found.before, at_node) = (at_node, node.right);
            }
        }
        found
    }
}

/// Scrambles `index` without collisions (finaliser of MurmurHash3).
pub(super) fn rank(index: u32) -> u32 {
    let mixed = (index ^ (index >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}
