//! The transmission phase, server side: bytes in, requests out.

use std::fmt;

use zerocopy::FromBytes;

use crate::command::{Command, Cookie, Head, Mark, Op, Refusal, validate};
use crate::context::{Context, Contexts};
use crate::error::ErrorCode;
use crate::export::{BlockSizes, ExportId, TransmissionFlags};
use crate::reply::ReplyFormat;
use crate::wire::{
    EXTENDED_REQUEST_LEN, EXTENDED_REQUEST_MAGIC, ExtendedRequestHeader, REQUEST_LEN,
    REQUEST_MAGIC, RequestHeader, cmd, cmd_flag,
};

/// Longest payload of a refused request that is read and thrown away; a longer one ends the
/// connection. Twice what the protocol says should never count as an attack (2^25 bytes).
pub const DRAIN_MAX: u32 = 64 * 1024 * 1024;

/// The same with extended headers, for which the protocol says that a server should close the connection above its maximum.
/// What it says should never count as an attack is skipped all the same, where an export has a lower maximum.
pub const DRAIN_EXTENDED_MAX: u32 = 32 * 1024 * 1024;

/// Longest payload of a block status request that can be right: the length of its range, and each context once.
const FILTER_MAX: usize = size_of::<u64>() + Context::ALL.len() * size_of::<u32>();

/// What client and server agreed on; fixed for the rest of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The export that was chosen.
    pub export: ExportId,
    /// Its bytes.
    pub size: u64,
    /// What was offered.
    pub flags: TransmissionFlags,
    /// Sizes that are enforced.
    pub block_sizes: BlockSizes,
    /// Whether requests and replies have extended headers.
    pub extended_headers: bool,
    /// Whether replies are made of chunks: with extended headers, or structured replies.
    pub structured_replies: bool,
    /// The contexts that were selected for the export; BLOCK_STATUS is refused where there are none.
    pub contexts: Contexts,
}

impl Negotiated {
    /// How requests are answered.
    pub fn replies(&self) -> ReplyFormat {
        match (self.extended_headers, self.structured_replies) {
            (true, _) => ReplyFormat::Extended,
            (false, true) => ReplyFormat::Structured,
            (false, false) => ReplyFormat::Simple,
        }
    }
}

/// One step of [`Transmission::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of the input that are done with; the next call starts after them.
    pub consumed: usize,
    /// What they were.
    pub item: Item,
}

/// What the client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// All input is consumed, and no item comes before `bytes` (at least 1) more have arrived.
    NeedMore {
        /// A hint for the next receive; receiving more is fine.
        bytes: usize,
    },
    /// A request without payload.
    Request(Command),
    /// A write. Its payload, `len` bytes, comes as [`Item::Payload`], or is received by the caller
    /// itself and told by [`Transmission::take_payload`]. Even an error may be replied only when the
    /// payload is whole.
    Write(Command),
    /// The consumed bytes belong to the last [`Item::Write`], in order.
    Payload {
        /// As many as were consumed.
        len: usize,
    },
    /// To be answered with an error, see [`ReplyFormat::refusal`]. That of a write comes after its
    /// payload, which is thrown away.
    Refused(Refusal),
    /// The client is done: answer what is in flight, then close. Said again at every further call.
    Disconnect,
    /// The stream makes no sense any more: close. Said again at every further call.
    Broken(Broken),
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Not the head of a request: the streams have lost step, or this is no NBD client.
    #[error("request magic {magic:#010x}, expected {expected:#010x}")]
    Magic {
        /// What was there.
        magic: u32,
        /// That of the form that was negotiated.
        expected: u32,
    },
    /// A payload too long to take, and too long to throw away.
    #[error(
        "request with a payload of {len} bytes refused, and at most {max} bytes of payload are skipped"
    )]
    PayloadTooLong {
        /// What was announced.
        len: u64,
        /// [`DRAIN_MAX`], [`DRAIN_EXTENDED_MAX`], or the export's maximum payload where that is more.
        max: u32,
    },
}

