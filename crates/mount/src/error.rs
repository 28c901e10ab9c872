//! Errors of mounting a directory.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why a directory was not mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The source or the mount point cannot be used.
    #[error("{}: {source}", path.display())]
    Directory {
        /// As given.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The mount would be inside what it shows, so that it would wait for itself.
    #[error("{} is inside {}, and would show itself", mountpoint.display(), source_path.display())]
    Inside {
        /// As given.
        mountpoint: PathBuf,
        /// As given.
        source_path: PathBuf,
    },
    /// FUSE cannot be used.
    #[error("/dev/fuse: {source}")]
    Device {
        /// What the system says.
        source: io::Error,
    },
    /// Mounting is not allowed.
    #[error("cannot mount on {}: {source}", path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A private mount is not possible here.
    #[error("cannot make a private {what}: {source}")]
    Namespace {
        /// Which namespace, or which of its files.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A limit, weight or watermark that the engine refuses.
    #[error("{pattern}: {problem}")]
    Tree {
        /// The cgroups that it is for.
        pattern: String,
        /// In words.
        problem: String,
    },
    /// A thread cannot be started.
    #[error("cannot start: {source}")]
    Thread {
        /// What the system says.
        source: io::Error,
    },
}

impl MountError {
    /// A hint at what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        let is = |source: &io::Error, kind| source.kind() == kind;
        match self {
            MountError::Device { source } if is(source, io::ErrorKind::NotFound) => Some(
                "load it with `modprobe fuse`; a container needs `--device /dev/fuse`".into(),
            ),
            MountError::Device { source } if is(source, io::ErrorKind::PermissionDenied) => Some(
                "most systems let all users open it: chmod 0666 /dev/fuse, or run this as root".into(),
            ),
            MountError::Mount { source, .. } if is(source, io::ErrorKind::PermissionDenied) => {
                Some("mounting takes root; `weir run` does not".into())
            }
            MountError::Namespace { source, .. } if is(source, io::ErrorKind::PermissionDenied) => {
                Some(
                    "this system lets only root make user namespaces: see the sysctls \
                     user.max_user_namespaces, kernel.unprivileged_userns_clone and \
                     kernel.apparmor_restrict_unprivileged_userns; in a container, its seccomp profile"
                        .into(),
                )
            }
            MountError::Namespace { source, .. } if is(source, io::ErrorKind::StorageFull) => {
                Some("there may be no more of them: see the sysctl user.max_user_namespaces".into())
            }
            MountError::Inside { .. } => Some(
                "mount it elsewhere, or on the source itself, which it then covers".into(),
            ),
            _ => None,
        }
    }
}
