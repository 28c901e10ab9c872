//! State by index, beside the arena of the hierarchy that gives the indices.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// One `T` for each slot of an arena. A vacant slot has a new one.
pub(super) struct Slots<T>(Vec<T>);

impl<T> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots(Vec::new())
    }

    /// Sets the value of `index`, which is occupied, or the next one that has never been.
    #[inline]
    pub(super) fn set(&mut self, index: u32, value: T) {
        match self.0.get_mut(index as usize) {
            Some(slot) => *slot = value,
            None => self.0.push(value),
        }
    }

    /// The value of `index`, if the slot was ever occupied.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
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
