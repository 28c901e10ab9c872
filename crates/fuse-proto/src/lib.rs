//! The FUSE kernel protocol as bytes in, bytes out: requests, replies, notifications and negotiation.
//!
//! No descriptors, threads or clock: the caller reads messages from `/dev/fuse` and writes messages to it, this crate says
//! what they mean. One message is one read or one write, so nothing is ever split.
//!
//! ```text
//!  read(/dev/fuse) ──► parse ──► Request { header, op } ──► the caller's file system
//!                        │                                        │
//!                        └► Malformed: answer EIO, or give up     ▼
//!  write(/dev/fuse) ◄─────────────────────────── reply::* / notify::*
//! ```
//!
//! - [`parse`] borrows names and data from the message. What it accepts has names without NUL, and lengths that fit.
//! - [`init::negotiate`] answers the first request; [`Session`] is what came of it, and says how later ones are read.
//! - [`reply`] makes replies of fixed size as arrays, and [`Directory`] the contents of a directory. Data of a read is the
//!   caller's buffer after [`reply::data_head`].
//! - An interrupted request must be answered, with `EINTR` or as if nothing had happened; an [`Op::Interrupt`] itself is not.
//!
//! Nothing is allocated. Spoken: 7.31 (Linux 5.4) to 7.45.
//!
//! Source: fuse(4), and the published crates fuser (MIT) and fuse-backend-rs (Apache-2.0, BSD) for numbers.
//!
//! # Example
//!
//! ```
//! use weir_fuse_proto::{Op, Session, parse, reply};
//!
//! // LOOKUP of "a" in the root directory: 40 bytes of header, the name with its NUL.
//! let mut message = vec![0; 42];
//! message[0..4].copy_from_slice(&42_u32.to_ne_bytes());
//! message[4..8].copy_from_slice(&1_u32.to_ne_bytes());
//! message[8..16].copy_from_slice(&77_u64.to_ne_bytes());
//! message[40] = b'a';
//!
//! let request = parse(&message, &Session::default())?;
//! assert!(matches!(request.op, Op::Lookup { name } if name == "a"));
//! let reply = reply::error(request.unique, 2);
//! assert_eq!(reply.len(), 16);
//! # Ok::<(), weir_fuse_proto::Malformed>(())
//! ```
#![forbid(unsafe_code)]

mod attr;
mod directory;
mod extension;
pub mod flags;
mod forget;
pub mod init;
mod input;
pub mod notify;
mod op;
mod parse;
pub mod reply;
pub mod wire;

pub use attr::{Attr, Entry, FileKind, Opened, StatFs, Statx, Time, Timestamps};
pub use directory::{Directory, Full};
pub use forget::{Forget, Forgets};
pub use init::Session;
pub use op::{FileLock, Op, SetAttr, SetTime};
pub use parse::{Malformed, Request, parse};

/// Node id of the root directory.
pub const ROOT: u64 = 1;

/// Most bytes of a file name that a request may have, without the NUL: `PATH_MAX` less one.
pub const NAME_MAX: usize = 4095;
