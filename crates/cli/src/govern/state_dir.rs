//! Directory with the state of each governed device: its lock, what is put back, and its status.
//!
//! | file | |
//! |---|---|
//! | `8:16.lock` | locked for as long as the device is governed; a record lock, whose holder the kernel tells |
//! | `8:16.json` | what undoes all writes ([`StateFile`]); there before the first one |
//! | `8:16.status.json` | written each second, for `weir govern status` |

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use weir_govern::host::{StateFile, StateFileError};
use weir_govern::kernel::DeviceNumber;

use crate::failure::Failure;

/// Directory of the system's governor; not below `/run/weir`, which goes with weir.service.
pub(super) const SYSTEM: &str = "/run/weir-govern";

/// Largest file that is read: 10,000 cgroups with long paths.
const FILE_MAX: u64 = 64 << 20;

/// A directory of states.
#[derive(Debug, Clone)]
pub(super) struct StateDir(PathBuf);

/// A device's lock. Record locks end with any descriptor of their file: it is opened nowhere else while one is held.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl StateDir {
    /// The one that is named; that of the service; the system's.
    pub(super) fn find(named: Option<&Path>) -> StateDir {
        if let Some(named) = named {
            return StateDir(named.to_owned());
        }
        let service = std::env::var("RUNTIME_DIRECTORY").unwrap_or_default();
        let service = service.split(':').next().filter(|path| path.starts_with('/'));
        StateDir(service.unwrap_or(SYSTEM).into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, if it is not there.
    pub(super) fn make(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&self.0);
        made.map_err(|error| {
            Failure::failed(format!("{}: {error}", self.0.display()))
                .hint("limits are governed by root; --state names another directory".to_owned())
        })
    }

    /// Devices that have a state file.
    pub(super) fn devices(&self) -> Vec<DeviceNumber> {
        self.named(".json")
    }

    /// Devices that have a lock, held or not.
    pub(super) fn locked(&self) -> Vec<DeviceNumber> {
        self.named(".lock")
    }

    /// Whether there is something to put back.
    pub(super) fn has_state(&self, device: DeviceNumber) -> bool {
        self.state(device).exists()
    }

    fn named(&self, ending: &str) -> Vec<DeviceNumber> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(ending)?.parse::<DeviceNumber>().ok()
        };
        let mut numbers: Vec<DeviceNumber> = entries.filter_map(number).collect();
        numbers.sort();
        numbers
    }

    /// Takes the lock of `device`.
    ///
    /// # Errors
    /// Another process has it.
    pub(super) fn lock(&self, device: DeviceNumber, name: &str) -> Result<Lock, Failure> {
        let path = self.0.join(format!("{device}.lock"));
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                let process = holder_of(&file);
                let process =
                    process.map_or("another process".to_owned(), |pid| format!("process {pid}"));
                Err(Failure::wrong(format!("{name} ({device}) is governed by {process} already"))
                    .hint("end that one first: it puts all limits back".to_owned()))
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The process that governs `device` now.
    pub(super) fn governor(&self, device: DeviceNumber) -> Option<u32> {
        holder_of(&File::open(self.0.join(format!("{device}.lock"))).ok()?)
    }

    /// What a governor of `device` has left, or has now.
    pub(super) fn read(&self, device: DeviceNumber) -> Result<Option<StateFile>, Failure> {
        let path = self.state(device);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
        };
        StateFile::parse(&text).map(Some).map_err(|error: StateFileError| {
            Failure::failed(format!("{}: {error}", path.display())).hint(
                "it says which limits have been raised: put them back by hand, and remove it"
                    .to_owned(),
            )
        })
    }

    /// Stores what undoes all writes. With `is_first` it is on the disk when this returns; later ones survive the end of the
    /// process, and a machine that fails has other cgroups when it is back.
    pub(super) fn write(
        &self,
        device: DeviceNumber,
        state: &StateFile,
        is_first: bool,
    ) -> io::Result<()> {
        replace(&self.state(device), &state.print(), is_first)?;
        if is_first { File::open(&self.0)?.sync_all() } else { Ok(()) }
    }

    /// All is put back.
    pub(super) fn remove(&self, device: DeviceNumber) -> io::Result<()> {
        for path in [self.status(device), self.state(device)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn write_status(&self, device: DeviceNumber, text: &str) -> io::Result<()> {
        replace(&self.status(device), text, false)
    }

    pub(super) fn read_status(&self, device: DeviceNumber) -> io::Result<String> {
        read(&self.status(device))
    }

    fn state(&self, device: DeviceNumber) -> PathBuf {
        self.0.join(format!("{device}.json"))
    }

    fn status(&self, device: DeviceNumber) -> PathBuf {
        self.0.join(format!("{device}.status.json"))
    }
}

fn holder_of(file: &File) -> Option<u32> {
    let held = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??;
    held.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces the file as a whole.
pub(super) fn replace(path: &Path, text: &str, is_synced: bool) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = File::create(&part)?;
    file.write_all(text.as_bytes())?;
    if is_synced {
        file.sync_all()?;
    }
    fs::rename(part, path)
}
