//! Buffers of messages, which are used again.

/// Longest message that is copied out of a buffer for the longest ones, bytes. Copying it costs less than the memory.
const SMALL: usize = 8 << 10;

/// Buffers that are kept for later.
const KEPT_MAX: usize = 64;

/// A message, in a buffer that may be longer.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) len: usize,
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Buffers of two sizes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    buffer_len: usize,
    large: Vec<Message>,
    small: Vec<Message>,
}

impl Messages {
    pub(super) fn set_buffer_len(&mut self, len: usize) {
        self.buffer_len = len;
    }

    /// A buffer for any message.
    pub(super) fn buffer(&mut self) -> Message {
        let new = || Message { bytes: vec![0; self.buffer_len], len: 0 };
        self.large.pop().unwrap_or_else(new)
    }

    /// A message to be kept for as long as need be: in a buffer of its own size if it is small.
    pub(super) fn keep(&mut self, message: Message) -> Message {
        if message.len > SMALL {
            return message;
        }
        let new = || Message { bytes: vec![0; SMALL], len: 0 };
        let mut small = self.small.pop().unwrap_or_else(new);
        small.bytes[..message.len].copy_from_slice(message.bytes());
        small.len = message.len;
        self.put_back(message);
        small
    }

    /// Takes a buffer back.
    pub(super) fn put_back(&mut self, message: Message) {
        let list = if message.bytes.len() == SMALL { &mut self.small } else { &mut self.large };
        if list.len() < KEPT_MAX {
            list.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_do_not_keep_large_buffers() {
        let mut messages = Messages::default();
        messages.set_buffer_len(1 << 20);
        let mut message = messages.buffer();
        message.bytes[..3].copy_from_slice(b"abc");
        message.len = 3;
        let kept = messages.keep(message);
        assert_eq!((kept.bytes(), kept.bytes.len()), (&b"abc"[..], SMALL));
        assert_eq!(messages.large.len(), 1);
        let mut message = messages.buffer();
        message.len = SMALL + 1;
        assert_eq!(messages.keep(message).bytes.len(), 1 << 20);
        messages.put_back(kept);
        assert_eq!((messages.small.len(), messages.large.len()), (1, 0));
    }
}
