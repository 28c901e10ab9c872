//! The answer to BLOCK_STATUS: a bounded list of extents, kept to the protocol's rules.

use crate::command::{Command, Mark, Op};
use crate::context::Context;
use crate::reply::ReplyFormat;
use crate::wire::{STATE_HOLE, STATE_ZERO};

/// Most extents in one chunk. The protocol allows 2^20 (8 MiB); we stop at 32 KiB of them, 64 KiB with extended headers, so
/// that one small request cannot make a large reply. Clients ask again from where an answer ends.
pub const EXTENTS_MAX: usize = 4096;

/// A run of bytes in one state, following the run before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; runs of 0 are left out.
    pub len: u64,
    /// Not allocated: a write may need new space.
    pub hole: bool,
    /// Reads as zeroes.
    pub zero: bool,
}

impl Extent {
    /// The status that `context` tells of it.
    fn status(self, context: Context) -> u32 {
        match context {
            Context::Allocation => {
                (if self.hole { STATE_HOLE } else { 0 }) | (if self.zero { STATE_ZERO } else { 0 })
            }
            Context::AllocationDepth => u32::from(!self.hole),
        }
    }
}

/// Appends the reply to a valid BLOCK_STATUS `command`, a chunk for each of its contexts; only such exist where `format`
/// has chunks.
///
/// `extents` start at the command's offset and follow each other. As many are taken as cover the
/// request (one, when it asked for one; at most [`EXTENTS_MAX`]); neighbours in one state are joined;
/// the last may reach past the request, not past the export. When there are none, the answer is
/// "allocated data", which is always safe to say. Returns the bytes described by the longest chunk, at least 1.
///
/// # Panics
/// When `command` is not a BLOCK_STATUS, or `format` is simple.
pub fn block_status(
    format: ReplyFormat,
    command: &Command,
    extents: &[Extent],
    out: &mut Vec<u8>,
) -> u64 {
    let Op::BlockStatus { one, contexts } = command.op else {
        panic!("block status in reply to {:?}", command.op);
    };
    assert!(format != ReplyFormat::Simple, "block status in a simple reply");
    let asked = Asked { format, mark: command.mark(), wanted: command.len, one };
    let mut longest = 0;
    for (number, context) in (1..).zip(contexts.iter()) {
        let is_last = number == contexts.len();
        longest = longest.max(asked.push_chunk(context, extents, is_last, out));
    }
    longest
}

/// Longest extent told without extended headers: the largest multiple of every possible minimum block size in 32 bits.
const EXTENT_LEN_MAX: u64 = 0xffff_0000;

/// A block status request, as far as its chunks need it.
struct Asked {
    format: ReplyFormat,
    mark: Mark,
    wanted: u64,
    one: bool,
}

