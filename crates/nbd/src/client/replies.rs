//! The transmission phase, client side: requests out, replies in.

use std::collections::BTreeMap;
use std::mem;

use zerocopy::{FromZeros, IntoBytes};

use super::Connected;
use crate::block_status::Extent;
use crate::command::{Command, Cookie, Op};
use crate::context::{Context, Contexts};
use crate::error::ErrorCode;
use crate::partial::Partial;
use crate::wire::{
    ChunkHeader, EXTENDED_REPLY_MAGIC, EXTENDED_REQUEST_MAGIC, ExtendedChunkHeader,
    ExtendedRequestHeader, REQUEST_MAGIC, RequestHeader, SIMPLE_REPLY_MAGIC, STATE_HOLE,
    STATE_ZERO, STRING_MAX, STRUCTURED_REPLY_MAGIC, SimpleReply, chunk, cmd,
};

/// Longest chunk body that is held, in bytes: the 2^20 extents a server should not exceed.
const BODY_MAX: u32 = 8 + (16 << 20);

/// One step of [`Client::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedReply {
    /// Bytes of the input that are done with; the next call starts after them.
    pub consumed: usize,
    /// What they were.
    pub reply: Reply,
}

/// What the server answered. Every request ends with one [`Reply::Done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// All input is consumed, and no reply comes before `bytes` (at least 1) more have arrived.
    NeedMore {
        /// A hint for the next receive.
        bytes: usize,
    },
    /// Data of a read; it comes as [`Reply::Payload`].
    Data {
        /// The read.
        cookie: Cookie,
        /// Where it belongs, from the start of the export.
        offset: u64,
        /// Bytes, at least 1.
        len: u32,
    },
    /// The consumed bytes belong to the last [`Reply::Data`], in order.
    Payload {
        /// As many as were consumed.
        len: usize,
    },
    /// A piece of a read that is all zeroes.
    Hole {
        /// The read.
        cookie: Cookie,
        /// Where it lies, from the start of the export.
        offset: u64,
        /// Bytes, at least 1.
        len: u32,
    },
    /// Extents of one context from the request's offset on, at least one.
    Status {
        /// The request.
        cookie: Cookie,
        /// What they tell; of allocation depth, whether they are holes.
        context: Context,
        /// They follow each other.
        extents: Vec<Extent>,
    },
    /// The request failed; [`Reply::Done`] still comes.
    Error {
        /// The request.
        cookie: Cookie,
        /// Why.
        error: ErrorCode,
        /// Where, when the server told.
        offset: Option<u64>,
        /// The server's words, or nothing.
        message: String,
    },
    /// Nothing more comes for this request.
    Done {
        /// The request.
        cookie: Cookie,
    },
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The streams have lost step.
    #[error("reply magic {magic:#010x}")]
    Magic {
        /// What was there.
        magic: u32,
    },
    /// An answer to nothing that was asked.
    #[error("reply to cookie {:#x}, which is not in flight", cookie.0)]
    UnknownCookie {
        /// What it named.
        cookie: Cookie,
    },
    /// A chunk whose type, length or range does not fit the request.
    #[error("chunk of type {kind:#x} and {len} bytes does not fit its request")]
    BadChunk {
        /// Its type.
        kind: u16,
        /// Its length.
        len: u32,
    },
    /// A simple reply where a structured one must be.
    #[error("simple reply to a request that needs a structured one")]
    NotStructured,
    /// The server called a block status done without a context that was asked for.
    #[error("block status ended without {}", context.name())]
    NoStatus {
        /// The first one that is missing.
        context: Context,
    },
    /// The server called a read done without all of its data.
    #[error("read ended after {got} of {len} bytes")]
    Short {
        /// What came.
        got: u64,
        /// What was asked.
        len: u64,
    },
}

/// The transmission phase of one connection: remembers what is in flight and checks replies
/// against it. Memory grows with the requests in flight.
#[derive(Debug)]
pub struct Client {
    connected: Connected,
    in_flight: BTreeMap<Cookie, InFlight>,
    expect: Expect,
    partial: Partial,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    op: Op,
    offset: u64,
    len: u64,
    /// Bytes of a read that were described so far.
    got: u64,
    /// Contexts of a block status that were told so far.
    told: Contexts,
    failed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Magic,
    Simple,
    Chunk,
    ExtendedChunk,
    /// Offset of a data chunk, then its data.
    DataOffset {
        header: ChunkHeader,
    },
    Body {
        header: ChunkHeader,
    },
    Payload {
        cookie: Cookie,
        left: u32,
        last: bool,
    },
    /// Nothing to read: say that this request is done.
    Done {
        cookie: Cookie,
    },
}

