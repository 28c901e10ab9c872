//! Numbers and fixed layouts of the protocol, as its document names them; everything is big-endian.
//!
//! Source of every value: "The NBD protocol", doc/proto.md of the reference implementation (public domain).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First eight bytes of every connection, `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: second half of the greeting, and the head of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Head of every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Head of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Head of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Head of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Head of every request once extended headers are negotiated.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Head of every reply chunk then.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flag of server and client: fixed newstyle negotiation.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of server and client: no 124 zero bytes after `NBD_OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Longest string the protocol allows: names, descriptions, queries, messages. Bytes of UTF-8.
pub const STRING_MAX: usize = 4096;
/// Zero bytes after the answer to `NBD_OPT_EXPORT_NAME`, unless both sides waived them.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// Option numbers (`NBD_OPT_*`).
pub mod opt {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Option reply types (`NBD_REP_*`); errors have bit 31 set.
pub mod rep {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERROR_BIT: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR_BIT + 1;
    pub const ERR_POLICY: u32 = ERROR_BIT + 2;
    pub const ERR_INVALID: u32 = ERROR_BIT + 3;
    pub const ERR_TLS_REQD: u32 = ERROR_BIT + 5;
    pub const ERR_UNKNOWN: u32 = ERROR_BIT + 6;
    pub const ERR_SHUTDOWN: u32 = ERROR_BIT + 7;
    pub const ERR_TOO_BIG: u32 = ERROR_BIT + 9;
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR_BIT + 10;
}

/// Information types of `NBD_OPT_INFO` and `NBD_OPT_GO` (`NBD_INFO_*`).
pub mod info {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Request types (`NBD_CMD_*`).
pub mod cmd {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags (`NBD_CMD_FLAG_*`).
pub mod cmd_flag {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Structured reply chunk types (`NBD_REPLY_TYPE_*`); errors have bit 15 set.
pub mod chunk {
    #![allow(missing_docs, reason = "the names are the protocol's own")]
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR_BIT: u16 = 1 << 15;
    pub const ERROR: u16 = ERROR_BIT + 1;
    pub const ERROR_OFFSET: u16 = ERROR_BIT + 2;
    /// Flag, not a type: the last chunk of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
}

/// `base:allocation` status: reading gives whatever, writing may need new space.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation` status: reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
/// The one metadata context of the protocol itself.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// QEMU's metadata context of where data lies in a chain of images: 0 for a hole, 1 for the image that is served.
pub const ALLOCATION_DEPTH: &str = "qemu:allocation-depth";

/// What the server says first.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Greeting {
    /// [`INIT_MAGIC`].
    pub init_magic: U64,
    /// [`OPTION_MAGIC`].
    pub option_magic: U64,
    /// [`FLAG_FIXED_NEWSTYLE`] and [`FLAG_NO_ZEROES`].
    pub flags: U16,
}

/// Head of a client's option; `len` bytes of data follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionHeader {
    /// [`OPTION_MAGIC`].
    pub magic: U64,
    /// One of [`opt`], or a number we do not know.
    pub option: U32,
    /// Bytes of data that follow.
    pub len: U32,
}

/// Head of the server's answer to an option; `len` bytes of data follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionReply {
    /// [`OPTION_REPLY_MAGIC`].
    pub magic: U64,
    /// The option that is answered.
    pub option: U32,
    /// One of [`rep`].
    pub kind: U32,
    /// Bytes of data that follow.
    pub len: U32,
}

/// Answer to `NBD_OPT_EXPORT_NAME`, before the zeroes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExportNameReply {
    /// Bytes of the export.
    pub size: U64,
    /// Transmission flags.
    pub flags: U16,
}

/// A request; only a write has a payload, of `len` bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestHeader {
    /// [`REQUEST_MAGIC`].
    pub magic: U32,
    /// Of [`cmd_flag`].
    pub flags: U16,
    /// One of [`cmd`], or a number we do not know.
    pub kind: U16,
    /// The client's own mark, given back in the reply.
    pub cookie: U64,
    /// Bytes from the start of the export.
    pub offset: U64,
    /// Bytes concerned.
    pub len: U32,
}

/// A request once extended headers are negotiated; a payload of `len` bytes follows where its flags have
/// [`cmd_flag::PAYLOAD_LEN`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtendedRequestHeader {
    /// [`EXTENDED_REQUEST_MAGIC`].
    pub magic: U32,
    /// Of [`cmd_flag`].
    pub flags: U16,
    /// One of [`cmd`], or a number we do not know.
    pub kind: U16,
    /// The client's own mark, given back in the reply.
    pub cookie: U64,
    /// Bytes from the start of the export.
    pub offset: U64,
    /// Bytes of payload, or bytes concerned where there is none.
    pub len: U64,
}

/// A whole simple reply; data follows only a successful read.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SimpleReply {
    /// [`SIMPLE_REPLY_MAGIC`].
    pub magic: U32,
    /// 0, or an error number.
    pub error: U32,
    /// The request's mark.
    pub cookie: U64,
}

/// Head of a structured reply chunk; `len` bytes follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ChunkHeader {
    /// [`STRUCTURED_REPLY_MAGIC`].
    pub magic: U32,
    /// [`chunk::FLAG_DONE`] or 0.
    pub flags: U16,
    /// One of [`chunk`].
    pub kind: U16,
    /// The request's mark.
    pub cookie: U64,
    /// Bytes that follow.
    pub len: U32,
}

/// Head of a reply chunk once extended headers are negotiated; `len` bytes follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExtendedChunkHeader {
    /// [`EXTENDED_REPLY_MAGIC`].
    pub magic: U32,
    /// [`chunk::FLAG_DONE`] or 0.
    pub flags: U16,
    /// One of [`chunk`].
    pub kind: U16,
    /// The request's mark.
    pub cookie: U64,
    /// The request's offset.
    pub offset: U64,
    /// Bytes that follow.
    pub len: U64,
}

/// Bytes of a [`RequestHeader`].
pub const REQUEST_LEN: usize = size_of::<RequestHeader>();
/// Bytes of an [`ExtendedRequestHeader`].
pub const EXTENDED_REQUEST_LEN: usize = size_of::<ExtendedRequestHeader>();
/// Bytes of an [`OptionHeader`].
pub const OPTION_HEADER_LEN: usize = size_of::<OptionHeader>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_sizes_the_protocol_gives() {
        assert_eq!(size_of::<Greeting>(), 18);
        assert_eq!(OPTION_HEADER_LEN, 16);
        assert_eq!(size_of::<OptionReply>(), 20);
        assert_eq!(size_of::<ExportNameReply>(), 10);
        assert_eq!(REQUEST_LEN, 28);
        assert_eq!(size_of::<SimpleReply>(), 16);
        assert_eq!(size_of::<ChunkHeader>(), 20);
        assert_eq!(EXTENDED_REQUEST_LEN, 32);
        assert_eq!(size_of::<ExtendedChunkHeader>(), 32);
    }

    #[test]
    fn magics_spell_their_ascii() {
        assert_eq!(&INIT_MAGIC.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&OPTION_MAGIC.to_be_bytes(), b"IHAVEOPT");
    }
}
