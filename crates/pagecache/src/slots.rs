//! Slots: a table of values by u32 index.

/// Insertion and removal are O(1); the index of a removed value is used again for the next one.
#[derive(Debug, Clone)]
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return index;
        }
        let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 at a time");
        self.slots.push(Some(value));
        index
    }

    /// Panics if the slot is empty, as all methods below.
    pub(super) fn remove(&mut self, index: u32) -> T {
        self.free.push(index);
        self.slots[index as usize].take().expect("the slot holds a value")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.slots[index as usize].as_ref().expect("the slot holds a value")
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.slots[index as usize].as_mut().expect("the slot holds a value")
    }
}
