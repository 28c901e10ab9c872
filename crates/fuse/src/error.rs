//! Errors of mounting a disk.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a disk was not mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// No name of a file.
    #[error(
        "a file cannot be named {name:?}: 1 to 255 bytes are possible, without / and other than . and .."
    )]
    Name {
        /// As given.
        name: String,
    },
    /// The directory cannot be looked at.
    #[error("{}: {source}", path.display())]
    Directory {
        /// As given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The place to mount on is something else.
    #[error("{} is no directory", path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// Files would be hidden by the mount.
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
    /// FUSE is there, but not for this user.
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
    /// Not even an empty disk can be had.
    #[error("no memory for a disk of {size} bytes: {source}")]
    Memory {
        /// Bytes on the disk.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
}

impl MountError {
    /// What would be right, where that can be said.
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