/// The request parser of one connection.
///
/// Owns no heap memory; a request costs a few comparisons. Requests may be split or joined over
/// calls in any way: what arrived of a split head is kept inside.
pub struct Transmission {
    negotiated: Negotiated,
    head: [u8; EXTENDED_REQUEST_LEN],
    head_len: usize,
    /// The part of a block status request's payload that has arrived.
    filter: [u8; FILTER_MAX],
    pending: Pending,
    shutting_down: bool,
}

/// What the bytes after the last head are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// The next head.
    Nothing,
    /// This much payload of a write, at least 1.
    Payload(u32),
    /// This much payload of a refused request, at least 1. The refusal waits for its end: clients take
    /// no reply to a request they are still sending (libnbd 1.14 gives up the connection).
    Drain { left: u32, refusal: Refusal },
    /// The payload of a block status request, at most [`FILTER_MAX`] bytes, of which `got` are there.
    Filter { head: Head, len: usize, got: usize },
    /// Nothing any more: always the same answer.
    End(Item),
}

impl Transmission {
    /// Starts where the handshake ends.
    pub fn new(negotiated: Negotiated) -> Transmission {
        Transmission {
            negotiated,
            head: [0; EXTENDED_REQUEST_LEN],
            head_len: 0,
            filter: [0; FILTER_MAX],
            pending: Pending::Nothing,
            shutting_down: false,
        }
    }

    /// What was agreed on.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// How to answer on this connection.
    pub fn replies(&self) -> ReplyFormat {
        self.negotiated.replies()
    }

    /// From now on every request is refused with [`ErrorCode::Shutdown`]; payload of a write already
    /// announced still comes.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Whether a part of a request has arrived and the rest of it has not.
    pub fn is_within_request(&self) -> bool {
        let is_in_payload = match self.pending {
            Pending::Payload(_) | Pending::Drain { .. } | Pending::Filter { .. } => true,
            Pending::Nothing | Pending::End(_) => false,
        };
        self.head_len > 0 || is_in_payload
    }

    /// Whether the last bytes of a client's stream are a disconnect request (`NBD_CMD_DISC`), after which it sends
    /// nothing.
    ///
    /// Looks at the end alone, where the stream before it has not been parsed: a payload that ends in such bytes passes
    /// for one.
    pub fn is_disconnect_at_end_of(&self, stream: &[u8]) -> bool {
        let head = stream.len().checked_sub(self.head_bytes()).map(|start| &stream[start..]);
        head.and_then(|head| self.read_head(head).ok()).is_some_and(|head| head.kind == cmd::DISC)
    }

    /// Bytes of a request's head.
    fn head_bytes(&self) -> usize {
        if self.negotiated.extended_headers { EXTENDED_REQUEST_LEN } else { REQUEST_LEN }
    }

    /// The head at the start of `bytes`, which has all of it.
    fn read_head(&self, bytes: &[u8]) -> Result<Head, Broken> {
        let (magic, expected, head) = if self.negotiated.extended_headers {
            let (header, _) = ExtendedRequestHeader::ref_from_prefix(bytes).expect("a whole head");
            let cookie = Cookie(header.cookie.get());
            let head = Head {
                flags: header.flags.get(),
                kind: header.kind.get(),
                mark: Mark { cookie, offset: header.offset.get() },
                len: header.len.get(),
            };
            (header.magic.get(), EXTENDED_REQUEST_MAGIC, head)
        } else {
            let (header, _) = RequestHeader::ref_from_prefix(bytes).expect("a whole head");
            let cookie = Cookie(header.cookie.get());
            let head = Head {
                flags: header.flags.get(),
                kind: header.kind.get(),
                mark: Mark { cookie, offset: header.offset.get() },
                len: header.len.get().into(),
            };
            (header.magic.get(), REQUEST_MAGIC, head)
        };
        if magic == expected { Ok(head) } else { Err(Broken::Magic { magic, expected }) }
    }

