//! Calls of the file system that writing is made of, so that tests can let each of them fail.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// A file system.
pub(super) trait Storage {
    /// Held until it is dropped.
    type Lock;

    /// Takes the lock of a directory; `None` where another process has it.
    fn lock(&mut self, directory: &Path) -> io::Result<Option<Self::Lock>>;
    /// The text of a file; `None` where there is none.
    fn read(&mut self, path: &Path) -> io::Result<Option<String>>;
    /// Makes a directory; returns whether it is new.
    fn make_directory(&mut self, path: &Path) -> io::Result<bool>;
    /// Makes a file that is not there, with the mode and owner of `like`, and waits until its text is on the disk.
    fn create(&mut self, path: &Path, text: &str, like: Like<'_>) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&mut self, path: &Path, name: &Path) -> io::Result<()>;
    /// Gives a file another name, in place of what has it.
    fn rename(&mut self, path: &Path, name: &Path) -> io::Result<()>;
    /// Removes a file; none need be there.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Waits until the names in a directory are on the disk.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
}

/// The file whose mode and owner a new one gets.
#[derive(Clone, Copy)]
pub(super) enum Like<'p> {
    /// The version before it: the owner must be the same.
    Same(&'p Path),
    /// Another file: its mode, and its owner where that can be.
    Another(&'p Path),
}

/// The one of the operating system.
pub(super) struct Real;

/// Lock of a directory. To close its descriptor is not enough: a process that another thread has just forked may still have
/// it, and with it the lock.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Storage for Real {
    type Lock = Lock;

    fn lock(&mut self, directory: &Path) -> io::Result<Option<Lock>> {
        let file = File::open(directory)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<Option<String>> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<bool> {
        match std::fs::create_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create(&mut self, path: &Path, text: &str, like: Like<'_>) -> io::Result<()> {
        let (Like::Same(old) | Like::Another(old)) = like;
        let old = std::fs::metadata(old)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            let is_owned = fchown(&file, Some(old.uid()), Some(old.gid()));
            if matches!(like, Like::Same(_)) {
                is_owned?;
            }
        }
        file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o666))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn link(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        std::fs::hard_link(path, name)
    }

    fn rename(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        std::fs::rename(path, name)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
