//! State that a thread or process takes for itself, and a close that tells what went wrong.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread a umask and a working directory of its own.
///
/// # Errors
/// `ENOMEM`, or `EPERM` where a sandbox forbids the call.
pub fn unshare_umask() -> io::Result<()> {
    // SAFETY: only a table of descriptors must not be taken from threads that use it, and this is not about that. No safe
    // way: rustix has one function for all that can be unshared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FS) }?)
}

/// Gives the process a mount namespace of its own and, where `with_user`, a user namespace in which it has all capabilities.
/// With `with_user` the process must have one thread.
///
/// # Errors
/// `EPERM` where that is not allowed, `EINVAL` with several threads, `ENOSPC` where there are as many as there may be.
pub fn unshare_mounts(with_user: bool) -> io::Result<()> {
    let user = if with_user { UnshareFlags::NEWUSER } else { UnshareFlags::empty() };
    // SAFETY: as above.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS | user) }?)
}

/// Closes a descriptor, which some file systems refuse to do silently: on NFS data may not have arrived.
///
/// # Errors
/// Those of writing. The descriptor is closed in any case.
pub fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is owned and given up here, so that it is closed once. No safe way: dropping tells nothing.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::Mode;
    use rustix::process::umask;

    use super::*;

    #[test]
    fn the_umask_of_a_thread_is_its_own() {
        let before = umask(Mode::from(0o22));
        let thread = std::thread::spawn(|| {
            if unshare_umask().is_ok() {
                umask(Mode::empty());
            }
        });
        thread.join().unwrap();
        assert_eq!(umask(before), Mode::from(0o22));
    }

    #[test]
    fn a_file_is_closed() {
        close(File::open("/dev/null").unwrap().into()).unwrap();
    }
}
