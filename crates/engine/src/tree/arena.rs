//! Slots with generations: an index that outlives its slot is an error, never somebody else's slot.

use alloc::vec::Vec;

const NO_SLOT: u32 = u32::MAX;

/// A growing table of `T`. Insertion and removal are O(1); memory is kept for reuse.
pub(crate) struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: u32,
}

struct Slot<T> {
    generation: u32,
    entry: Entry<T>,
}

enum Entry<T> {
    Vacant { next: u32 },
    Occupied(T),
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Arena<T> {
        Arena { slots: Vec::new(), free: NO_SLOT, len: 0 }
    }

    /// How many slots are occupied.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Index and generation of a new slot that holds `value`.
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        self.len += 1;
        if self.free == NO_SLOT {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
            self.slots.push(Slot { generation: 0, entry: Entry::Occupied(value) });
            return (index, 0);
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let Entry::Vacant { next } = slot.entry else {
            unreachable!("free list holds vacant slots")
        };
        self.free = next;
        slot.entry = Entry::Occupied(value);
        (index, slot.generation)
    }

    /// Takes the value out and makes every id of it stale.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let slot = &mut self.slots[index as usize];
        let entry = core::mem::replace(&mut slot.entry, Entry::Vacant { next: self.free });
        slot.generation = slot.generation.wrapping_add(1);
        self.free = index;
        self.len -= 1;
        match entry {
            Entry::Occupied(value) => value,
            Entry::Vacant { .. } => panic!("slot {index} removed twice"),
        }
    }

    /// Whether `index` holds a value of this very generation.
    pub(crate) fn is_current(&self, index: u32, generation: u32) -> bool {
        self.slots.get(index as usize).is_some_and(|slot| {
            slot.generation == generation && matches!(slot.entry, Entry::Occupied(_))
        })
    }

    /// The value at `index`, if the slot is occupied.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match &self.slots.get(index as usize)?.entry {
            Entry::Occupied(value) => Some(value),
            Entry::Vacant { .. } => None,
        }
    }

    /// The generation of a slot; with the index it makes an id.
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slots[index as usize].generation
    }

    /// Every occupied slot with its index, in index order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.entry {
            // An index fits: `insert` made sure of it.
            Entry::Occupied(value) => Some((index as u32, value)),
            Entry::Vacant { .. } => None,
        })
    }
}

/// Internal links are always current; a vacant slot behind one is a bug of ours.
impl<T> core::ops::Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        match &self.slots[index as usize].entry {
            Entry::Occupied(value) => value,
            Entry::Vacant { .. } => panic!("slot {index} is vacant"),
        }
    }
}

impl<T> core::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        match &mut self.slots[index as usize].entry {
            Entry::Occupied(value) => value,
            Entry::Vacant { .. } => panic!("slot {index} is vacant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn a_stale_id_is_never_current_again() {
        let mut arena = Arena::new();
        let (index, generation) = arena.insert('a');
        assert!(arena.is_current(index, generation));
        assert_eq!(arena.remove(index), 'a');
        assert!(!arena.is_current(index, generation));
        let (again, newer) = arena.insert('b');
        assert_eq!(again, index, "slots are reused");
        assert!(!arena.is_current(index, generation));
        assert!(arena.is_current(again, newer));
        assert_eq!(arena.len(), 1);
    }
}
