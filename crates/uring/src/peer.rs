//! Peer process of a Unix socket.
#![allow(unsafe_code)]

use std::num::NonZeroI32;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process that connected a Unix socket, as this process sees it. `None` for other sockets, and for a process in
/// a PID namespace that is not visible from here.
pub fn peer_process(socket: BorrowedFd<'_>) -> Option<NonZeroI32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of the value, into a value that outlives the call and
    // for which every pattern is valid. No safe way: rustix turns the answer into a process id that may not be 0, and
    // 0 is what the kernel answers for a process in a foreign namespace.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return None;
    }
    NonZeroI32::new(credentials.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_pair_has_this_process_as_peer_and_tcp_has_none() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let own = std::process::id().cast_signed();
        assert_eq!(peer_process(ours.as_fd()).map(NonZeroI32::get), Some(own));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(peer_process(connected.as_fd()), None);
    }
}
