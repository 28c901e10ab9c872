//! From the bytes of files to a configuration, or to everything that is wrong with it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::backend::Files;
use crate::difference::SectionKind;
use crate::drop_in;
use crate::error::ConfigErrors;
use crate::kept::borrowed;
use crate::kept::others::parse;
use crate::model::Config;
use crate::report::{Problem, Report};
use crate::size_guard::{MARKS_MAX, marks};
use crate::source::{Layer, Source};
use crate::table::Section;
use crate::{cgroup, device, export, peer, record, server, tls, token};

/// Most bytes, over all files.
pub(crate) const FILE_MAX: usize = 16 << 20;
/// Most bytes for which all syntax errors are reported; for more only the first of a file, since each costs memory.
const ALL_SYNTAX_ERRORS_MAX: usize = 256 << 10;

/// Hint for a file that is no configuration, or has too many tenants for one server.
const TOO_MUCH: &str =
    "is it an image? `weir serve` takes names that end in .toml for configurations";

impl Config {
    /// Reads the file at `path`, and over it those in the directory beside it that [`Config::directory`] names; at most
    /// 16 MiB. Images that they name must exist; paths in them that do not begin with `/` are below the directory of
    /// `path`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them, or why they cannot be read.
    pub fn from_file(path: &Path) -> Result<Config, ConfigErrors> {
        Texts::of(path).read(&Files::Look(beside(path)))
    }

    /// Likewise, for callers that open nothing: images need not exist.
    ///
    /// # Errors
    ///
    /// As of [`Config::from_file`].
    pub fn plan_from_file(path: &Path) -> Result<Config, ConfigErrors> {
        Texts::of(path).read(&Files::Plan(beside(path)))
    }

    /// The text of the configuration that the files of `path` make together, as [`Config::to_toml`] prints it, with comments
    /// that say which files have a say in each section. Images need not exist.
    ///
    /// # Errors
    ///
    /// As of [`Config::from_file`].
    pub fn show_file(path: &Path) -> Result<String, ConfigErrors> {
        let files = Texts::of(path).into_files()?;
        let mut texts = Texts::default();
        files.iter().for_each(|(name, text)| texts.push(name, text));
        let config = texts.read(&Files::Plan(beside(path)))?;
        let parsed = parse(borrowed(&files));
        let mut origins = BTreeMap::new();
        for kind in SectionKind::NAMED {
            for (name, section) in parsed.sections(kind.name()) {
                origins.insert((kind, name), origin(&section));
            }
        }
        for kind in [SectionKind::Server, SectionKind::Tls] {
            let alone = parsed.alone(kind.name());
            origins.extend(alone.map(|section| ((kind, String::new()), origin(&section))));
        }
        Ok(config.to_toml_with(|kind, name| origins.get(&(kind, name.to_owned())).cloned()))
    }

    /// Reads `text`; errors call it `name`. Looks at no files: paths stay as they are, and images need not exist.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str(name: &str, text: &str) -> Result<Config, ConfigErrors> {
        Config::from_texts([(name, text)])
    }

    /// Likewise several texts with their names, each read over those before it, as [`Config::from_file`] reads files.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn from_texts<'t>(
        texts: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Config, ConfigErrors> {
        let mut read = Texts::default();
        texts.into_iter().for_each(|(name, text)| read.push(name, text));
        read.read(&Files::Ignore)
    }
}

/// The files that have a say in `section`.
fn origin(section: &Section<'_>) -> String {
    section.file_names().collect::<Vec<_>>().join(", ")
}

/// Where the relative paths in a file begin.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new(""));
    // Sockets and images are opened later, maybe after the process has gone elsewhere.
    std::path::absolute(directory.join(".")).unwrap_or_else(|_| directory.into())
}

/// Texts of files, and why some are missing.
#[derive(Default)]
pub(crate) struct Texts {
    source: Source,
    report: Report,
    /// Bytes so far.
    len: usize,
}

