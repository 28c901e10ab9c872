//! The file in which changes of a running server are kept: `weir.d/50-control.toml`.

mod document;
mod error;
mod moved;
pub(crate) mod others;
mod section;
mod setting;
mod storage;
mod write;

use std::path::{Path, PathBuf};

use self::document::Document;
use crate::backend::Files;
use crate::error::ConfigErrors;
use crate::load::{self, Texts};
use crate::model::Config;

pub use error::{KeptError, KeptErrorKind};

/// The file's name in its directory; operators' files come before and after it.
const NAME: &str = "50-control.toml";

/// Its first lines; they are put back where they are missing.
const HEAD: &str = "\
# Written by weir: what was changed while the server ran. It is read over weir.toml and the files before it.
# Change it with `weir set`, `weir device` and `weir export`, or by hand and `weir reload`: comments and order stay.
# The version before this one is beside it, with the suffix .previous.
";

/// The file that keeps what is changed at run time, as it is on disk and as edits have made it.
///
/// Edits are in memory: [`Kept::merged`] says what the configuration would be, [`Kept::write`] puts all of them on disk at
/// once, [`Kept::discard`] forgets them. An edit that is refused changes nothing. Comments and the order of the file
/// survive.
///
/// ```no_run
/// let mut kept = weir_config::Kept::open("/etc/weir/weir.toml".as_ref()).unwrap();
/// kept.set("/vm1", Some("disk0"), "io.max", "rbps=max riops=200").unwrap();
/// let config = kept.merged().unwrap();
/// kept.write().unwrap();
/// ```
///
/// Each call costs as much as reading the other files; `merged` as much as [`Config::from_file`].
#[derive(Debug)]
pub struct Kept {
    main: PathBuf,
    /// The file.
    path: PathBuf,
    /// Texts of files that are read before and after it, with their names.
    before: Vec<(String, String)>,
    after: Vec<(String, String)>,
    /// The file's text on disk, if there is a file.
    on_disk: Option<String>,
    /// As a document: as it was read, and with all edits.
    read: Document,
    edited: Document,
}

impl Kept {
    /// Reads the files of the configuration `main`.
    ///
    /// # Errors
    ///
    /// Why a file cannot be read, or is no TOML. What they say need not make sense together: that may be what is changed.
    pub fn open(main: &Path) -> Result<Kept, ConfigErrors> {
        let Some(directory) = Config::directory(main) else {
            let message = "changes are kept beside configurations whose names end in .toml";
            return Err(load::refused(main, message, "give it such a name"));
        };
        let path = directory.join(NAME);
        let files = load::well_formed(Texts::of(main).into_files()?)?;
        let own = path.display().to_string();
        let (mut before, mut after, mut on_disk) = (Vec::new(), Vec::new(), None);
        for (index, (name, text)) in files.into_iter().enumerate() {
            if index > 0 && name == own {
                on_disk = Some(text);
            } else if index == 0 || Path::new(&name) < path.as_path() {
                before.push((name, text));
            } else {
                after.push((name, text));
            }
        }
        let read = Document::of(on_disk.as_deref().unwrap_or_default());
        let edited = read.clone();
        Ok(Kept { main: main.into(), path, before, after, on_disk, read, edited })
    }

    /// Where the file is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's text with all edits.
    pub fn text(&self) -> String {
        self.edited.text()
    }

    /// Whether there are edits that are not on disk.
    pub fn is_edited(&self) -> bool {
        self.edited.text() != self.read.text()
    }

    /// The configuration that the files make, with all edits.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, as [`Config::from_file`] would tell it after [`Kept::write`].
    pub fn merged(&self) -> Result<Config, ConfigErrors> {
        self.read(&Files::Look(load::beside(&self.main)))
    }

    /// Likewise, for callers that open nothing: images need not exist.
    ///
    /// # Errors
    ///
    /// As of [`Kept::merged`].
    pub fn plan(&self) -> Result<Config, ConfigErrors> {
        self.read(&Files::Plan(load::beside(&self.main)))
    }

    fn read(&self, files: &Files) -> Result<Config, ConfigErrors> {
        let own = self.own();
        let mut texts = Texts::default();
        all(&self.before, &own, &self.after).for_each(|(name, text)| texts.push(name, text));
        texts.read(files)
    }

    /// Forgets all edits.
    pub fn discard(&mut self) {
        self.edited = self.read.clone();
    }

    /// The file's name and text; none where nothing is kept.
    fn own(&self) -> Option<(String, String)> {
        let is_there = self.on_disk.is_some() || !self.edited.is_empty();
        is_there.then(|| (self.path.display().to_string(), self.text()))
    }
}

/// Names and texts of all files, one after another.
fn all<'t>(
    before: &'t [(String, String)],
    own: &'t Option<(String, String)>,
    after: &'t [(String, String)],
) -> impl Iterator<Item = (&'t str, &'t str)> {
    borrowed(before).chain(borrowed(own.as_slice())).chain(borrowed(after))
}

pub(crate) fn borrowed(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str()))
}
