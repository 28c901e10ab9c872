//! Lists threaded through arena slots: O(1) at both ends and in the middle, no allocation.

/// No slot: the end of a list.
pub(crate) const NO_INDEX: u32 = u32::MAX;

/// Head and tail of a list. It has no length, because a million flows have several lists each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

/// Links of a slot. They are not read of a sole slot, as most are: `next` is none for the last and outside of lists,
/// `prev` has no meaning for a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    next: u32,
    /// Without meaning at the head and outside of lists.
    prev: u32,
}

impl Link {
    pub(crate) const NONE: Link = Link { next: NO_INDEX, prev: NO_INDEX };

    /// The slot behind; [`NO_INDEX`] for none.
    pub(crate) const fn next(self) -> u32 {
        self.next
    }

    /// The slot before, unless this is the head.
    pub(crate) const fn prev(self) -> u32 {
        self.prev
    }
}

/// Slots that carry one particular link each.
pub(crate) trait Links {
    fn link(&mut self, index: u32) -> &mut Link;
}

impl List {
    pub(crate) const EMPTY: List = List { head: NO_INDEX, tail: NO_INDEX };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NO_INDEX
    }

    /// The slot that is head and tail.
    #[inline]
    pub(crate) fn only(&self) -> Option<u32> {
        (self.head == self.tail && self.head != NO_INDEX).then_some(self.head)
    }

    #[inline]
    pub(crate) fn push_back(&mut self, links: &mut impl Links, index: u32) {
        debug_assert_eq!(links.link(index).next, NO_INDEX, "nobody is behind one in no list");
        match self.tail {
            NO_INDEX => self.head = index,
            tail => {
                *links.link(index) = Link { next: NO_INDEX, prev: tail };
                links.link(tail).next = index;
            }
        }
        self.tail = index;
    }

    pub(crate) fn push_front(&mut self, links: &mut impl Links, index: u32) {
        debug_assert_eq!(links.link(index).next, NO_INDEX, "nobody is behind one in no list");
        match self.head {
            NO_INDEX => self.tail = index,
            head => {
                *links.link(index) = Link { next: head, prev: NO_INDEX };
                links.link(head).prev = index;
            }
        }
        self.head = index;
    }

    pub(crate) fn pop_front(&mut self, links: &mut impl Links) -> Option<u32> {
        let head = self.head;
        if head == self.tail {
            *self = List::EMPTY;
            return (head != NO_INDEX).then_some(head);
        }
        // The next slot is not read: it may be far away in memory, and `prev` of a head has no meaning.
        self.head = core::mem::replace(links.link(head), Link::NONE).next;
        Some(head)
    }

    /// Removes `index`, which must be in this list.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut impl Links, index: u32) {
        if index == self.head {
            self.pop_front(links);
        } else {
            self.remove_behind(links, index);
        }
    }

    /// Removes a slot that is not the head.
    fn remove_behind(&mut self, links: &mut impl Links, index: u32) {
        let Link { next, prev } = core::mem::replace(links.link(index), Link::NONE);
        links.link(prev).next = next;
        match next {
            NO_INDEX => self.tail = prev,
            next => links.link(next).prev = prev,
        }
    }

    /// The slots from head to tail.
    pub(crate) fn iter<'a, L: Links>(&self, links: &'a mut L) -> Walk<'a, L> {
        Walk { links, at: self.head }
    }
}

/// Walks a list from head to tail.
pub(crate) struct Walk<'a, L: Links> {
    links: &'a mut L,
    at: u32,
}

impl<L: Links> Iterator for Walk<'_, L> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let at = self.at;
        if at == NO_INDEX {
            return None;
        }
        self.at = self.links.link(at).next;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    struct Slots(Vec<Link>);

    impl Links for Slots {
        fn link(&mut self, index: u32) -> &mut Link {
            &mut self.0[index as usize]
        }
    }

    /// What was before the head is not remembered: whatever was taken out there, the rest goes in any order.
    #[test]
    fn nothing_is_before_a_head() {
        for (gone, left) in [(1, [2, 3, 0]), (2, [1, 3, 0]), (3, [1, 2, 0])] {
            let mut slots = Slots(vec![Link::NONE; 4]);
            let mut list = List::EMPTY;
            (0..4).for_each(|index| list.push_back(&mut slots, index));
            assert_eq!(list.pop_front(&mut slots), Some(0));
            list.remove(&mut slots, gone);
            list.push_back(&mut slots, 0);
            assert_eq!(list.iter(&mut slots).collect::<Vec<u32>>(), left);
            left.iter().for_each(|&index| list.remove(&mut slots, index));
            assert!(list.is_empty());
            list.push_back(&mut slots, gone);
            assert_eq!(list.iter(&mut slots).collect::<Vec<u32>>(), [gone]);
        }
    }

    #[test]
    fn removal_anywhere_keeps_the_order_of_the_rest() {
        for gone in 0..4 {
            let mut slots = Slots(vec![Link::NONE; 4]);
            let mut list = List::EMPTY;
            (1..4).for_each(|index| list.push_back(&mut slots, index));
            list.push_front(&mut slots, 0);
            list.remove(&mut slots, gone);
            let left: Vec<u32> = list.iter(&mut slots).collect();
            let expected: Vec<u32> = (0..4).filter(|&index| index != gone).collect();
            assert_eq!(left, expected);
            let mut popped = Vec::new();
            while let Some(index) = list.pop_front(&mut slots) {
                popped.push(index);
            }
            assert_eq!(popped, expected);
            assert!(list.is_empty());
        }
    }
}
