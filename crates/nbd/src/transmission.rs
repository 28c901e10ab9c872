//! The transmission phase, server side: bytes in, requests out.

use std::fmt;

use zerocopy::FromBytes;

use crate::command::{Command, Cookie, Op, Refusal, validate};
use crate::error::ErrorCode;
use crate::export::{BlockSizes, ExportId, TransmissionFlags};
use crate::reply::ReplyFormat;
use crate::wire::{REQUEST_LEN, REQUEST_MAGIC, RequestHeader, cmd};

/// Longest payload of a refused write that is read and thrown away; a longer one ends the
/// connection. Twice what the protocol says should never count as an attack (2^25 bytes).
pub const DRAIN_MAX: u32 = 64 * 1024 * 1024;

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
    /// Whether replies are structured.
    pub structured_replies: bool,
    /// Whether `base:allocation` was selected, hence BLOCK_STATUS allowed.
    pub base_allocation: bool,
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
    #[error("request magic {magic:#010x}, expected 0x25609513")]
    Magic {
        /// What was there.
        magic: u32,
    },
    /// A payload too long to take, and too long to throw away.
    #[error("write of {len} bytes refused, and at most {max} bytes of payload are skipped")]
    PayloadTooLong {
        /// What was asked.
        len: u32,
        /// [`DRAIN_MAX`], or the export's maximum payload where that is more.
        max: u32,
    },
}

/// The request parser of one connection.
///
/// Owns no heap memory; a request costs a few comparisons. Requests may be split or joined over
/// calls in any way: what arrived of a split head is kept inside.
pub struct Transmission {
    negotiated: Negotiated,
    head: [u8; REQUEST_LEN],
    head_len: usize,
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
    /// This much payload of a refused write, at least 1. The refusal waits for its end: clients take
    /// no reply to a request they are still sending (libnbd 1.14 gives up the connection).
    Drain { left: u32, refusal: Refusal },
    /// Nothing any more: always the same answer.
    End(Item),
}

impl Transmission {
    /// Starts where the handshake ends.
    pub fn new(negotiated: Negotiated) -> Transmission {
        Transmission {
            negotiated,
            head: [0; REQUEST_LEN],
            head_len: 0,
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
        if self.negotiated.structured_replies {
            ReplyFormat::Structured
        } else {
            ReplyFormat::Simple
        }
    }

    /// From now on every request is refused with [`ErrorCode::Shutdown`]; payload of a write already
    /// announced still comes.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Whether a part of a request has arrived and the rest of it has not.
    pub fn is_within_request(&self) -> bool {
        self.head_len > 0 || matches!(self.pending, Pending::Payload(_) | Pending::Drain { .. })
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
                    // A head that lies whole in the input is read there; only a split one is copied.
                    let item = if self.head_len == 0
                        && let Ok((header, after)) = RequestHeader::ref_from_prefix(rest)
                    {
                        rest = after;
                        self.request(header)
                    } else {
                        let taken = rest.len().min(REQUEST_LEN - self.head_len);
                        let (now, after) = rest.split_at(taken);
                        self.head[self.head_len..self.head_len + taken].copy_from_slice(now);
                        self.head_len += taken;
                        rest = after;
                        if self.head_len < REQUEST_LEN {
                            break Item::NeedMore { bytes: REQUEST_LEN - self.head_len };
                        }
                        self.head_len = 0;
                        self.request(&zerocopy::transmute!(self.head))
                    };
                    if let Some(item) = item {
                        break item;
                    }
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

    /// `None` for a refused write: its payload comes first.
    fn request(&mut self, header: &RequestHeader) -> Option<Item> {
        if header.magic.get() != REQUEST_MAGIC {
            return Some(self.end(Item::Broken(Broken::Magic { magic: header.magic.get() })));
        }
        if header.kind.get() == cmd::DISC {
            return Some(self.end(Item::Disconnect));
        }
        let checked = if self.shutting_down {
            Err(Refusal {
                cookie: Cookie(header.cookie.get()),
                error: ErrorCode::Shutdown,
                reason: "the server is shutting down",
            })
        } else {
            validate(&self.negotiated, header)
        };
        match checked {
            Ok(command) if command.op == Op::Write => {
                self.pending = Pending::Payload(command.len);
                Some(Item::Write(command))
            }
            Ok(command) => Some(Item::Request(command)),
            Err(refusal) => self.refuse(header, refusal),
        }
    }

    #[cold]
    fn refuse(&mut self, header: &RequestHeader, refusal: Refusal) -> Option<Item> {
        let left = if header.kind.get() == cmd::WRITE { header.len.get() } else { 0 };
        let max = DRAIN_MAX.max(self.negotiated.block_sizes.maximum());
        if left > max {
            return Some(self.end(Item::Broken(Broken::PayloadTooLong { len: left, max })));
        }
        if left > 0 {
            self.pending = Pending::Drain { left, refusal };
            return None;
        }
        Some(Item::Refused(refusal))
    }

    fn end(&mut self, item: Item) -> Item {
        self.pending = Pending::End(item);
        item
    }
}

/// Whether the last bytes of a client's stream are a disconnect request (`NBD_CMD_DISC`), after which it sends nothing.
///
/// Looks at the end alone, where the stream before it has not been parsed: a payload that ends in such bytes passes for
/// one.
pub fn ends_in_disconnect(stream: &[u8]) -> bool {
    RequestHeader::ref_from_suffix(stream).is_ok_and(|(_, header)| {
        header.magic.get() == REQUEST_MAGIC && header.kind.get() == cmd::DISC
    })
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

    fn transmission(structured: bool) -> Transmission {
        Transmission::new(Negotiated {
            export: ExportId(3),
            size: 1 << 40,
            flags: Features { flush: true, ..Features::default() }.transmission_flags(structured),
            block_sizes: BlockSizes::DEFAULT,
            structured_replies: structured,
            base_allocation: structured,
        })
    }

    fn command(cookie: u64, op: Op, len: u32) -> Command {
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
            assert_eq!((refusal.cookie, refusal.error), (Cookie(2), ErrorCode::NoSpace));
            assert_eq!(read, after);
        }
    }

    #[test]
    fn only_a_payload_beyond_reason_ends_the_connection() {
        for (len, goes_on) in [(DRAIN_MAX, true), (DRAIN_MAX + 1, false), (u32::MAX, false)] {
            let mut parser = transmission(false);
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
            let too_far = Command { offset: 1 << 40, ..command(9, Op::Write, len) };
            let item = Transmission::new(negotiated).parse(&too_far.to_bytes()).item;
            assert_eq!(matches!(item, Item::NeedMore { .. }), goes_on, "{item:?}");
        }
    }

    #[test]
    fn no_request_is_parsed_after_the_end() {
        let mut parser = transmission(false);
        let junk = *b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n";
        let broken = Item::Broken(Broken::Magic { magic: 0x4745_5420 });
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
        assert!(ends_in_disconnect(&stream) && ends_in_disconnect(&bye));
        for other in [&stream[..stream.len() - 1], &read, &bye[1..], &[]] {
            assert!(!ends_in_disconnect(other));
        }
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
