//! Connections: receive, send, close.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::Shutdown;

use crate::completion::Completion;
use crate::core::{Landed, Origin};
use crate::message::Message;
use crate::op::Op;
use crate::pool::IoBuf;
use crate::ring::Ring;

/// A connected socket in the care of a [`Ring`]. Ended by [`Ring::close`], or with the ring.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Socket {
    pub(crate) file: u32,
}

impl Ring {
    /// Takes a connection into the ring's care, Unix or TCP. Options are set before; the descriptor is
    /// made blocking, because the ring waits for it and a non-blocking one would answer `WouldBlock` instead.
    ///
    /// # Errors
    /// When it cannot be made blocking.
    pub fn add_socket(&mut self, fd: impl Into<OwnedFd>) -> io::Result<Socket> {
        let fd = fd.into();
        let flags = fcntl_getfl(&fd)?;
        if flags.contains(OFlags::NONBLOCK) {
            fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
        }
        Ok(Socket { file: self.core.open(fd) })
    }

    /// The descriptor of a socket, for reading and setting its options.
    pub fn socket_fd(&self, socket: &Socket) -> BorrowedFd<'_> {
        self.core.files.fd(socket.file)
    }

    /// Receives what is there, or what comes next; ends in [`Completion::Received`].
    ///
    /// Holds no buffer while it waits. One at a time on a connection keeps the order; not asking is back-pressure.
    pub fn receive(&mut self, socket: &Socket, token: u64) {
        self.start_receive(socket.file, token);
    }

    /// Receives exactly `buffer[from..]`; ends in [`Completion::Filled`]. For the rest of a large write, without the
    /// copy that [`Ring::receive`] would need.
    ///
    /// # Panics
    /// When `from` is more than the buffer's length.
    pub fn receive_into(&mut self, socket: &Socket, buffer: IoBuf, from: usize, token: u64) {
        assert!(from <= buffer.len(), "from {from} in a buffer of {}", buffer.len());
        if from == buffer.len() {
            self.ready.push_back(Completion::Filled { token, buffer, result: Ok(()) });
            return;
        }
        let op = Op::Fill { file: socket.file, buffer, done: from as u32 };
        self.core.start(Origin::Caller(token), op);
    }

    /// Sends all of `message`, in as many steps as the socket needs; ends in [`Completion::Sent`], when the message's
    /// buffers are free again. One at a time on a connection: two would mix.
    pub fn send(&mut self, socket: &Socket, mut message: Message, token: u64) {
        if message.is_empty() {
            self.recycle(message);
            self.ready.push_back(Completion::Sent { token, result: Ok(()) });
            return;
        }
        message.seal();
        self.core.start(Origin::Caller(token), Op::Send { file: socket.file, message });
    }

    /// Ends everything on the socket, both ways, and closes it; ends in [`Completion::Closed`], the only completion
    /// that still comes for it. Buffers in flight go back to the pool when the kernel has let go of them.
    pub fn close(&mut self, socket: Socket, token: u64) {
        let Socket { file } = socket;
        self.starved.retain(|&(starved, _)| starved != file);
        // Wakes what cannot be cancelled. Not connected is as good as shut down.
        let _ = rustix::net::shutdown(self.core.files.fd(file), Shutdown::Both);
        let idle = self.core.files.in_flight(file) == 0;
        self.core.files.start_closing(file, token);
        if idle {
            self.finish_closing(file);
        } else {
            self.core.start(Origin::Caller(token), Op::Cancel { file });
        }
    }

    /// Closes this process's descriptor and leaves the connection to holders of another one of it; ends in
    /// [`Completion::Closed`].
    ///
    /// # Panics
    /// When something is in flight on the socket.
    pub fn release(&mut self, socket: Socket, token: u64) {
        let Socket { file } = socket;
        assert_eq!(self.core.files.in_flight(file), 0, "a socket in use cannot be released");
        self.core.files.start_closing(file, token);
        self.finish_closing(file);
    }

    pub(crate) fn start_receive(&mut self, file: u32, token: u64) {
        let most = self.core.receive_bytes();
        self.core.start(Origin::Caller(token), Op::Receive { file, most });
    }

    pub(crate) fn handle_socket(&mut self, landed: Landed) -> Option<Completion> {
        let file = landed.op.file();
        if self.core.files.is_closing(file) {
            drop(landed);
            self.finish_closing(file);
            return None;
        }
        let Origin::Caller(token) = landed.origin else { unreachable!("no job uses sockets") };
        let interrupted = is(&landed.result, libc::EINTR);
        match landed.op {
            op if interrupted => {
                self.core.start(landed.origin, op);
                None
            }
            Op::Receive { .. } if is(&landed.result, libc::ENOBUFS) => {
                self.starved.push_back((file, token));
                None
            }
            Op::Receive { .. } => {
                let received = landed.received;
                let result = landed.result.map(|len| received.filter(|_| len > 0));
                Some(Completion::Received { token, result })
            }
            Op::Fill { buffer, done, .. } => {
                let result = match landed.result {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(more) if (done + more) as usize == buffer.len() => Ok(()),
                    Ok(more) => {
                        let op = Op::Fill { file, buffer, done: done + more };
                        self.core.start(landed.origin, op);
                        return None;
                    }
                    Err(error) => Err(error),
                };
                Some(Completion::Filled { token, buffer, result })
            }
            Op::Send { mut message, .. } => {
                let result = match landed.result {
                    Ok(sent) if !message.advance(sent as usize) => {
                        self.core.start(landed.origin, Op::Send { file, message });
                        return None;
                    }
                    result => result.map(drop),
                };
                self.recycle(message);
                Some(Completion::Sent { token, result })
            }
            op => unreachable!("not an operation on an open socket: {op:?}"),
        }
    }

    /// Closes the descriptor once nothing is in flight on it.
    fn finish_closing(&mut self, file: u32) {
        if let Some(token) = self.core.files.closed(file) {
            self.core.close(file);
            self.ready.push_back(Completion::Closed { token });
        }
    }
}

/// Whether an operation failed with `errno`.
pub(crate) fn is(result: &io::Result<u32>, errno: i32) -> bool {
    result.as_ref().is_err_and(|error| error.raw_os_error() == Some(errno))
}
