//! Errors of edits and of writing.

use std::fmt::Display;

use crate::value::cut;

/// Why an edit was refused, or the file not written: with what was asked and a suggestion. Nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct KeptError {
    /// What kind of refusal it is.
    pub kind: KeptErrorKind,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// Kinds of [`KeptError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptErrorKind {
    /// There is no such device, export or cgroup in the files.
    Missing,
    /// There is one of that name already.
    Exists,
    /// A value or name cannot be read.
    Invalid,
    /// It cannot be said in a file.
    NotInAFile,
    /// A file that is read after this one says otherwise, and would count.
    Overridden,
    /// The file has changed since it was read.
    Changed,
    /// Another process is writing it.
    Busy,
    /// It cannot be written: the file system is full or read-only, or this user may not.
    Storage,
}

impl KeptError {
    pub(super) fn new(
        kind: KeptErrorKind,
        message: String,
        hint: impl Into<Option<String>>,
    ) -> Self {
        KeptError { kind, message, hint: hint.into() }
    }

    /// `kind` is a section's, `name` its name.
    pub(super) fn missing<'a>(
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> KeptError {
        // With very many names, a search for the nearest takes too long.
        let hint = crate::value::unknown_name(name, known.into_iter().take(10_000));
        let message = format!("no file has {kind} {:?}", cut(name));
        KeptError::new(KeptErrorKind::Missing, message, hint)
    }

    pub(super) fn invalid(key: &str, error: impl Display, hint: Option<String>) -> KeptError {
        KeptError::new(KeptErrorKind::Invalid, format!("{key}: {error}"), hint)
    }

    pub(super) fn overridden(what: &str, file: &str) -> KeptError {
        let message = format!("{file} is read later and says {what} too, which would count");
        let hint = "take it out there, or change it there".to_owned();
        KeptError::new(KeptErrorKind::Overridden, message, hint)
    }
}
