//! A request's meaning, and the rules that refuse one.

use crate::context::Contexts;
use crate::error::ErrorCode;
use crate::export::TransmissionFlags;
use crate::transmission::Negotiated;
use crate::wire::{
    EXTENDED_REQUEST_LEN, EXTENDED_REQUEST_MAGIC, ExtendedRequestHeader, REQUEST_LEN,
    REQUEST_MAGIC, RequestHeader, cmd, cmd_flag,
};

/// The mark a client puts on a request to know its reply; opaque, and the client's to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cookie(pub u64);

/// The fields of a request that its reply gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The client's own mark.
    pub cookie: Cookie,
    /// The request's offset, which only extended replies give back.
    pub offset: u64,
}

/// What a client wants done, with the flags that belong to that alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Bytes of the export.
    Read {
        /// DF: all in one content chunk.
        whole: bool,
    },
    /// Bytes into the export; they follow the request.
    Write,
    /// Everything replied to so far to stable storage. Offset and length are 0.
    Flush,
    /// The range is no longer needed.
    Trim,
    /// The range is to read as zeroes.
    WriteZeroes {
        /// NO_HOLE: it must stay allocated.
        no_hole: bool,
        /// FAST_ZERO: fail with [`ErrorCode::NotSupported`] rather than write zeroes out.
        fast: bool,
    },
    /// The range will be wanted soon.
    Cache,
    /// Where data, holes and zeroes are.
    BlockStatus {
        /// REQ_ONE: one extent, no longer than the request.
        one: bool,
        /// The contexts to tell, at least one: those that were selected, or some of them with extended headers.
        contexts: Contexts,
    },
}

/// A valid request: it fits the export and what was negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// Goes into the reply.
    pub cookie: Cookie,
    /// What to do.
    pub op: Op,
    /// Reply only when what this request writes is on stable storage. Meaningless, but allowed, on
    /// requests that write nothing.
    pub fua: bool,
    /// Bytes from the start of the export, a multiple of its minimum block size.
    pub offset: u64,
    /// Bytes, a multiple of the minimum block size, not reaching past the end; never 0 but for a
    /// flush. At most the maximum payload for reads and writes; otherwise at most 4 GiB - 1, and with extended headers
    /// anything.
    pub len: u64,
}

impl Command {
    /// What its reply gives back.
    pub fn mark(&self) -> Mark {
        Mark { cookie: self.cookie, offset: self.offset }
    }

    /// Type and flags of the request.
    fn kind_and_flags(&self) -> (u16, u16) {
        let flag = |on, flag| if on { flag } else { 0 };
        let (kind, flags) = match self.op {
            Op::Read { whole } => (cmd::READ, flag(whole, cmd_flag::DF)),
            Op::Write => (cmd::WRITE, 0),
            Op::Flush => (cmd::FLUSH, 0),
            Op::Trim => (cmd::TRIM, 0),
            Op::WriteZeroes { no_hole, fast } => (
                cmd::WRITE_ZEROES,
                flag(no_hole, cmd_flag::NO_HOLE) | flag(fast, cmd_flag::FAST_ZERO),
            ),
            Op::Cache => (cmd::CACHE, 0),
            Op::BlockStatus { one, .. } => (cmd::BLOCK_STATUS, flag(one, cmd_flag::REQ_ONE)),
        };
        (kind, flags | flag(self.fua, cmd_flag::FUA))
    }