impl Client {
    /// Starts where the handshake ends.
    pub fn new(connected: Connected) -> Client {
        Client {
            connected,
            in_flight: BTreeMap::new(),
            expect: Expect::Magic,
            partial: Partial::default(),
        }
    }

    /// What the server granted.
    pub fn connected(&self) -> &Connected {
        &self.connected
    }

    /// Requests without [`Reply::Done`].
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Appends the request to `out`; the payload of a write is the caller's to send after it. The
    /// command is sent as it is: a foolish one is the server's to refuse. A block status for some of the granted contexts
    /// needs extended headers; without them the server is asked for all.
    ///
    /// # Panics
    /// When a request with this cookie is in flight: their replies could not be told apart.
    pub fn request(&mut self, command: &Command, out: &mut Vec<u8>) {
        let Command { cookie, mut op, offset, len, .. } = *command;
        match (&mut op, self.connected.extended_headers) {
            (Op::BlockStatus { contexts, .. }, true) if *contexts != self.connected.granted() => {
                let ids = contexts.iter().map(|context| self.connected.context_id(context));
                let ids: Vec<u32> = ids.map(|id| id.unwrap_or(0)).collect();
                out.extend_from_slice(&command.to_extended_bytes_with_ids(&ids));
            }
            (_, true) => out.extend_from_slice(&command.to_extended_bytes()),
            (op, false) => {
                if let Op::BlockStatus { contexts, .. } = op {
                    *contexts = self.connected.granted();
                }
                out.extend_from_slice(&command.to_bytes());
            }
        }
        let asked = InFlight { op, offset, len, got: 0, told: Contexts::NONE, failed: false };
        let before = self.in_flight.insert(cookie, asked);
        assert!(before.is_none(), "cookie {:#x} is in flight already", cookie.0);
    }

    /// Appends the polite end to `out`; nothing may be sent after it.
    pub fn disconnect(&mut self, out: &mut Vec<u8>) {
        if self.connected.extended_headers {
            let mut header = ExtendedRequestHeader::new_zeroed();
            header.magic = EXTENDED_REQUEST_MAGIC.into();
            header.kind = cmd::DISC.into();
            return out.extend_from_slice(header.as_bytes());
        }
        let mut header = RequestHeader::new_zeroed();
        header.magic = REQUEST_MAGIC.into();
        header.kind = cmd::DISC.into();
        out.extend_from_slice(header.as_bytes());
    }

    /// The next reply at the start of `input`; call again with the rest until it says
    /// [`Reply::NeedMore`].
    ///
    /// # Errors
    /// When the server breaks the protocol: close the connection.
    pub fn parse(&mut self, input: &[u8]) -> Result<ParsedReply, ReplyError> {
        let mut rest = input;
        loop {
            let wanted = match self.expect {
                Expect::Magic => 4,
                // The magic is read already.
                Expect::Simple => size_of::<SimpleReply>() - 4,
                Expect::Chunk => size_of::<ChunkHeader>() - 4,
                Expect::ExtendedChunk => size_of::<ExtendedChunkHeader>() - 4,
                Expect::DataOffset { .. } => 8,
                Expect::Body { header } => header.len.get() as usize,
                Expect::Payload { left, .. } if rest.is_empty() => {
                    return need(input, left as usize);
                }
                Expect::Payload { cookie, left, last } => {
                    let len = rest.len().min(left as usize);
                    self.expect = match left - len as u32 {
                        0 => after(cookie, last),
                        left => Expect::Payload { cookie, left, last },
                    };
                    let consumed = input.len() - rest.len() + len;
                    return Ok(ParsedReply { consumed, reply: Reply::Payload { len } });
                }
                Expect::Done { cookie } => {
                    self.expect = Expect::Magic;
                    self.finish(cookie)?;
                    let consumed = input.len() - rest.len();
                    return Ok(ParsedReply { consumed, reply: Reply::Done { cookie } });
                }
            };
            let mut partial = mem::take(&mut self.partial);
            let step = partial.gather(&mut rest, wanted, |message| self.message(message));
            self.partial = partial;
            let Some(step) = step else { return need(input, self.partial.lacking(wanted)) };
            if let Some(reply) = step? {
                return Ok(ParsedReply { consumed: input.len() - rest.len(), reply });
            }
        }
    }

