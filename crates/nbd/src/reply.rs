//! Replies of the transmission phase: heads by value, the longer ones into the caller's buffer.
//!
//! Nothing here allocates, but for the growth of a buffer the caller keeps and reuses.

use std::ops::Deref;

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

use crate::command::{Cookie, Refusal};
use crate::error::ErrorCode;
use crate::export::clip;
use crate::wire::{ChunkHeader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, SimpleReply, chunk};

/// Metadata context id of `base:allocation` on every connection.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Longest head: a structured chunk header and the fields of a hole.
const HEAD_MAX: usize = size_of::<ChunkHeader>() + 12;

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
    /// Structured replies were not negotiated.
    Simple,
    /// They were; an error then carries a message.
    Structured,
}

impl ReplyFormat {
    /// Success of a request without data in its reply; 16 bytes. Not for reads and block status.
    pub fn done(self, cookie: Cookie) -> ReplyHead {
        // Allowed with structured replies too, and 4 bytes shorter.
        ReplyHead::new(&[simple(cookie, 0).as_bytes()])
    }

    /// A whole successful read; `len` bytes of data follow, at least 1 and at most 4 GiB - 9 (any
    /// valid read). 16 bytes, 28 when structured.
    ///
    /// Send it only when the data is there: after it no error can be told.
    pub fn data(self, cookie: Cookie, offset: u64, len: u32) -> ReplyHead {
        match self {
            ReplyFormat::Simple => ReplyHead::new(&[simple(cookie, 0).as_bytes()]),
            ReplyFormat::Structured => data_chunk(cookie, offset, len, true),
        }
    }

    /// An error, with `message` for a person when structured; 4096 bytes of it at most are sent.
    /// Valid for every request. Appends to `out`.
    pub fn error(self, cookie: Cookie, error: ErrorCode, message: &str, out: &mut Vec<u8>) {
        self.append_error(cookie, error, message, None, out);
    }

    /// An error at `offset` of the export, which must lie in the request's range: what a read
    /// delivered before it is good. A plain error without structured replies. Appends to `out`.
    pub fn error_at(
        self,
        cookie: Cookie,
        error: ErrorCode,
        offset: u64,
        message: &str,
        out: &mut Vec<u8>,
    ) {
        self.append_error(cookie, error, message, Some(offset), out);
    }

    /// The answer to a refused request. Appends to `out`.
    pub fn refusal(self, refusal: &Refusal, out: &mut Vec<u8>) {
        self.error(refusal.cookie, refusal.error, refusal.reason, out);
    }

    fn append_error(
        self,
        cookie: Cookie,
        error: ErrorCode,
        message: &str,
        offset: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        if self == ReplyFormat::Simple {
            out.extend_from_slice(simple(cookie, error.number()).as_bytes());
            return;
        }
        let message = clip(message);
        let (kind, tail) = match offset {
            Some(_) => (chunk::ERROR_OFFSET, 8),
            None => (chunk::ERROR, 0),
        };
        let len = 6 + message.len() as u32 + tail;
        out.extend_from_slice(header(chunk::FLAG_DONE, kind, cookie, len).as_bytes());
        out.extend_from_slice(&error.number().to_be_bytes());
        out.extend_from_slice(&(message.len() as u16).to_be_bytes());
        out.extend_from_slice(message.as_bytes());
        if let Some(offset) = offset {
            out.extend_from_slice(&offset.to_be_bytes());
        }
    }
}

/// A piece of a structured read: `len` bytes of data follow. `last` when no other chunk does.
///
/// Only on connections with structured replies; pieces of one read must not overlap.
pub fn data_chunk(cookie: Cookie, offset: u64, len: u32, last: bool) -> ReplyHead {
    debug_assert!(len > 0, "a data chunk holds at least one byte");
    let header = header(done_flag(last), chunk::OFFSET_DATA, cookie, len + 8);
    ReplyHead::new(&[header.as_bytes(), &offset.to_be_bytes()])
}

/// A piece of a structured read that reads as `len` zeroes, at least 1; no data follows. Not for an
/// unfragmented read, unless the hole is all of it.
///
/// Only on connections with structured replies; pieces of one read must not overlap.
pub fn hole_chunk(cookie: Cookie, offset: u64, len: u32, last: bool) -> ReplyHead {
    debug_assert!(len > 0, "a hole holds at least one byte");
    let header = header(done_flag(last), chunk::OFFSET_HOLE, cookie, 12);
    ReplyHead::new(&[header.as_bytes(), &offset.to_be_bytes(), &len.to_be_bytes()])
}

