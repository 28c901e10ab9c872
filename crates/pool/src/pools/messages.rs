//! Messages between a server's pools, the store and the engine.

use weir_engine::{Dimension, Instant};

use crate::format::TableError;
use crate::rates::Rates;

/// What a store says of one state of the value. Another state has another revision, also after the store has lost it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub u64);

/// Number of a request; the answer carries it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(super) u64);

/// What the store is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// The value, as the last swap left it: a read that may be older is not enough.
    Get,
    /// The value replaced, if the store has this revision of it; none: if it has no value.
    Swap {
        /// The revision.
        expected: Option<Revision>,
        /// The new value.
        bytes: Vec<u8>,
    },
}

/// A request to the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// What is asked for.
    pub store: Store,
}

/// What the store says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// The value; none if there is none.
    Value(Option<(Revision, &'a [u8])>),
    /// The swap is done, and left this revision.
    Swapped(Revision),
    /// The store had another revision.
    Refused,
    /// It failed, or may have.
    Failed,
}

/// What a server used of a pool since the last such call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Rates that went.
    pub used: Rates,
    /// Whether something waited for this limit, by [`Dimension`].
    pub is_held: [bool; Dimension::COUNT],
    /// Clients that waited for it.
    pub clients: u32,
}

/// Rates for the engine. All that were polled are in force before the next [`crate::Pools::handle_applied`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The pool, by its place in the settings by name.
    pub pool: usize,
    /// The rates.
    pub rates: Rates,
    /// When they end.
    pub until: Instant,
    /// The rates from then on.
    pub then: Rates,
}

/// Something that an operator may want to know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store has a value that cannot be read; it is left alone.
    Unreadable(TableError),
    /// The store has lost the table, or has an older one: nothing rises for a lease and a half.
    TableLost,
    /// Another process has this server's name: this one holds nothing any more.
    Replaced,
    /// The table would be longer, or have more servers, than a table may: this server's row stays as it is.
    TableFull {
        /// Bytes that it would have.
        bytes: usize,
        /// Servers that it would have.
        servers: usize,
    },
}
