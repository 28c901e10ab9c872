//! Errors of mounting a disk.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why a disk was not mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// Not a valid file name.
    #[error(
        "a file cannot be named {name:?}: 1 to 255 bytes are possible, without / and other than . and .."
    )]
    Name {
        /// As given.
        name: String,
    },
    /// The directory cannot be read.
    #[error("{}: {source}", path.display())]
    Directory {
        /// As given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The mount point is not a directory.
    #[error("{} is no directory", path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// The directory is not empty: the mount would hide files.
    #[error("{} is not empty", path.display())]
    NotEmpty {
        /// As given.
        path: PathBuf,
    },
    /// A server that was killed has left its mount.
    #[error("{} is a mount whose server has ended", path.display())]
    Dead {
        /// As given.
        path: PathBuf,
    },
    /// This system has no FUSE.
    #[error("/dev/fuse does not exist")]
    NoFuse,
    /// This user may not use FUSE.
    #[error("/dev/fuse: {source}")]
    Device {
        /// What the system says.
        source: io::Error,
    },
    /// Mounting is for root, or needs the helper.
    #[error("cannot mount on {}: only root can, or with fusermount3", path.display())]
    NotPermitted {
        /// Where.
        path: PathBuf,
    },
    /// The system refuses to mount.
    #[error("cannot mount on {}: {source}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no memory for an empty disk.
    #[error("no memory for a disk of {size} bytes: {source}")]
    Memory {
        /// Bytes on the disk.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
}

impl MountError {
    /// A hint at what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            MountError::Directory { source, path } if source.kind() == io::ErrorKind::NotFound => {
                return Some(format!("create it, for example with `mkdir {}`", path.display()));
            }
            MountError::Dead { path } => {
                return Some(format!("remove it with `umount {}`", path.display()));
            }
            MountError::NotADirectory { .. } | MountError::NotEmpty { .. } => {
                "name an empty directory: the disk is shown inside it"
            }
            MountError::NoFuse => {
                "load it with `modprobe fuse`, or build the kernel with CONFIG_FUSE_FS"
            }
            MountError::Device { .. } => "run it as root, or as a user who may open /dev/fuse",
            MountError::NotPermitted { .. } => {
                "run it as root, or install fusermount3 (package fuse3)"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}