/// The end of a structured reply whose other chunks were not marked last.
///
/// Only on connections with structured replies.
pub fn none_chunk(cookie: Cookie) -> ReplyHead {
    ReplyHead::new(&[header(chunk::FLAG_DONE, chunk::NONE, cookie, 0).as_bytes()])
}

/// Head of a `base:allocation` chunk, the only and last one of its reply; `extents` follow.
pub(crate) fn status_chunk(cookie: Cookie, extents: u32) -> ReplyHead {
    let len = 4 + extents * 8;
    let header = header(chunk::FLAG_DONE, chunk::BLOCK_STATUS, cookie, len);
    ReplyHead::new(&[header.as_bytes(), &BASE_ALLOCATION_ID.to_be_bytes()])
}

fn simple(cookie: Cookie, error: u32) -> SimpleReply {
    SimpleReply {
        magic: U32::new(SIMPLE_REPLY_MAGIC),
        error: U32::new(error),
        cookie: U64::new(cookie.0),
    }
}

fn header(flags: u16, kind: u16, cookie: Cookie, len: u32) -> ChunkHeader {
    ChunkHeader {
        magic: U32::new(STRUCTURED_REPLY_MAGIC),
        flags: U16::new(flags),
        kind: U16::new(kind),
        cookie: U64::new(cookie.0),
        len: U32::new(len),
    }
}

fn done_flag(last: bool) -> u16 {
    if last { chunk::FLAG_DONE } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = Cookie(0x0102_0304_0506_0708);

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn heads_are_the_bytes_of_the_protocol() {
        use ReplyFormat::*;
        let simple = "67446698".to_owned() + "00000000" + "0102030405060708";
        assert_eq!(hex(&Simple.done(COOKIE)), simple);
        assert_eq!(hex(&Structured.done(COOKIE)), simple);
        assert_eq!(hex(&Simple.data(COOKIE, 4096, 512)), simple);
        let cookie = "0102030405060708";
        for (head, expected) in [
            (
                Structured.data(COOKIE, 4096, 512),
                format!("668e33ef00010001{cookie}000002080000000000001000"),
            ),
            (
                data_chunk(COOKIE, 4096, 512, false),
                format!("668e33ef00000001{cookie}000002080000000000001000"),
            ),
            (
                hole_chunk(COOKIE, 4096, 512, false),
                format!("668e33ef00000002{cookie}0000000c000000000000100000000200"),
            ),
            (none_chunk(COOKIE), format!("668e33ef00010000{cookie}00000000")),
            (status_chunk(COOKIE, 2), format!("668e33ef00010005{cookie}0000001400000001")),
        ] {
            assert_eq!(hex(&head), expected);
        }
    }

    #[test]
    fn error_replies_carry_text_if_structured() {
        let mut out = Vec::new();
        ReplyFormat::Simple.error(COOKIE, ErrorCode::NoSpace, "full", &mut out);
        assert_eq!(hex(&out), "674466980000001c0102030405060708");
        out.clear();
        ReplyFormat::Simple.error_at(COOKIE, ErrorCode::Io, 4096, "bad sector", &mut out);
        assert_eq!(hex(&out), "67446698000000050102030405060708");
        out.clear();
        ReplyFormat::Structured.error(COOKIE, ErrorCode::NoSpace, "full", &mut out);
        let head = "668e33ef00018001010203040506070800000".to_owned() + "00a";
        assert_eq!(hex(&out), head + "0000001c0004" + &hex(b"full"));
        out.clear();
        ReplyFormat::Structured.error_at(COOKIE, ErrorCode::Io, 4096, "bad", &mut out);
        let head = "668e33ef00018002010203040506070800000011".to_owned();
        assert_eq!(hex(&out), head + "000000050003" + &hex(b"bad") + "0000000000001000");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut out = Vec::new();
        let message = format!("x{}", "ä".repeat(4000));
        ReplyFormat::Structured.error(COOKIE, ErrorCode::Io, &message, &mut out);
        assert_eq!(out.len(), 20 + 6 + 4095);
    }
}