    /// The request as a client sends it without extended headers; the payload of a write follows. A length that does not
    /// fit is cut to what does.
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN] {
        let (kind, flags) = self.kind_and_flags();
        zerocopy::transmute!(RequestHeader {
            magic: REQUEST_MAGIC.into(),
            flags: flags.into(),
            kind: kind.into(),
            cookie: self.cookie.0.into(),
            offset: self.offset.into(),
            len: u32::try_from(self.len).unwrap_or(u32::MAX).into(),
        })
    }

    /// The request as a client sends it with extended headers; the payload of a write follows.
    pub fn to_extended_bytes(&self) -> [u8; EXTENDED_REQUEST_LEN] {
        let payload = if self.op == Op::Write { cmd_flag::PAYLOAD_LEN } else { 0 };
        self.extended_head(payload, self.len)
    }

    /// A block status as a client sends it with extended headers for some of the contexts that it has selected, by the
    /// server's `ids`.
    pub fn to_extended_bytes_with_ids(&self, ids: &[u32]) -> Vec<u8> {
        let payload_len = size_of::<u64>() + size_of_val(ids);
        let mut bytes = self.extended_head(cmd_flag::PAYLOAD_LEN, payload_len as u64).to_vec();
        bytes.extend_from_slice(&self.len.to_be_bytes());
        ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_be_bytes()));
        bytes
    }

    fn extended_head(&self, more_flags: u16, len: u64) -> [u8; EXTENDED_REQUEST_LEN] {
        let (kind, flags) = self.kind_and_flags();
        zerocopy::transmute!(ExtendedRequestHeader {
            magic: EXTENDED_REQUEST_MAGIC.into(),
            flags: (flags | more_flags).into(),
            kind: kind.into(),
            cookie: self.cookie.0.into(),
            offset: self.offset.into(),
            len: len.into(),
        })
    }
}

/// Why a request is answered with an error without being carried out. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Goes into the reply.
    pub mark: Mark,
    /// Goes into the reply.
    pub error: ErrorCode,
    /// For a person; goes into a structured error reply.
    pub reason: &'static str,
}

/// A request's head, of either form. The length is that of the range, without the flag that says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) flags: u16,
    pub(crate) kind: u16,
    pub(crate) mark: Mark,
    pub(crate) len: u64,
}

