//! The text that a configuration is read from, and places in it.

use std::ops::Range;

/// Source text: a file, or a command line joined again so that errors can point into it.
#[derive(Debug)]
pub(crate) struct Source {
    /// How errors call it.
    pub(crate) name: String,
    /// All of it.
    pub(crate) text: String,
    /// Whether line numbers mean something to the reader.
    pub(crate) has_lines: bool,
}

/// A stretch of bytes of the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Span {
        Span { start: range.start, end: range.end }
    }
}

/// A text value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// The value, escapes resolved.
    pub(crate) value: String,
    /// The key or flag it was given to.
    pub(crate) key: String,
    /// Where it stands, without quotes if `verbatim`.
    pub(crate) span: Span,
    /// Whether the source holds the value byte for byte, so that parts of it have places too.
    pub(crate) verbatim: bool,
}

impl Text {
    /// The place of `part`, a slice of `self.value`; the whole value's place if its parts have none.
    pub(crate) fn place_of(&self, part: &str) -> Span {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.value.as_ptr() as usize);
        let inside = offset.checked_add(part.len()).is_some_and(|end| end <= self.value.len());
        if !self.verbatim || !inside {
            return self.span;
        }
        let start = self.span.start + offset;
        Span { start, end: start + part.len() }
    }
}

/// The line around a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    /// The place inside `text`.
    pub(crate) span: Range<usize>,
    /// Whether `text` is part of its line only.
    pub(crate) cut: bool,
}

/// Longest line that is kept whole, in bytes: one error must not hold all of a large file that has only one line.
const LINE_MAX: usize = 4096;
/// How much of a longer line is kept before and after the place, in bytes.
const AROUND: usize = 60;

impl Source {
    /// Line and column of `at`, both from 1; columns count characters.
    pub(crate) fn line_and_column(&self, at: usize) -> (usize, usize) {
        let at = self.boundary(at);
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// The line that `span` begins in.
    pub(crate) fn excerpt(&self, span: Span) -> Excerpt {
        let start = self.boundary(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let end = self.boundary(span.end).clamp(start, line_end);
        if line_end - line_start <= LINE_MAX {
            let text = self.text[line_start..line_end].to_owned();
            return Excerpt { text, span: start - line_start..end - line_start, cut: false };
        }
        let from = self.boundary(start.saturating_sub(AROUND).max(line_start));
        let to = self.boundary((start + AROUND).min(line_end)).max(start);
        let mut text = String::new();
        if from > line_start {
            text.push_str("... ");
        }
        let shift = text.len();
        text.push_str(&self.text[from..to]);
        let span = start - from + shift..end.min(to) - from + shift;
        if to < line_end {
            text.push_str(" ...");
        }
        Excerpt { text, span, cut: true }
    }

    /// The last character boundary up to `at`.
    fn boundary(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "x".into(), text: text.into(), has_lines: true }
    }

    #[test]
    fn lines_and_columns_count_characters() {
        let source = source("a\nbä=c\n");
        assert_eq!(source.line_and_column(0), (1, 1));
        assert_eq!(source.line_and_column(2), (2, 1));
        assert_eq!(source.line_and_column(5), (2, 3));
        assert_eq!(source.line_and_column(99), (3, 1));
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = "x".repeat(5000) + "HERE" + &"y".repeat(5000);
        let excerpt = source(&format!("first\n{line}\n")).excerpt(Span { start: 5006, end: 5010 });
        assert_eq!(&excerpt.text[excerpt.span.clone()], "HERE");
        assert!(excerpt.text.len() < 140 && excerpt.text.starts_with("... x"));
    }

    #[test]
    fn a_place_over_several_lines_is_shown_up_to_the_first_line_s_end() {
        let excerpt = source("a = [\n1,\n]").excerpt(Span { start: 4, end: 10 });
        assert_eq!((excerpt.text.as_str(), excerpt.span), ("a = [", 4..5));
    }
}
