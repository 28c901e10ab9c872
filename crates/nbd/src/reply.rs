//! Replies of the transmission phase: heads by value, the longer ones into the caller's buffer.
//!
//! Nothing here allocates, but for the growth of a buffer the caller keeps and reuses.

use std::ops::Deref;

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

use crate::command::{Mark, Refusal};
use crate::error::ErrorCode;
use crate::export::clip;
use crate::wire::{
    ChunkHeader, EXTENDED_REPLY_MAGIC, ExtendedChunkHeader, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, SimpleReply, chunk,
};

/// Longest head: an extended chunk header and the fields of a hole.
const HEAD_MAX: usize = size_of::<ExtendedChunkHeader>() + 12;

/// The bytes of a reply up to its data, by value; derefs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    bytes: [u8; HEAD_MAX],
    len: u8,
}

impl ReplyHead {
    fn new(parts: &[&[u8]]) -> ReplyHead {
        let mut head = ReplyHead { bytes: [0; HEAD_MAX], len: 0 };
        for part in parts {
            let start = usize::from(head.len);
            head.bytes[start..start + part.len()].copy_from_slice(part);
            head.len += part.len() as u8;
        }
        head
    }
}

impl Deref for ReplyHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// How replies look on a connection: by value, so that a request in flight may keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFormat {
    /// Neither structured replies nor extended headers were negotiated.
    Simple,
    /// Structured replies were; an error then carries a message.
    Structured,
    /// Extended headers were; every reply is a chunk.
    Extended,
}

impl ReplyFormat {
    /// Success of a request without data in its reply; 16 bytes, 32 when extended. Not for reads and block status.
    pub fn done(self, mark: Mark) -> ReplyHead {
        match self {
            // Allowed with structured replies too, and 4 bytes shorter.
            ReplyFormat::Simple | ReplyFormat::Structured => {
                ReplyHead::new(&[simple(mark, 0).as_bytes()])
            }
            ReplyFormat::Extended => self.none_chunk(mark),
        }
    }

    /// A whole successful read; `len` bytes of data follow, at least 1 and at most 4 GiB - 9 (any
    /// valid read). 16 bytes, 28 when structured, 40 when extended.
    ///
    /// Send it only when the data is there: after it no error can be told.
    pub fn data(self, mark: Mark, len: u32) -> ReplyHead {
        match self {
            ReplyFormat::Simple => ReplyHead::new(&[simple(mark, 0).as_bytes()]),
            _ => self.data_chunk(mark, mark.offset, len, true),
        }
    }

    /// A piece of a read: `len` bytes of data follow, at least 1. `is_last` when no other chunk does.
    ///
    /// Not for simple replies; pieces of one read must not overlap.
    pub fn data_chunk(self, mark: Mark, offset: u64, len: u32, is_last: bool) -> ReplyHead {
        debug_assert!(len > 0, "a data chunk holds at least one byte");
        let header = self.header(done_flag(is_last), chunk::OFFSET_DATA, mark, len + 8);
        ReplyHead::new(&[&header, &offset.to_be_bytes()])
    }

    /// A piece of a read that reads as `len` zeroes, at least 1; no data follows. Not for an
    /// unfragmented read, unless the hole is all of it.
    ///
    /// Not for simple replies; pieces of one read must not overlap.
    pub fn hole_chunk(self, mark: Mark, offset: u64, len: u32, is_last: bool) -> ReplyHead {
        debug_assert!(len > 0, "a hole holds at least one byte");
        let header = self.header(done_flag(is_last), chunk::OFFSET_HOLE, mark, 12);
        ReplyHead::new(&[&header, &offset.to_be_bytes(), &len.to_be_bytes()])
    }

    /// The end of a reply whose other chunks were not marked last. Not for simple replies.
    pub fn none_chunk(self, mark: Mark) -> ReplyHead {
        ReplyHead::new(&[&self.header(chunk::FLAG_DONE, chunk::NONE, mark, 0)])
    }

    /// Head of a chunk of block status; `extents` follow.
    pub(crate) fn status_chunk(
        self,
        mark: Mark,
        context: u32,
        extents: u32,
        is_last: bool,
    ) -> ReplyHead {
        let done = done_flag(is_last);
        let context = context.to_be_bytes();
        if self == ReplyFormat::Extended {
            let header = self.header(done, chunk::BLOCK_STATUS_EXT, mark, 8 + extents * 16);
            return ReplyHead::new(&[&header, &context, &extents.to_be_bytes()]);
        }
        let header = self.header(done, chunk::BLOCK_STATUS, mark, 4 + extents * 8);
        ReplyHead::new(&[&header, &context])
    }

    /// An error, with `message` for a person unless simple; 4096 bytes of it at most are sent.
    /// Valid for every request. Appends to `out`.
    pub fn error(self, mark: Mark, error: ErrorCode, message: &str, out: &mut Vec<u8>) {
        self.append_error(mark, error, message, None, out);
    }

    /// An error at `offset` of the export, which must lie in the request's range: what a read
    /// delivered before it is good. A plain error in a simple reply. Appends to `out`.
    pub fn error_at(
        self,
        mark: Mark,
        error: ErrorCode,
        offset: u64,
        message: &str,
        out: &mut Vec<u8>,
    ) {
        self.append_error(mark, error, message, Some(offset), out);
    }

    /// The answer to a refused request. Appends to `out`.
    pub fn refusal(self, refusal: &Refusal, out: &mut Vec<u8>) {
        self.error(refusal.mark, refusal.error, refusal.reason, out);
    }