    /// Refuses the last [`Item::Write`]: what it still lacks is skipped, and then comes [`Item::Refused`].
    ///
    /// # Panics
    /// When all of its payload has arrived.
    pub fn refuse_payload(&mut self, refusal: Refusal) {
        let left = self.payload_remaining();
        assert!(left > 0, "no payload is to come");
        self.pending = Pending::Drain { left, refusal };
    }

    /// Bytes the last [`Item::Write`] still lacks.
    pub fn payload_remaining(&self) -> u32 {
        match self.pending {
            Pending::Payload(left) => left,
            _ => 0,
        }
    }

    /// Tells that the caller received `n` bytes of payload past this parser, say from the socket
    /// into the buffer of the write.
    ///
    /// # Panics
    /// When `n` is more than [`Transmission::payload_remaining`]: requests would be lost.
    pub fn take_payload(&mut self, n: u32) {
        let left = self.payload_remaining();
        assert!(n <= left, "took {n} bytes of payload, only {left} were to come");
        if n > 0 {
            self.pending = match left - n {
                0 => Pending::Nothing,
                left => Pending::Payload(left),
            };
        }
    }

    /// The next item at the start of `input`; call again with the rest until it says
    /// [`Item::NeedMore`].
    ///
    /// An empty `input` gives [`Item::NeedMore`], with the bytes to wait for.
    pub fn parse(&mut self, input: &[u8]) -> Parsed {
        let mut rest = input;
        let item = loop {
            match self.pending {
                Pending::Nothing => {
                    let head_bytes = self.head_bytes();
                    // A head that lies whole in the input is read there; only a split one is copied.
                    let head = if self.head_len == 0 && rest.len() >= head_bytes {
                        let head = self.read_head(rest);
                        rest = &rest[head_bytes..];
                        head
                    } else {
                        let taken = rest.len().min(head_bytes - self.head_len);
                        let (now, after) = rest.split_at(taken);
                        self.head[self.head_len..self.head_len + taken].copy_from_slice(now);
                        self.head_len += taken;
                        rest = after;
                        if self.head_len < head_bytes {
                            break Item::NeedMore { bytes: head_bytes - self.head_len };
                        }
                        self.head_len = 0;
                        self.read_head(&self.head)
                    };
                    let item = match head {
                        Ok(head) => self.request(&head),
                        Err(broken) => Some(self.end(Item::Broken(broken))),
                    };
                    if let Some(item) = item {
                        break item;
                    }
                }
                Pending::Filter { head, len, got } => {
                    let taken = rest.len().min(len - got);
                    let (now, after) = rest.split_at(taken);
                    self.filter[got..got + taken].copy_from_slice(now);
                    rest = after;
                    let got = got + taken;
                    if got < len {
                        self.pending = Pending::Filter { head, len, got };
                        break Item::NeedMore { bytes: len - got };
                    }
                    self.pending = Pending::Nothing;
                    break match self.filtered(head, len) {
                        Ok(command) => Item::Request(command),
                        Err(refusal) => Item::Refused(refusal),
                    };
                }
                Pending::Payload(left) if rest.is_empty() => {
                    break Item::NeedMore { bytes: left as usize };
                }
                Pending::Payload(left) => {
                    let len = rest.len().min(left as usize);
                    rest = &rest[len..];
                    self.take_payload(len as u32);
                    break Item::Payload { len };
                }
                Pending::Drain { left, refusal } => {
                    let skipped = rest.len().min(left as usize);
                    rest = &rest[skipped..];
                    let left = left - skipped as u32;
                    if left > 0 {
                        self.pending = Pending::Drain { left, refusal };
                        break Item::NeedMore { bytes: left as usize };
                    }
                    self.pending = Pending::Nothing;
                    break Item::Refused(refusal);
                }
                Pending::End(item) => {
                    rest = &[];
                    break item;
                }
            }
        };
        Parsed { consumed: input.len() - rest.len(), item }
    }