    fn message(&mut self, message: &[u8]) -> Result<Option<Reply>, ReplyError> {
        match self.expect {
            Expect::Magic => {
                self.expect = match word(message) {
                    EXTENDED_REPLY_MAGIC if self.connected.extended_headers => {
                        Expect::ExtendedChunk
                    }
                    magic if self.connected.extended_headers => {
                        return Err(ReplyError::Magic { magic });
                    }
                    SIMPLE_REPLY_MAGIC => Expect::Simple,
                    STRUCTURED_REPLY_MAGIC if self.connected.structured_replies => Expect::Chunk,
                    magic => return Err(ReplyError::Magic { magic }),
                };
                Ok(None)
            }
            Expect::Simple => {
                let cookie = Cookie(long(&message[4..]));
                self.simple(word(message), cookie)
            }
            Expect::Chunk => {
                let mut bytes = [0; size_of::<ChunkHeader>()];
                bytes[4..].copy_from_slice(message);
                self.chunk(zerocopy::transmute!(bytes))
            }
            Expect::ExtendedChunk => {
                let mut bytes = [0; size_of::<ExtendedChunkHeader>()];
                bytes[4..].copy_from_slice(message);
                self.extended_chunk(zerocopy::transmute!(bytes))
            }
            Expect::DataOffset { header } => self.data(header, long(message)).map(Some),
            Expect::Body { header } => self.body(header, message).map(Some),
            Expect::Payload { .. } | Expect::Done { .. } => unreachable!("no message to gather"),
        }
    }

    fn simple(&mut self, error: u32, cookie: Cookie) -> Result<Option<Reply>, ReplyError> {
        let structured = self.connected.structured_replies;
        let asked = self.asked(cookie)?;
        let needs_data = matches!(asked.op, Op::Read { .. } | Op::BlockStatus { .. });
        if needs_data && structured {
            return Err(ReplyError::NotStructured);
        }
        if let Some(error) = ErrorCode::from_number(error) {
            asked.failed = true;
            self.expect = Expect::Done { cookie };
            let message = String::new();
            return Ok(Some(Reply::Error { cookie, error, offset: None, message }));
        }
        let InFlight { op, offset, len, .. } = *asked;
        match op {
            Op::Read { .. } if len > 0 => {
                asked.got = len;
                // Longer ones fit no request of this form.
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                self.expect = Expect::Payload { cookie, left: len, last: true };
                Ok(Some(Reply::Data { cookie, offset, len }))
            }
            _ => {
                self.expect = Expect::Done { cookie };
                Ok(None)
            }
        }
    }

    /// The head of the other form with the same fields; its offset is the request's.
    fn extended_chunk(&mut self, header: ExtendedChunkHeader) -> Result<Option<Reply>, ReplyError> {
        let len = u32::try_from(header.len.get()).unwrap_or(u32::MAX);
        let asked = self.asked(Cookie(header.cookie.get()))?;
        if asked.offset != header.offset.get() || u64::from(len) != header.len.get() {
            return Err(ReplyError::BadChunk { kind: header.kind.get(), len });
        }
        let ExtendedChunkHeader { magic, flags, kind, cookie, .. } = header;
        self.chunk(ChunkHeader { magic, flags, kind, cookie, len: len.into() })
    }

    fn chunk(&mut self, header: ChunkHeader) -> Result<Option<Reply>, ReplyError> {
        let (kind, len) = (header.kind.get(), header.len.get());
        let cookie = Cookie(header.cookie.get());
        let is_extended = self.connected.extended_headers;
        let op = self.asked(cookie)?.op;
        let reads = matches!(op, Op::Read { .. });
        let fits = match kind {
            chunk::NONE => len == 0 && is_last(&header),
            chunk::OFFSET_DATA => reads && len > 8,
            chunk::OFFSET_HOLE => reads && len == 12,
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => {
                let (fits, least) = match (kind, is_extended) {
                    (chunk::BLOCK_STATUS, false) => (len % 8 == 4, 12),
                    (chunk::BLOCK_STATUS_EXT, true) => (len % 16 == 8, 24),
                    _ => (false, 0),
                };
                let asked = matches!(op, Op::BlockStatus { .. });
                asked && fits && (least..=BODY_MAX).contains(&len)
            }
            _ => kind & chunk::ERROR_BIT != 0 && (6..=STRING_MAX as u32 + 64).contains(&len),
        };
        if !fits {
            return Err(ReplyError::BadChunk { kind, len });
        }
        self.expect = match kind {
            chunk::NONE => Expect::Done { cookie },
            chunk::OFFSET_DATA => Expect::DataOffset { header },
            _ => Expect::Body { header },
        };
        Ok(None)
    }

    fn data(&mut self, header: ChunkHeader, offset: u64) -> Result<Reply, ReplyError> {
        let (cookie, len) = (Cookie(header.cookie.get()), header.len.get() - 8);
        self.describe(&header, offset, len)?;
        self.expect = Expect::Payload { cookie, left: len, last: is_last(&header) };
        Ok(Reply::Data { cookie, offset, len })
    }

