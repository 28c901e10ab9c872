//! Message of one send: several replies, each a few bytes of header and a buffer, gathered without copying.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::mapping::Mapping;
use crate::pool::IoBuf;

/// Vectors the kernel takes in one call (`UIO_MAXIOV`, since Linux 1.x). Longer messages go in several.
const VECTORS_MAX: usize = 1024;

/// Bytes of zeroes that one vector can point at.
const ZEROES: usize = 1 << 20;

/// Bytes to be sent in order, gathered from small copied pieces, buffers and zeroes.
///
/// Get one from [`crate::Ring::message`], append to it, and give it to [`crate::Ring::send`]. There is no limit on
/// the number of pieces; a few dozen replies a message is where gathering pays. Appending costs about 5 ns and
/// allocates only until the message, which is recycled, has grown to the size it needs.
pub struct Message {
    /// Owned, as a `Box` would, but free to be pointed into while this handle is moved about.
    parts: NonNull<Parts>,
}

struct Parts {
    pieces: Vec<Piece>,
    /// What the `Inline` pieces refer to.
    bytes: Vec<u8>,
    zeroes: Rc<Mapping>,
    /// The piece with the buffer that was appended last.
    last_buffer: Option<usize>,
    len: usize,
    vectors: Vec<libc::iovec>,
    /// Vectors before this one are sent.
    first: usize,
    header: libc::msghdr,
}

enum Piece {
    Inline {
        len: u32,
    },
    Buffer {
        buffer: IoBuf,
        from: u32,
        to: u32,
    },
    /// Another range of the last buffer before it.
    Again {
        from: u32,
        to: u32,
    },
    Zeroes {
        len: u32,
    },
}

/// Memory that messages and writes of zeroes point at; one for a ring.
pub(crate) fn zeroes() -> std::io::Result<Rc<Mapping>> {
    Ok(Rc::new(Mapping::zeroes(ZEROES)?))
}

impl Message {
    pub(crate) fn new(zeroes: Rc<Mapping>) -> Message {
        // SAFETY: `msghdr` is plain data for which all zeroes means no name, no vectors, no control data.
        // No safe way: its fields are not all public on every libc.
        let header = unsafe { std::mem::zeroed() };
        let (pieces, bytes, vectors) = (Vec::new(), Vec::new(), Vec::new());
        let (last_buffer, len, first) = (None, 0, 0);
        let parts = Parts { pieces, bytes, zeroes, last_buffer, len, vectors, first, header };
        Message { parts: NonNull::from(Box::leak(Box::new(parts))) }
    }