    /// `None` for a request whose payload comes before it is refused, or known.
    fn request(&mut self, head: &Head) -> Option<Item> {
        if head.kind == cmd::DISC {
            return Some(self.end(Item::Disconnect));
        }
        if self.shutting_down {
            let error = ErrorCode::Shutdown;
            let refusal = Refusal { mark: head.mark, error, reason: "the server is shutting down" };
            return self.refuse(head, refusal);
        }
        let checked = if self.negotiated.extended_headers {
            match self.check_extended(head) {
                Ok(Some(checked)) => checked,
                Ok(None) => return None,
                Err(refusal) => Err(refusal),
            }
        } else {
            validate(&self.negotiated, head, self.negotiated.contexts)
        };
        match checked {
            Ok(command) if command.op == Op::Write => {
                // At most the maximum payload.
                self.pending = Pending::Payload(command.len as u32);
                Some(Item::Write(command))
            }
            Ok(command) => Some(Item::Request(command)),
            Err(refusal) => self.refuse(head, refusal),
        }
    }

    /// Checks a request of the extended form; `None` when its payload tells what it asks for.
    fn check_extended(&mut self, head: &Head) -> Result<Option<Result<Command, Refusal>>, Refusal> {
        let refuse = |reason| Err(Refusal { mark: head.mark, error: ErrorCode::Invalid, reason });
        let has_payload = head.flags & cmd_flag::PAYLOAD_LEN != 0;
        match head.kind {
            // The flag is to be set, but QEMU (8.2 to 10.0 at least) leaves it out, and a write without bytes means nothing.
            cmd::WRITE => {}
            cmd::BLOCK_STATUS
                if has_payload
                    && self.negotiated.flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD) =>
            {
                let len = usize::try_from(head.len).unwrap_or(usize::MAX);
                if len <= size_of::<u64>() || len % size_of::<u32>() != 0 || len > FILTER_MAX {
                    return refuse("the payload is no length and list of selected contexts");
                }
                self.pending = Pending::Filter { head: *head, len, got: 0 };
                return Ok(None);
            }
            _ if has_payload => return refuse("this command takes no payload"),
            _ => {}
        }
        let head = Head { flags: head.flags & !cmd_flag::PAYLOAD_LEN, ..*head };
        Ok(Some(validate(&self.negotiated, &head, self.negotiated.contexts)))
    }

    /// The block status request whose payload of `len` bytes is there.
    fn filtered(&self, head: Head, len: usize) -> Result<Command, Refusal> {
        let (range, ids) = self.filter[..len].split_at(size_of::<u64>());
        let mut contexts = Contexts::NONE;
        for id in ids.chunks_exact(size_of::<u32>()) {
            let context =
                self.negotiated.contexts.iter().find(|context| context.id().to_be_bytes() == id);
            let Some(context) = context.filter(|&context| !contexts.contains(context)) else {
                let reason = "the payload names a context twice, or one that was not selected";
                return Err(Refusal { mark: head.mark, error: ErrorCode::Invalid, reason });
            };
            contexts = contexts.with(context);
        }
        let len = range.iter().fold(0, |len, &byte| len << 8 | u64::from(byte));
        let head = Head { flags: head.flags & !cmd_flag::PAYLOAD_LEN, len, ..head };
        validate(&self.negotiated, &head, contexts)
    }

    #[cold]
    fn refuse(&mut self, head: &Head, refusal: Refusal) -> Option<Item> {
        let is_told = head.flags & cmd_flag::PAYLOAD_LEN != 0;
        let has_payload = head.kind == cmd::WRITE || self.negotiated.extended_headers && is_told;
        let left = if has_payload { head.len } else { 0 };
        let max = match self.negotiated.extended_headers {
            true => DRAIN_EXTENDED_MAX,
            false => DRAIN_MAX,
        };
        let max = max.max(self.negotiated.block_sizes.maximum());
        match u32::try_from(left) {
            Ok(0) => Some(Item::Refused(refusal)),
            Ok(left) if left <= max => {
                self.pending = Pending::Drain { left, refusal };
                None
            }
            _ => Some(self.end(Item::Broken(Broken::PayloadTooLong { len: left, max }))),
        }
    }

    fn end(&mut self, item: Item) -> Item {
        self.pending = Pending::End(item);
        item
    }
}

