//! Collector of errors, so that one pass reports all of them.

use crate::error::{ConfigError, ConfigErrors};
use crate::source::{Source, Span, Text};

/// More are counted, not kept: a file of another kind would give one for each of its words.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    span: Option<Span>,
    /// Index of the text, where there is no place in it.
    file: usize,
    key: String,
    message: String,
    hint: Option<String>,
}

impl Problem {
    /// `message` about `key` at `span`.
    pub(crate) fn new(span: Span, key: &str, message: impl Into<String>) -> Problem {
        Problem { span: Some(span), file: 0, key: key.into(), message: message.into(), hint: None }
    }

    /// A problem of the whole source; it is told of the first text.
    pub(crate) fn of_all(message: impl Into<String>) -> Problem {
        Problem::of_file(0, message)
    }

    /// A problem of the whole text at index `file`.
    pub(crate) fn of_file(file: usize, message: impl Into<String>) -> Problem {
        Problem { span: None, file, key: String::new(), message: message.into(), hint: None }
    }

    /// Suggestion.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Problem {
        self.hint = hint.into();
        self
    }
}

/// All problems found so far.
#[derive(Default, Debug)]
pub(crate) struct Report {
    problems: Vec<Problem>,
    more: usize,
}

impl Report {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// A problem of the whole value `text`.
    pub(crate) fn refuse(&mut self, text: &Text, message: impl Into<String>, hint: Option<String>) {
        self.add(Problem::new(text.span, &text.key, message).hint(hint));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether there is a problem in the `len` bytes from `start`.
    pub(crate) fn has_any_in(&self, start: usize, len: usize) -> bool {
        let is_there = |span: Span| (start..=start + len).contains(&span.start);
        self.problems.iter().any(|problem| problem.span.is_some_and(is_there))
    }

    /// The problems in the order of their places.
    pub(crate) fn into_errors(mut self, source: &Source) -> ConfigErrors {
        self.problems.sort_by_key(|problem| (problem.file(source), problem.span));
        let errors = self.problems.into_iter().map(|problem| problem.into_error(source)).collect();
        ConfigErrors::new(errors, self.more)
    }
}

impl Problem {
    /// Index of the text that it is in.
    fn file(&self, source: &Source) -> usize {
        self.span.map_or(self.file, |span| source.file_at(span.start))
    }

    fn into_error(self, source: &Source) -> ConfigError {
        let at = self.span.map(|span| source.line_and_column(span.start));
        ConfigError {
            file: source.name(self.file(source)).to_owned(),
            line: at.map(|(line, _)| line),
            column: at.map(|(_, column)| column),
            key: self.key,
            message: self.message,
            hint: self.hint,
            excerpt: self.span.map(|span| source.excerpt(span)),
            has_lines: source.has_lines(),
        }
    }
}