    fn append_error(
        self,
        mark: Mark,
        error: ErrorCode,
        message: &str,
        offset: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        if self == ReplyFormat::Simple {
            out.extend_from_slice(simple(mark, error.number()).as_bytes());
            return;
        }
        let message = clip(message);
        let (kind, tail) = match offset {
            Some(_) => (chunk::ERROR_OFFSET, 8),
            None => (chunk::ERROR, 0),
        };
        let len = 6 + message.len() as u32 + tail;
        out.extend_from_slice(&self.header(chunk::FLAG_DONE, kind, mark, len));
        out.extend_from_slice(&error.number().to_be_bytes());
        out.extend_from_slice(&(message.len() as u16).to_be_bytes());
        out.extend_from_slice(message.as_bytes());
        if let Some(offset) = offset {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }

    /// Head of a chunk.
    fn header(self, flags: u16, kind: u16, mark: Mark, len: u32) -> ReplyHead {
        debug_assert!(self != ReplyFormat::Simple, "a chunk in a simple reply");
        let (flags, kind, cookie) = (U16::new(flags), U16::new(kind), U64::new(mark.cookie.0));
        if self == ReplyFormat::Extended {
            let header = ExtendedChunkHeader {
                magic: U32::new(EXTENDED_REPLY_MAGIC),
                flags,
                kind,
                cookie,
                offset: U64::new(mark.offset),
                len: U64::new(len.into()),
            };
            return ReplyHead::new(&[header.as_bytes()]);
        }
        let magic = U32::new(STRUCTURED_REPLY_MAGIC);
        let header = ChunkHeader { magic, flags, kind, cookie, len: U32::new(len) };
        ReplyHead::new(&[header.as_bytes()])
    }
}

fn simple(mark: Mark, error: u32) -> SimpleReply {
    SimpleReply {
        magic: U32::new(SIMPLE_REPLY_MAGIC),
        error: U32::new(error),
        cookie: U64::new(mark.cookie.0),
    }
}

fn done_flag(last: bool) -> u16 {
    if last { chunk::FLAG_DONE } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cookie;

    const MARK: Mark = Mark { cookie: Cookie(0x0102_0304_0506_0708), offset: 4096 };

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn heads_are_the_bytes_of_the_protocol() {
        use ReplyFormat::*;
        let simple = "67446698".to_owned() + "00000000" + "0102030405060708";
        assert_eq!(hex(&Simple.done(MARK)), simple);
        assert_eq!(hex(&Structured.done(MARK)), simple);
        assert_eq!(hex(&Simple.data(MARK, 512)), simple);
        let (cookie, extended, offset) = ("0102030405060708", "6e8a278c", "0000000000001000");
        for (head, expected) in [
            (
                Structured.data(MARK, 512),
                format!("668e33ef00010001{cookie}000002080000000000001000"),
            ),
            (
                Structured.data_chunk(MARK, 4096, 512, false),
                format!("668e33ef00000001{cookie}000002080000000000001000"),
            ),
            (
                Structured.hole_chunk(MARK, 4096, 512, false),
                format!("668e33ef00000002{cookie}0000000c000000000000100000000200"),
            ),
            (Structured.none_chunk(MARK), format!("668e33ef00010000{cookie}00000000")),
            (
                Structured.status_chunk(MARK, 1, 2, true),
                format!("668e33ef00010005{cookie}0000001400000001"),
            ),
            (Extended.done(MARK), format!("{extended}00010000{cookie}{offset}{:016x}", 0)),
            (
                Extended.data(MARK, 512),
                format!("{extended}00010001{cookie}{offset}{:016x}{offset}", 520),
            ),
            (
                Extended.hole_chunk(MARK, 8192, 512, false),
                format!("{extended}00000002{cookie}{offset}{:016x}{:016x}00000200", 12, 8192),
            ),
            (
                Extended.status_chunk(MARK, 2, 3, false),
                format!("{extended}00000006{cookie}{offset}{:016x}0000000200000003", 56),
            ),
        ] {
            assert_eq!(hex(&head), expected);
        }
    }

    #[test]
    fn error_replies_carry_text_if_structured() {
        let mut out = Vec::new();
        ReplyFormat::Simple.error(MARK, ErrorCode::NoSpace, "full", &mut out);
        assert_eq!(hex(&out), "674466980000001c0102030405060708");
        out.clear();
        ReplyFormat::Simple.error_at(MARK, ErrorCode::Io, 4096, "bad sector", &mut out);
        assert_eq!(hex(&out), "67446698000000050102030405060708");
        out.clear();
        ReplyFormat::Structured.error(MARK, ErrorCode::NoSpace, "full", &mut out);
        let head = "668e33ef00018001010203040506070800000".to_owned() + "00a";
        assert_eq!(hex(&out), head + "0000001c0004" + &hex(b"full"));
        out.clear();
        ReplyFormat::Structured.error_at(MARK, ErrorCode::Io, 4096, "bad", &mut out);
        let head = "668e33ef00018002010203040506070800000011".to_owned();
        assert_eq!(hex(&out), head + "000000050003" + &hex(b"bad") + "0000000000001000");
        out.clear();
        ReplyFormat::Extended.error(MARK, ErrorCode::NoSpace, "full", &mut out);
        let head = "6e8a278c0001800101020304050607080000000000001000".to_owned();
        assert_eq!(hex(&out), head + "000000000000000a" + "0000001c0004" + &hex(b"full"));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut out = Vec::new();
        let message = format!("x{}", "ä".repeat(4000));
        ReplyFormat::Structured.error(MARK, ErrorCode::Io, &message, &mut out);
        assert_eq!(out.len(), 20 + 6 + 4095);
    }
}
