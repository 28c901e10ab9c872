//! Partial message, which arrives in pieces.

/// Bytes that stay allocated between messages: a head and any usual name.
const KEPT: usize = 512;

/// Holds the part of one message that arrived in earlier pieces.
#[derive(Debug, Default)]
pub(crate) struct Partial(Vec<u8>);

impl Partial {
    /// Hands `read` the next message of `wanted` bytes, taken from the front of `rest`; `None`, with
    /// `rest` emptied, when it is not all there. A message that lies whole in `rest` is not copied.
    ///
    /// `wanted` must stay the same until the message was there.
    pub(crate) fn gather<R>(
        &mut self,
        rest: &mut &[u8],
        wanted: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (now, later) = rest.split_at(rest.len().min(wanted - self.0.len()));
        *rest = later;
        if now.len() == wanted {
            return Some(read(now));
        }
        // Grows with what arrives, not with what was announced.
        self.0.extend_from_slice(now);
        if self.0.len() < wanted {
            return None;
        }
        let result = read(&self.0);
        self.0.clear();
        if self.0.capacity() > KEPT {
            self.0 = Vec::new();
        }
        Some(result)
    }

    /// Bytes still lacking of a message of `wanted` bytes.
    pub(crate) fn lacking(&self, wanted: usize) -> usize {
        wanted - self.0.len()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_messages() {
        let mut partial = Partial::default();
        let mut rest = &b"abcdefg"[..];
        let read = |message: &[u8]| String::from_utf8(message.to_vec()).unwrap();
        assert_eq!(partial.gather(&mut rest, 3, read).as_deref(), Some("abc"));
        assert_eq!(partial.allocated_bytes(), 0, "a whole message is not copied");
        assert_eq!(partial.gather(&mut rest, 5, read), None);
        assert_eq!((rest, partial.lacking(5)), (&b""[..], 1));
        rest = b"hi";
        assert_eq!(partial.gather(&mut rest, 5, read).as_deref(), Some("defgh"));
        assert_eq!(rest, b"i");
        assert_eq!(partial.gather(&mut rest, 0, read).as_deref(), Some(""));
    }

    #[test]
    fn the_memory_of_a_large_message_is_released() {
        let mut partial = Partial::default();
        assert_eq!(partial.gather(&mut &[0; 5000][..], 6000, <[u8]>::len), None);
        assert!(partial.allocated_bytes() >= 5000);
        assert_eq!(partial.gather(&mut &[0; 1000][..], 6000, <[u8]>::len), Some(6000));
        assert_eq!(partial.allocated_bytes(), 0);
    }
}
