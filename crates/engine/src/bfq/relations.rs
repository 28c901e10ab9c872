//! Which flows go on when others do (specification 7.8): few have such relations, so the others need no room for them.

use alloc::vec::Vec;

use crate::merge::waker::Waker;
use crate::tree::NO_INDEX;

/// What is known of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Relation {
    /// Who lets it go on.
    pub(crate) waker: Waker,
    /// Who was last found to go on when this one does; [`NO_INDEX`] for nobody.
    pub(crate) woken: u32,
}

impl Relation {
    /// Nothing is known.
    pub(crate) const NONE: Relation = Relation { waker: Waker::NONE, woken: NO_INDEX };
}

/// Relations by place. O(1) a step; allocates only when more flows have some than ever before.
#[derive(Default)]
pub(crate) struct Relations {
    places: Vec<Relation>,
    free: Vec<u32>,
}

impl Relations {
    /// What is kept at `place`; [`NO_INDEX`] is the place of those who have nothing.
    pub(crate) fn get(&self, place: u32) -> Relation {
        self.places.get(place as usize).copied().unwrap_or(Relation::NONE)
    }

    /// Keeps `relation` instead of what is at `place`; where it is then.
    pub(crate) fn put(&mut self, place: u32, relation: Relation) -> u32 {
        match (self.places.get_mut(place as usize), relation == Relation::NONE) {
            (None, true) => NO_INDEX,
            (Some(_), true) => {
                self.free.push(place);
                NO_INDEX
            }
            (Some(old), false) => {
                *old = relation;
                place
            }
            (None, false) => self.take_place(relation),
        }
    }

    fn take_place(&mut self, relation: Relation) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = relation;
            return place;
        }
        self.places.push(relation);
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
        let mut relations = Relations::default();
        let woken = |flow| Relation { woken: flow, ..Relation::NONE };
        assert_eq!(relations.put(NO_INDEX, Relation::NONE), NO_INDEX);
        let [first, second] = [7, 8].map(|flow| relations.put(NO_INDEX, woken(flow)));
        assert_eq!([first, second].map(|place| relations.get(place).woken), [7, 8]);
        assert_eq!(relations.put(first, woken(9)), first);
        assert_eq!(relations.get(first).woken, 9);
        assert_eq!(relations.put(first, Relation::NONE), NO_INDEX);
        assert_eq!(relations.get(NO_INDEX), Relation::NONE);
        assert_eq!(relations.put(NO_INDEX, woken(3)), first, "a place that was given back");
        assert_eq!((relations.get(second).woken, relations.places.len()), (8, 2));
    }
}
