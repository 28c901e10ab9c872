//! The control socket: a Unix socket that is its owner's alone.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::unix_socket::{BindError, BoundSocket, SocketFile, bind_unix};

/// Its owner's alone: a process that may connect may do everything.
const MODE: u32 = 0o600;

/// A listening control socket. Dropping it removes the file.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    socket: BoundSocket,
}

impl ControlSocket {
    /// Listens at `path` as [`bind_unix`] does, with file mode 0600. A listener that is there is not waited for: a control
    /// socket goes at once with its server, however that ends.
    ///
    /// # Errors
    ///
    /// [`BindError`]: a server listens there, or the file system refuses.
    pub fn bind(path: &Path) -> Result<ControlSocket, BindError> {
        let (listener, socket) = bind_unix(path, MODE, Duration::ZERO)?;
        Ok(ControlSocket { listener, socket })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file().path()
    }

    /// Its file.
    pub fn file(&self) -> &SocketFile {
        self.socket.file()
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}
