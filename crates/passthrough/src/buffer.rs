//! A thread's own state: the reply it makes, and the ids it works with.

use rustix::io::Result;
use weir_fuse_proto::reply;
use weir_fuse_proto::wire::OUT_HEADER_LEN;

use crate::caller::Caller;

/// A thread that answers requests. Its umask and ids are changed for single calls, so it must not be used by another thread.
#[derive(Debug)]
pub struct Worker {
    pub(crate) reply: Buffer,
    pub(crate) caller: Caller,
    /// Bytes of directories.
    pub(crate) entries: Vec<u8>,
}

impl Worker {
    /// Makes the calling thread a worker.
    ///
    /// # Errors
    /// Those of giving it a umask of its own, and of asking for its capabilities.
    pub fn new() -> Result<Worker> {
        let caller = Caller::new()?;
        Ok(Worker { reply: Buffer::default(), caller, entries: Vec::new() })
    }
}

/// Bytes of one reply. The memory stays: it is as large as the largest reply was.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// The reply.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// A whole reply.
    pub(crate) fn set(&mut self, message: &[u8]) {
        self.reserve(message.len());
        self.bytes[..message.len()].copy_from_slice(message);
        self.len = message.len();
    }

    /// A reply with data: `fill` writes at most `len_max` bytes, and says how many.
    pub(crate) fn set_data(
        &mut self,
        unique: u64,
        len_max: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<()> {
        self.reserve(OUT_HEADER_LEN + len_max);
        let len = fill(&mut self.bytes[OUT_HEADER_LEN..][..len_max])?.min(len_max);
        self.bytes[..OUT_HEADER_LEN].copy_from_slice(&reply::data_head(unique, len));
        self.len = OUT_HEADER_LEN + len;
        Ok(())
    }

    fn reserve(&mut self, len: usize) {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }
}
