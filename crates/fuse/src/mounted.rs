//! Mount and unmount of a disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{BackgroundSession, Config, MountOption, Session};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use weir_disk::Spec;

use crate::error::MountError;
use crate::file_system::FileSystem;
use crate::store::Store;

/// Options of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// The file's name, 1 to 255 bytes; `disk` by default.
    pub name: String,
    /// Most bytes of memory for written data, 1 GiB by default. A write that needs more fails with `ENOSPC`; a discard frees
    /// memory.
    pub memory_max: u64,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions { name: "disk".into(), memory_max: 1 << 30 }
    }
}

/// A mounted emulated disk; dropping it unmounts.
///
/// Has two threads: one reads the kernel's requests, one answers them at their time.
#[derive(Debug)]
pub struct MountedDisk {
    path: PathBuf,
    unmounter: Unmounter,
    session: BackgroundSession,
}

/// Unmounts a [`MountedDisk`] from another thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    directory: PathBuf,
    has_ended: Arc<AtomicBool>,
}

const NAME_MAX: usize = 255;

impl MountedDisk {
    /// Mounts an idle disk, all zeros, on the empty `directory`. The file exists when this returns.
    ///
    /// # Errors
    ///
    /// The reason, with nothing left behind.
    pub fn mount(
        spec: &Spec,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<MountedDisk, MountError> {
        let MountOptions { name, memory_max } = options;
        check_name(name)?;
        let directory = check_directory(directory)?;
        check_device()?;
        let size = spec.size();
        let memory = |source| MountError::Memory { size, source };
        let store = Store::new(size, *memory_max).map_err(|error| memory(error.into()))?;
        let system = FileSystem::start(name.into(), spec.build(), store).map_err(memory)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("weir".into()),
            MountOption::Subtype("weir".into()),
            MountOption::DefaultPermissions,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        let session = Session::new(system, &directory, &config).and_then(Session::spawn);
        let session = session.map_err(|source| {
            let path = directory.clone();
            match source.kind() {
                // The device is there, so it is the helper that is not, which is tried when the system call may not be.
                io::ErrorKind::NotFound => MountError::NotPermitted { path },
                _ => MountError::Refused { path, source },
            }
        })?;
        let path = directory.join(name);
        let unmounter = Unmounter { directory, has_ended: Arc::default() };
        Ok(MountedDisk { path, unmounter, session })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A handle that unmounts and so ends [`MountedDisk::wait`].
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until the disk is unmounted, by an [`Unmounter`] or from outside, and its last user has closed it.
    ///
    /// # Errors
    ///
    /// If the kernel's requests could not be read to the end.
    pub fn wait(self) -> io::Result<()> {
        let MountedDisk { path: _, unmounter, session } = self;
        let ended = session.guard.join();
        unmounter.has_ended.store(true, Ordering::Release);
        let ended =
            ended.unwrap_or_else(|_| Err(io::Error::other("the file system's thread panicked")));
        ended.or_else(unless_aborted)
    }
}

impl Unmounter {
    /// Unmounts. A user that has the disk open, such as a loop device, keeps it until it closes it. Returns `true` if there
    /// may be one, `false` if there is none. Does nothing once unmounted.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn unmount(&self) -> io::Result<bool> {
        if self.has_ended.load(Ordering::Acquire) {
            return Ok(false);
        }
        match unmount(&self.directory, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => {
                unmount(&self.directory, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?;
                Ok(true)
            }
            // It was unmounted from outside.
            Ok(()) | Err(Errno::INVAL) => Ok(false),
            // An unprivileged mount was made by the helper. It unmounts too, and does not report open files.
            Err(Errno::PERM) => helper(&self.directory).map(|()| true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The kernel ends the connection when the last user closes a disk that is unmounted already. A read of that close is
/// reported as aborted, instead of as the end.
fn unless_aborted(error: io::Error) -> io::Result<()> {
    match Errno::from_io_error(&error) {
        Some(Errno::CONNABORTED) => Ok(()),
        _ => Err(error),
    }
}

/// Unmounts unprivileged; lazily, as there is no second try.
fn helper(directory: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.args(["-u", "-q", "-z", "--"]).arg(directory);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {status}"))) }
}

fn check_name(name: &str) -> Result<(), MountError> {
    let is_name = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains(['/', '\0'])
        && !matches!(name, "." | "..");
    if is_name { Ok(()) } else { Err(MountError::Name { name: name.into() }) }
}

/// The directory without symbolic links, if it is empty.
fn check_directory(path: &Path) -> Result<PathBuf, MountError> {
    let fail = |source: io::Error| match Errno::from_io_error(&source) {
        // The kernel's answer for a file system without its server.
        Some(Errno::NOTCONN) => MountError::Dead { path: path.into() },
        Some(Errno::NOTDIR) => MountError::NotADirectory { path: path.into() },
        _ => MountError::Directory { path: path.into(), source },
    };
    // A path that ends in a file does not fail here, its entries below do.
    let found = path.canonicalize().map_err(fail)?;
    match fs::read_dir(&found).map_err(fail)?.next() {
        None => Ok(found),
        Some(_) => Err(MountError::NotEmpty { path: path.into() }),
    }
}

fn check_device() -> Result<(), MountError> {
    let opened = fs::File::options().read(true).write(true).open("/dev/fuse");
    match opened {
        Ok(_) => Ok(()),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Err(MountError::NoFuse),
        Err(source) => Err(MountError::Device { source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_no_slash() {
        for (name, fits) in [
            ("disk", true),
            ("a b", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
        ] {
            assert_eq!(check_name(name).is_ok(), fits, "{name:?}");
        }
        assert!(check_name(&"x".repeat(NAME_MAX)).is_ok());
        assert!(check_name(&"x".repeat(NAME_MAX + 1)).is_err());
    }

    #[test]
    fn a_disk_that_is_let_go_while_the_kernel_asks_has_not_failed() {
        assert!(unless_aborted(Errno::CONNABORTED.into()).is_ok());
        assert!(unless_aborted(Errno::IO.into()).is_err());
        assert!(unless_aborted(io::Error::other("no number")).is_err());
    }

    #[test]
    fn only_an_empty_directory_is_mounted_on() {
        let place = std::env::temp_dir().join(format!("weir-fuse-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let file = place.join("file");
        assert!(check_directory(&place).is_ok());
        fs::write(&file, "x").unwrap();
        assert!(matches!(check_directory(&place), Err(MountError::NotEmpty { .. })));
        assert!(matches!(check_directory(&file), Err(MountError::NotADirectory { .. })));
        let missing = check_directory(&place.join("missing")).unwrap_err();
        assert!(matches!(missing, MountError::Directory { .. }), "{missing}");
        assert!(missing.hint().unwrap().contains("mkdir"));
        fs::remove_dir_all(&place).unwrap();
    }
}