    /// Appends a copy of `bytes`: for headers and short answers.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let parts = self.parts_mut();
        parts.bytes.extend_from_slice(bytes);
        parts.len += bytes.len();
        let more = u32::try_from(bytes.len()).expect("short answers are below 4 GiB");
        // A piece whose length would not fit is followed by another: 4 GiB of short answers.
        match parts.pieces.last_mut() {
            Some(Piece::Inline { len }) if *len <= u32::MAX - more => *len += more,
            _ => parts.pieces.push(Piece::Inline { len: more }),
        }
    }

    /// Appends `range` of `buffer`, which the message keeps until it is sent or dropped.
    ///
    /// # Panics
    /// When `range` is not inside the buffer.
    pub fn push_buffer(&mut self, buffer: IoBuf, range: Range<usize>) {
        let len = buffer[range.clone()].len();
        let parts = self.parts_mut();
        parts.len += len;
        let (from, to) = (range.start as u32, range.end as u32);
        parts.last_buffer = Some(parts.pieces.len());
        parts.pieces.push(Piece::Buffer { buffer, from, to });
    }

    /// Appends another `range` of the buffer that was appended last.
    ///
    /// # Panics
    /// When there is none, or `range` is not inside it.
    pub fn push_again(&mut self, range: Range<usize>) {
        let parts = self.parts_mut();
        let last = parts.last_buffer.map(|last| &parts.pieces[last]);
        let Some(Piece::Buffer { buffer, .. }) = last else { panic!("no buffer was appended") };
        parts.len += buffer[range.clone()].len();
        let (from, to) = (range.start as u32, range.end as u32);
        parts.pieces.push(Piece::Again { from, to });
    }

    /// Appends `len` zero bytes, which take no memory.
    pub fn push_zeroes(&mut self, len: usize) {
        let parts = self.parts_mut();
        parts.len += len;
        let mut left = len;
        while left > 0 {
            let some = left.min(ZEROES);
            parts.pieces.push(Piece::Zeroes { len: some as u32 });
            left -= some;
        }
    }

    /// Copies all bytes, in order.
    #[cfg(feature = "fake")]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let (parts, mut inline) = (self.parts(), 0);
        let mut last: &[u8] = &[];
        let mut bytes = Vec::with_capacity(parts.len);
        for piece in &parts.pieces {
            match piece {
                Piece::Inline { len } => {
                    bytes.extend_from_slice(&parts.bytes[inline..][..*len as usize]);
                    inline += *len as usize;
                }
                Piece::Buffer { buffer, from, to } => {
                    last = buffer;
                    bytes.extend_from_slice(&last[*from as usize..*to as usize]);
                }
                Piece::Again { from, to } => {
                    bytes.extend_from_slice(&last[*from as usize..*to as usize]);
                }
                Piece::Zeroes { len } => bytes.resize(bytes.len() + *len as usize, 0),
            }
        }
        bytes
    }

    /// Bytes appended so far.
    pub fn len(&self) -> usize {
        self.parts().len
    }

    /// Of these, the bytes that were copied: what the message takes besides its buffers.
    pub fn inline_len(&self) -> usize {
        self.parts().bytes.len()
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Builds the vectors. From here until the end of the send the pieces stay as they are.
    pub(crate) fn seal(&mut self) {
        let parts = self.parts_mut();
        parts.vectors.clear();
        parts.first = 0;
        let mut inline = parts.bytes.as_mut_ptr();
        let mut last: Option<&IoBuf> = None;
        for piece in &parts.pieces {
            let (base, len) = match *piece {
                Piece::Inline { len } => {
                    let base = inline;
                    // SAFETY: the lengths of the inline pieces add up to `bytes.len()`, so this stays in the vector
                    // or one past its end. No safe way: a vector for the kernel holds an address.
                    inline = unsafe { inline.add(len as usize) };
                    (base, len)
                }
                Piece::Buffer { ref buffer, from, to } => {
                    last = Some(buffer);
                    // SAFETY: `push_buffer` checked the range against the buffer. No safe way: as above.
                    (unsafe { buffer.start().add(from as usize) }.as_ptr(), to - from)
                }
                Piece::Again { from, to } => {
                    let buffer = last.expect("its buffer comes before it");
                    // SAFETY: `push_again` checked the range against this buffer. No safe way: as above.
                    (unsafe { buffer.start().add(from as usize) }.as_ptr(), to - from)
                }
                Piece::Zeroes { len } => (parts.zeroes.start().as_ptr(), len),
            };
            if len > 0 {
                parts.vectors.push(libc::iovec { iov_base: base.cast(), iov_len: len as usize });
            }
        }
    }

    /// The header to send next, pointing at what is not sent yet. Valid until the message is touched again.
    pub(crate) fn header(&mut self) -> *const libc::msghdr {
        let parts = self.parts_mut();
        let rest = &mut parts.vectors[parts.first..];
        parts.header.msg_iov = rest.as_mut_ptr();
        parts.header.msg_iovlen = rest.len().min(VECTORS_MAX) as _;
        &raw const parts.header
    }

    /// Takes note that `sent` more bytes are gone; answers whether all are.
    pub(crate) fn advance(&mut self, sent: usize) -> bool {
        let parts = self.parts_mut();
        let mut left = sent;
        while let Some(vector) = parts.vectors.get_mut(parts.first) {
            if vector.iov_len > left {
                // SAFETY: inside the piece that the vector describes. No safe way: as in `seal`.
                vector.iov_base = unsafe { vector.iov_base.cast::<u8>().add(left) }.cast();
                vector.iov_len -= left;
                return false;
            }
            left -= vector.iov_len;
            parts.first += 1;
        }
        assert_eq!(left, 0, "the kernel sent more than it was given");
        true
    }

    /// Drops the pieces and keeps the memory that describes them, for the next message.
    pub(crate) fn clear(&mut self) {
        let parts = self.parts_mut();
        parts.pieces.clear();
        parts.bytes.clear();
        parts.vectors.clear();
        parts.last_buffer = None;
        parts.len = 0;
    }

    fn parts(&self) -> &Parts {
        // SAFETY: made by `new`, freed in `drop` only. While the kernel reads the header and vectors the message
        // sits in an in-flight slot, where nothing is called on it. No safe way: a `Box` may not be moved while
        // someone points into it.
        unsafe { self.parts.as_ref() }
    }

    fn parts_mut(&mut self) -> &mut Parts {
        // SAFETY: as in `parts`; `&mut self` makes it the only reference.
        unsafe { self.parts.as_mut() }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: `parts` came from a `Box` in `new` and this is the only handle; slots in flight are never dropped.
        drop(unsafe { Box::from_raw(self.parts.as_ptr()) });
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::BufferPool;

    /// What the kernel would read now.
    fn visible(message: &mut Message) -> Vec<u8> {
        let header = message.header();
        let mut bytes = Vec::new();
        // SAFETY: the message is sealed and alive, so header, vectors and what they point at are valid. No safe way:
        // this is the kernel's side.
        unsafe {
            let header = &*header;
            for vector in std::slice::from_raw_parts(header.msg_iov, header.msg_iovlen as _) {
                assert!(vector.iov_len > 0);
                bytes.extend_from_slice(std::slice::from_raw_parts(
                    vector.iov_base.cast(),
                    vector.iov_len,
                ));
            }
        }
        bytes
    }

    fn sample() -> (Message, Vec<u8>) {
        let pool = BufferPool::new(1 << 20).unwrap();
        let mut buffer = pool.get(100).unwrap();
        buffer.copy_from_slice(&std::array::from_fn::<u8, 100, _>(|at| at as u8));
        let mut message = Message::new(zeroes().unwrap());
        let mut wanted = Vec::new();
        message.push_bytes(b"one");
        message.push_bytes(b"");
        message.push_bytes(b"two");
        message.push_buffer(buffer, 10..20);
        message.push_bytes(b"more");
        message.push_again(20..20);
        message.push_again(5..8);
        message.push_zeroes(5);
        message.push_zeroes(0);
        message.push_bytes(b"three");
        wanted.extend(b"onetwo");
        wanted.extend(10..20);
        wanted.extend(b"more");
        wanted.extend(5..8);
        wanted.extend([0; 5]);
        wanted.extend(b"three");
        (message, wanted)
    }

    #[test]
    fn pieces_follow_each_other() {
        let (mut message, wanted) = sample();
        assert_eq!(message.len(), wanted.len());
        message.seal();
        assert_eq!(visible(&mut message), wanted);
    }

    #[test]
    fn a_send_may_advance_by_any_number_of_bytes() {
        for step in 1..=33 {
            let (mut message, wanted) = sample();
            message.seal();
            // Moved about, as it is between slots.
            let mut boxed = Box::new(message);
            let mut sent = 0;
            loop {
                let rest = visible(&mut boxed);
                assert_eq!(rest, wanted[sent..], "after {sent}");
                let some = step.min(rest.len());
                sent += some;
                if boxed.advance(some) {
                    break;
                }
            }
            assert_eq!(sent, wanted.len());
            boxed.clear();
            assert!(boxed.is_empty());
            boxed.push_bytes(b"again");
            boxed.seal();
            assert_eq!(visible(&mut boxed), b"again");
        }
    }

    #[test]
    #[should_panic(expected = "no buffer was appended")]
    fn the_buffer_of_an_earlier_message_is_not_sent_again() {
        let (mut message, _) = sample();
        message.clear();
        message.push_again(0..1);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_range_outside_the_buffer_is_refused() {
        let buffer = BufferPool::new(1).unwrap().get(10).unwrap();
        Message::new(zeroes().unwrap()).push_buffer(buffer, 5..11);
    }
}
