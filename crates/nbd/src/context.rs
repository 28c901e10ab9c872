//! Metadata contexts: what BLOCK_STATUS can tell.

use crate::wire::{ALLOCATION_DEPTH, BASE_ALLOCATION};

/// One metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Context {
    /// `base:allocation`: holes and zeroes.
    Allocation,
    /// `qemu:allocation-depth`: 1 where bytes are allocated, 0 where they are not. There is no image behind this one.
    AllocationDepth,
}

impl Context {
    /// All of them.
    pub const ALL: [Context; 2] = [Context::Allocation, Context::AllocationDepth];

    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        match self {
            Context::Allocation => BASE_ALLOCATION,
            Context::AllocationDepth => ALLOCATION_DEPTH,
        }
    }

    /// The server's id for it, on every connection.
    pub const fn id(self) -> u32 {
        match self {
            Context::Allocation => 1,
            Context::AllocationDepth => 2,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of metadata contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contexts(u8);

impl Contexts {
    /// No context.
    pub const NONE: Contexts = Contexts(0);

    /// These and `context`.
    pub const fn with(self, context: Context) -> Contexts {
        Contexts(self.0 | context.bit())
    }

    /// Whether `context` is one of them.
    pub const fn contains(self, context: Context) -> bool {
        self.0 & context.bit() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Each of them, in the order of [`Context::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().filter(move |&context| self.contains(context))
    }
}

impl FromIterator<Context> for Contexts {
    fn from_iter<I: IntoIterator<Item = Context>>(contexts: I) -> Contexts {
        contexts.into_iter().fold(Contexts::NONE, Contexts::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        assert!(Contexts::NONE.is_empty() && Contexts::default() == Contexts::NONE);
        for context in Context::ALL {
            let one = Contexts::NONE.with(context);
            assert_eq!((one.len(), one.with(context)), (1, one));
            assert_eq!(one.iter().collect::<Vec<_>>(), [context]);
        }
        let all: Contexts = Context::ALL.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), Context::ALL);
    }
}
