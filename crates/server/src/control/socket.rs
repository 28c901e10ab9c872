//! Control sockets: Unix sockets, of which one takes changes and another only reads.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::unix_socket::{BindError, BoundSocket, SocketFile, bind_unix};
use weir_config::Access;

/// A listening control socket. Dropping it removes the file, if it was bound here.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    socket: Option<BoundSocket>,
    access: Access,
    serves: Serves,
}

/// Routes that a socket answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Serves {
    All,
    /// Metrics, and whether the server is healthy.
    Metrics,
}

impl ControlSocket {
    /// Listens at `path` as [`bind_unix`] does, with file mode `mode` and, if there is one, the group with this number. A
    /// listener that is there is not waited for: a control socket goes at once with its server, however that ends.
    ///
    /// # Errors
    ///
    /// [`BindError`]: a server listens there, or the file system refuses, or this process may not give a file to the group.
    pub fn bind(
        path: &Path,
        access: Access,
        mode: u32,
        group: Option<u32>,
    ) -> Result<ControlSocket, BindError> {
        // Until it has its group it is its owner's alone, so that no other group connects.
        let first = if group.is_some() { mode & 0o700 } else { mode };
        let (listener, socket) = bind_unix(path, first, Duration::ZERO)?;
        let fail = |source| BindError::Io { path: path.into(), source };
        if group.is_some() {
            std::os::unix::fs::chown(path, None, group).map_err(fail)?;
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(fail)?;
        }
        Ok(ControlSocket { listener, socket: Some(socket), access, serves: Serves::All })
    }

    /// Listens on a socket that the starter of this process has bound.
    pub fn given(listener: UnixListener, access: Access) -> ControlSocket {
        ControlSocket { listener, socket: None, access, serves: Serves::All }
    }

    /// Its file, if it was bound here.
    pub fn file(&self) -> Option<&SocketFile> {
        self.socket.as_ref().map(BoundSocket::file)
    }

    /// It answers `GET /metrics` and `GET /healthz` alone.
    #[must_use]
    pub fn of_metrics(self) -> ControlSocket {
        ControlSocket { access: Access::Read, serves: Serves::Metrics, ..self }
    }

    /// Whether it is one [of metrics](ControlSocket::of_metrics).
    pub fn is_of_metrics(&self) -> bool {
        self.serves == Serves::Metrics
    }

    pub(super) fn access(&self) -> Access {
        self.access
    }

    pub(super) fn serves(&self) -> Serves {
        self.serves
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}
