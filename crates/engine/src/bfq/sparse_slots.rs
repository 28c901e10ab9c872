//! Sparse slab for state that few flows have.

use alloc::vec::Vec;

use crate::tree::NO_INDEX;

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
