//! RWBS letters of the block layer: `R`, `WS`, `RA`, `FWFS`, `D`.

use weir_engine::Op;

/// Operation of the letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    Data(Op),
    /// A write with a flush before it; without data, it is a flush.
    FlushWrite,
    /// No data: `N`, and commands for zones.
    Nothing,
}

/// Source: blkparse(1), "RWBS description".
///
/// The first letter is the operation, after an `F` for a flush before it. The others are flags (`S` synchronous, `A` read
/// ahead, `F` through the cache, `B` barrier, `E` erase), ignored here; see [`is_metadata`].
pub(super) fn does(letters: &[u8]) -> Option<Does> {
    if letters.is_empty() || !letters.iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    let (flush, rest) = match letters {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    Some(match rest.first() {
        Some(b'R') => Does::Data(Op::Read),
        Some(b'W') if flush => Does::FlushWrite,
        Some(b'W') => Does::Data(Op::Write),
        Some(b'D') => Does::Data(Op::Discard),
        // `F` alone, `FF`, `FS`: a flush, with flags.
        None | Some(b'F' | b'S') if flush => Does::Data(Op::Flush),
        // The kernel's own request for the flush before a write.
        Some(b'N') if flush => Does::Data(Op::Flush),
        Some(b'N' | b'Z') => Does::Nothing,
        _ => return None,
    })
}

/// Whether it has the mark of metadata, `M`.
pub(super) fn is_metadata(letters: &[u8]) -> bool {
    letters.contains(&b'M')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_letters_give_operation_and_flags() {
        let cases: &[(&str, Option<Does>)] = &[
            ("R", Some(Does::Data(Op::Read))),
            ("RA", Some(Does::Data(Op::Read))),
            ("RSM", Some(Does::Data(Op::Read))),
            ("W", Some(Does::Data(Op::Write))),
            ("WFS", Some(Does::Data(Op::Write))),
            ("FWFSM", Some(Does::FlushWrite)),
            ("FWS", Some(Does::FlushWrite)),
            ("D", Some(Does::Data(Op::Discard))),
            ("DES", Some(Does::Data(Op::Discard))),
            ("F", Some(Does::Data(Op::Flush))),
            ("FF", Some(Does::Data(Op::Flush))),
            ("FS", Some(Does::Data(Op::Flush))),
            ("FN", Some(Does::Data(Op::Flush))),
            ("N", Some(Does::Nothing)),
            ("NS", Some(Does::Nothing)),
            ("ZR", Some(Does::Nothing)),
            ("", None),
            ("r", None),
            ("X", None),
            ("8", None),
        ];
        for (letters, does_what) in cases {
            assert_eq!(does(letters.as_bytes()), *does_what, "{letters}");
        }
    }
}