    fn body(&mut self, header: ChunkHeader, body: &[u8]) -> Result<Reply, ReplyError> {
        let cookie = Cookie(header.cookie.get());
        let bad = ReplyError::BadChunk { kind: header.kind.get(), len: header.len.get() };
        self.expect = after(cookie, is_last(&header));
        match header.kind.get() {
            chunk::OFFSET_HOLE => {
                let (offset, len) = (long(body), word(&body[8..]));
                self.describe(&header, offset, len)?;
                Ok(Reply::Hole { cookie, offset, len })
            }
            kind @ (chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT) => {
                let id = Some(word(body));
                let connected = self.connected;
                let asked = self.asked(cookie)?;
                let Op::BlockStatus { contexts, .. } = asked.op else { return Err(bad) };
                let is_meant = |&context: &Context| connected.context_id(context) == id;
                let Some(context) = contexts.iter().find(is_meant) else { return Err(bad) };
                if asked.told.contains(context) {
                    return Err(bad);
                }
                asked.told = asked.told.with(context);
                let extents: Vec<Extent> = if kind == chunk::BLOCK_STATUS {
                    let pairs = body[4..].chunks_exact(8);
                    pairs.map(|pair| extent(context, word(pair).into(), word(&pair[4..]))).collect()
                } else {
                    let pairs = body[8..].chunks_exact(16);
                    // No context that we know has more than 32 bits of status.
                    if word(&body[4..]) as usize != pairs.len()
                        || pairs.clone().any(|pair| word(&pair[8..]) != 0)
                    {
                        return Err(bad);
                    }
                    pairs.map(|pair| extent(context, long(pair), word(&pair[12..]))).collect()
                };
                if extents.iter().any(|extent| extent.len == 0) {
                    return Err(bad);
                }
                Ok(Reply::Status { cookie, context, extents })
            }
            kind => {
                let error = ErrorCode::from_number(word(body)).ok_or(bad)?;
                let len = usize::from(u16::from_be_bytes([body[4], body[5]]));
                let (message, tail) = body[6..].split_at_checked(len).ok_or(bad)?;
                let offset = match kind {
                    chunk::ERROR_OFFSET if tail.len() < 8 => return Err(bad),
                    chunk::ERROR_OFFSET => Some(long(tail)),
                    _ => None,
                };
                self.asked(cookie)?.failed = true;
                let message = String::from_utf8_lossy(message).into_owned();
                Ok(Reply::Error { cookie, error, offset, message })
            }
        }
    }

    /// Checks that a content chunk lies in its read, and counts it.
    fn describe(&mut self, header: &ChunkHeader, offset: u64, len: u32) -> Result<(), ReplyError> {
        let asked = self.asked(Cookie(header.cookie.get()))?;
        let start = offset.checked_sub(asked.offset);
        let fits =
            start.is_some_and(|start| start <= asked.len && u64::from(len) <= asked.len - start);
        asked.got = asked.got.saturating_add(len.into());
        // More than was asked in sum means that pieces overlap.
        if !fits || len == 0 || asked.got > asked.len {
            return Err(ReplyError::BadChunk { kind: header.kind.get(), len: header.len.get() });
        }
        Ok(())
    }

    fn finish(&mut self, cookie: Cookie) -> Result<(), ReplyError> {
        let InFlight { op, len, got, told, failed, .. } = *self.asked(cookie)?;
        self.in_flight.remove(&cookie);
        if matches!(op, Op::Read { .. }) && !failed && got < len {
            return Err(ReplyError::Short { got, len });
        }
        if let Op::BlockStatus { contexts, .. } = op
            && !failed
            && let Some(context) = contexts.iter().find(|&context| !told.contains(context))
        {
            return Err(ReplyError::NoStatus { context });
        }
        Ok(())
    }

    fn asked(&mut self, cookie: Cookie) -> Result<&mut InFlight, ReplyError> {
        self.in_flight.get_mut(&cookie).ok_or(ReplyError::UnknownCookie { cookie })
    }
}

fn need(input: &[u8], bytes: usize) -> Result<ParsedReply, ReplyError> {
    Ok(ParsedReply { consumed: input.len(), reply: Reply::NeedMore { bytes } })
}

fn after(cookie: Cookie, last: bool) -> Expect {
    if last { Expect::Done { cookie } } else { Expect::Magic }
}

fn is_last(header: &ChunkHeader) -> bool {
    header.flags.get() & chunk::FLAG_DONE != 0
}

fn extent(context: Context, len: u64, status: u32) -> Extent {
    match context {
        Context::Allocation => {
            let (hole, zero) = (status & STATE_HOLE != 0, status & STATE_ZERO != 0);
            Extent { len, hole, zero }
        }
        Context::AllocationDepth => Extent { len, hole: status == 0, zero: false },
    }
}

/// The first four bytes; there must be that many.
fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The first eight bytes; there must be that many.
fn long(bytes: &[u8]) -> u64 {
    u64::from(word(bytes)) << 32 | u64::from(word(&bytes[4..]))
}
