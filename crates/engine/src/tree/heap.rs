//! A heap with four children to a place: half as many steps from top to bottom as with two, and the four lie side by
//! side in memory.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// What a heap can hold: small, for it is moved about.
pub(crate) trait Keyed: Copy {
    /// The least comes out first. All of it in one number: who is first is found without a branch, since nobody could
    /// foresee which way that goes, and a wrong guess takes longer than to move both.
    fn key(&self) -> u128;
}

/// Entries, none of which is before its parent; the first one is at the beginning. O(log entries) a step, no allocation
/// once grown.
pub(crate) struct Heap<T>(Vec<T>);

const CHILDREN: usize = 4;

/// A walk over the entries of a heap in the order in which they would come out, if no other came in.
pub(crate) struct Walk {
    /// Of those that were not passed, the places that may be the next one's: their parents were passed.
    places: Vec<usize>,
}

impl Walk {
    /// With room for one of so many steps.
    pub(crate) fn with_capacity(steps: usize) -> Walk {
        Walk { places: Vec::with_capacity(1 + (CHILDREN - 1) * steps) }
    }

    pub(crate) fn begin<T>(&mut self, heap: &Heap<T>) {
        self.places.clear();
        if !heap.0.is_empty() {
            self.places.push(0);
        }
    }

    /// The next entry, and which of the places it has. O(places).
    #[inline]
    pub(crate) fn next<'a, T: Keyed>(&self, heap: &'a Heap<T>) -> Option<(&'a T, usize)> {
        let places = self.places.iter().enumerate();
        let (at, &place) = places.min_by_key(|&(_, &place)| heap.0[place].key())?;
        Some((&heap.0[place], at))
    }

    /// Goes on from that one.
    #[inline]
    pub(crate) fn pass<T>(&mut self, heap: &Heap<T>, at: usize) {
        let children = CHILDREN * self.places.swap_remove(at) + 1;
        self.places.extend(children.min(heap.0.len())..(children + CHILDREN).min(heap.0.len()));
    }
}

impl<T: Keyed> Heap<T> {
    pub(crate) const fn new() -> Heap<T> {
        Heap(Vec::new())
    }

    /// With room for so many.
    pub(crate) fn with_capacity(entries: usize) -> Heap<T> {
        Heap(Vec::with_capacity(entries))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the next [`Heap::push`] would have to allocate.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }

    /// The entry that comes out next.
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The entry that takes the place of one that comes out, before it sinks to its own.
    #[inline]
    pub(crate) fn last(&self) -> Option<&T> {
        self.0.last()
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        self.0.push(entry);
        self.rise(self.0.len() - 1, 0, entry);
    }

    /// Takes out the first.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sink(0, last);
        }
    }

    /// Puts `entry` in place of the first, which there must be.
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

    /// Puts `entry` into or below `top`, below which everything is in order.
    ///
    /// Goes down to the bottom without a look at `entry`, and then up again: it came from the bottom, or begins a new
    /// wait, and mostly belongs there.
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

    /// Puts `entry` into `place`, which is free, or above it, but not above `top`.
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

    #[test]
    fn a_walk_meets_what_would_come_out_in_that_order() {
        const STEPS: usize = 16;
        let mut walk = Walk::with_capacity(STEPS);
        let room = walk.places.capacity();
        for entries in [0, 1, 4, 5, 21, 22, 1000] {
            let mut heap = Heap::new();
            (0..entries).for_each(|entry: u32| heap.push(entry * 7919 % 1009));
            walk.begin(&heap);
            let met: Vec<u32> = (0..STEPS)
                .map_while(|_| {
                    let (&entry, at) = walk.next(&heap)?;
                    walk.pass(&heap, at);
                    Some(entry)
                })
                .collect();
            assert_eq!(met.len(), STEPS.min(entries as usize));
            for entry in met {
                assert_eq!(heap.first(), Some(&entry), "of {entries}");
                heap.drop_first();
            }
        }
        assert_eq!(walk.places.capacity(), room, "it allocates nothing");
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
