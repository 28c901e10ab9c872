//! Why there is no ring.

use std::io;

use thiserror::Error;

/// Why [`crate::Ring::new`] failed.
#[derive(Debug, Error)]
pub enum RingError {
    /// The kernel has no io_uring (before Linux 5.1, or built without it).
    #[error("this kernel has no io_uring; weir needs Linux 5.19 or later")]
    Missing,
    /// An administrator or a container forbids it.
    #[error(
        "io_uring is forbidden here: allow it with `sysctl kernel.io_uring_disabled=0`, or in the container's \
         seccomp profile (io_uring_setup, io_uring_enter, io_uring_register)"
    )]
    Forbidden,
    /// The kernel lacks operations this crate is built on.
    #[error("the kernel's io_uring lacks {0}; weir needs Linux 5.19 or later")]
    TooOld(String),
    /// There is no room, mostly because rings count as locked memory and little of that is allowed.
    #[error(
        "no memory for io_uring; if the limit of locked memory (`ulimit -l`) is below a few MiB, raise it: rings count \
         against it, those of all processes of the user together"
    )]
    Memory,
    /// Anything else.
    #[error("cannot set up io_uring: {0}")]
    Setup(#[source] io::Error),
}

impl RingError {
    /// From the error of setting up a ring.
    pub(crate) fn from_setup(error: io::Error) -> RingError {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => RingError::Missing,
            Some(libc::EPERM | libc::EACCES) => RingError::Forbidden,
            Some(libc::ENOMEM) => RingError::Memory,
            _ => RingError::Setup(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_errors_say_what_to_do() {
        for (errno, part) in [
            (libc::ENOSYS, "has no io_uring"),
            (libc::EPERM, "kernel.io_uring_disabled=0"),
            (libc::EACCES, "seccomp"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EMFILE, "Too many open files"),
        ] {
            let message = RingError::from_setup(io::Error::from_raw_os_error(errno)).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
