//! The control socket's file: whose it is, and when an old one may be replaced.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::time::Timespec;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A listening control socket. Dropping it removes the file.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another server answers there.
    #[error("{path}: a server is listening there already")]
    Live {
        /// The socket.
        path: PathBuf,
    },
    /// The file is somebody's data.
    #[error("{path} exists and is not a socket")]
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

impl ControlSocket {
    /// Listens at `path`, with file mode 0600 from the first moment on. A missing parent directory is created; the
    /// socket of a server that has died is replaced, that of a living one never, also when several start at once.
    ///
    /// # Errors
    ///
    /// [`BindError`]: somebody is there, or the file system says no.
    pub fn bind(path: &Path) -> Result<ControlSocket, BindError> {
        let fail = |source| BindError::Io { path: path.into(), source };
        let directory = directory(path);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
        // Two servers that find the same dead socket would each remove the other's new one.
        let _only_one = lock(directory).map_err(fail)?;
        make_room(path, Duration::ZERO)?;
        let listener = listen(path).map_err(fail)?;
        Ok(ControlSocket { listener, path: path.into() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Held until dropped.
fn lock(directory: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// Removes the file at `path` if it is the socket of a server that has died; does nothing if there is no file.
///
/// A killed server's io_uring goes on listening until the kernel has taken it apart, 30 to 45 ms here, and nothing
/// tells that from a living one. So one that listens is asked again until `patience` is over.
///
/// # Errors
///
/// [`BindError`]: a server lives there, the file is no socket, or the file system says no.
pub fn remove_dead_socket(path: &Path, patience: Duration) -> Result<(), BindError> {
    let fail = |source| BindError::Io { path: path.into(), source };
    let _only_one = match lock(directory(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        locked => locked.map_err(fail)?,
    };
    make_room(path, patience)
}

/// The directory that `path` is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

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

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux gives the file the mode of the socket it is bound to, less the umask: there is no moment in which
    // others could connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory of this test, removed at its end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path =
                std::env::temp_dir().join(format!("weir-control-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_goes_with_its_server() {
        let directory = Directory::new("mode");
        let path = directory.0.join("deep/er/control.sock");
        let socket = ControlSocket::bind(&path).unwrap();
        assert_eq!(socket.path(), path);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
        let directory = Directory::new("stale");
        let path = directory.0.join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file, as a killed server does");
        let living = ControlSocket::bind(&path).unwrap();
        let error = ControlSocket::bind(&path).unwrap_err();
        assert!(matches!(&error, BindError::Live { .. }), "{error}");
        let error = remove_dead_socket(&path, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(&error, BindError::Live { .. }), "{error}");
        assert!(path.exists());
        drop(living);
    }

    #[test]
    fn a_socket_that_dies_meanwhile_is_removed() {
        let directory = Directory::new("dying");
        let path = directory.0.join("nbd.sock");
        remove_dead_socket(&path, Duration::ZERO).unwrap();
        let dying = UnixListener::bind(&path).unwrap();
        let killer = std::thread::spawn(move || {
            // The first who asks is answered, as by a ring that is being taken apart.
            drop(dying.accept().unwrap());
        });
        remove_dead_socket(&path, Duration::from_secs(60)).unwrap();
        killer.join().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_not_a_socket() {
        let directory = Directory::new("file");
        let path = directory.0.join("precious");
        std::fs::write(&path, "data").unwrap();
        let error = ControlSocket::bind(&path).unwrap_err();
        assert!(matches!(&error, BindError::NotASocket { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
