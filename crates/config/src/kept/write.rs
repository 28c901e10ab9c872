//! The way of the file to the disk: at each moment there is the old version or the new one, whole.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::document::Document;
use super::error::{KeptError, KeptErrorKind};
use super::storage::{Like, Real, Storage};
use super::{Kept, NAME};

impl Kept {
    /// Puts the file with all edits on disk, with the mode and owner that it had; a new one has those of the configuration.
    /// The version before it is kept beside it, with the suffix `.previous`. Without edits nothing is written.
    ///
    /// # Errors
    ///
    /// The file cannot be written, has changed since it was read, or is being written by another process. Then it is as it
    /// was.
    pub fn write(&mut self) -> Result<(), KeptError> {
        if !self.is_edited() {
            return Ok(());
        }
        let text = self.text();
        Files::new(&self.main, &self.path).write(self.on_disk.as_deref(), &text, &mut Real)?;
        self.read = Document::of(&text);
        self.edited = self.read.clone();
        self.on_disk = Some(text);
        Ok(())
    }
}

/// Names of the file's versions.
struct Files<'p> {
    main: &'p Path,
    directory: &'p Path,
    path: &'p Path,
    /// The new version, until it has the file's name. Names that begin with a dot are not read.
    new: PathBuf,
    /// The old version, until it has the name of the previous one.
    old: PathBuf,
    previous: PathBuf,
}

