//! The answer to BLOCK_STATUS: a bounded list of extents, kept to the protocol's rules.

use crate::command::Command;
use crate::command::Op;
use crate::reply::status_chunk;
use crate::wire::{STATE_HOLE, STATE_ZERO};

/// Most extents in one answer. The protocol allows 2^20 (8 MiB); we stop at 32 KiB of them, so that
/// one small request cannot make a large reply. Clients ask again from where an answer ends.
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
    fn flags(self) -> u32 {
        (if self.hole { STATE_HOLE } else { 0 }) | (if self.zero { STATE_ZERO } else { 0 })
    }
}

/// Appends the reply to a valid BLOCK_STATUS `command`; only such exist where structured replies
/// and `base:allocation` were negotiated.
///
/// `extents` start at the command's offset and follow each other. As many are taken as cover the
/// request (one, when it asked for one; at most [`EXTENTS_MAX`]); neighbours in one state are joined;
/// the last may reach past the request, not past the export. When there are none, the answer is
/// "allocated data", which is always safe to say. Returns the bytes described, at least 1: what the
/// reply costs beyond the request's length is known from it.
///
/// # Panics
/// When `command` is not a BLOCK_STATUS.
pub fn block_status(
    command: &Command,
    extents: impl IntoIterator<Item = Extent>,
    out: &mut Vec<u8>,
) -> u64 {
    let Op::BlockStatus { one } = command.op else {
        panic!("block status in reply to {:?}", command.op);
    };
    let wanted = u64::from(command.len);
    let max = if one { 1 } else { EXTENTS_MAX };
    let start = out.len();
    out.extend_from_slice(&status_chunk(command.cookie, 0));
    let first = out.len();
    let mut described = 0;

    let mut extents = extents.into_iter().filter(|extent| extent.len > 0).peekable();
    for _ in 0..max {
        if described >= wanted {
            break;
        }
        let Some(extent) = extents.next() else { break };
        let mut len = extent.len;
        while described + len < wanted
            && let Some(next) = extents.next_if(|next| next.flags() == extent.flags())
        {
            len = len.saturating_add(next.len);
        }
        let told = len.min(if one { wanted } else { EXTENT_LEN_MAX });
        push(out, told, extent.flags());
        described += told;
        if told < len {
            break; // what follows would not be where the client expects it
        }
    }
    if described == 0 {
        push(out, wanted, 0);
        described = wanted;
    }

    // The head tells the length, which is known only now.
    let count = (out.len() - first) / EXTENT_LEN;
    let head = status_chunk(command.cookie, count as u32);
    out[start..first].copy_from_slice(&head);
    described
}

/// Bytes of one extent in the reply.
const EXTENT_LEN: usize = 8;

/// Longest extent told: the largest multiple of every possible minimum block size in 32 bits.
const EXTENT_LEN_MAX: u64 = 0xffff_0000;

fn push(out: &mut Vec<u8>, len: u64, flags: u32) {
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Cookie;
    use crate::reply::BASE_ALLOCATION_ID;

    const DATA: u32 = 0;
    const HOLE: u32 = STATE_HOLE | STATE_ZERO;

    fn answer(one: bool, len: u32, extents: &[(u64, u32)]) -> (Vec<(u32, u32)>, u64) {
        let op = Op::BlockStatus { one };
        let command = Command { cookie: Cookie(1), op, fua: false, offset: 0, len };
        let extents = extents.iter().map(|&(len, flags)| Extent {
            len,
            hole: flags & STATE_HOLE != 0,
            zero: flags & STATE_ZERO != 0,
        });
        let mut out = vec![0xaa; 3];
        let described = block_status(&command, extents, &mut out);
        let body = &out[3 + 20..];
        let told = u32::from_be_bytes(out[3 + 16..3 + 20].try_into().unwrap());
        assert_eq!(told as usize, body.len());
        assert_eq!(body[..4], BASE_ALLOCATION_ID.to_be_bytes());
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let list = body[4..].chunks(8).map(|e| (word(&e[..4]), word(&e[4..]))).collect();
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
                u32::MAX,
                &[(1 << 40, HOLE), (9, DATA)],
                &[(0xffff_0000, HOLE)],
            ),
        ] {
            let (list, described) = answer(one, len, extents);
            assert_eq!(list, expected, "{case}");
            assert_eq!(described, expected.iter().map(|e| u64::from(e.0)).sum::<u64>(), "{case}");
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