impl Texts {
    /// The configuration at `path`, with the files that are read over it.
    pub(crate) fn of(path: &Path) -> Texts {
        let mut texts = Texts::default();
        texts.push_file(path, main_hint);
        if !texts.report.is_empty() {
            return texts;
        }
        let Some(directory) = Config::directory(path) else { return texts };
        match drop_in::files(&directory) {
            Ok(files) => files.iter().for_each(|file| texts.push_file(file, |_| OTHER_HINT)),
            Err((message, hint)) => texts.refuse(&directory, message, hint),
        }
        texts
    }

    /// Adds a text that is there already.
    pub(crate) fn push(&mut self, name: &str, text: &str) {
        self.len = self.len.saturating_add(text.len());
        let is_too_large = self.len > FILE_MAX;
        let index = self.source.push(name.into(), if is_too_large { "" } else { text }.into());
        if is_too_large {
            self.report.add(too_large(index));
        }
    }

    /// Adds the file at `path`.
    pub(crate) fn push_file(&mut self, path: &Path, hint: fn(&io::Error) -> &'static str) {
        let name = path.display().to_string();
        let bytes = match read(path, FILE_MAX.saturating_sub(self.len)) {
            Ok(bytes) => bytes,
            Err(error) => {
                return self.refuse(path, format!("cannot be read: {error}"), hint(&error));
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => self.push(&name, &text),
            // What is too large need not be text.
            Err(error) if self.len + error.as_bytes().len() > FILE_MAX => {
                let index = self.source.push(name, String::new());
                self.report.add(too_large(index));
            }
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let index = self.source.push(name, text);
                let span = self.source.layer(index).place(at..at + 1);
                let problem = Problem::new(span, "", "the file is not UTF-8 text");
                let hint = "is it an image, or saved in another encoding?".to_owned();
                self.report.add(problem.hint(hint));
            }
        }
    }

    /// Reports a file that has no text.
    pub(crate) fn refuse(&mut self, path: &Path, message: String, hint: &str) {
        let index = self.source.push(path.display().to_string(), String::new());
        self.report.add(Problem::of_file(index, message).hint(hint.to_owned()));
    }

    /// The texts with their names, or why some are missing.
    pub(crate) fn into_files(self) -> Result<Vec<(String, String)>, ConfigErrors> {
        if self.report.is_empty() {
            return Ok(self.source.into_files());
        }
        Err(self.report.into_errors(&self.source))
    }

    /// The configuration that they make, one read over another.
    pub(crate) fn read(self, files: &Files) -> Result<Config, ConfigErrors> {
        self.read_as(|root, report| config(root, files, report))
    }

    /// All of it as `of` reads it, or all that is wrong with it.
    fn read_as<T>(
        self,
        of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
    ) -> Result<T, ConfigErrors> {
        let Texts { source, mut report, .. } = self;
        match read_source(&source, of, &mut report) {
            Some(read) if report.is_empty() => Ok(read),
            _ => Err(report.into_errors(&source)),
        }
    }
}

/// The error of a file that is not looked at.
pub(crate) fn refused(path: &Path, message: &str, hint: &str) -> ConfigErrors {
    let mut report = Report::default();
    report.add(Problem::of_all(message).hint(hint.to_owned()));
    report.into_errors(&Source::of_file(path.display().to_string(), ""))
}

/// `files`, texts with their names, if all of them are TOML.
pub(crate) fn well_formed(
    files: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, ConfigErrors> {
    let mut texts = Texts::default();
    files.iter().for_each(|(name, text)| texts.push(name, text));
    texts.read_as(|_, _| Some(()))?;
    Ok(files)
}

/// Hint for a main file that cannot be read.
fn main_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "one image needs none: `weir serve disk.img`; docs/configuration.md shows one"
        }
        io::ErrorKind::IsADirectory => "name the file in it",
        _ => "it must be a file that this user may read",
    }
}

/// Hint for a further file that cannot be read.
const OTHER_HINT: &str =
    "it must be a file that this user may read: names that do not end in .toml are left out";

