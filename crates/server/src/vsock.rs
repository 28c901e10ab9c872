//! Listeners of vsock(7), between virtual machines and their host. The system's library has no type for them.

use std::io;
use std::os::fd::OwnedFd;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `VMADDR_CID_ANY`.
const CID_ANY: u32 = u32::MAX;
/// The CID under which virtual machines reach their host (`VMADDR_CID_HOST`).
pub(crate) const CID_HOST: u32 = 2;
/// As of Unix sockets: the system's own maximum holds where it is lower.
const BACKLOG: i32 = 4096;

/// Binds a listener to a CID, or to any of this machine's.
///
/// # Errors
/// The system refuses: a kernel without vsock with `EAFNOSUPPORT`, one that does not have this CID with `EADDRNOTAVAIL`.
pub(crate) fn bind(cid: Option<u32>, port: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::VSOCK, Type::STREAM, None)?;
    socket.bind(&SockAddr::vsock(cid.unwrap_or(CID_ANY), port))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Where a listener is, if it is one of vsock.
pub(crate) fn address(listener: &Socket) -> Option<(Option<u32>, u32)> {
    let (cid, port) = listener.local_addr().ok()?.as_vsock_address()?;
    Some(((cid != CID_ANY).then_some(cid), port))
}

/// A listener in the runtime of the caller.
///
/// # Errors
/// The system refuses.
pub(crate) fn accepting(listener: Socket) -> io::Result<AsyncFd<Socket>> {
    listener.set_nonblocking(true)?;
    #[expect(
        deprecated,
        reason = "a socket owns its descriptor, so this is sound; what replaces it is unsafe to call"
    )]
    AsyncFd::with_interest(listener, Interest::READABLE)
}

/// The next connection.
pub(crate) async fn accept(listener: &AsyncFd<Socket>) -> io::Result<OwnedFd> {
    loop {
        let mut ready = listener.readable().await?;
        if let Ok(accepted) = ready.try_io(|listener| listener.get_ref().accept()) {
            return accepted.map(|(connection, _)| connection.into());
        }
    }
}
