//! File handles: names of files by which they are opened whatever they are called, `name_to_handle_at(2)`.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most bytes of a handle's contents (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 128;

/// A file of a file system, by inode number and generation or whatever the file system uses. Valid until the file is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle {
    kind: c_int,
    bytes: Box<[u8]>,
}

/// The kernel's `struct file_handle`, with room for the longest.
#[repr(C)]
struct Raw {
    len: u32,
    kind: c_int,
    bytes: [u8; BYTES_MAX],
}

impl FileHandle {
    /// The handle of an open file, which may be open with `O_PATH`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has none.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<FileHandle> {
        let mut raw = Raw { len: BYTES_MAX as u32, kind: 0, bytes: [0; BYTES_MAX] };
        let mut mount_id: c_int = 0;
        // SAFETY: the kernel reads the empty string, which has its NUL, writes at most `len` bytes behind the head of `raw`,
        // which has room for them, and an int. All outlive the call. No safe way: rustix does not have the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                &raw mut raw,
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = raw.bytes.get(..raw.len as usize).ok_or(io::ErrorKind::InvalidData)?;
        Ok(FileHandle { kind: raw.kind, bytes: bytes.into() })
    }

    /// Opens the file. `mount` is any file or directory of its mount, not open with `O_PATH`; `flags` are those of `open(2)`.
    ///
    /// # Errors
    /// `ESTALE` if the file is gone, `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub fn open(&self, mount: BorrowedFd<'_>, flags: u32) -> io::Result<OwnedFd> {
        let mut raw = Raw { len: self.bytes.len() as u32, kind: self.kind, bytes: [0; BYTES_MAX] };
        raw.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        // SAFETY: the kernel reads the head of `raw` and as many bytes behind it as that says, which are there, as it was made
        // from a handle of at most that many. No safe way: rustix does not have the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                mount.as_raw_fd(),
                &raw mut raw,
                flags.cast_signed() | libc::O_CLOEXEC,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for this call, so that nothing else owns it. A descriptor is an int.
        Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_is_opened_under_its_new_name() {
        let directory = std::env::temp_dir().join(format!("weir-handle-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let old = directory.join("old");
        std::fs::write(&old, "text").unwrap();
        let handle = FileHandle::of(File::open(&old).unwrap().as_fd());
        std::fs::rename(&old, directory.join("new")).unwrap();
        let mount = File::open(&directory).unwrap();
        // Not every file system has handles, and not every user may open them.
        if let Ok(handle) = handle
            && let Ok(file) = handle.open(mount.as_fd(), libc::O_RDONLY.cast_unsigned())
        {
            let mut text = String::new();
            File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
            assert_eq!(
                FileHandle::of(File::open(directory.join("new")).unwrap().as_fd()).ok(),
                Some(handle)
            );
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