fn too_large(index: usize) -> Problem {
    if index == 0 {
        return Problem::of_all("the file is larger than 16 MiB").hint(TOO_MUCH.to_owned());
    }
    let hint = "split the tenants among several servers".to_owned();
    Problem::of_file(index, "with this file there are more than 16 MiB").hint(hint)
}

/// The file at `path` as `of` reads it.
pub(crate) fn file<T>(
    path: &Path,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
) -> Result<T, ConfigErrors> {
    file_with(path, main_hint, of)
}

/// Likewise, with the hint for a file that cannot be read.
pub(crate) fn file_with<T>(
    path: &Path,
    hint: fn(&io::Error) -> &'static str,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
) -> Result<T, ConfigErrors> {
    let mut texts = Texts::default();
    texts.push_file(path, hint);
    texts.read_as(of)
}

/// At most one byte more than `bytes_max`, which shows that the file is too large.
fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text as `of` reads it, or all that is wrong with it.
pub(crate) fn load<T>(
    name: &str,
    text: &str,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
) -> Result<T, ConfigErrors> {
    let mut texts = Texts::default();
    texts.push(name, text);
    texts.read_as(of)
}

fn read_source<T>(
    source: &Source,
    of: impl FnOnce(&Section<'_>, &mut Report) -> Option<T>,
    report: &mut Report,
) -> Option<T> {
    let layers: Vec<Layer<'_>> = (0..source.len()).map(|index| source.layer(index)).collect();
    if layers.iter().map(|layer| marks(layer.text)).sum::<usize>() > MARKS_MAX {
        let what = if layers.len() == 1 { "the file has" } else { "the files have" };
        let message = format!("{what} more than {MARKS_MAX} tables, arrays and elements");
        report.add(Problem::of_all(message).hint(TOO_MUCH.to_owned()));
        return None;
    }
    let len: usize = layers.iter().map(|layer| layer.text.len()).sum();
    let parse = if len <= ALL_SYNTAX_ERRORS_MAX { all_errors } else { first_error };
    let mut tables = Vec::new();
    for layer in layers {
        // What is no text has been reported, and its errors would be false.
        if report.has_any_in(layer.start, layer.text.len()) {
            continue;
        }
        match parse(layer.text) {
            Ok(table) => tables.push((layer, table)),
            Err(errors) => errors.iter().for_each(|error| report.add(syntax(error, layer))),
        }
    }
    // After a syntax error the parser's guesses would only raise false errors.
    if !report.is_empty() {
        return None;
    }
    let files = || tables.iter().map(|(layer, table)| (*layer, table.get_ref()));
    drop_in::check(files(), report);
    of(&Section::merged(files()), report)
}

type Parsed<'t> = Result<toml::Spanned<DeTable<'t>>, Vec<toml::de::Error>>;

fn all_errors(text: &str) -> Parsed<'_> {
    match DeTable::parse_recoverable(text) {
        (table, errors) if errors.is_empty() => Ok(table),
        (_, errors) => Err(errors),
    }
}

fn first_error(text: &str) -> Parsed<'_> {
    DeTable::parse(text).map_err(|error| vec![error])
}

fn config(root: &Section<'_>, files: &Files, report: &mut Report) -> Option<Config> {
    root.allow(&["server", "tls", "record", "device", "cgroup", "export", "peer", "token"], report);
    let tls = tls::read(root, files, report);
    let server = server::read(root, tls.as_ref(), files, report);
    let record = record::read(root, files, report);
    let devices = device::read_all(root, files, report);
    let cgroups = cgroup::read_all(root, &devices, report);
    let exports = export::read_all(root, &devices, &cgroups, report);
    let peers = peer::read_all(root, &cgroups, report);
    let tokens = token::read_all(root, report);
    Some(Config { server, tls, record, devices: devices.configs, cgroups, exports, peers, tokens })
}

/// A syntax error of the parser: the problem in its first line, expectations in the others.
fn syntax(error: &toml::de::Error, layer: Layer<'_>) -> Problem {
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
        Some(span) => Problem::new(layer.place(span), "", message).hint(hint),
        None => Problem::new(layer.place(0..0), "", message).hint(hint),
    }
}
