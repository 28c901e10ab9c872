//! Four-ary heap: half as many steps from top to bottom as with two children, and the four are adjacent in memory.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Entry of a heap; small, because it is moved.
pub(crate) trait Keyed: Copy {
    /// The least comes out first. One number, so that the first is found without a branch: the branch would be
    /// unpredictable, and a misprediction costs more than moving both.
    fn key(&self) -> u128;
}

/// Four-ary heap of entries. O(log entries) a step, no allocation once grown.
pub(crate) struct Heap<T>(Vec<T>);

const CHILDREN: usize = 4;

impl<T: Keyed> Heap<T> {
    pub(crate) const fn new() -> Heap<T> {
        Heap(Vec::new())
    }

    /// With room for `capacity` entries.
    pub(crate) fn with_capacity(entries: usize) -> Heap<T> {
        Heap(Vec::with_capacity(entries))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.0.reserve(entries);
    }

    /// Whether the next [`Heap::push`] would have to allocate.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }

    /// Least entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.first()
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        self.0.push(entry);
        self.rise(self.0.len() - 1, 0, entry);
    }

    /// Removes the least entry.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sink(0, last);
        }
    }

    /// Replaces the least entry, which must exist.
    #[inline]
    pub(crate) fn replace_first(&mut self, entry: T) {
        if self.0.len() == 1 {
            self.0[0] = entry;
        } else {
            self.sink(0, entry);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops every entry that `keep` denies. O(entries).
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(keep);
        let parents = self.0.len().saturating_sub(1).div_ceil(CHILDREN);
        for place in (0..parents).rev() {
            self.sink(place, self.0[place]);
        }
    }

    /// Makes room for so many entries, and for twice as many as before if that takes more.
    pub(crate) fn make_room(&mut self, entries: usize) {
        let capacity = self.0.capacity();
        if capacity < entries {
            self.0.reserve(entries.max(2 * capacity) - self.0.len());
        }
    }

    /// Drops every entry that `keep` denies, and grows if that does not make enough room: half of it is free afterwards.
    /// O(entries).
    pub(crate) fn sweep(&mut self, keep: impl Fn(&T) -> bool) {
        self.retain(keep);
        self.make_room(2 * self.0.len());
    }

    /// Changes every entry. O(entries).
    pub(crate) fn change(&mut self, change: impl Fn(&mut T)) {
        self.0.iter_mut().for_each(change);
        self.retain(|_| true);
    }

    /// Every entry, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Sifts `entry` into or below `top`; everything below is in order.
    ///
    /// Goes down to the bottom without comparing `entry`, then up: it came from the bottom or begins a new wait, and
    /// mostly belongs there.
    fn sink(&mut self, top: usize, entry: T) {
        let mut place = top;
        loop {
            let children = place * CHILDREN + 1;
            let first = match self.0.get(children..) {
                Some([a, b, c, d, ..]) => {
                    let (a, b) = earlier((a.key(), 0), (b.key(), 1));
                    let (c, d) = earlier((c.key(), 2), (d.key(), 3));
                    children + earlier((a, b), (c, d)).1
                }
                None | Some([]) => break,
                Some(few) => {
                    let keys = few.iter().map(Keyed::key).zip(0..);
                    children + keys.reduce(earlier).map_or(0, |(_, place)| place)
                }
            };
            self.0[place] = self.0[first];
            place = first;
        }
        self.rise(place, top, entry);
    }

    /// Sifts `entry` up from the free `place`, but not above `top`.
    fn rise(&mut self, mut place: usize, top: usize, entry: T) {
        while place > top {
            let parent = (place - 1) / CHILDREN;
            if self.0[parent].key() <= entry.key() {
                break;
            }
            self.0[place] = self.0[parent];
            place = parent;
        }
        self.0[place] = entry;
    }
}

/// The pair with the lesser key; the first of equal ones.
#[inline]
fn earlier(a: (u128, usize), b: (u128, usize)) -> (u128, usize) {
    let is_second = b.0 < a.0;
    (select_unpredictable(is_second, b.0, a.0), select_unpredictable(is_second, b.1, a.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for u32 {
        fn key(&self) -> u128 {
            u128::from(*self)
        }
    }

    /// Everything that can be done, in an order of no meaning, beside a sorted list.
    #[test]
    fn what_comes_out_is_the_least_whatever_was_done_before() {
        let (mut heap, mut sorted) = (Heap::new(), Vec::new());
        let (mut state, mut longest) = (1u64, 0);
        let mut word = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        for step in 0..20_000 {
            let value = word() % 1000;
            match word() % 8 {
                // More go in than out at first, and then the other way round.
                0..5 if step % 2000 < 1000 => {
                    heap.push(value);
                    sorted.push(value);
                }
                5 if !sorted.is_empty() => {
                    heap.replace_first(value);
                    sorted[0] = value;
                }
                6 if word() % 50 == 0 => {
                    heap.sweep(|entry| entry % 7 > 0);
                    sorted.retain(|entry| entry % 7 > 0);
                    assert!(!heap.is_full() || heap.len() == 0);
                }
                7 if word() % 50 == 0 => {
                    heap.change(|entry| *entry = 1000 - *entry);
                    sorted.iter_mut().for_each(|entry| *entry = 1000 - *entry);
                }
                _ => {
                    heap.drop_first();
                    sorted.drain(..sorted.len().min(1));
                }
            }
            sorted.sort_unstable();
            longest = longest.max(heap.len());
            assert_eq!((heap.first(), heap.len()), (sorted.first(), sorted.len()));
        }
        assert!(longest > 300, "{longest}");
    }
}
