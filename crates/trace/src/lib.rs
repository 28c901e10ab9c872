//! Block traces in eight formats, read line by line.
//!
//! A trace has the requests to a disk, with their time and source. Seven formats, and others by their columns, become one
//! sequence of [`Record`]s, in the order of the file:
//!
//! ```text
//!  file ─► gzip, zstd ─► lines ─► parser of the format ─► streams, clock ─► Record
//!          open.rs       lines.rs  parsers/                reader.rs
//! ```
//!
//! - [`Reader::open`] reads a file, compressed or not; it detects the format unless told.
//! - [`Reader::new`] reads anything that is `BufRead`, without a file system.
//! - A bad line is counted and skipped, and the first ten are kept with their number ([`BadLines`]). Only an I/O error ends
//!   the reading.
//!
//! Memory does not grow with the trace: [`LINE_MAX`] bounds a line, [`STREAMS_MAX`] and [`STREAM_NAME_MAX`] the names of
//! streams.
//!
//! ```
//! use weir_trace::{Format, Reader};
//!
//! let text = b"1,5633898,2a,512,42932745\n\
//!              1,5633899,28,65536,12\n\
//!              1,5633899,28,none,12\n";
//! let mut reader = Reader::new(&text[..], Format::CloudPhysics);
//! let records: Vec<_> = reader.by_ref().collect::<Result<_, _>>()?;
//! assert_eq!(records.len(), 2);
//! assert_eq!(records[1].at_ns, 1_000_000_000);
//! assert_eq!((records[1].offset, records[1].len), (12 * 512, 65536));
//!
//! let (number, _, reason) = &reader.bad_lines().first[0];
//! assert_eq!((*number, reason.to_string()), (3, "column `size` is no whole number".to_owned()));
//! # Ok::<(), weir_trace::ReadError>(())
//! ```

#![forbid(unsafe_code)]

mod bad;
mod columns;
mod devices;
mod format;
mod lines;
mod notes;
mod open;
mod parsers;
mod reader;
mod record;
mod spread;
mod streams;
mod text;

pub use bad::{BadLines, FIRST_BAD_MAX, Reason};
pub use columns::{Columns, ColumnsError};
pub use format::{Format, UnknownFormat};
pub use lines::LINE_MAX;
pub use open::{HEAD_MAX, OpenError};
pub use reader::{NoDevices, ReadError, Reader};
pub use record::Record;
pub use streams::{STREAM_NAME_MAX, STREAMS_MAX};
