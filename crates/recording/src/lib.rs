//! Recordings of an engine's inputs.
//!
//! ```text
//!  device's thread: RecordedEngine ─► blocks of entries ─► Writer: transcript ─► columns ─► Parquet files, a ring
//!                                                                                              │
//!                                                          Replay, Arrivals ◄─ Reader ◄────────┘
//! ```
//!
//! The device's thread appends entries of 32 bytes and never waits: without room they are dropped and counted. The writer
//! has a thread of its own. `docs/recording.md` has the schema.

#![forbid(unsafe_code)]

mod arrivals;
mod blocks;
mod columns;
mod directory;
mod engine;
mod entry;
mod file;
mod header;
mod mirror;
mod reader;
mod replay;
mod row;
mod settings;
mod transcript;
mod writer;

pub use arrivals::{ARRIVALS_MAX, Arrival, Arrivals};
pub use columns::VERSION;
pub use directory::DirectoryError;
pub use engine::{Recorded, RecordedEngine, Recorder};
pub use header::{HEADER_KEY, Header};
pub use reader::{ReadError, Recording};
pub use replay::{At, Divergence, ReplayError, Replayed, replay_as_recorded};
pub use row::Event;
pub use writer::{Device, Settings, Status, Writer};
