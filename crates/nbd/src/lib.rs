//! The NBD protocol as bytes in, bytes out: messages and the server's session state machine.
//!
//! No sockets, threads or clock: the caller moves bytes, this crate says what they mean. So the same
//! code serves a ring of system calls, a test and a fuzzer.
//!
//! ```text
//!            greeting()
//!                │
//!                ▼
//!  ┌─────────────────────────────┐   option: reply, and again
//!  │ handshake                   │◄──────────────────────────┐
//!  │   client flags, options ────┼───────────────────────────┘
//!  └──┬──────────────────────┬───┘   STARTTLS: StartTls, and again inside TLS after tls_started()
//!     │ GO, EXPORT_NAME      │ ABORT, junk, too much of anything
//!     ▼                      ▼
//!  ┌─────────────────┐   Closed(reason): send what is in `out`, close
//!  │ transmission    │
//!  │                 │──► Request(command)     anything without payload
//!  │     parse() ────┼──► Write(command)       then Payload … until it is whole
//!  │                 │──► Refused(refusal)     answer it and go on; payload is skipped before
//!  └──┬──────────┬───┘
//!     │ DISC     │ junk
//!     ▼          ▼
//!  Disconnect  Broken(why)                     finish what is in flight; close
//! ```
//!
//! - [`Session`] is one connection: [`Session::handle_handshake`], then [`Transmission::parse`] on
//!   what [`Session::transmission`] gives. Both take input split or joined in any way.
//! - [`Exports`] is what the handshake asks about; [`Negotiated`] what came of it.
//! - [`ReplyFormat`] and [`block_status`] make replies. Data itself
//!   never passes through here: a read is a [`ReplyHead`] and the caller's own buffer.
//! - [`client`] is enough of the other side for tools and tests.
//!
//! Everything a client can make us keep is bounded: [`OPTION_DATA_MAX`], [`OPTIONS_MAX`],
//! [`REPLIES_HIGH_WATER`], [`DRAIN_MAX`], [`EXTENTS_MAX`]. In transmission nothing is allocated.
//!
//! Spoken: fixed newstyle; GO, INFO, LIST, EXPORT_NAME, ABORT, STRUCTURED_REPLY, EXTENDED_HEADERS,
//! SET_META_CONTEXT and LIST_META_CONTEXT with `base:allocation` and `qemu:allocation-depth`; STARTTLS, where
//! the caller has TLS; every command of the protocol but RESIZE. Not spoken: oldstyle.
//!
//! Source: "The NBD protocol", doc/proto.md of the reference implementation.
//!
//! # Example
//!
//! A server of one export in memory, and a client that reads from it.
//!
//! ```
//! use weir_nbd::client::{Client, Connecting, Reply, Wishes};
//! use weir_nbd::{
//!     BlockSizes, Command, Cookie, Export, ExportId, Features, HandshakeState, Item, Op, Session,
//! };
//!
//! let disk = b"hello, block device".to_vec();
//! let exports = vec![Export {
//!     id: ExportId(0),
//!     name: "vm1".into(),
//!     description: String::new(),
//!     size: disk.len() as u64,
//!     features: Features { read_only: true, ..Features::default() },
//!     block_sizes: BlockSizes::DEFAULT,
//! }];
//!
//! // The handshake: what one side says is carried to the other until both are done.
//! let mut session = Session::new();
//! let wishes = Wishes { export: "vm1".into(), ..Wishes::default() };
//! let mut connecting = Connecting::new(wishes);
//! let mut to_client = session.greeting().to_vec();
//! let mut to_server = Vec::new();
//! let connected = loop {
//!     let progress = connecting.handle_input(&to_client, &mut to_server)?;
//!     if let Some(connected) = progress.connected {
//!         break connected;
//!     }
//!     to_client.clear();
//!     let progress = session.handle_handshake(&to_server, &exports, &mut to_client);
//!     assert!(!matches!(progress.state, HandshakeState::Closed(_)));
//!     to_server.clear();
//! };
//! assert_eq!(connected.size, 19);
//!
//! // A read: request, reply head, data from wherever it is.
//! let mut client = Client::new(connected);
//! let op = Op::Read { whole: false };
//! client.request(&Command { cookie: Cookie(1), op, fua: false, offset: 7, len: 5 }, &mut to_server);
//!
//! let transmission = session.transmission().expect("the handshake is done");
//! let parsed = transmission.parse(&to_server);
//! let Item::Request(read) = parsed.item else { panic!("{parsed:?}") };
//! to_client.clear();
//! to_client.extend_from_slice(&transmission.replies().data(read.mark(), read.len as u32));
//! to_client.extend_from_slice(&disk[7..][..5]);
//!
//! let mut input = &to_client[..];
//! let mut data = Vec::new();
//! loop {
//!     let parsed = client.parse(input)?;
//!     let (now, later) = input.split_at(parsed.consumed);
//!     input = later;
//!     match parsed.reply {
//!         Reply::Payload { .. } => data.extend_from_slice(now),
//!         Reply::Done { .. } => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(data, b"block");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod block_status;
pub mod client;
mod command;
mod context;
mod error;
mod export;
mod handshake;
mod option_data;
mod option_reply;
mod partial;
mod reply;
mod session;
mod transmission;
pub mod wire;

pub use block_status::{EXTENTS_MAX, Extent, block_status};
pub use command::{Command, Cookie, Mark, Op, Refusal};
pub use context::{Context, Contexts};
pub use error::ErrorCode;
pub use export::{
    BlockSizeError, BlockSizes, Denial, Export, ExportId, Exports, Features, TransmissionFlags,
};
pub use handshake::{
    CloseReason, HandshakeState, OPTION_DATA_MAX, OPTIONS_MAX, Progress, REPLIES_HIGH_WATER,
    TlsMode,
};
pub use reply::{ReplyFormat, ReplyHead};
pub use session::Session;
pub use transmission::{
    Broken, DRAIN_EXTENDED_MAX, DRAIN_MAX, Item, Negotiated, Parsed, Transmission,
};