impl Asked {
    fn push_chunk(
        &self,
        context: Context,
        extents: &[Extent],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> u64 {
        let &Asked { format, mark, wanted, one } = self;
        let is_extended = format == ReplyFormat::Extended;
        let told_max = match (one, is_extended) {
            (true, _) => wanted,
            (false, true) => u64::MAX,
            (false, false) => EXTENT_LEN_MAX,
        };
        let max = if one { 1 } else { EXTENTS_MAX };
        let start = out.len();
        out.extend_from_slice(&format.status_chunk(mark, context.id(), 0, is_last));
        let first = out.len();
        let mut push = |len: u64, status: u32| {
            if is_extended {
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(&u64::from(status).to_be_bytes());
            } else {
                out.extend_from_slice(&(len as u32).to_be_bytes());
                out.extend_from_slice(&status.to_be_bytes());
            }
        };

        let (mut described, mut count) = (0_u64, 0);
        let mut extents = extents.iter().filter(|extent| extent.len > 0).peekable();
        for _ in 0..max {
            if described >= wanted {
                break;
            }
            let Some(extent) = extents.next() else { break };
            let (mut len, status) = (extent.len, extent.status(context));
            while described.saturating_add(len) < wanted
                && let Some(next) = extents.next_if(|next| next.status(context) == status)
            {
                len = len.saturating_add(next.len);
            }
            let told = len.min(told_max);
            push(told, status);
            count += 1;
            described += told;
            if told < len {
                break; // what follows would not be where the client expects it
            }
        }
        if described == 0 {
            let data = Extent { len: wanted, hole: false, zero: false };
            push(wanted, data.status(context));
            (described, count) = (wanted, 1);
        }

        // The head tells the length, which is known only now.
        let head = format.status_chunk(mark, context.id(), count, is_last);
        out[start..first].copy_from_slice(&head);
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cookie;
    use crate::context::Contexts;

    const DATA: u64 = 0;
    const HOLE: u64 = (STATE_HOLE | STATE_ZERO) as u64;
    const ALLOCATION: Contexts = Contexts::NONE.with(Context::Allocation);

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        let extent = |&(len, flags): &(u64, u64)| Extent {
            len,
            hole: flags & u64::from(STATE_HOLE) != 0,
            zero: flags & u64::from(STATE_ZERO) != 0,
        };
        list.iter().map(extent).collect()
    }

    fn command(one: bool, len: u64, contexts: Contexts) -> Command {
        let op = Op::BlockStatus { one, contexts };
        Command { cookie: Cookie(1), op, fua: false, offset: 0, len }
    }

    /// Whether it is the last, its context, and lengths and flags of its extents.
    type Chunk = (bool, u32, Vec<(u64, u64)>);

    /// The chunks of a reply: whether it is the last, its context, and its extents.
    fn chunks(format: ReplyFormat, mut out: &[u8]) -> Vec<Chunk> {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let mut chunks = Vec::new();
        while !out.is_empty() {
            let (head, width) = match format {
                ReplyFormat::Extended => (32, 8),
                _ => (20, 4),
            };
            let len = number(&out[head - width..head]) as usize;
            let (chunk, rest) = out.split_at(head + len);
            out = rest;
            let mut body = &chunk[head + 4..];
            if format == ReplyFormat::Extended {
                assert_eq!(number(&body[..4]) as usize, body[4..].len() / 16);
                body = &body[4..];
            }
            let list = body.chunks(2 * width).map(|e| (number(&e[..width]), number(&e[width..])));
            let context = number(&chunk[head..][..4]) as u32;
            chunks.push((chunk[5] == 1, context, list.collect()));
        }
        chunks
    }

    fn answer(one: bool, len: u64, list: &[(u64, u64)]) -> (Vec<(u64, u64)>, u64) {
        let mut out = vec![0xaa; 3];
        let (format, command) = (ReplyFormat::Structured, command(one, len, ALLOCATION));
        let described = block_status(format, &command, &extents(list), &mut out);
        let mut chunks = chunks(format, &out[3..]);
        let (is_last, context, list) = chunks.pop().unwrap();
        assert!(is_last && context == Context::Allocation.id() && chunks.is_empty());
        (list, described)
    }

    #[test]
    fn block_status_replies_keep_the_protocols_rules() {
        for (case, one, len, extents, expected) in [
            ("as given", false, 30, &[(10, DATA), (20, HOLE)][..], &[(10, DATA), (20, HOLE)][..]),
            ("joined", false, 30, &[(10, DATA), (10, DATA), (10, HOLE)], &[(20, DATA), (10, HOLE)]),
            ("nothing runs", false, 30, &[(0, HOLE), (30, DATA)], &[(30, DATA)]),
            ("last reaches past", false, 30, &[(10, DATA), (90, HOLE)], &[(10, DATA), (90, HOLE)]),
            ("none after covered", false, 10, &[(10, DATA), (9, HOLE)], &[(10, DATA)]),
            ("not joined after covered", false, 10, &[(10, DATA), (9, DATA)], &[(10, DATA)]),
            ("one, cut", true, 30, &[(40, HOLE), (10, DATA)], &[(30, HOLE)]),
            ("one, shorter", true, 30, &[(10, HOLE), (20, DATA)], &[(10, HOLE)]),
            ("unknown", false, 30, &[], &[(30, DATA)]),
            ("fewer than asked", false, 30, &[(10, HOLE)], &[(10, HOLE)]),
            ("past 32 bits", false, 30, &[(1 << 40, HOLE)], &[(0xffff_0000, HOLE)]),
            (
                "cut, so ends",
                false,
                u32::MAX.into(),
                &[(1 << 40, HOLE), (9, DATA)],
                &[(0xffff_0000, HOLE)],
            ),
        ] {
            let (list, described) = answer(one, len, extents);
            assert_eq!(list, expected, "{case}");
            assert_eq!(described, expected.iter().map(|e| e.0).sum::<u64>(), "{case}");
        }
    }

    #[test]
    fn each_context_has_its_chunk_and_extended_ones_have_64_bits() {
        let both = ALLOCATION.with(Context::AllocationDepth);
        // Zeroes that are allocated, and data: one extent by depth.
        let list = extents(&[(10, HOLE), (1 << 40, STATE_ZERO.into()), (5, DATA), (1, HOLE)]);
        for (format, allocation, depth) in [
            (
                ReplyFormat::Extended,
                &[(10, HOLE), (1 << 40, 2), (5, DATA), (1, HOLE)][..],
                &[(10, 0), ((1 << 40) + 5, 1), (1, 0)][..],
            ),
            (
                ReplyFormat::Structured,
                &[(10, HOLE), (0xffff_0000, 2)],
                &[(10, 0), (0xffff_0000, 1)],
            ),
        ] {
            let mut out = Vec::new();
            block_status(format, &command(false, 1 << 41, both), &list, &mut out);
            let expected = [(false, 1, allocation.to_vec()), (true, 2, depth.to_vec())];
            assert_eq!(chunks(format, &out), expected);
            out.clear();
            let depth_only = Contexts::NONE.with(Context::AllocationDepth);
            block_status(format, &command(true, 7, depth_only), &list, &mut out);
            assert_eq!(chunks(format, &out), [(true, 2, vec![(7, 0)])]);
            out.clear();
            block_status(format, &command(false, 7, both), &[], &mut out);
            let unknown = [(false, 1, vec![(7, DATA)]), (true, 2, vec![(7, 1)])];
            assert_eq!(chunks(format, &out), unknown);
        }
    }

    #[test]
    fn a_fragmented_export_gets_a_bounded_block_status_reply() {
        let extents: Vec<_> =
            (0..10_000).map(|i| (1, if i % 2 == 0 { DATA } else { HOLE })).collect();
        let (list, described) = answer(false, 10_000, &extents);
        assert_eq!((list.len(), described), (EXTENTS_MAX, EXTENTS_MAX as u64));
    }
}
