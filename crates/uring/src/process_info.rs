//! Process and cgroup of a thread, by a descriptor of it: `PIDFD_GET_INFO`, from Linux 6.13 on.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The kernel's `struct pidfd_info`, first version.
#[repr(C)]
#[derive(Default)]
struct Raw {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    credentials: [u32; 8],
    exit_code: i32,
}

const INFO_PID: u64 = 1 << 0;
const INFO_CREDENTIALS: u64 = 1 << 1;
const INFO_CGROUP: u64 = 1 << 2;

/// `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: libc::c_ulong =
    (3 << 30) | ((size_of::<Raw>() as libc::c_ulong) << 16) | (0xff << 8) | 11;

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Process that the thread belongs to.
    pub process: u32,
    /// Real user id.
    pub uid: u32,
    /// Its cgroup of the unified hierarchy, by inode number; 0 where there is none.
    pub cgroup: u64,
}

/// A descriptor of a thread, by its id.
///
/// # Errors
/// `ESRCH` if it is gone, `EINVAL` before Linux 6.9.
pub fn open_thread(thread: u32) -> io::Result<OwnedFd> {
    const THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: the call has no pointers. No safe way: rustix's flags do not have the one for threads.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, THREAD) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this call, so that nothing else owns it. A descriptor is an int.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// Asks about the thread of a descriptor.
///
/// # Errors
/// `ESRCH` if it is gone, `ENOTTY` or `EINVAL` before Linux 6.13.
pub fn process_info(thread: BorrowedFd<'_>) -> io::Result<ProcessInfo> {
    let mut raw = Raw { mask: INFO_PID | INFO_CREDENTIALS | INFO_CGROUP, ..Raw::default() };
    // SAFETY: the number of the call has the size of `raw`, and the kernel reads and writes no more than that. Every pattern is a
    // valid value of it. No safe way: rustix does not have the call.
    let result = unsafe { libc::ioctl(thread.as_raw_fd(), GET_INFO, &raw mut raw) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let cgroup = if raw.mask & INFO_CGROUP != 0 { raw.cgroup } else { 0 };
    Ok(ProcessInfo { process: raw.tgid, uid: raw.credentials[0], cgroup })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_thread_belongs_to_this_process() {
        let thread = std::thread::spawn(|| {
            // SAFETY: the call has no arguments.
            let id = unsafe { libc::gettid() };
            open_thread(id.cast_unsigned()).and_then(|thread| process_info(thread.as_fd()))
        });
        // Older kernels have neither.
        if let Ok(info) = thread.join().unwrap() {
            assert_eq!(info.process, std::process::id());
        }
    }

    #[test]
    fn the_structure_has_its_size_of_the_first_version() {
        assert_eq!(size_of::<Raw>(), 64);
        assert_eq!(GET_INFO, 0xc040_ff0b);
    }
}
