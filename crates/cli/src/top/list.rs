//! List of the chosen device's cgroups or exports: its order, what is folded and filtered, and the place in it.

use super::reading::View;
use super::state::State;

impl State {
    /// Lists the cgroups or exports of the chosen device anew. O(n log n).
    pub(super) fn list(&mut self) {
        let Some(view) = self.view() else {
            self.listed.clear();
            return;
        };
        if self.has_exports {
            let mut listed = view.exports(self.sort, self.is_reversed);
            let filter = self.filter.to_lowercase();
            listed.retain(|&index| view.export(index).0.export.to_lowercase().contains(&filter));
            return self.keep(listed);
        }
        let device = &view.status.device;
        let is_open = |index: usize| {
            let is_folded =
                || self.folded.contains(&(device.clone(), view.cgroup(index).cgroup.clone()));
            // What is looked for is shown, wherever it is.
            self.is_flat || !self.filter.is_empty() || self.folded.is_empty() || !is_folded()
        };
        let mut listed = view.listed(self.sort, self.is_reversed, is_open);
        if !self.filter.is_empty() {
            let shown = self.matching(view);
            listed.retain(|&index| shown[index]);
        }
        if self.is_flat {
            // A parent has what its children have, so it says nothing here.
            listed.retain(|&index| view.found.tree.children(index).is_empty());
            let pair = |index| (view.cgroup(index), view.rates(index));
            listed.sort_by(|&one, &other| {
                let order = self.sort.compare(pair(one), pair(other));
                if self.is_reversed { order.reverse() } else { order }
            });
        }
        self.keep(listed);
    }

    /// Takes a list; what was chosen stays so, if it is there.
    fn keep(&mut self, listed: Vec<usize>) {
        let chosen = self.chosen_name.as_deref();
        let is_chosen = |&index: &usize| self.name_at(index) == chosen;
        let place = chosen.and_then(|_| listed.iter().position(is_chosen));
        self.cursor = place.unwrap_or(self.cursor).min(listed.len().saturating_sub(1));
        self.listed = listed;
        self.scroll();
    }

    /// Path of a cgroup of the chosen device, or the name of an export, by its place in the reading.
    fn name_at(&self, index: usize) -> Option<&str> {
        let view = self.view()?;
        Some(match self.has_exports {
            true => &view.export(index).0.export,
            false => &view.cgroup(index).cgroup,
        })
    }

    /// Lists exports instead of cgroups, or the other way round.
    pub(super) fn switch(&mut self) {
        self.has_exports = !self.has_exports;
        (self.chosen_name, self.cursor) = (None, 0);
        self.list();
    }

    /// Whether each cgroup is what the filter asks for, or, in a tree, above one that is.
    fn matching(&self, view: View<'_>) -> Vec<bool> {
        let filter = self.filter.to_lowercase();
        let cgroups = &view.status.cgroups;
        let mut shown: Vec<bool> =
            cgroups.iter().map(|cgroup| cgroup.cgroup.to_lowercase().contains(&filter)).collect();
        for index in (0..shown.len()).rev() {
            if let Some(parent) = view.found.tree.parent(index).filter(|_| shown[index]) {
                shown[parent] = true;
            }
        }
        shown
    }

    /// Goes to a place in the list.
    pub(super) fn go(&mut self, to: usize) {
        self.cursor = to.min(self.listed.len().saturating_sub(1));
        let place = self.listed.get(self.cursor).copied();
        self.chosen_name = place.and_then(|place| self.name_at(place)).map(str::to_owned);
        self.scroll();
    }

    /// Keeps the chosen cgroup in the picture.
    pub(super) fn scroll(&mut self) {
        let rows = self.layout().list.max(1);
        let last = self.listed.len().saturating_sub(rows);
        self.first = self.first.clamp((self.cursor + 1).saturating_sub(rows), self.cursor);
        self.first = self.first.min(last);
    }

    /// Folds or unfolds the chosen cgroup.
    pub(super) fn fold(&mut self, fold: bool) {
        if self.has_exports {
            return;
        }
        let Some((view, index)) = self.view().zip(self.chosen()) else { return };
        let key = (view.status.device.clone(), view.cgroup(index).cgroup.clone());
        let is_leaf = view.found.tree.children(index).is_empty();
        let parent = view.found.tree.parent(index);
        let is_changed = match fold {
            true => !is_leaf && self.folded.insert(key),
            false => self.folded.remove(&key),
        };
        if is_changed {
            self.list();
        } else if fold && let Some(parent) = parent {
            let place = self.listed.iter().position(|&index| index == parent);
            self.go(place.unwrap_or(self.cursor));
        }
    }

    /// Folds all but the root, or unfolds all if anything is folded.
    pub(super) fn fold_all(&mut self) {
        if self.has_exports {
            return;
        }
        if !self.folded.is_empty() {
            self.folded.clear();
        } else if let Some(view) = self.view() {
            let has_children = |&index: &usize| {
                !view.found.tree.children(index).is_empty() && view.cgroup(index).cgroup != "/"
            };
            let device = &view.status.device;
            let key = |index: usize| (device.clone(), view.cgroup(index).cgroup.clone());
            let folded = (0..view.status.cgroups.len()).filter(has_children).map(key);
            self.folded = folded.collect();
        }
        self.list();
    }

    /// Whether children of a cgroup are not listed.
    pub(super) fn is_folded(&self, device: &str, path: &str) -> bool {
        self.filter.is_empty() && self.folded.contains(&(device.to_owned(), path.to_owned()))
    }

    /// Chooses another device.
    pub(super) fn choose_device(&mut self, device: usize) {
        let count = self.reading.as_ref().map_or(0, |reading| reading.devices.len());
        if device < count && device != self.device {
            self.device = device;
            self.cursor = 0;
            self.list();
        }
    }
}
