//! Tree of a device's cgroups, whose siblings can be put in any order.

use std::cmp::Ordering;
use std::collections::HashMap;

/// Parents and children, by index in the list that it was made of.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tree {
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// Cgroups below each, children of children included.
    below: Vec<usize>,
}

impl Tree {
    /// Of paths, parents before children. A path without its parent in the list is below the nearest ancestor that is.
    /// O(length of the paths).
    pub(crate) fn new<'p>(paths: impl Iterator<Item = &'p str>) -> Tree {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut tree = Tree::default();
        for (index, path) in paths.enumerate() {
            let parent = ancestors(path).find_map(|above| places.get(above).copied());
            places.insert(path, index);
            tree.parents.push(parent);
            tree.children.push(Vec::new());
            tree.below.push(0);
            if let Some(parent) = parent {
                tree.children[parent].push(index);
            }
        }
        for index in (0..tree.parents.len()).rev() {
            if let Some(parent) = tree.parents[index] {
                tree.below[parent] += 1 + tree.below[index];
            }
        }
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    pub(crate) fn children(&self, index: usize) -> &[usize] {
        &self.children[index]
    }

    /// How many cgroups are below one, children of children included.
    pub(crate) fn below(&self, index: usize) -> usize {
        self.below[index]
    }

    pub(crate) fn parent(&self, index: usize) -> Option<usize> {
        self.parents[index]
    }

    /// The cgroup itself, then its parent, to the root.
    pub(crate) fn upwards(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(index), |&index| self.parents[index])
    }

    /// How many cgroups are above one.
    pub(crate) fn level(&self, index: usize) -> usize {
        self.upwards(index).count() - 1
    }

    /// All in the order in which they are listed: a parent, then its children in `order`, each with its own. Those below a
    /// cgroup that is not `is_open` are left out. O(n log n).
    pub(crate) fn listed(
        &self,
        order: impl Fn(usize, usize) -> Ordering,
        is_open: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let sorted = |siblings: &mut Vec<usize>| {
            siblings.sort_by(|&one, &other| order(one, other).then(one.cmp(&other)));
            // The last one pushed is the first one listed.
            siblings.reverse();
        };
        let mut stack: Vec<usize> =
            (0..self.len()).filter(|&index| self.parents[index].is_none()).collect();
        sorted(&mut stack);
        let mut listed = Vec::new();
        while let Some(index) = stack.pop() {
            listed.push(index);
            if is_open(index) {
                let mut children = self.children[index].clone();
                sorted(&mut children);
                stack.append(&mut children);
            }
        }
        listed
    }
}

/// Paths above `path`, the nearest first, the root last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/')? {
        0 => (path.len() > 1).then_some("/"),
        end => Some(&path[..end]),
    })
    .skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 6] = ["/", "/a", "/a/x", "/a/y", "/b", "/c/deep"];

    #[test]
    fn siblings_are_ordered_and_children_stay_below_their_parent() {
        let tree = Tree::new(PATHS.into_iter());
        let listed = |order: fn(usize, usize) -> Ordering, closed: &[usize]| {
            let listed = tree.listed(order, |index| !closed.contains(&index));
            listed.into_iter().map(|index| PATHS[index]).collect::<Vec<_>>()
        };
        assert_eq!(listed(|one, other| one.cmp(&other), &[]), PATHS);
        let last_first: fn(usize, usize) -> Ordering = |one, other| other.cmp(&one);
        assert_eq!(listed(last_first, &[]), ["/", "/c/deep", "/b", "/a", "/a/y", "/a/x"]);
        assert_eq!(listed(last_first, &[1]), ["/", "/c/deep", "/b", "/a"]);
        assert_eq!(listed(|_, _| Ordering::Equal, &[0]), ["/"]);
        assert_eq!((tree.below(0), tree.below(1), tree.level(3), tree.level(5)), (5, 2, 2, 1));
    }

    #[test]
    fn a_list_without_a_root_is_listed_too() {
        let tree = Tree::new(["/a/b", "/c"].into_iter());
        assert_eq!(tree.listed(|one, other| one.cmp(&other), |_| true), [0, 1]);
        assert_eq!(Tree::new(std::iter::empty()).listed(|_, _| Ordering::Equal, |_| true), [0; 0]);
    }
}
