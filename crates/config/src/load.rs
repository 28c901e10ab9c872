//! From a file's bytes to a configuration, or to everything that is wrong with it.

use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::backend::Files;
use crate::error::ConfigErrors;
use crate::model::Config;
use crate::report::{Problem, Report};
use crate::size_guard::{MARKS_MAX, marks};
use crate::source::{Source, Span};
use crate::table::Section;
use crate::{cgroup, device, export, server};

/// Largest file in bytes.
pub(crate) const FILE_MAX: usize = 16 << 20;
/// Largest file for which all syntax errors are reported; for larger ones only the first, since each costs memory.
const ALL_SYNTAX_ERRORS_MAX: usize = 256 << 10;

/// Hint for a file that is no configuration, or has too many tenants for one server.
const TOO_MUCH: &str =
    "is it an image? `weir serve` takes names that end in .toml for configurations";

impl Config {
    /// Reads the file at `path`, at most 16 MiB. Images that it names must exist; paths in it that do not begin with
    /// `/` are below the file's own directory.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn from_file(path: &Path) -> Result<Config, ConfigErrors> {
        file(path, |root, report| config(root, &Files::Look(beside(path)), report))
    }

    /// Likewise, for callers that open nothing: images need not exist.
    ///
    /// # Errors
    ///
    /// As of [`Config::from_file`].
    pub fn plan_from_file(path: &Path) -> Result<Config, ConfigErrors> {
        file(path, |root, report| config(root, &Files::Plan(beside(path)), report))
    }

    /// Reads `text`; errors call it `name`. Looks at no files: paths stay as they are, and images need not exist.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str(name: &str, text: &str) -> Result<Config, ConfigErrors> {
        load(name.into(), text.into(), |root, report| config(root, &Files::Ignore, report))
    }
}

/// Where the relative paths in a file begin.
fn beside(path: &Path) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new(""));
    // Sockets and images are opened later, maybe after the process has gone elsewhere.
    std::path::absolute(directory.join(".")).unwrap_or_else(|_| directory.into())
}

/// The file at `path` as `of` reads it.
pub(crate) fn file<T>(
    path: &Path,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
) -> Result<T, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "one image needs none: `weir serve disk.img`; docs/configuration.md shows one"
                }
                std::io::ErrorKind::IsADirectory => "name the file in it",
                _ => "it must be a file that this user may read",
            };
            let problem = Problem::of_all(format!("cannot be read: {error}"));
            return Err(whole(&name, problem.hint(hint.to_owned())));
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => load(name, text, of),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Source { name, text, has_lines: true };
            let span = Span { start: at, end: at + 1 };
            let problem = Problem::new(span, "", "the file is not UTF-8 text");
            Err(one(
                &source,
                problem.hint("is it an image, or saved in another encoding?".to_owned()),
            ))
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more shows that the file is too large.
    std::fs::File::open(path)?.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text as `of` reads it, or all that is wrong with it.
pub(crate) fn load<T>(
    name: String,
    text: String,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
) -> Result<T, ConfigErrors> {
    if text.len() > FILE_MAX {
        let problem = Problem::of_all("the file is larger than 16 MiB");
        return Err(whole(&name, problem.hint(TOO_MUCH.to_owned())));
    }
    if marks(&text) > MARKS_MAX {
        let message = format!("the file has more than {MARKS_MAX} tables, arrays and elements");
        return Err(whole(&name, Problem::of_all(message).hint(TOO_MUCH.to_owned())));
    }
    let source = Source { name, text, has_lines: true };
    let mut report = Report::default();
    match read_text(&source.text, of, &mut report) {
        Some(read) if report.is_empty() => Ok(read),
        _ => Err(report.into_errors(&source)),
    }
}

fn read_text<T>(
    text: &str,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Option<T> {
    let (table, errors) = if text.len() <= ALL_SYNTAX_ERRORS_MAX {
        DeTable::parse_recoverable(text)
    } else {
        match DeTable::parse(text) {
            Ok(table) => (table, Vec::new()),
            Err(error) => {
                report.add(syntax(&error));
                return None;
            }
        }
    };
    // After a syntax error the parser's guesses would only raise false errors.
    if !errors.is_empty() {
        errors.iter().for_each(|error| report.add(syntax(error)));
        return None;
    }
    of(&Section::root(text, table.get_ref()), report)
}

fn config(root: &Section<'_>, files: &Files, report: &mut Report) -> Option<Config> {
    root.allow(&["server", "device", "cgroup", "export"], report);
    let server = server::read(root, files, report);
    let devices = device::read_all(root, files, report);
    let cgroups = cgroup::read_all(root, &devices, report);
    let exports = export::read_all(root, &devices, &cgroups, report);
    Some(Config { server, devices: devices.configs, cgroups, exports })
}

/// A syntax error of the parser: the problem in its first line, expectations in the others.
fn syntax(error: &toml::de::Error) -> Problem {
    let mut lines = error.message().lines();
    let message = lines.next().unwrap_or("not TOML").to_owned();
    let hint = lines.collect::<Vec<_>>().join(", ");
    let hint = match hint.is_empty() {
        false => hint,
        true if message.starts_with("duplicate") => {
            "say it once; several values go in [\"a\", \"b\"]".into()
        }
        true => "strings are in \"double quotes\", the names of tables in [brackets]".into(),
    };
    match error.span() {
        Some(span) => Problem::new(span.into(), "", message).hint(hint),
        None => Problem::of_all(message).hint(hint),
    }
}

fn whole(name: &str, problem: Problem) -> ConfigErrors {
    one(&Source { name: name.into(), text: String::new(), has_lines: true }, problem)
}

fn one(source: &Source, problem: Problem) -> ConfigErrors {
    let mut report = Report::default();
    report.add(problem);
    report.into_errors(source)
}
