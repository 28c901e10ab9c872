//! The children of one cgroup.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

/// Children by name, and those that have lost theirs.
#[derive(Default)]
pub(crate) struct Children {
    named: BTreeMap<Arc<str>, u32>,
    /// Removed, but not gone: they still have clients, or such children themselves.
    offline: BTreeSet<u32>,
}

impl Children {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.offline.is_empty()
    }

    /// How many have a name.
    pub(crate) fn named(&self) -> usize {
        self.named.len()
    }

    /// O(log children).
    pub(crate) fn child(&self, name: &str) -> Option<u32> {
        self.named.get(name).copied()
    }

    /// In the order of their names, and then those without.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.named.values().chain(&self.offline).copied()
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, child: u32) {
        self.named.insert(name, child);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.named.remove(name);
    }

    /// Takes the name away from a child, which stays.
    pub(crate) fn set_offline(&mut self, name: &str) {
        self.offline.extend(self.named.remove(name));
    }

    pub(crate) fn remove_offline(&mut self, child: u32) {
        self.offline.remove(&child);
    }
}
