//! Completions of the ring.

use std::io;

use crate::pool::IoBuf;
use crate::receive::ReceivedBuf;

/// The end of one operation. Every operation that is started ends in exactly one, except those on a socket that is
/// closed: from [`crate::Ring::close`] on, only its `Closed` comes.
///
/// `token` is the caller's, given when the operation was started. Buffers come back whatever the result.
#[derive(Debug)]
pub enum Completion {
    /// [`crate::Ring::receive`]: what had arrived.
    Received {
        /// The caller's mark.
        token: u64,
        /// At least one byte, or `None` when the peer sends no more.
        result: io::Result<Option<ReceivedBuf>>,
    },
    /// [`crate::Ring::receive_into`]: the buffer is full.
    Filled {
        /// The caller's mark.
        token: u64,
        /// The buffer that was given.
        buffer: IoBuf,
        /// `UnexpectedEof` when the peer stopped before the buffer was full.
        result: io::Result<()>,
    },
    /// [`crate::Ring::send`]: all of it went into the socket, or the connection failed.
    Sent {
        /// The caller's mark.
        token: u64,
        /// `BrokenPipe` when the peer is gone.
        result: io::Result<()>,
    },
    /// [`crate::Ring::close`]: nothing is in flight on the socket and its descriptor is closed.
    Closed {
        /// The caller's mark.
        token: u64,
    },
    /// [`crate::Ring::read`]: the buffer holds the device's bytes.
    Read {
        /// The caller's mark.
        token: u64,
        /// The buffer that was given; its contents are unspecified after an error.
        buffer: IoBuf,
        /// All bytes or an error.
        result: io::Result<()>,
    },
    /// [`crate::Ring::write`]: the device has all bytes.
    Written {
        /// The caller's mark.
        token: u64,
        /// The buffer that was given.
        buffer: IoBuf,
        /// All bytes or an error; after an error some may have been written.
        result: io::Result<()>,
    },
    /// [`crate::Ring::flush`], [`crate::Ring::write_zeroes`] and [`crate::Ring::trim`].
    Done {
        /// The caller's mark.
        token: u64,
        /// How it ended.
        result: io::Result<()>,
    },
    /// A [`crate::Waker`] was used, once or several times.
    Woken,
}
