//! Mount and unmount of a directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{getegid, geteuid};
use weir_passthrough::{Options, PassThrough};

use crate::device::{Device, Shared, Stop};
use crate::error::MountError;
use crate::report::Report;
use crate::tree::TreeSettings;

/// What is mounted where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory that is shown.
    pub source: PathBuf,
    /// Directory that shows it. May be the source, which is then seen through the mount only.
    pub mountpoint: PathBuf,
    /// Limits.
    pub tree: TreeSettings,
    /// Choices of the file system.
    pub options: Options,
}

/// A mounted directory. Dropping it leaves the mount to its threads; [`Unmounter::unmount`] or the end of the process end it.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    thread: JoinHandle<io::Result<Report>>,
    stop: Stop,
    is_unmounted: Arc<AtomicBool>,
}

impl Mounted {
    /// Mounts. Requests are answered when this returns.
    ///
    /// # Errors
    /// The reason, with nothing left behind.
    pub fn new(settings: Settings) -> Result<Mounted, MountError> {
        let Settings { source, mountpoint, tree, options } = settings;
        let (source, mountpoint) = (canonical(&source)?, canonical(&mountpoint)?);
        if mountpoint != source && mountpoint.starts_with(&source) {
            return Err(MountError::Inside { mountpoint, source_path: source });
        }
        let directory =
            |error: Errno| MountError::Directory { path: source.clone(), source: error.into() };
        let fs = PassThrough::open(&source, options).map_err(directory)?;
        // The directory itself, not what is mounted on it: that is this mount soon.
        let rootmode = fs::metadata(&mountpoint)
            .map_err(|source| MountError::Directory { path: mountpoint.clone(), source })?;
        if !rootmode.is_dir() {
            let source = io::Error::from(Errno::NOTDIR);
            return Err(MountError::Directory { path: mountpoint, source });
        }
        let fuse = open_device()?;
        let thread_error = |source| MountError::Thread { source };
        let (shared, stop) = Shared::new(fuse, fs).map_err(thread_error)?;
        let device = Device::new(shared.clone(), tree)?;
        mount_device(shared.fuse(), &source, &mountpoint)?;
        let thread = thread::Builder::new().name("device".into()).spawn(move || device.run());
        let thread = match thread {
            Ok(thread) => thread,
            Err(source) => {
                let _ = unmount(&mountpoint, UnmountFlags::DETACH);
                return Err(MountError::Thread { source });
            }
        };
        Ok(Mounted { mountpoint, thread, stop, is_unmounted: Arc::default() })
    }

    /// A handle that unmounts from another thread, and so ends [`Mounted::wait`].
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            mountpoint: self.mountpoint.clone(),
            is_unmounted: self.is_unmounted.clone(),
            stop: self.stop.clone(),
        }
    }

    /// Waits until it is unmounted, from here or from outside, and no program uses it.
    ///
    /// # Errors
    /// Requests could not be read to the end.
    pub fn wait(self) -> io::Result<Report> {
        let ended = self.thread.join();
        self.is_unmounted.store(true, Ordering::Release);
        ended.unwrap_or_else(|_| Err(io::Error::other("the device's thread panicked")))
    }
}

/// Unmounts a [`Mounted`].
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
    is_unmounted: Arc<AtomicBool>,
    stop: Stop,
}

impl Unmounter {
    /// Unmounts: no program gets in any more. True if some still use it; they go on. Does nothing a second time.
    ///
    /// # Errors
    /// What the system says.
    pub fn unmount(&self) -> io::Result<bool> {
        if self.is_unmounted.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        match unmount(&self.mountpoint, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => {
                unmount(&self.mountpoint, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?;
                Ok(true)
            }
            // It was unmounted from outside.
            Ok(()) | Err(Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the file system, whatever uses it: programs get errors.
    pub fn stop(&self) {
        self.stop.stop();
    }
}

fn canonical(path: &Path) -> Result<PathBuf, MountError> {
    path.canonicalize().map_err(|source| MountError::Directory { path: path.to_owned(), source })
}

fn open_device() -> Result<OwnedFd, MountError> {
    let file = File::options().read(true).write(true).open("/dev/fuse");
    let file = file.map_err(|source| MountError::Device { source })?;
    rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK)
        .map_err(|error| MountError::Device { source: error.into() })?;
    Ok(file.into())
}

/// All users may use the mount, as they may use the source: permissions are the kernel's to judge.
fn mount_device(fuse: &OwnedFd, source: &Path, mountpoint: &Path) -> Result<(), MountError> {
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other",
        fuse.as_raw_fd(),
        geteuid().as_raw(),
        getegid().as_raw(),
    );
    let options = std::ffi::CString::new(options).expect("numbers have no NUL");
    // As the source's own mount has them.
    let flags = inherited_flags(source);
    let mounted = mount(source, mountpoint, c"fuse.weir", flags, Some(&*options));
    mounted.map_err(|error| MountError::Mount { path: mountpoint.to_owned(), source: error.into() })
}

/// `nosuid`, `nodev`, `noexec` and read-only of the source, which a mount of it must not lift.
fn inherited_flags(source: &Path) -> MountFlags {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let room = openat(CWD, source, flags, Mode::empty()).and_then(rustix::fs::fstatvfs);
    let mut inherited = MountFlags::empty();
    let Ok(room) = room else { return MountFlags::NOSUID | MountFlags::NODEV };
    use rustix::fs::StatVfsMountFlags as Flag;
    for (flag, mount_flag) in [
        (Flag::RDONLY, MountFlags::RDONLY),
        (Flag::NOSUID, MountFlags::NOSUID),
        (Flag::NODEV, MountFlags::NODEV),
        (Flag::NOEXEC, MountFlags::NOEXEC),
    ] {
        inherited.set(mount_flag, room.f_flag.contains(flag));
    }
    inherited
}
