//! Files that are written whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that will be written once its text is there. It is begun before the work whose outcome it takes, so that what
/// cannot be written is told before and not after; until it is written, and where it never is, what was there stays.
pub(crate) struct WholeFile {
    path: PathBuf,
    /// The temporary file, with the suffix `.part`; `None` for a pipe or device.
    part: Option<PathBuf>,
}

impl WholeFile {
    /// Makes sure, as well as one can tell, that `path` can be written.
    pub(crate) fn begin(path: &Path) -> Result<WholeFile, Failure> {
        let begun = match fs::metadata(path) {
            Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // A device must not be replaced by a file.
            Ok(there) if !there.is_file() => {
                fs::OpenOptions::new().write(true).open(path).map(|_| None)
            }
            _ => {
                let mut part = OsString::from(path);
                part.push(".part");
                fs::File::create(&part).map(|_| Some(part.into()))
            }
        };
        let part = begun.map_err(|error| failed(path, &error))?;
        Ok(WholeFile { path: path.to_owned(), part })
    }

    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = match &self.part {
            None => fs::write(&self.path, text),
            Some(part) => fs::write(part, text).and_then(|()| fs::rename(part, &self.path)),
        };
        written.map_err(|error| failed(&self.path, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // The temporary file is useless; an error of its removal is ignored.
            let _ = fs::remove_file(part);
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}
