//! Errors of an import, each with its place.

use weir_units::clip;

/// Place in a text: line and column in characters, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl At {
    /// The beginning of the text.
    pub(crate) const START: At = At { line: 1, column: 1 };

    /// The beginning of `line`.
    pub(crate) const fn line(line: usize) -> At {
        At { line, column: 1 }
    }

    /// The error `kind` here.
    pub(crate) fn error(self, kind: ImportErrorKind) -> ImportError {
        ImportError { line: self.line, column: self.column, kind }
    }

    /// The error that the value `text` of `setting` is not what is `expected`.
    pub(crate) fn wrong(self, setting: &str, text: &str, expected: &'static str) -> ImportError {
        // A flag may have any characters, a terminal's among them.
        let setting = clip(&setting.escape_debug().to_string());
        self.error(ImportErrorKind::Value { setting, text: clip(text), expected })
    }
}

/// Why a text is not imported, and where. Nothing is imported of such a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct ImportError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: ImportErrorKind,
}

/// What is wrong. Texts are cut to [`weir_units::UnitError::TEXT_MAX`] characters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportErrorKind {
    /// It is longer than [`crate::TEXT_MAX`].
    #[error("the text has {bytes} bytes, at most {} are read", crate::TEXT_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is no XML, or uses what is refused of it.
    #[error("{message}")]
    Xml {
        /// What the XML parser says.
        message: String,
    },
    /// It is no YAML, or uses what is refused of it.
    #[error("{message}")]
    Yaml {
        /// What the YAML parser says.
        message: String,
    },
    /// A quotation that does not end, or a backslash at the end.
    #[error("the command line has a quotation that does not end")]
    Quotation,
    /// A value that its own program would refuse, or take for something else.
    #[error("{setting}: {text:?} is not {expected}")]
    Value {
        /// Its setting.
        setting: String,
        /// What is written.
        text: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A path that cannot be one of a device.
    #[error("{path:?} cannot be the path of a device")]
    Path {
        /// What is written.
        path: String,
    },
    /// More than a server can have.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of which things.
        what: &'static str,
        /// How many are allowed.
        most: usize,
    },
    /// There is neither a limit nor a weight in it.
    #[error("no limit and no weight found")]
    Nothing {
        /// What was looked for.
        expected: &'static str,
    },
}

impl ImportErrorKind {
    /// What would be right.
    pub fn hint(&self) -> String {
        match self {
            ImportErrorKind::TooLong { .. } => "import its parts one by one".into(),
            ImportErrorKind::Xml { .. } => "`virsh dumpxml NAME` prints such a text".into(),
            ImportErrorKind::Yaml { .. } => {
                "`docker compose config` prints one file without anchors and merges".into()
            }
            ImportErrorKind::Quotation => "close the quotation, or take the backslash out".into(),
            ImportErrorKind::Value { expected, .. } => format!("write {expected}"),
            ImportErrorKind::Path { .. } => "write a whole path, such as /dev/sdb".into(),
            ImportErrorKind::TooMany { .. } => "import its parts one by one".into(),
            ImportErrorKind::Nothing { expected } => {
                format!("looked for {expected}; --from names another format")
            }
        }
    }
}
