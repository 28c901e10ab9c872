//! Governed cgroups: an arena with the parents before their children in an order of its own.

use super::samples::CgroupSample;
use super::scale::{ONE, scaled};
use super::{Cgroup, CgroupId};
use crate::IoMax;

/// No cgroup, or the device.
pub(super) const NONE: u32 = u32::MAX;

/// What a cgroup wants, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Demand {
    /// It was not seen yet while the device had room.
    #[default]
    Unknown,
    /// More than its limits.
    More,
    /// This multiple of its limits.
    Content(u64),
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) cgroup: Cgroup,
    pub(super) parent: u32,
    /// Factor of the limits that the kernel has.
    pub(super) lambda: u64,
    /// The last sample, and that at the begin of the window.
    pub(super) last: Option<CgroupSample>,
    pub(super) base: CgroupSample,
    pub(super) demand: Demand,
    /// It, or one above, is held by its limit; valid while a window is judged.
    pub(super) is_held: bool,
    /// The domain of its settings; [`NONE`] without.
    pub(super) own_domain: u32,
    /// The domain that counts for it.
    pub(super) domain: u32,
    /// For reads and writes: has a limit, and none above has.
    pub(super) is_topmost: [bool; 2],
    /// For reads and writes: it or one above has a limit.
    is_covered: [bool; 2],
    is_live: bool,
}

impl Node {
    /// Limits that the kernel has.
    pub(super) fn effective(&self) -> IoMax {
        scaled(self.cgroup.limits, self.lambda)
    }

    fn has_limits(&self) -> [bool; 2] {
        let IoMax { rbps, wbps, riops, wiops } = self.cgroup.limits;
        [rbps.is_some() || riops.is_some(), wbps.is_some() || wiops.is_some()]
    }
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    free: Vec<u32>,
    /// Live nodes, parents first.
    order: Vec<u32>,
    /// What follows from parents is not valid.
    is_stale: bool,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn add(&mut self, parent: Option<CgroupId>, cgroup: Cgroup) -> CgroupId {
        let parent = parent.map_or(NONE, |CgroupId(parent)| parent);
        assert!(parent == NONE || self.is_live(parent), "cgroup {parent} is not governed");
        let index = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            u32::try_from(self.nodes.len() - 1).expect("fewer cgroups than numbers")
        });
        self.nodes[index as usize] = Node {
            cgroup,
            parent,
            lambda: ONE,
            own_domain: NONE,
            is_live: true,
            ..Node::default()
        };
        self.order.push(index);
        self.is_stale = true;
        CgroupId(index)
    }

    /// Removes a node; answers its own domain. O(nodes).
    pub(super) fn remove(&mut self, CgroupId(index): CgroupId) -> u32 {
        let node = self.get_mut(CgroupId(index));
        let (parent, domain) = (node.parent, node.own_domain);
        node.is_live = false;
        self.order.retain(|&at| at != index);
        for &at in &self.order {
            let node = &mut self.nodes[at as usize];
            if node.parent == index {
                node.parent = parent;
            }
        }
        self.free.push(index);
        self.is_stale = true;
        domain
    }

    /// # Panics
    /// There is no such cgroup.
    pub(super) fn get(&self, CgroupId(index): CgroupId) -> &Node {
        assert!(self.is_live(index), "cgroup {index} is not governed");
        &self.nodes[index as usize]
    }

    /// # Panics
    /// There is no such cgroup.
    pub(super) fn get_mut(&mut self, CgroupId(index): CgroupId) -> &mut Node {
        assert!(self.is_live(index), "cgroup {index} is not governed");
        &mut self.nodes[index as usize]
    }

    fn is_live(&self, index: u32) -> bool {
        self.nodes.get(index as usize).is_some_and(|node| node.is_live)
    }

    /// Limits or settings changed.
    pub(super) fn changed(&mut self) {
        self.is_stale = true;
    }

    /// Derives what follows from parents, if it may be another. O(nodes) then.
    pub(super) fn settle(&mut self, device_domain: u32) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        for &index in &self.order {
            let parent = self.nodes[index as usize].parent;
            let (domain, covered) = match parent {
                NONE => (device_domain, [false; 2]),
                parent => {
                    let parent = &self.nodes[parent as usize];
                    (parent.domain, parent.is_covered)
                }
            };
            let node = &mut self.nodes[index as usize];
            node.domain = if node.own_domain == NONE { domain } else { node.own_domain };
            let has = node.has_limits();
            node.is_topmost = [has[0] && !covered[0], has[1] && !covered[1]];
            node.is_covered = [has[0] || covered[0], has[1] || covered[1]];
        }
    }

    /// Calls `visit` for each node with the answer for its parent, parents first.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(u32, &mut Node, bool)) {
        for &index in &self.order {
            let parent = self.nodes[index as usize].parent;
            let is_held_above = parent != NONE && self.nodes[parent as usize].is_held;
            visit(index, &mut self.nodes[index as usize], is_held_above);
        }
    }
}
