//! The texts that a configuration is read from, and places in them.

use std::ops::Range;

/// Source texts: files, or a command line joined again so that errors can point into it. Places count bytes over all of
/// them, as if they stood one after another with a byte between two.
#[derive(Default, Debug)]
pub(crate) struct Source {
    files: Vec<File>,
    is_command_line: bool,
}

/// One text.
#[derive(Debug)]
struct File {
    /// How errors call it.
    name: String,
    text: String,
    /// The place of its first byte.
    start: usize,
}

/// One text, as it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer<'t> {
    /// How errors call it.
    pub(crate) name: &'t str,
    /// All of it.
    pub(crate) text: &'t str,
    /// The place of its first byte.
    pub(crate) start: usize,
}

impl Layer<'_> {
    /// A place that was counted in this text alone.
    pub(crate) fn place(&self, span: Range<usize>) -> Span {
        Span { start: self.start + span.start, end: self.start + span.end }
    }
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
    /// The file `name`.
    pub(crate) fn of_file(name: impl Into<String>, text: impl Into<String>) -> Source {
        let mut source = Source::default();
        source.push(name.into(), text.into());
        source
    }

    /// A text whose lines mean nothing to the reader.
    pub(crate) fn of_command_line(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { is_command_line: true, ..Source::of_file(name, text) }
    }

    /// Adds a text, and returns its index.
    pub(crate) fn push(&mut self, name: String, text: String) -> usize {
        let start = self.files.last().map_or(0, |last| last.start + last.text.len() + 1);
        self.files.push(File { name, text, start });
        self.files.len() - 1
    }

    /// How errors call the text at `index`.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.files.get(index).map_or("", |file| &file.name)
    }

    /// The text at `index`.
    pub(crate) fn layer(&self, index: usize) -> Layer<'_> {
        let File { name, text, start } = &self.files[index];
        Layer { name, text, start: *start }
    }

    /// The texts with their names.
    pub(crate) fn into_files(self) -> Vec<(String, String)> {
        self.files.into_iter().map(|file| (file.name, file.text)).collect()
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether line numbers mean something to the reader.
    pub(crate) fn has_lines(&self) -> bool {
        !self.is_command_line
    }

    /// The index of the text that has the byte at `at`.
    pub(crate) fn file_at(&self, at: usize) -> usize {
        self.files.partition_point(|file| file.start <= at).saturating_sub(1)
    }

    /// Line and column of `at` in its text, both from 1; columns count characters.
    pub(crate) fn line_and_column(&self, at: usize) -> (usize, usize) {
        let File { text, start, .. } = &self.files[self.file_at(at)];
        let at = boundary(text, at - start);
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// The line that `span` begins in.
    pub(crate) fn excerpt(&self, span: Span) -> Excerpt {
        let File { text: whole, start, .. } = &self.files[self.file_at(span.start)];
        let (from, to) = (span.start - start, span.end - start);
        let start = boundary(whole, from);
        let line_start = whole[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = whole[start..].find('\n').map_or(whole.len(), |at| start + at);
        let end = boundary(whole, to).clamp(start, line_end);
        if line_end - line_start <= LINE_MAX {
            let text = whole[line_start..line_end].to_owned();
            return Excerpt { text, span: start - line_start..end - line_start, cut: false };
        }
        let from = boundary(whole, start.saturating_sub(AROUND).max(line_start));
        let to = boundary(whole, (start + AROUND).min(line_end)).max(start);
        let mut text = String::new();
        if from > line_start {
            text.push_str("... ");
        }
        let shift = text.len();
        text.push_str(&whole[from..to]);
        let span = start - from + shift..end.min(to) - from + shift;
        if to < line_end {
            text.push_str(" ...");
        }
        Excerpt { text, span, cut: true }
    }
}

/// The last character boundary of `text` up to `at`.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of_file("x", text)
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
    fn each_text_counts_its_own_lines() {
        let mut source = source("a = 1\nb");
        source.push("y".into(), "\nc".into());
        assert_eq!(source.layer(1).start, 8);
        for (at, name, line, column) in
            [(6, "x", 2, 1), (7, "x", 2, 2), (8, "y", 1, 1), (9, "y", 2, 1), (99, "y", 2, 2)]
        {
            assert_eq!(source.name(source.file_at(at)), name, "{at}");
            assert_eq!(source.line_and_column(at), (line, column), "{at}");
        }
        assert_eq!(source.excerpt(Span { start: 9, end: 10 }).text, "c");
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
