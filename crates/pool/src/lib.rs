//! One limit over many servers, without I/O, clock or threads: table bytes and instants in, a compare-and-swap to try and
//! rates for the engine out.
//!
//! ```text
//!             handle_usage            handle_answer
//!  engine ─────────────────► Pools ◄───────────────── store: one value, get and compare-and-swap
//!         ◄─────────────────       ─────────────────►
//!             poll_grant              poll_request
//! ```
//!
//! Each server leases a part of each pool's limit. Six times in a lease it reads the table, computes its part from what all
//! servers could use, and swaps the table for one with its new row. Four rules make the sum of all parts safe:
//!
//! 1. A server takes no more than the limit less what the rows of all others have.
//! 2. A rate that falls, falls in the engine before it does in the table; one that rises, in the table first.
//! 3. A rate holds for a lease from the instant *before* the swap was sent, and the engine itself ends it
//!    ([`weir_engine::Change::LeaseLimits`]). The others take it only when the row has not moved for a lease and a half of
//!    their own time, the table having been read all the while.
//! 4. In a new table, after the store has lost one, no rate rises for a lease and a half.
//!
//! No store's or other server's clock is used, and no float, hash order or randomness but the number given at the start.

#![forbid(unsafe_code)]

mod format;
mod pools;
mod proposal;
mod random;
mod rates;
mod settings;
mod share;
mod sightings;
#[cfg(test)]
mod simulation;
mod table;

pub use format::{NAME_BYTES_MAX, SERVERS_MAX, TABLE_BYTES_MAX, TableError, check_any_bytes};
pub use pools::{Answer, Event, Grant, Pools, Request, RequestId, Revision, Store, Usage};
pub use rates::Rates;
pub use settings::{LEASE_MS_MIN, OnLoss, PoolSettings, ServerSettings, SettingsError};
