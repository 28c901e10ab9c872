//! Files in a directory beside the configuration, which are read over it: `weir.d/` beside `weir.toml`.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::model::Config;
use crate::report::{Problem, Report};
use crate::source::Layer;
use crate::table::{Level, REMOVED, REPLACES, join};

/// Most files in the directory.
const FILES_MAX: usize = 1_000;

impl Config {
    /// The directory whose files are read over the configuration at `path`: `weir.d` for `weir.toml`. Those that count
    /// end in `.toml` and do not begin with a dot; they are read in the order of their names' bytes. `None` where the
    /// configuration's own name does not end in `.toml`.
    pub fn directory(path: &Path) -> Option<PathBuf> {
        is_toml(path.file_name()?).then(|| path.with_extension("d"))
    }
}

fn is_toml(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("toml"))
}

/// The files in `directory` that count, in their order; none where there is no such directory. An error has its message
/// and hint.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, (String, &'static str)> {
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            ErrorKind::NotADirectory => {
                "it is the directory of files that are read over the configuration: give the file another name"
            }
            _ => "it must be a directory that this user may read",
        };
        (format!("cannot be listed: {error}"), hint)
    };
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // Editors' leftovers: `.x.toml.swp`, `.#x.toml`, `#x.toml#`, `x.toml~`.
        if name.as_bytes().starts_with(b".") || !is_toml(&name) {
            continue;
        }
        if files.len() == FILES_MAX {
            let hint = "put several sections into one file";
            return Err((format!("more than {FILES_MAX} files"), hint));
        }
        files.push(directory.join(name));
    }
    files.sort();
    Ok(files)
}

/// Reports sections that are removed or replaced and cannot be.
pub(crate) fn check<'t>(
    files: impl Iterator<Item = (Layer<'t>, &'t DeTable<'t>)>,
    report: &mut Report,
) {
    for (index, (file, table)) in files.enumerate() {
        File { file, is_first: index == 0 }.check("", table, Level::Top, report);
    }
}

struct File<'t> {
    file: Layer<'t>,
    is_first: bool,
}

impl File<'_> {
    /// Checks the tables below `table`, which is at `key`.
    fn check(&self, key: &str, table: &DeTable<'_>, level: Level, report: &mut Report) {
        for (name, value) in table {
            let DeValue::Table(below) = value.get_ref() else { continue };
            let level = level.below(name.get_ref());
            let is_marked = level.marks().iter().any(|mark| below.contains_key(*mark));
            // A name of a table is put together only where it is needed: there may be a million.
            if !is_marked && level == Level::Named && !below.values().any(is_table) {
                continue;
            }
            let key = join(key, name.get_ref());
            if is_marked {
                self.check_marks(&key, below, level, report);
            }
            self.check(&key, below, level, report);
        }
    }

    fn check_marks(&self, key: &str, table: &DeTable<'_>, level: Level, report: &mut Report) {
        for mark in level.marks() {
            let Some((name, value)) = table.get_key_value(*mark) else { continue };
            let (place, own) = (self.file.place(name.span()), join(key, mark));
            let mut refuse = |message: &str, hint: String| {
                report.add(Problem::new(place, &own, message).hint(hint));
            };
            if value.get_ref().as_bool() != Some(true) {
                refuse("it can only be true", format!("write `{mark} = true`, or leave it out"));
            } else if self.is_first {
                let hint = match *mark {
                    REMOVED => "take the section out",
                    _ => "take this line out",
                };
                refuse("no file is read before this one", hint.into());
            } else if *mark == REMOVED && table.len() > 1 {
                let hint = format!(
                    "take its other keys out, or write `{REPLACES} = true` instead of this line to say all of it anew"
                );
                refuse("a section that is removed says nothing else", hint);
            }
        }
    }
}

fn is_table(value: &toml::Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_table()
}
