//! Opening what is to be served.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use thiserror::Error;

use super::direct::{self, DirectMode};
use super::info::{DiskInfo, DiskKind};
use super::memory::Memory;

/// How to open a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// Refuse writes, and share the device with other readers.
    pub read_only: bool,
    /// Whether to leave out the kernel's page cache.
    pub direct: DirectMode,
    /// How long to wait for another process that has the device. A server that was killed holds its lock until the
    /// kernel has ended its last write, which is what makes it safe to go on; that takes milliseconds mostly. One
    /// second by default.
    pub patience: Duration,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        let (read_only, direct) = (false, DirectMode::Auto);
        OpenOptions { read_only, direct, patience: Duration::from_secs(1) }
    }
}

/// How often a device that is in use is tried.
const TRY_EVERY: Duration = Duration::from_millis(10);

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
    /// Another process has it.
    #[error("{path} is in use: {by}")]
    Busy {
        /// What was asked for.
        path: PathBuf,
        /// The process, as far as known.
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
    /// Opens a regular file or a block device and locks it: for writing, no other process that locks may have it open;
    /// read-only, others may read.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, options: OpenOptions) -> Result<Backend, OpenError> {
        let fail = |source| OpenError::Open { path: path.into(), source };
        let kind = kind(path)?;
        let mut file = open_locked(path, kind, options)?;
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

/// What `path` leads to, before it is opened: opening a device or a pipe can have effects of its own.
fn kind(path: &Path) -> Result<DiskKind, OpenError> {
    let kind = std::fs::metadata(path)
        .map_err(|source| OpenError::Open { path: path.into(), source })?
        .file_type();
    let what = match kind {
        kind if kind.is_file() => return Ok(DiskKind::File),
        kind if kind.is_block_device() => return Ok(DiskKind::Block),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_fifo() => "a pipe",
        _ => "a special file",
    };
    Err(OpenError::Kind { path: path.into(), what })
}

/// Opens and locks, waiting a while for another process to be gone.
fn open_locked(path: &Path, kind: DiskKind, options: OpenOptions) -> Result<File, OpenError> {
    let mut left = options.patience;
    loop {
        let result = try_open_locked(path, kind, options.read_only);
        if left.is_zero() || !matches!(result, Err(OpenError::Busy { .. })) {
            return result;
        }
        let pause = left.min(TRY_EVERY);
        left -= pause;
        #[expect(
            clippy::disallowed_methods,
            reason = "no ring yet, and nobody tells when a lock is free"
        )]
        std::thread::sleep(pause);
    }
}

/// The lock is advisory and tells two servers of one image apart. It goes with the descriptor.
fn try_open_locked(path: &Path, kind: DiskKind, read_only: bool) -> Result<File, OpenError> {
    let busy = |by| OpenError::Busy { path: path.into(), by };
    let fail = |source| OpenError::Open { path: path.into(), source };
    let exclusive = kind == DiskKind::Block && !read_only;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(!read_only)
        // On a block device O_EXCL means: not while it is mounted or another holds it so.
        .custom_flags(if exclusive { libc::O_EXCL } else { 0 })
        .open(path)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY) => busy("it is mounted, or held by another program"),
            _ => fail(source),
        })?;
    let (how, by) = match read_only {
        true => (FlockOperation::NonBlockingLockShared, "another server has it open for writing"),
        false => (FlockOperation::NonBlockingLockExclusive, "another server has it open"),
    };
    match flock(&file, how) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(busy(by)),
        Err(errno) => Err(fail(errno.into())),
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
