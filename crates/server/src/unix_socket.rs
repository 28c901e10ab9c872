//! Files of Unix sockets: their mode, their owner, and when an old one may be replaced.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::time::Timespec;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections that may wait to be accepted. NBD clients come in swarms; the system's own maximum is lower on old
/// kernels and holds then.
const BACKLOG: i32 = 4096;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another server answers there.
    #[error("{path}: a server is listening there already")]
    Live {
        /// The socket.
        path: PathBuf,
    },
    /// The file is not a socket: it may hold data.
    #[error("{path}: there is a file that is not a socket")]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{path}: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The file of a socket that was bound here, and no other that may have come in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// A Unix socket's file, removed with this value.
#[derive(Debug)]
pub struct BoundSocket {
    file: SocketFile,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if it is still there. A file that has taken its place stays.
    pub fn remove(&self) {
        let Ok(_only_one) = lock(directory(&self.path)) else { return };
        if self.path.symlink_metadata().is_ok_and(|found| self.is(&found)) {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn of(path: &Path) -> io::Result<SocketFile> {
        let metadata = path.symlink_metadata()?;
        Ok(SocketFile { path: path.into(), device: metadata.dev(), inode: metadata.ino() })
    }

    fn is(&self, found: &Metadata) -> bool {
        (self.device, self.inode) == (found.dev(), found.ino())
    }
}

impl BoundSocket {
    /// Its file.
    pub fn file(&self) -> &SocketFile {
        &self.file
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        self.file.remove();
    }
}

/// Listens at `path`. The file has `mode` (as `0o600`) whatever the umask, and no process can connect that may not by it,
/// from the first moment on. A missing parent directory is created, for its owner alone.
///
/// The socket of a server that has died is replaced, that of a living one never, also when several start at once.
/// A killed server's io_uring goes on listening until the kernel has taken it apart, 30 to 45 ms here, and nothing
/// tells that from a living one. So one that listens is asked again until `patience` is over.
///
/// # Errors
///
/// [`BindError`]: a server listens there, or the file system refuses.
pub fn bind_unix(
    path: &Path,
    mode: u32,
    patience: Duration,
) -> Result<(UnixListener, BoundSocket), BindError> {
    let fail = |source| BindError::Io { path: path.into(), source };
    let directory = directory(path);
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
    // Two servers that find the same dead socket would each remove the other's new one.
    let _only_one = lock(directory).map_err(fail)?;
    make_room(path, patience)?;
    listen(path, mode).map_err(fail)
}

/// The number of the group with this name, or that is this number.
///
/// # Errors
///
/// There is no such group, or the system's list of them cannot be read.
pub fn group_id(name: &str) -> io::Result<u32> {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => name.parse().map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no group {name:?}"))
        }),
        Err(errno) => Err(errno.into()),
    }
}

/// Held until dropped.
fn lock(directory: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// The directory that `path` is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes the file at `path` if it is the socket of a server that has died; does nothing if there is no file.
fn make_room(path: &Path, patience: Duration) -> Result<(), BindError> {
    let fail = |source| BindError::Io { path: path.into(), source };
    let kind = match path.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
    };
    if !kind.is_socket() {
        return Err(BindError::NotASocket { path: path.into() });
    }
    let mut waited = Duration::ZERO;
    let mut pause = Duration::from_millis(10);
    while is_listening(path).map_err(fail)? {
        if waited >= patience {
            return Err(BindError::Live { path: path.into() });
        }
        let time = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        // A signal may shorten it; then it is asked sooner.
        let _ = rustix::thread::nanosleep(&time);
        waited += pause;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(error)),
        _ => Ok(()),
    }
}

fn is_listening(path: &Path) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A living server may have no room for another connection: then this says "would block" rather than wait.
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            io::ErrorKind::PermissionDenied => Err(error),
            _ => Ok(true),
        },
        Ok(()) => Ok(true),
    }
}

fn listen(path: &Path, mode: u32) -> io::Result<(UnixListener, BoundSocket)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux gives the file the mode of the socket it is bound to, less the umask, so there is no moment in which it
    // lets in more than it should.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    socket.bind(&SockAddr::unix(path)?)?;
    let bound = BoundSocket { file: SocketFile::of(path)? };
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok((socket.into(), bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this test, removed at its end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path =
                std::env::temp_dir().join(format!("weir-socket-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn bind(path: &Path) -> Result<(UnixListener, BoundSocket), BindError> {
        bind_unix(path, 0o600, Duration::ZERO)
    }

    #[test]
    fn a_socket_lets_in_whom_it_should_and_goes_with_its_server() {
        let directory = Directory::new("mode");
        let path = directory.0.join("deep/er/control.sock");
        for mode in [0o600, 0o660, 0o666] {
            let (_listener, socket) = bind_unix(&path, mode, Duration::ZERO).unwrap();
            assert_eq!(socket.file().path(), path);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
            drop(socket);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
        let directory = Directory::new("stale");
        let path = directory.0.join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file, as a killed server does");
        let living = bind(&path).unwrap();
        for patience in [Duration::ZERO, Duration::from_millis(1)] {
            let error = bind_unix(&path, 0o600, patience).unwrap_err();
            assert!(matches!(&error, BindError::Live { .. }), "{error}");
        }
        assert!(path.exists());
        drop(living);
    }

    #[test]
    fn a_socket_that_dies_meanwhile_is_replaced() {
        let directory = Directory::new("dying");
        let path = directory.0.join("nbd.sock");
        let dying = UnixListener::bind(&path).unwrap();
        let killer = std::thread::spawn(move || {
            // The first client is answered, as by a ring that is being taken apart.
            drop(dying.accept().unwrap());
        });
        let bound = bind_unix(&path, 0o600, Duration::from_secs(60)).unwrap();
        killer.join().unwrap();
        assert!(is_listening(&path).unwrap());
        drop(bound);
    }

    #[test]
    fn only_ones_own_file_is_taken_away() {
        let directory = Directory::new("own");
        let path = directory.0.join("nbd.sock");
        let (listener, first) = bind(&path).unwrap();
        // The file is removed by hand, and another server starts there.
        std::fs::remove_file(&path).unwrap();
        let second = bind(&path).unwrap();
        drop((listener, first));
        assert!(is_listening(&path).unwrap(), "the second server's socket is still there");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!(group_id("root").unwrap(), 0);
        assert_eq!(group_id("4711").unwrap(), 4711);
        let error = group_id("no such group").unwrap_err();
        assert_eq!(error.to_string(), "there is no group \"no such group\"");
    }

    #[test]
    fn a_file_is_not_a_socket() {
        let directory = Directory::new("file");
        let path = directory.0.join("precious");
        std::fs::write(&path, "data").unwrap();
        let error = bind(&path).unwrap_err();
        assert!(matches!(&error, BindError::NotASocket { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
