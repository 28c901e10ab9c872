//! Files, block devices, memory and sockets over io_uring: one ring, one thread, no unsafe code for the caller.
//!
//! ```text
//!            start: receive, send, read, write, …          poll_completion
//!  caller ─────────────────────────────────────► Ring ─────────────────────► caller
//!            (buffers and messages move in)       │ ▲      (buffers move back)
//!                                             wait│ │completions
//!                                                 ▼ │
//!                                               kernel
//! ```
//!
//! An operation takes what it needs by value ([`IoBuf`], [`Message`]) and its [`Completion`] gives it back, so that
//! memory the kernel works on cannot be seen, changed or freed, whatever the caller does: forgetting a value leaks
//! it, dropping the [`Ring`] waits for the kernel. Operations queue up and go to the kernel together in
//! [`Ring::wait`], one system call a turn. Sockets are received from into buffers that belong to no connection
//! ([`ReceivedBuf`]), so idle connections cost none.
//!
//! Beside the ring are system calls that no crate has a safe function for: [`FileHandle`], [`process_info`], [`peer_process`],
//! [`unshare_mounts`], [`close`].
//!
//! Unsafe code has `allow(unsafe_code)` at the top of its file: memory from the kernel (`mapping`), pieces
//! of it (`pool`, `fixed`, `receive`), vectors (`message`), entries (`op`, `queue`), the hand-over (`core`), and those calls. What
//! needs no kernel of it runs under Miri: `cargo +nightly miri test -p weir-uring --lib -- message:: pool:: slabs::`.
//!
//! Needs Linux 5.19; uses what later kernels offer ([`support`]).
//!
//! ```
//! use std::os::unix::net::UnixStream;
//! use weir_uring::{Completion, Config, Ring};
//!
//! let mut ring = Ring::new(&Config::default())?;
//! let (ours, theirs) = UnixStream::pair()?;
//! let (ours, theirs) = (ring.add_socket(ours)?, ring.add_socket(theirs)?);
//! let mut hello = ring.message();
//! hello.push_bytes(b"hello");
//! ring.send(&ours, hello, 1);
//! ring.receive(&theirs, 2);
//! let mut received = None;
//! while received.is_none() {
//!     ring.wait(None)?;
//!     while let Some(completion) = ring.poll_completion() {
//!         if let Completion::Received { token: 2, result } = completion {
//!             received = result?;
//!         }
//!     }
//! }
//! assert_eq!(&received.unwrap()[..], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

mod clock;
mod completion;
mod config;
mod core;
mod disk;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod file_handle;
mod files;
mod fixed;
mod mapping;
mod message;
mod net;
mod op;
mod own_state;
mod peer;
mod pool;
mod process_info;
mod queue;
mod receive;
mod restrictions;
mod ring;
mod slabs;
mod support;
mod wake;

pub use clock::monotonic_ns;
pub use completion::Completion;
pub use config::{Config, Setup};
pub use disk::{
    Backend, DirectMode, Disk, DiskExtent, DiskInfo, DiskKind, Durability, OpenError, OpenOptions,
    SyncFailures, ZeroOptions,
};
pub use error::RingError;
pub use file_handle::FileHandle;
pub use message::Message;
pub use net::Socket;
pub use own_state::{close, unshare_mounts, unshare_umask};
pub use peer::peer_process;
pub use pool::{BufferPool, IoBuf};
pub use process_info::{ProcessInfo, open_thread, process_info};
pub use receive::ReceivedBuf;
pub use ring::Ring;
pub use support::{Support, support};
pub use wake::Waker;
