//! Bad lines: their number, and the first of them with the reason.

use crate::lines::LINE_MAX;
use crate::streams::{STREAM_NAME_MAX, STREAMS_MAX};

/// Bad lines that are kept with their text; the rest are only counted.
pub const FIRST_BAD_MAX: usize = 10;

/// Characters of a bad line that are kept: enough to find and recognise it.
const TEXT_MAX: usize = 100;

/// The bad lines of a trace.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BadLines {
    /// Their number.
    pub count: u64,
    /// The first [`FIRST_BAD_MAX`]: line number, from 1; its text, shortened to 100 characters, with control characters and
    /// stray bytes escaped for a terminal; the reason.
    pub first: Vec<(u64, String, Reason)>,
}

impl BadLines {
    pub(crate) fn add(&mut self, number: u64, line: &[u8], reason: Reason) {
        self.count += 1;
        if self.first.len() < FIRST_BAD_MAX {
            self.first.push((number, shown(line), reason));
        }
    }
}

/// Reason why a line is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// Longer than [`LINE_MAX`].
    #[error("the line is longer than {LINE_MAX} bytes")]
    LineTooLong,
    /// Wrong number of columns.
    #[error("{found} columns where the format has {wanted}")]
    Columns {
        /// Columns of the line.
        found: usize,
        /// Columns of the format.
        wanted: usize,
    },
    /// A missing column.
    #[error("column `{column}` is missing")]
    Missing {
        /// Its name in `docs/traces.md`.
        column: &'static str,
    },
    /// A column that is no whole number, or beyond 64 bits.
    #[error("column `{column}` is no whole number")]
    Number {
        /// Its name in `docs/traces.md`.
        column: &'static str,
    },
    /// A time that is no decimal number, or beyond 64 bits of nanoseconds (584 years).
    #[error("column `{column}` is no time, or beyond 64 bits of nanoseconds")]
    Time {
        /// Its name in `docs/traces.md`.
        column: &'static str,
    },
    /// An operation unknown to the format.
    #[error("column `{column}` is no operation of this format")]
    Operation {
        /// Its name in `docs/traces.md`.
        column: &'static str,
    },
    /// A read, write or discard of no bytes.
    #[error("the request's length is 0")]
    LengthZero,
    /// A request of 4 GiB or more.
    #[error("the request's length is beyond 32 bits")]
    LengthTooLong,
    /// The request ends beyond the largest offset of a file.
    #[error("the request ends beyond byte {}", i64::MAX)]
    BeyondEnd,
    /// An empty or too long name of a stream.
    #[error("the name of who asked is empty or longer than {STREAM_NAME_MAX} bytes")]
    Name,
    /// More streams than [`STREAMS_MAX`](crate::STREAMS_MAX).
    #[error("more than {STREAMS_MAX} names of who asked")]
    TooManyStreams,
    /// A line of an iolog before its version line.
    #[error("no line `fio version 2 iolog` or `fio version 3 iolog` before it")]
    NoVersion,
}

/// A line shortened and escaped for a terminal.
pub(crate) fn shown(line: &[u8]) -> String {
    // No character is longer than four bytes, so the cut is behind the shown part.
    let head = &line[..line.len().min(4 * (TEXT_MAX + 1))];
    let mut text = String::new();
    let mut count = 0;
    for chunk in head.utf8_chunks() {
        for character in chunk.valid().chars() {
            if count == TEXT_MAX {
                return text + "…";
            }
            count += 1;
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            if count == TEXT_MAX {
                return text + "…";
            }
            count += 1;
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_line_is_short_and_escaped() {
        assert_eq!(shown(b"a,b"), "a,b");
        assert_eq!(shown(b"\x1b[2J\tx\xff\x00"), "\\u{1b}[2J\\tx\\xff\\u{0}");
        assert_eq!(shown(&[b'x'; 101]), "x".repeat(100) + "…");
        assert_eq!(shown(&[b'x'; 100]), "x".repeat(100));
        assert_eq!(shown("é".repeat(1000).as_bytes()), "é".repeat(100) + "…");
    }

    #[test]
    fn ten_bad_lines_are_kept_and_all_are_counted() {
        let mut bad = BadLines::default();
        for number in 1..=25 {
            bad.add(number, b"?", Reason::LengthZero);
        }
        assert_eq!(bad.count, 25);
        assert_eq!(bad.first.len(), FIRST_BAD_MAX);
        assert_eq!(bad.first[9].0, 10);
    }
}
