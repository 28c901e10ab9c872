//! Values by index: the arena, whose generations make an index that outlives its slot an error, and state beside it.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use crate::tree::NO_INDEX;

const NO_SLOT: u32 = u32::MAX;

/// Growing table of `T`. Insertion and removal are O(1); memory is kept for reuse.
///
/// `A` is the alignment of slots: [`Line`] for values whose first fields are to share one line of cache.
pub(crate) struct Arena<T, A = u32> {
    slots: Vec<Slot<T, A>>,
    free: u32,
    len: u32,
}

/// Line of cache.
#[repr(align(64))]
pub(crate) struct Line;

/// Tag and generation come first, beside the first fields of the value: with a million slots, cache misses dominate.
/// The compiler would put the tag wherever the value has a niche. Values with many instances are `repr(C)` for the
/// same reason, with the hot fields first.
#[repr(u32)]
enum Slot<T, A> {
    Vacant { generation: u32, next: u32 },
    Occupied { generation: u32, value: T, _alignment: [A; 0] },
}

impl<T, A> Arena<T, A> {
    pub(crate) const fn new() -> Arena<T, A> {
        Arena { slots: Vec::new(), free: NO_SLOT, len: 0 }
    }

    /// How many slots are occupied.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Index and generation of a new slot that holds `value`.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        self.len += 1;
        if self.free == NO_SLOT {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
            self.slots.push(Slot::Occupied { generation: 0, value, _alignment: [] });
            return (index, 0);
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let Slot::Vacant { generation, next } = *slot else {
            unreachable!("free list holds vacant slots")
        };
        self.free = next;
        *slot = Slot::Occupied { generation, value, _alignment: [] };
        (index, generation)
    }

    /// Removes the value, and makes its ids stale.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let Slot::Occupied { value, .. } = self.vacate(index) else {
            unreachable!("looked just now")
        };
        value
    }

    /// Drops the value, and makes its ids stale.
    pub(crate) fn free(&mut self, index: u32) {
        self.vacate(index);
    }

    /// Frees an occupied slot, and answers its content. Inlined, so that an unused value is not copied.
    #[inline]
    fn vacate(&mut self, index: u32) -> Slot<T, A> {
        let slot = &mut self.slots[index as usize];
        let Slot::Occupied { generation, .. } = *slot else { panic!("slot {index} removed twice") };
        let vacant = Slot::Vacant { generation: generation.wrapping_add(1), next: self.free };
        self.free = index;
        self.len -= 1;
        core::mem::replace(slot, vacant)
    }

    /// Whether `index` holds a value of this very generation.
    pub(crate) fn is_current(&self, index: u32, generation: u32) -> bool {
        match self.slots.get(index as usize) {
            Some(Slot::Occupied { generation: current, .. }) => *current == generation,
            Some(Slot::Vacant { .. }) | None => false,
        }
    }

    /// The value at `index`, if the slot is occupied.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.slots.get(index as usize)? {
            Slot::Occupied { value, .. } => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// The generation of an occupied slot, and its value.
    #[inline]
    pub(crate) fn entry_mut(&mut self, index: u32) -> (u32, &mut T) {
        match &mut self.slots[index as usize] {
            Slot::Occupied { generation, value, .. } => (*generation, value),
            Slot::Vacant { .. } => vacant(index),
        }
    }

    /// The generation of a slot; with the index it makes an id.
    pub(crate) fn generation(&self, index: u32) -> u32 {
        let (Slot::Occupied { generation, .. } | Slot::Vacant { generation, .. }) =
            self.slots[index as usize];
        generation
    }

    /// Every occupied slot with its index, in index order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot {
            // An index fits: `insert` made sure of it.
            Slot::Occupied { value, .. } => Some((index as u32, value)),
            Slot::Vacant { .. } => None,
        })
    }
}

/// A link led to a vacant slot. Not inlined, so that callers need not keep the index for a message.
#[cold]
#[inline(never)]
fn vacant(index: u32) -> ! {
    panic!("slot {index} is vacant")
}