impl<'p> Files<'p> {
    fn new(main: &'p Path, path: &'p Path) -> Files<'p> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let beside = |name: String| directory.join(name);
        let (new, old) = (beside(format!(".{NAME}.new")), beside(format!(".{NAME}.old")));
        Files { main, directory, path, new, old, previous: beside(format!("{NAME}.previous")) }
    }

    /// Puts `text` in place of `before`, what was read.
    fn write(
        &self,
        before: Option<&str>,
        text: &str,
        storage: &mut impl Storage,
    ) -> Result<(), KeptError> {
        let failed = |error: io::Error| self.failed(&error);
        if storage.make_directory(self.directory).map_err(failed)?
            && let Some(above) = self.directory.parent()
        {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            storage.sync_directory(above).map_err(failed)?;
        }
        let Some(_lock) = storage.lock(self.directory).map_err(failed)? else {
            let message = format!("{} is being written by another process", self.path.display());
            let hint = "try again".to_owned();
            return Err(KeptError::new(KeptErrorKind::Busy, message, hint));
        };
        if storage.read(self.path).map_err(failed)?.as_deref() != before {
            let message = format!("{} has changed since it was read", self.path.display());
            let hint =
                "read it again, for example with `weir reload`, and repeat the change".to_owned();
            return Err(KeptError::new(KeptErrorKind::Changed, message, hint));
        }
        let done = self.replace(before, text, storage);
        if done.is_err() {
            // What fails is told below; these are leftovers.
            let _ = storage.remove(&self.new);
            let _ = storage.remove(&self.old);
        }
        done.map_err(failed)
    }

    fn replace(
        &self,
        before: Option<&str>,
        text: &str,
        storage: &mut impl Storage,
    ) -> io::Result<()> {
        let like = if before.is_some() { Like::Same(self.path) } else { Like::Another(self.main) };
        // A process that ended in the middle may have left one.
        storage.remove(&self.new)?;
        storage.create(&self.new, text, like)?;
        if let Some(before) = before {
            storage.remove(&self.old)?;
            // Not every file system has links.
            if storage.link(self.path, &self.old).is_err() {
                storage.create(&self.old, before, like)?;
            }
            storage.rename(&self.old, &self.previous)?;
        }
        storage.rename(&self.new, self.path)?;
        let synced = storage.sync_directory(self.directory);
        if synced.is_err() {
            // It is there, but may not be after a crash: what is not sure is taken back.
            match before {
                Some(before) => {
                    storage.create(&self.new, before, Like::Same(self.path))?;
                    storage.rename(&self.new, self.path)?;
                }
                None => storage.remove(self.path)?,
            }
        }
        synced
    }

    fn failed(&self, error: &io::Error) -> KeptError {
        let directory = self.directory.display();
        let hint = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                format!("make room on the file system of {directory}")
            }
            ErrorKind::ReadOnlyFilesystem => {
                format!("mount the file system of {directory} for writing")
            }
            ErrorKind::PermissionDenied => {
                let user = rustix::process::geteuid().as_raw();
                format!("let user {user} write in {directory}, and own the file in it")
            }
            _ => format!("see what is wrong with {directory}"),
        };
        let message = format!("{} cannot be written: {error}", self.path.display());
        KeptError::new(KeptErrorKind::Storage, message, hint)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const OLD: &str = "the old version";
    const NEW: &str = "the new version, which is longer";

    /// A directory on a disk that loses what was not waited for.
    #[derive(Clone, Default)]
    struct Disk {
        /// By name, the file's number.
        names: BTreeMap<PathBuf, usize>,
        /// By number: the text, and whether it is on the disk.
        files: Vec<(String, bool)>,
        /// Names as they are on the disk, and each change since then.
        durable: BTreeMap<PathBuf, usize>,
        pending: Vec<BTreeMap<PathBuf, usize>>,
        calls: usize,
        /// The call that fails, and those after it if the process ends there.
        fails_at: Option<usize>,
        ends: bool,
        has_links: bool,
    }

    impl Disk {
        fn with_old() -> Disk {
            let names: BTreeMap<_, _> = [(PathBuf::from("w.d").join(NAME), 0)].into();
            let files = vec![(OLD.to_owned(), true)];
            Disk { durable: names.clone(), names, files, has_links: true, ..Disk::default() }
        }

        fn call(&mut self) -> io::Result<()> {
            self.calls += 1;
            let fails =
                self.fails_at.is_some_and(|at| self.calls == at || self.ends && self.calls > at);
            if fails { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn name(&mut self, change: impl FnOnce(&mut BTreeMap<PathBuf, usize>) -> Option<usize>) {
            change(&mut self.names);
            self.pending.push(self.names.clone());
        }

        /// Texts that the file may have after a crash now: any number of changes of names may have come to the disk, and
        /// only texts that were waited for.
        fn after_a_crash(&self, path: &Path) -> Vec<Option<String>> {
            let text = |names: &BTreeMap<PathBuf, usize>| {
                let (text, is_durable) = &self.files[*names.get(path)?];
                Some(if *is_durable { text.clone() } else { text[..text.len() / 2].to_owned() })
            };
            std::iter::once(&self.durable).chain(&self.pending).map(text).collect()
        }
    }

    impl Storage for Disk {
        type Lock = ();

        fn lock(&mut self, _: &Path) -> io::Result<Option<()>> {
            self.call().map(Some)
        }

        fn read(&mut self, path: &Path) -> io::Result<Option<String>> {
            self.call()?;
            Ok(self.names.get(path).map(|file| self.files[*file].0.clone()))
        }

        fn make_directory(&mut self, _: &Path) -> io::Result<bool> {
            self.call().map(|()| true)
        }

        fn create(&mut self, path: &Path, text: &str, _: Like<'_>) -> io::Result<()> {
            assert!(!self.names.contains_key(path), "{path:?} is there");
            self.call()?;
            let file = self.files.len();
            self.files.push((String::new(), false));
            self.name(|names| names.insert(path.into(), file));
            self.call()?;
            self.files[file].0 = text[..text.len() / 2].to_owned();
            self.call()?;
            self.files[file].0 = text.to_owned();
            self.call()?;
            self.files[file].1 = true;
            Ok(())
        }

        fn link(&mut self, path: &Path, name: &Path) -> io::Result<()> {
            self.call()?;
            if !self.has_links {
                return Err(ErrorKind::Unsupported.into());
            }
            assert!(!self.names.contains_key(name), "{name:?} is there");
            let file = self.names[path];
            self.name(|names| names.insert(name.into(), file));
            Ok(())
        }

        fn rename(&mut self, path: &Path, name: &Path) -> io::Result<()> {
            self.call()?;
            let file = self.names[path];
            self.name(|names| {
                names.remove(path);
                names.insert(name.into(), file)
            });
            Ok(())
        }

        fn remove(&mut self, path: &Path) -> io::Result<()> {
            self.call()?;
            self.name(|names| names.remove(path));
            Ok(())
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            self.call()?;
            if path == Path::new("w.d") {
                self.durable = self.names.clone();
                self.pending.clear();
            }
            Ok(())
        }
    }

    fn files(path: &Path) -> Files<'_> {
        Files::new(Path::new("w.toml"), path)
    }

    /// Writes on `disk`; from then on nothing fails.
    fn write(disk: &mut Disk, before: Option<&str>) -> Result<(), KeptError> {
        let path = Path::new("w.d").join(NAME);
        let done = files(&path).write(before, NEW, disk);
        disk.fails_at = None;
        done
    }

    fn disks() -> [(Disk, Option<&'static str>); 3] {
        let old = Disk::with_old();
        let without_links = Disk { has_links: false, ..old.clone() };
        [(old, Some(OLD)), (without_links, Some(OLD)), (Disk::default(), None)]
    }

    fn calls(disk: &Disk, before: Option<&str>) -> usize {
        let mut disk = disk.clone();
        write(&mut disk, before).unwrap();
        disk.calls
    }

    #[test]
    fn a_file_is_written_and_the_one_before_it_kept() {
        let path = Path::new("w.d").join(NAME);
        for (mut disk, before) in disks() {
            write(&mut disk, before).unwrap();
            assert_eq!(disk.after_a_crash(&path), [Some(NEW.to_owned())], "all is on the disk");
            let previous = disk.after_a_crash(&path.with_extension("toml.previous"));
            assert_eq!(previous, [before.map(str::to_owned)]);
            let names = 1 + usize::from(before.is_some());
            assert_eq!(disk.names.len(), names, "nothing is left over: {:?}", disk.names);
        }
    }

    #[test]
    fn after_a_crash_at_any_call_there_is_one_of_the_versions_and_it_can_be_written_again() {
        let path = Path::new("w.d").join(NAME);
        for (disk, before) in disks() {
            let (old, new) = (before.map(str::to_owned), Some(NEW.to_owned()));
            for at in 1..=calls(&disk, before) {
                let mut disk = Disk { fails_at: Some(at), ends: true, ..disk.clone() };
                assert!(write(&mut disk, before).is_err(), "call {at}");
                for text in disk.after_a_crash(&path) {
                    assert!(text == old || text == new, "call {at}: {text:?}");
                }
                // Only the process has ended: names are as it left them, leftovers too.
                let there = disk.read(&path).unwrap();
                write(&mut disk, there.as_deref()).unwrap();
                assert_eq!(disk.after_a_crash(&path), std::slice::from_ref(&new), "call {at}");
            }
        }
    }

    #[test]
    fn a_call_that_fails_leaves_the_file_as_it_was() {
        let path = Path::new("w.d").join(NAME);
        for (disk, before) in disks() {
            let mut refused = 0;
            for at in 1..=calls(&disk, before) {
                let mut disk = Disk { fails_at: Some(at), ..disk.clone() };
                let Err(error) = write(&mut disk, before) else {
                    // A link that cannot be made is replaced by a copy.
                    continue;
                };
                refused += 1;
                assert_eq!(error.kind, KeptErrorKind::Storage);
                assert!(error.hint.as_ref().unwrap().starts_with("make room"), "{error:?}");
                assert_eq!(disk.read(&path).unwrap().as_deref(), before, "call {at}");
                let left = disk.names.keys().filter(|name| *name != &path);
                let left: Vec<_> =
                    left.filter(|name| !name.ends_with(format!("{NAME}.previous"))).collect();
                assert!(left.is_empty(), "call {at}: {left:?}");
            }
            assert!(refused + 1 >= calls(&disk, before), "{refused}");
        }
    }

    #[test]
    fn a_file_that_another_has_changed_is_not_written_over() {
        let mut disk = Disk::with_old();
        let error = write(&mut disk, Some("what was read")).unwrap_err();
        assert_eq!(error.kind, KeptErrorKind::Changed);
        let error = write(&mut disk, None).unwrap_err();
        assert_eq!(error.kind, KeptErrorKind::Changed);
        assert_eq!(disk.after_a_crash(&Path::new("w.d").join(NAME)), [Some(OLD.to_owned())]);
    }
}
