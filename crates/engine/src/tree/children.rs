//! Children of one cgroup.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

/// Children by name, and offline children.
#[derive(Default)]
pub(crate) struct Children {
    named: BTreeMap<Arc<str>, u32>,
    /// Removed by name: they still have clients, or offline children.
    offline: BTreeSet<u32>,
}

impl Children {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.offline.is_empty()
    }

    /// Number of named children.
    pub(crate) fn named(&self) -> usize {
        self.named.len()
    }

    /// O(log children).
    pub(crate) fn child(&self, name: &str) -> Option<u32> {
        self.named.get(name).copied()
    }

    /// In order of names, offline children last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.named.values().chain(&self.offline).copied()
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, child: u32) {
        self.named.insert(name, child);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.named.remove(name);
    }

    /// Sets a child offline: its name is free.
    pub(crate) fn set_offline(&mut self, name: &str) {
        self.offline.extend(self.named.remove(name));
    }

    pub(crate) fn remove_offline(&mut self, child: u32) {
        self.offline.remove(&child);
    }
}
