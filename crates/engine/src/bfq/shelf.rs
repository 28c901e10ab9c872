//! Sparse slab for state that few flows have.

use alloc::vec::Vec;

use crate::tree::NO_INDEX;

/// Values by place; whoever has one keeps its place. O(1) a step; allocates only when more flows have one than ever
/// before.
pub(crate) struct Shelf<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

// By hand, because values need no default.
impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Shelf<T> {
    /// What is kept at `place`; none at a place that nobody was ever given, as that of those who have nothing.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)
    }

    /// Keeps `value` instead of what is at `place`, if anything is; where it is then, [`NO_INDEX`] for none.
    pub(crate) fn put(&mut self, place: u32, value: Option<T>) -> u32 {
        match (self.places.get_mut(place as usize), value) {
            (None, None) => NO_INDEX,
            (Some(_), None) => {
                self.free.push(place);
                NO_INDEX
            }
            (Some(old), Some(value)) => {
                *old = value;
                place
            }
            (None, Some(value)) => self.take_place(value),
        }
    }

    fn take_place(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = value;
            return place;
        }
        self.places.push(value);
        // So that giving one back never allocates.
        self.free.reserve(self.places.len());
        // Flows are fewer than 2^31.
        self.places.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_for_those_who_have_something_to_keep() {
        let mut shelf = Shelf::default();
        assert_eq!(shelf.put(NO_INDEX, None), NO_INDEX);
        let [first, second] = ['a', 'b'].map(|value| shelf.put(NO_INDEX, Some(value)));
        assert_eq!([first, second].map(|place| shelf.get(place).copied()), [Some('a'), Some('b')]);
        assert_eq!(shelf.put(first, Some('c')), first);
        assert_eq!(shelf.get(first), Some(&'c'));
        assert_eq!(shelf.put(first, None), NO_INDEX);
        assert_eq!(shelf.get(NO_INDEX), None);
        assert_eq!(shelf.put(NO_INDEX, Some('d')), first, "a place that was given back");
        assert_eq!((shelf.get(second), shelf.places.len()), (Some(&'b'), 2));
    }
}
