//! Splitter of bytes into lines, in one block of memory.

use std::io::{self, Read};

/// Longest line, in bytes without its end. A longer one is a bad line.
pub const LINE_MAX: usize = 64 * 1024;

/// Room for two longest lines, so that there is always room to read behind an incomplete line.
const BLOCK: usize = 2 * (LINE_MAX + 2);

/// A line without its end (`\n` or `\r\n`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of a line that is too long; the rest is skipped.
    TooLong(&'a [u8]),
}

/// Splits its input into lines, independently of the pieces in which it arrives.
pub(crate) struct Lines<R> {
    input: R,
    block: Box<[u8]>,
    /// Bytes of the block that have been read and not returned.
    start: usize,
    end: usize,
    /// Leading bytes of those that are known to have no end of line.
    searched: usize,
    /// The current line was returned as too long: skip the rest of it.
    passing: bool,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        let block = vec![0; BLOCK].into_boxed_slice();
        Lines { input, block, start: 0, end: 0, searched: 0, passing: false, ended: false }
    }

    /// The next line; `None` at the end of the input. A last line needs no end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let open = &self.block[self.start..self.end];
            if let Some(at) = newline(&open[self.searched..]) {
                let len = self.searched + at;
                let line = self.start..self.start + len;
                self.start += len + 1;
                self.searched = 0;
                if std::mem::take(&mut self.passing) {
                    continue;
                }
                return Ok(Some(whole(&self.block[line])));
            }
            self.searched = open.len();
            if self.passing {
                self.start = self.end;
                self.searched = 0;
            } else if open.len() > LINE_MAX + 1 {
                // One more than the longest may still be the carriage return of a line that ends here.
                let line = self.start..self.end;
                self.start = self.end;
                self.searched = 0;
                self.passing = true;
                return Ok(Some(Line::TooLong(&self.block[line])));
            }
            if !self.fill()? {
                let line = self.start..self.end;
                self.start = self.end;
                self.searched = 0;
                if line.is_empty() || self.passing {
                    return Ok(None);
                }
                return Ok(Some(whole(&self.block[line])));
            }
        }
    }

    /// Reads more; false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.start > 0 {
            self.block.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.input.read(&mut self.block[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn whole(line: &[u8]) -> Line<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_MAX { Line::TooLong(line) } else { Line::Whole(line) }
}

/// Position of the first `\n`, eight bytes at a time. Byte by byte, lines of 25 bytes take a fifth longer in all.
///
/// Columns are too short for this to pay.
fn newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A `\n` in `word` is zero here, and the lowest zero sets the lowest high bit: a borrow only reaches bytes above it.
        let zeroed = u64::from_le_bytes(*word) ^ u64::from_ne_bytes([b'\n'; 8]);
        let found = zeroed.wrapping_sub(ONES) & !zeroed & HIGHS;
        if found != 0 {
            return Some(index * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let tail_at = bytes.len() - tail.len();
    tail.iter().position(|&byte| byte == b'\n').map(|at| tail_at + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of at most `step` bytes a call.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.1);
            self.0.read(&mut buffer[..count])
        }
    }

    /// Lines, or their length if they are too long to be.
    fn lines(input: impl Read) -> Vec<Result<Vec<u8>, ()>> {
        let mut lines = Lines::new(input);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::TooLong(_) => Err(()),
            });
        }
        all
    }

    #[test]
    fn pieces_make_no_difference() {
        let longest = vec![b'x'; LINE_MAX];
        let mut text = b"a\n\nbc\r\n".to_vec();
        for (extra, end) in [(0, &b"\n"[..]), (0, b"\r\n"), (1, b"\n"), (1, b"\r\n"), (9, b"\n")] {
            text.extend(&longest);
            text.extend(&b"yyyyyyyyy"[..extra]);
            text.extend(end);
        }
        text.extend(vec![b'z'; BLOCK + 1]);
        text.extend(b"\nlast");
        let wanted = vec![
            Ok(b"a".to_vec()),
            Ok(vec![]),
            Ok(b"bc".to_vec()),
            Ok(longest.clone()),
            Ok(longest),
            Err(()),
            Err(()),
            Err(()),
            Err(()),
            Ok(b"last".to_vec()),
        ];
        for step in [1, 7, 4096, LINE_MAX, LINE_MAX + 1, LINE_MAX + 2, usize::MAX] {
            assert!(lines(Slowly(&text, step)) == wanted, "{step} bytes at a time");
        }
    }

    #[test]
    fn a_last_line_needs_no_end() {
        assert_eq!(lines(&b""[..]), []);
        assert_eq!(lines(&b"\n"[..]), [Ok(vec![])]);
        assert_eq!(lines(&b"a\nb"[..]), [Ok(b"a".to_vec()), Ok(b"b".to_vec())]);
        assert_eq!(lines(&vec![b'x'; LINE_MAX + 1][..]), [Err(())]);
        assert_eq!(lines(&vec![b'x'; 5 * BLOCK][..]), [Err(())]);
    }

    #[test]
    fn newlines_are_found_where_they_are() {
        for len in 0..40 {
            for at in 0..len {
                // 0x0b is what a borrow could turn into a find.
                let mut bytes = vec![0x0b; len];
                assert_eq!(newline(&bytes), None);
                bytes[at] = b'\n';
                assert_eq!(newline(&bytes), Some(at));
                bytes[len - 1] = b'\n';
                assert_eq!(newline(&bytes), Some(at));
            }
        }
    }
}
