//! Opening what is to be served.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};
use thiserror::Error;

use super::direct::{self, DirectMode};
use super::info::{DiskInfo, DiskKind};
use super::memory::Memory;

/// How to open a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Refuse writes, and share the device with other readers.
    pub read_only: bool,
    /// Whether to leave out the kernel's page cache.
    pub direct: DirectMode,
}

/// A device that is open and locked, ready for [`crate::Ring::attach`]. Can be sent to the ring's thread.
pub struct Backend {
    pub(super) info: DiskInfo,
    pub(super) source: Source,
}

pub(super) enum Source {
    File(OwnedFd),
    Memory(Memory),
}

/// Why a device cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The system says no.
    #[error("cannot open {path}: {source}")]
    Open {
        /// What was asked for.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{path} is in use: {by}")]
    Busy {
        /// What was asked for.
        path: PathBuf,
        /// Who, as far as known.
        by: &'static str,
    },
    /// Neither file nor block device.
    #[error("{path} is {what}; only regular files and block devices can be served")]
    Kind {
        /// What was asked for.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is nothing to serve.
    #[error("{path} is empty; give it a size first, for example with `truncate -s 10G`")]
    Empty {
        /// What was asked for.
        path: PathBuf,
    },
    /// Direct I/O was asked for and cannot be had.
    #[error(
        "{path} cannot be used with direct = on: {why}; direct = auto uses the page cache instead"
    )]
    Direct {
        /// What was asked for.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The machine has no room for a memory device.
    #[error("cannot have a memory device of {size} bytes: {source}")]
    Memory {
        /// Bytes asked for.
        size: u64,
        /// The system's reason.
        source: io::Error,
    },
}

impl Backend {
    /// Opens a regular file or a block device and locks it: for writing, nobody else who locks may have it open;
    /// read-only, others may read.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, options: OpenOptions) -> Result<Backend, OpenError> {
        let fail = |source| OpenError::Open { path: path.into(), source };
        let before = std::fs::metadata(path).map_err(fail)?.file_type();
        let kind = if before.is_file() {
            DiskKind::File
        } else if before.is_block_device() {
            DiskKind::Block
        } else {
            let what = if before.is_dir() { "a directory" } else { "a special file" };
            return Err(OpenError::Kind { path: path.into(), what });
        };
        let exclusive = kind == DiskKind::Block && !options.read_only;
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            // On a block device O_EXCL means: not while it is mounted or another holds it so.
            .custom_flags(if exclusive { libc::O_EXCL } else { 0 })
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => {
                    OpenError::Busy { path: path.into(), by: "mounted, or held by another program" }
                }
                _ => fail(source),
            })?;
        lock(&file, options.read_only, path)?;
        let size = file.seek(SeekFrom::End(0)).map_err(fail)?;
        if size == 0 {
            return Err(OpenError::Empty { path: path.into() });
        }
        let granted = direct::decide(&file, kind, size, options.direct)
            .map_err(|why| OpenError::Direct { path: path.into(), why })?;
        let info = DiskInfo {
            kind,
            size,
            read_only: options.read_only,
            direct: granted.direct,
            block_bytes: granted.block_bytes,
            rotational: rotational(&file, kind),
        };
        Ok(Backend { info, source: Source::File(file.into()) })
    }

    /// A device of `size` zero bytes in memory. Only what is written takes memory.
    ///
    /// # Errors
    /// [`OpenError::Memory`] when there is no room, or for 0 bytes.
    pub fn memory(size: u64) -> Result<Backend, OpenError> {
        let memory = Memory::new(size).map_err(|source| OpenError::Memory { size, source })?;
        let info = DiskInfo {
            kind: DiskKind::Memory,
            size,
            read_only: false,
            direct: false,
            block_bytes: 1,
            rotational: Some(false),
        };
        Ok(Backend { info, source: Source::Memory(memory) })
    }

    /// What was opened.
    pub fn info(&self) -> &DiskInfo {
        &self.info
    }
}

/// Takes the advisory lock that tells two servers of one image apart. It goes with the descriptor, so a server that
/// is killed leaves none behind.
fn lock(file: &impl AsFd, read_only: bool, path: &Path) -> Result<(), OpenError> {
    let how = match read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Busy {
            path: path.into(),
            by: match read_only {
                true => "another server has it open for writing",
                false => "another server has it open",
            },
        }),
        Err(errno) => Err(OpenError::Open { path: path.into(), source: errno.into() }),
    }
}

/// Asks sysfs whether the disk below spins.
fn rotational(file: &File, kind: DiskKind) -> Option<bool> {
    let metadata = file.metadata().ok()?;
    let device = if kind == DiskKind::Block { metadata.rdev() } else { metadata.dev() };
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // A partition has no queue of its own; its disk is the directory above.
    let text = ["queue", "../queue"]
        .iter()
        .find_map(|queue| std::fs::read_to_string(format!("{place}/{queue}/rotational")).ok())?;
    Some(text.trim() == "1")
}