/// Checks a request for some `contexts` against the export and what was negotiated. DISC is not a request.
#[inline]
pub(crate) fn validate(
    session: &Negotiated,
    head: &Head,
    contexts: Contexts,
) -> Result<Command, Refusal> {
    let &Head { flags, kind, mark, len } = head;
    let Mark { cookie, offset } = mark;
    let refuse = |error, reason| Err(Refusal { mark, error, reason });
    let offered = |flag| session.flags.contains(flag);
    let has = |flag| flags & flag != 0;

    // What each request may carry besides FUA, and what must have been offered for it.
    let (op, own_flags, needs) = match kind {
        cmd::READ => (Op::Read { whole: has(cmd_flag::DF) }, cmd_flag::DF, None),
        cmd::WRITE => (Op::Write, 0, None),
        cmd::FLUSH => (Op::Flush, 0, Some(TransmissionFlags::FLUSH)),
        cmd::TRIM => (Op::Trim, 0, Some(TransmissionFlags::TRIM)),
        cmd::CACHE => (Op::Cache, 0, Some(TransmissionFlags::CACHE)),
        cmd::WRITE_ZEROES => (
            Op::WriteZeroes { no_hole: has(cmd_flag::NO_HOLE), fast: has(cmd_flag::FAST_ZERO) },
            cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
            Some(TransmissionFlags::WRITE_ZEROES),
        ),
        cmd::BLOCK_STATUS => {
            (Op::BlockStatus { one: has(cmd_flag::REQ_ONE), contexts }, cmd_flag::REQ_ONE, None)
        }
        _ => return refuse(ErrorCode::Invalid, "unknown command"),
    };
    let writes = matches!(op, Op::Write | Op::Trim | Op::WriteZeroes { .. });

    // Before "not offered": a read-only export offers no trim, yet EPERM is what it should say.
    if writes && offered(TransmissionFlags::READ_ONLY) {
        return refuse(ErrorCode::NotPermitted, "the export is read-only");
    }
    if needs.is_some_and(|flag| !offered(flag)) {
        return refuse(ErrorCode::Invalid, "the export does not offer this command");
    }
    if matches!(op, Op::BlockStatus { .. }) && session.contexts.is_empty() {
        return refuse(ErrorCode::Invalid, "no metadata context was selected for this export");
    }
    if flags & !(own_flags | cmd_flag::FUA) != 0 {
        return refuse(ErrorCode::Invalid, "a flag is unknown or does not belong to this command");
    }
    let unoffered = [
        (cmd_flag::FUA, TransmissionFlags::FUA),
        (cmd_flag::DF, TransmissionFlags::DF),
        (cmd_flag::FAST_ZERO, TransmissionFlags::FAST_ZERO),
    ];
    if unoffered.iter().any(|&(flag, offer)| has(flag) && !offered(offer)) {
        return refuse(ErrorCode::Invalid, "a flag was not offered for this export");
    }

    if op == Op::Flush {
        if offset != 0 || len != 0 {
            return refuse(ErrorCode::Invalid, "offset and length of a flush must be 0");
        }
    } else if len == 0 {
        // Unspecified by the protocol. Refused, because no structured chunk can carry the answer.
        return refuse(ErrorCode::Invalid, "length is 0");
    }
    let granule = u64::from(session.block_sizes.minimum()) - 1;
    if (offset | len) & granule != 0 {
        let reason = "offset or length is not a multiple of the minimum block size";
        return refuse(ErrorCode::Invalid, reason);
    }
    if offset > session.size || len > session.size - offset {
        let error = match op {
            Op::Write | Op::WriteZeroes { .. } => ErrorCode::NoSpace,
            _ => ErrorCode::Invalid,
        };
        return refuse(error, "the range reaches past the end of the export");
    }
    if len > u64::from(session.block_sizes.maximum()) {
        let reason = "longer than the maximum payload size";
        match op {
            // "Overflow" is for structured replies only: elsewhere the protocol keeps it back.
            Op::Read { .. } if session.structured_replies => {
                return refuse(ErrorCode::Overflow, reason);
            }
            Op::Read { .. } | Op::Write => return refuse(ErrorCode::Invalid, reason),
            _ => {}
        }
    }
    Ok(Command { cookie, op, fua: has(cmd_flag::FUA), offset, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::export::{BlockSizes, ExportId, Features};

    const ALLOCATION: Contexts = Contexts::NONE.with(Context::Allocation);

    fn session(features: Features, structured: bool) -> Negotiated {
        Negotiated {
            export: ExportId(0),
            size: 1 << 30,
            flags: features.transmission_flags(structured),
            block_sizes: BlockSizes::new(512, 4096, 1 << 20).unwrap(),
            extended_headers: false,
            structured_replies: structured,
            contexts: if structured { ALLOCATION } else { Contexts::NONE },
        }
    }

    fn every_feature() -> Features {
        Features {
            read_only: false,
            flush: true,
            fua: true,
            rotational: false,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
            cache: true,
        }
    }

    fn ask(
        session: &Negotiated,
        kind: u16,
        flags: u16,
        offset: u64,
        len: u64,
    ) -> Result<Op, ErrorCode> {
        let head = Head { flags, kind, mark: Mark { cookie: Cookie(7), offset }, len };
        match validate(session, &head, session.contexts) {
            Ok(command) => {
                assert_eq!((command.cookie, command.offset, command.len), (Cookie(7), offset, len));
                assert_eq!(command.fua, flags & cmd_flag::FUA != 0);
                Ok(command.op)
            }
            Err(refusal) => {
                assert_eq!(refusal.mark, Mark { cookie: Cookie(7), offset });
                Err(refusal.error)
            }
        }
    }

    #[test]
    fn every_command_that_is_offered_is_accepted() {
        let s = session(every_feature(), true);
        use cmd_flag::*;
        for (kind, flags, op) in [
            (cmd::READ, 0, Op::Read { whole: false }),
            (cmd::READ, DF | FUA, Op::Read { whole: true }),
            (cmd::WRITE, FUA, Op::Write),
            (cmd::TRIM, FUA, Op::Trim),
            (cmd::CACHE, 0, Op::Cache),
            (cmd::WRITE_ZEROES, 0, Op::WriteZeroes { no_hole: false, fast: false }),
            (cmd::WRITE_ZEROES, NO_HOLE | FUA, Op::WriteZeroes { no_hole: true, fast: false }),
            (cmd::WRITE_ZEROES, FAST_ZERO, Op::WriteZeroes { no_hole: false, fast: true }),
            (cmd::BLOCK_STATUS, REQ_ONE, Op::BlockStatus { one: true, contexts: ALLOCATION }),
        ] {
            assert_eq!(ask(&s, kind, flags, 4096, 8192), Ok(op));
        }
        assert_eq!(ask(&s, cmd::FLUSH, 0, 0, 0), Ok(Op::Flush));
    }

    #[test]
    fn refused_requests_get_the_protocols_error() {
        let structured = session(every_feature(), true);
        let simple = session(every_feature(), false);
        let read_only = session(Features { read_only: true, ..every_feature() }, true);
        let bare = session(Features::default(), true);
        let end = 1 << 30;
        use ErrorCode::*;
        for (case, s, kind, flags, offset, len, error) in [
            ("unknown command", &structured, 8, 0, 0, 512, Invalid),
            ("unknown flag", &structured, cmd::READ, 1 << 5, 0, 512, Invalid),
            ("flag of another command", &structured, cmd::WRITE, cmd_flag::DF, 0, 512, Invalid),
            ("DF without structured replies", &simple, cmd::READ, cmd_flag::DF, 0, 512, Invalid),
            ("FUA not offered", &bare, cmd::WRITE, cmd_flag::FUA, 0, 512, Invalid),
            ("flush not offered", &bare, cmd::FLUSH, 0, 0, 0, Invalid),
            ("trim not offered", &bare, cmd::TRIM, 0, 0, 512, Invalid),
            ("cache not offered", &bare, cmd::CACHE, 0, 0, 512, Invalid),
            ("status without context", &simple, cmd::BLOCK_STATUS, 0, 0, 512, Invalid),
            ("flush with length", &structured, cmd::FLUSH, 0, 0, 512, Invalid),
            ("flush with offset", &structured, cmd::FLUSH, 0, 512, 0, Invalid),
            ("length 0", &structured, cmd::READ, 0, 0, 0, Invalid),
            ("unaligned offset", &structured, cmd::READ, 0, 1, 512, Invalid),
            ("unaligned length", &structured, cmd::READ, 0, 0, 513, Invalid),
            ("read past the end", &structured, cmd::READ, 0, end - 512, 1024, Invalid),
            ("trim past the end", &structured, cmd::TRIM, 0, end, 512, Invalid),
            ("write past the end", &structured, cmd::WRITE, 0, end - 512, 1024, NoSpace),
            ("zeroes past the end", &structured, cmd::WRITE_ZEROES, 0, end, 512, NoSpace),
            ("sum overflows", &structured, cmd::READ, 0, u64::MAX - 511, 1024, Invalid),
            ("longer than anything", &structured, cmd::TRIM, 0, 512, u64::MAX - 511, Invalid),
            ("long read", &structured, cmd::READ, 0, 0, 2 << 20, Overflow),
            ("long read, simple", &simple, cmd::READ, 0, 0, 2 << 20, Invalid),
            ("long write", &structured, cmd::WRITE, 0, 0, 2 << 20, Invalid),
            ("write, read-only", &read_only, cmd::WRITE, 0, 0, 512, NotPermitted),
            ("trim, read-only", &read_only, cmd::TRIM, 0, 0, 512, NotPermitted),
            ("zeroes, read-only", &read_only, cmd::WRITE_ZEROES, 0, 0, 512, NotPermitted),
        ] {
            assert_eq!(ask(s, kind, flags, offset, len), Err(error), "{case}");
        }
    }

    #[test]
    fn the_last_block_and_long_requests_without_payload_are_taken() {
        let s = session(every_feature(), true);
        assert!(ask(&s, cmd::READ, 0, (1 << 30) - 512, 512).is_ok());
        assert!(ask(&s, cmd::READ, 0, 0, 1 << 20).is_ok());
        for kind in [cmd::TRIM, cmd::WRITE_ZEROES, cmd::CACHE, cmd::BLOCK_STATUS] {
            assert!(ask(&s, kind, 0, 0, 1 << 30).is_ok());
        }
    }
}
