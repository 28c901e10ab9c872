//! Block traces of others, read line by line.
//!
//! Formats of traces, which record requests to disks with their time and asker. Seven kinds of them, each in its own shape, and others by their columns,
//! become one stream of
//! [`Record`]s, in the order of the file:
//!
//! ```text
//!  file ─► gzip, zstd ─► lines ─► parser of the format ─► streams, clock ─► Record
//!          open.rs       lines.rs  parsers/                reader.rs
//! ```
//!
//! - [`Reader::open`] reads a file as it is: compressed or not, of the format it looks like unless told.
//! - [`Reader::new`] reads anything that is `BufRead`, without a file system.
//! - A line that makes no sense ends nothing: it is counted, and the first ten are kept with their number
//!   ([`BadLines`]). Only an I/O error ends the reading.
//!
//! What is held does not grow with the trace: [`LINE_MAX`] bounds a line, [`STREAMS_MAX`] and [`STREAM_NAME_MAX`] the
//! names of askers.
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