impl fmt::Debug for Transmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmission")
            .field("negotiated", &self.negotiated)
            .field("head", &&self.head[..self.head_len])
            .field("pending", &self.pending)
            .field("shutting_down", &self.shutting_down)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Features;

    // The handshake's buffers are gone by now: what owns no memory cannot allocate any.
    const _: () = assert!(!std::mem::needs_drop::<Transmission>());

    const ALLOCATION: Contexts = Contexts::NONE.with(Context::Allocation);
    const BOTH: Contexts = ALLOCATION.with(Context::AllocationDepth);

    fn transmission(structured: bool) -> Transmission {
        Transmission::new(Negotiated {
            export: ExportId(3),
            size: 1 << 40,
            flags: Features { flush: true, ..Features::default() }.transmission_flags(structured),
            block_sizes: BlockSizes::DEFAULT,
            extended_headers: false,
            structured_replies: structured,
            contexts: if structured { ALLOCATION } else { Contexts::NONE },
        })
    }

    /// With extended headers, and both contexts.
    fn extended() -> Transmission {
        let mut negotiated = *transmission(true).negotiated();
        negotiated.extended_headers = true;
        negotiated.contexts = BOTH;
        negotiated.flags.0 |= TransmissionFlags::BLOCK_STATUS_PAYLOAD.0 | TransmissionFlags::TRIM.0;
        Transmission::new(negotiated)
    }

    fn command(cookie: u64, op: Op, len: u64) -> Command {
        Command { cookie: Cookie(cookie), op, fua: false, offset: 0, len }
    }

    /// All items of `input` when it arrives in pieces of `piece` bytes, payload joined.
    fn items(transmission: &mut Transmission, input: &[u8], piece: usize) -> Vec<Item> {
        let mut items = Vec::new();
        for mut rest in input.chunks(piece) {
            loop {
                let parsed = transmission.parse(rest);
                rest = &rest[parsed.consumed..];
                match (parsed.item, items.last_mut()) {
                    (Item::NeedMore { .. }, _) => break,
                    (Item::Payload { len: more }, Some(Item::Payload { len })) => *len += more,
                    (item @ (Item::Disconnect | Item::Broken(_)), _) => {
                        items.push(item);
                        return items;
                    }
                    (item, _) => items.push(item),
                }
            }
            assert_eq!(rest, &[] as &[u8]);
        }
        items
    }

    const READ: Op = Op::Read { whole: false };

    #[test]
    fn requests_are_parsed_alike_whatever_the_pieces() {
        let read = command(1, READ, 4096);
        let write = command(2, Op::Write, 100);
        let flush = command(3, Op::Flush, 0);
        let mut input = Vec::new();
        input.extend_from_slice(&read.to_bytes());
        input.extend_from_slice(&write.to_bytes());
        input.extend_from_slice(&[0x25; 100]);
        input.extend_from_slice(&flush.to_bytes());
        let expected = [
            Item::Request(read),
            Item::Write(write),
            Item::Payload { len: 100 },
            Item::Request(flush),
        ];
        for piece in [input.len(), 1, 3, 27, 28, 29, 128] {
            assert_eq!(items(&mut transmission(false), &input, piece), expected, "{piece}");
        }
    }

    #[test]
    fn payload_may_be_received_past_the_parser() {
        let mut parser = transmission(false);
        let write = command(2, Op::Write, 100);
        assert_eq!(parser.parse(&write.to_bytes()).item, Item::Write(write));
        assert_eq!(parser.payload_remaining(), 100);
        assert_eq!(parser.parse(&[]).item, Item::NeedMore { bytes: 100 });
        let parsed = parser.parse(&[0; 30]);
        assert_eq!(parsed, Parsed { consumed: 30, item: Item::Payload { len: 30 } });
        parser.take_payload(69);
        assert_eq!(parser.payload_remaining(), 1);
        parser.take_payload(1);
        assert_eq!(parser.parse(&write.to_bytes()).item, Item::Write(write));
    }

    #[test]
    #[should_panic(expected = "took 5 bytes of payload, only 4 were to come")]
    fn taking_too_much_payload_is_a_bug() {
        let mut parser = transmission(false);
        parser.parse(&command(2, Op::Write, 4).to_bytes());
        parser.take_payload(5);
    }

    #[test]
    fn a_refused_write_is_answered_after_its_payload() {
        let too_far = Command { offset: 1 << 40, ..command(2, Op::Write, 100) };
        let after = command(3, READ, 1);
        let mut input = too_far.to_bytes().to_vec();
        input.extend_from_slice(&[0xff; 100]);
        input.extend_from_slice(&after.to_bytes());
        for piece in [input.len(), 1, 28, 50] {
            let items = items(&mut transmission(false), &input, piece);
            let [Item::Refused(refusal), Item::Request(read)] = items[..] else {
                panic!("{items:?}")
            };
            assert_eq!((refusal.mark.cookie, refusal.error), (Cookie(2), ErrorCode::NoSpace));
            assert_eq!(read, after);
        }
    }

    #[test]
    fn only_a_payload_beyond_reason_ends_the_connection() {
        for (len, goes_on) in [(DRAIN_MAX, true), (DRAIN_MAX + 1, false), (u32::MAX, false)] {
            let (len, mut parser) = (u64::from(len), transmission(false));
            let item = parser.parse(&command(9, Op::Write, len).to_bytes()).item;
            if goes_on {
                assert_eq!(item, Item::NeedMore { bytes: DRAIN_MAX as usize });
                let bytes = DRAIN_MAX as usize - 10;
                assert_eq!(parser.parse(&[0; 10]).item, Item::NeedMore { bytes });
            } else {
                assert_eq!(item, Item::Broken(Broken::PayloadTooLong { len, max: DRAIN_MAX }));
            }
        }
    }

    #[test]
    fn an_export_that_takes_longer_payloads_skips_them_too() {
        let mut negotiated = *transmission(false).negotiated();
        negotiated.block_sizes = BlockSizes::new(1, 4096, 2 * DRAIN_MAX).unwrap();
        for (len, goes_on) in [(2 * DRAIN_MAX, true), (2 * DRAIN_MAX + 1, false)] {
            let too_far = Command { offset: 1 << 40, ..command(9, Op::Write, len.into()) };
            let item = Transmission::new(negotiated).parse(&too_far.to_bytes()).item;
            assert_eq!(matches!(item, Item::NeedMore { .. }), goes_on, "{item:?}");
        }
    }

    #[test]
    fn with_extended_headers_a_payload_above_the_maximum_ends_the_connection() {
        let too_far = |len| Command { offset: 1 << 40, ..command(9, Op::Write, len) };
        for (maximum, most) in [
            (4096, DRAIN_EXTENDED_MAX),
            (DRAIN_EXTENDED_MAX, DRAIN_EXTENDED_MAX),
            (2 * DRAIN_EXTENDED_MAX, 2 * DRAIN_EXTENDED_MAX),
        ] {
            let mut negotiated = *extended().negotiated();
            negotiated.block_sizes = BlockSizes::new(1, 4096, maximum).unwrap();
            for (len, goes_on) in [(most, true), (most + 1, false)] {
                let bytes = too_far(len.into()).to_extended_bytes();
                let item = Transmission::new(negotiated).parse(&bytes).item;
                assert_eq!(matches!(item, Item::NeedMore { .. }), goes_on, "{maximum}: {item:?}");
            }
        }
    }

    #[test]
    fn no_request_is_parsed_after_the_end() {
        let mut parser = transmission(false);
        let junk = *b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n";
        let (magic, expected) = (0x4745_5420, REQUEST_MAGIC);
        let broken = Item::Broken(Broken::Magic { magic, expected });
        assert_eq!(parser.parse(&junk).item, broken);
        assert_eq!(parser.parse(&command(1, READ, 1).to_bytes()).item, broken);

        let mut parser = transmission(false);
        let mut bye = command(1, READ, 0).to_bytes();
        bye[7] = cmd::DISC as u8;
        assert_eq!(parser.parse(&bye).item, Item::Disconnect);
        assert_eq!(parser.parse(&[]).item, Item::Disconnect);
    }

    #[test]
    fn a_stream_that_ends_in_a_disconnect_request_is_recognised() {
        let read = command(1, READ, 4096).to_bytes();
        let mut bye = command(2, READ, 0).to_bytes();
        bye[7] = cmd::DISC as u8;
        let stream = [&read[..], &bye].concat();
        let parser = transmission(false);
        assert!(parser.is_disconnect_at_end_of(&stream) && parser.is_disconnect_at_end_of(&bye));
        for other in [&stream[..stream.len() - 1], &read, &bye[1..], &[]] {
            assert!(!parser.is_disconnect_at_end_of(other));
        }
        let mut bye = command(2, READ, 0).to_extended_bytes();
        bye[7] = cmd::DISC as u8;
        assert!(extended().is_disconnect_at_end_of(&[&stream[..], &bye].concat()));
        assert!(!extended().is_disconnect_at_end_of(&stream));
    }

    #[test]
    fn extended_requests_are_parsed_alike_whatever_the_pieces() {
        let write = command(2, Op::Write, 100);
        let trim = command(3, Op::Trim, 1 << 39);
        let status = |contexts, len| command(4, Op::BlockStatus { one: false, contexts }, len);
        let some = status(Contexts::NONE.with(Context::AllocationDepth), 1 << 36);
        let mut input = write.to_extended_bytes().to_vec();
        input.extend_from_slice(&[0x25; 100]);
        // As QEMU sends it.
        let mut unflagged = write.to_extended_bytes();
        unflagged[5] &= !(cmd_flag::PAYLOAD_LEN as u8);
        input.extend_from_slice(&unflagged);
        input.extend_from_slice(&[0x25; 100]);
        input.extend_from_slice(&trim.to_extended_bytes());
        input.extend_from_slice(&some.to_extended_bytes_with_ids(&[2]));
        input.extend_from_slice(&status(BOTH, 77).to_extended_bytes());
        input.extend_from_slice(&status(BOTH, 78).to_extended_bytes_with_ids(&[2, 1]));
        let expected = [
            Item::Write(write),
            Item::Payload { len: 100 },
            Item::Write(write),
            Item::Payload { len: 100 },
            Item::Request(trim),
            Item::Request(some),
            Item::Request(status(BOTH, 77)),
            Item::Request(status(BOTH, 78)),
        ];
        for piece in [input.len(), 1, 3, 31, 32, 33, 128] {
            assert_eq!(items(&mut extended(), &input, piece), expected, "{piece}");
        }
    }

    #[test]
    fn extended_requests_with_a_wrong_payload_are_refused_after_it() {
        let status = command(4, Op::BlockStatus { one: false, contexts: BOTH }, 512);
        let with_payload = |command: Command| {
            let mut bytes = command.to_extended_bytes();
            bytes[5] |= cmd_flag::PAYLOAD_LEN as u8;
            [&bytes[..], &vec![1; command.len as usize]].concat()
        };
        let mut not_offered = *extended().negotiated();
        not_offered.flags.0 &= !TransmissionFlags::BLOCK_STATUS_PAYLOAD.0;
        let reasons = [
            "this command takes no payload",
            "the payload is no length and list of selected contexts",
            "the payload names a context twice, or one that was not selected",
            "length is 0",
        ];
        for (case, bytes, parser, reason) in [
            ("read", with_payload(command(6, READ, 9)), extended(), 0),
            (
                "not offered",
                status.to_extended_bytes_with_ids(&[1]),
                Transmission::new(not_offered),
                0,
            ),
            ("no ids", status.to_extended_bytes_with_ids(&[]), extended(), 1),
            ("many ids", status.to_extended_bytes_with_ids(&[1, 2, 1]), extended(), 1),
            ("uneven", with_payload(Command { len: 9, ..status }), extended(), 1),
            ("twice", status.to_extended_bytes_with_ids(&[1, 1]), extended(), 2),
            ("unknown", status.to_extended_bytes_with_ids(&[1, 3]), extended(), 2),
            (
                "of no length",
                Command { len: 0, ..status }.to_extended_bytes_with_ids(&[1]),
                extended(),
                3,
            ),
            ("empty write", command(7, Op::Write, 0).to_extended_bytes().to_vec(), extended(), 3),
        ] {
            let after = command(8, READ, 1);
            let input = [&bytes[..], &after.to_extended_bytes()].concat();
            for piece in [input.len(), 1, 33] {
                let items = items(&mut Transmission::new(*parser.negotiated()), &input, piece);
                let [Item::Refused(refusal), Item::Request(read)] = items[..] else {
                    panic!("{case}: {items:?}")
                };
                assert_eq!(
                    (refusal.error, refusal.reason),
                    (ErrorCode::Invalid, reasons[reason]),
                    "{case}"
                );
                assert_eq!(read, after, "{case}");
            }
        }
        for kind in [cmd::READ, cmd::WRITE, cmd::BLOCK_STATUS] {
            let mut bytes = command(9, Op::Write, u64::MAX).to_extended_bytes();
            bytes[7] = kind as u8;
            let too_long = Broken::PayloadTooLong { len: u64::MAX, max: DRAIN_EXTENDED_MAX };
            assert_eq!(extended().parse(&bytes).item, Item::Broken(too_long));
        }
        let (magic, expected) = (REQUEST_MAGIC, EXTENDED_REQUEST_MAGIC);
        let compact = [&command(1, READ, 1).to_bytes()[..], &[0; 4]].concat();
        assert_eq!(
            extended().parse(&compact).item,
            Item::Broken(Broken::Magic { magic, expected })
        );
    }

    #[test]
    fn a_request_that_has_arrived_in_part_is_within_one() {
        let mut parser = transmission(false);
        assert!(!parser.is_within_request());
        let write = command(2, Op::Write, 4).to_bytes();
        for (bytes, within) in [(&write[..9], true), (&write[9..], true), (b"dat", true)] {
            parser.parse(bytes);
            assert_eq!(parser.is_within_request(), within);
        }
        parser.parse(b"a");
        assert!(!parser.is_within_request());
    }

    #[test]
    fn during_shutdown_only_a_write_under_way_continues() {
        let mut parser = transmission(true);
        let write = command(2, Op::Write, 4);
        parser.parse(&write.to_bytes());
        parser.shut_down();
        assert_eq!(parser.parse(b"data").item, Item::Payload { len: 4 });
        assert_eq!(parser.parse(&write.to_bytes()).item, Item::NeedMore { bytes: 4 });
        let Item::Refused(refusal) = parser.parse(b"data").item else { panic!() };
        assert_eq!(refusal.error, ErrorCode::Shutdown);
    }
}
