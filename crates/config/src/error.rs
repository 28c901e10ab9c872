//! Errors of a configuration: for people as pictures, for programs as records.

use std::fmt;

use crate::render;
use crate::source::Excerpt;

/// One error with its place and a suggestion. Serialises as a flat record.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct ConfigError {
    /// The file's name as given, or `command line`.
    pub file: String,
    /// Line, from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// The key (`cgroup."/vm1"."io.max"`) or flag (`--max`); empty where there is none.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// A suggestion; every error of this crate has one.
    pub hint: Option<String>,
    #[serde(skip)]
    pub(crate) excerpt: Option<Excerpt>,
    #[serde(skip)]
    pub(crate) has_lines: bool,
}

/// Everything that is wrong with a configuration, in the order of the file; never empty.
///
/// `Display` draws pictures without colour. At most 100 errors are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    more: usize,
}

impl ConfigErrors {
    pub(crate) fn new(errors: Vec<ConfigError>, more: usize) -> ConfigErrors {
        ConfigErrors { errors, more }
    }

    /// The errors that are kept.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// How many were found after these and only counted.
    pub fn more(&self) -> usize {
        self.more
    }

    /// The pictures, with ANSI colours if `coloured`. Nothing in them comes from the file unescaped.
    pub fn render(&self, coloured: bool) -> String {
        let mut pictures: Vec<String> =
            self.errors.iter().map(|error| render::draw(error, coloured)).collect();
        if self.more > 0 {
            pictures.push(format!("and {} more", self.more));
        }
        pictures.join("\n\n")
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigError {
    /// One line: place, key, problem, hint; control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.file.clone();
        if let (true, Some(at), Some(column)) = (self.has_lines, self.line, self.column) {
            line += &format!(":{at}:{column}");
        }
        line += &format!(": {}", self.title());
        if let Some(hint) = &self.hint {
            line += &format!(" ({hint})");
        }
        for c in line.chars() {
            match c {
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl ConfigError {
    pub(crate) fn title(&self) -> String {
        if self.key.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.key, self.message)
        }
    }
}