/// Internal links are current; a vacant slot behind one is a bug of the engine.
impl<T, A> Index<u32> for Arena<T, A> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        match &self.slots[index as usize] {
            Slot::Occupied { value, .. } => value,
            Slot::Vacant { .. } => vacant(index),
        }
    }
}

impl<T, A> IndexMut<u32> for Arena<T, A> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        match &mut self.slots[index as usize] {
            Slot::Occupied { value, .. } => value,
            Slot::Vacant { .. } => vacant(index),
        }
    }
}

/// One `T` for each slot of an arena. A vacant slot has a new one.
pub(crate) struct Slots<T>(Vec<T>);

impl<T> Slots<T> {
    pub(crate) const fn new() -> Slots<T> {
        Slots(Vec::new())
    }

    /// Sets the value of `index`, which is occupied, or the next one that has never been.
    #[inline]
    pub(crate) fn set(&mut self, index: u32, value: T) {
        match self.0.get_mut(index as usize) {
            Some(slot) => *slot = value,
            None => self.0.push(value),
        }
    }

    /// The value of `index`, if the slot was ever occupied.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.0.get(index as usize)
    }
}

impl<T> Index<u32> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.0[index as usize]
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.0[index as usize]
    }
}

/// Values by slot. A step is O(1); allocates only when more values are stored than ever before.
pub(crate) struct SparseSlots<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

// By hand: values need no default.
impl<T> Default for SparseSlots<T> {
    fn default() -> SparseSlots<T> {
        SparseSlots { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> SparseSlots<T> {
    /// Value in `slot`; `None` for an unused slot.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.values.get(slot as usize)
    }

    /// Stores `value` in place of the one in `slot`, if any. Returns its slot, [`NO_INDEX`] for none.
    pub(crate) fn put(&mut self, slot: u32, value: Option<T>) -> u32 {
        match (self.values.get_mut(slot as usize), value) {
            (None, None) => NO_INDEX,
            (Some(_), None) => {
                self.free.push(slot);
                NO_INDEX
            }
            (Some(old), Some(value)) => {
                *old = value;
                slot
            }
            (None, Some(value)) => self.take_place(value),
        }
    }

    fn take_place(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.values[slot as usize] = value;
            return slot;
        }
        self.values.push(value);
        // So that freeing never allocates.
        self.free.reserve(self.values.len());
        // Flows are fewer than 2^31.
        self.values.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn a_stale_id_is_never_current_again() {
        let mut arena: Arena<char> = Arena::new();
        let (index, generation) = arena.insert('a');
        assert!(arena.is_current(index, generation));
        assert_eq!(arena.remove(index), 'a');
        assert!(!arena.is_current(index, generation));
        let (again, newer) = arena.insert('b');
        assert_eq!(again, index, "slots are reused");
        assert!(!arena.is_current(index, generation));
        assert!(arena.is_current(again, newer));
        assert_eq!(arena.len(), 1);
        arena.free(again);
        assert!(!arena.is_current(again, newer));
        assert_eq!((arena.len(), arena.insert('c').0), (0, again));
    }
}

#[cfg(test)]
mod sparse_slots_tests {
    use super::*;

    #[test]
    fn freed_slots_are_used_again() {
        let mut slots = SparseSlots::default();
        assert_eq!(slots.put(NO_INDEX, None), NO_INDEX);
        let [first, second] = ['a', 'b'].map(|value| slots.put(NO_INDEX, Some(value)));
        assert_eq!([first, second].map(|slot| slots.get(slot).copied()), [Some('a'), Some('b')]);
        assert_eq!(slots.put(first, Some('c')), first);
        assert_eq!(slots.get(first), Some(&'c'));
        assert_eq!(slots.put(first, None), NO_INDEX);
        assert_eq!(slots.get(NO_INDEX), None);
        assert_eq!(slots.put(NO_INDEX, Some('d')), first, "a slot that was given back");
        assert_eq!((slots.get(second), slots.values.len()), (Some(&'b'), 2));
    }
}
