//! Cached bytes that a read shows instead of the device's.

/// The cached bytes of a range, as they were when a read of it went to the device. What the device says may be older.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overlay {
    /// Where each piece begins in the range, and in `bytes`; in order.
    pub(crate) pieces: Vec<(usize, usize)>,
    pub(crate) bytes: Vec<u8>,
}

impl Overlay {
    pub(crate) fn push(&mut self, at: usize, bytes: &[u8]) {
        let goes_on = self
            .pieces
            .last()
            .is_some_and(|&(start, from)| start + (self.bytes.len() - from) == at);
        if !goes_on {
            self.pieces.push((at, self.bytes.len()));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Puts the cached bytes over what the device has read.
    pub(crate) fn apply(&self, read: &mut [u8]) {
        for (index, &(at, from)) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(index + 1).map_or(self.bytes.len(), |&(_, next)| next);
            read[at..at + (end - from)].copy_from_slice(&self.bytes[from..end]);
        }
    }
}
