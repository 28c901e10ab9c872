//! Values of a ring without a kernel: for a simulated ring, which has to make and to read them.

use std::io;
use std::rc::Rc;

use crate::disk::{Disk, DiskInfo};
use crate::message::{self, Message};
use crate::net::Socket;
use crate::receive::ReceivedBuf;

/// Makes empty messages.
pub struct Messages(Rc<crate::mapping::Mapping>);

impl Messages {
    /// # Errors
    /// When there is no memory.
    pub fn new() -> io::Result<Messages> {
        message::zeroes().map(Messages)
    }

    /// An empty message.
    pub fn message(&self) -> Message {
        Message::new(Rc::clone(&self.0))
    }
}

/// The bytes of a message, in order.
pub fn bytes(message: &Message) -> Vec<u8> {
    message.to_vec()
}

/// The socket with this number.
pub fn socket(number: u32) -> Socket {
    Socket { file: number }
}

/// The number of a socket.
pub fn number(socket: &Socket) -> u32 {
    socket.file
}

/// A disk that is attached to no ring.
pub fn disk(info: DiskInfo) -> Disk {
    Disk::detached(info)
}

/// Bytes that have arrived.
pub fn received(bytes: Vec<u8>) -> ReceivedBuf {
    ReceivedBuf::fake(bytes)
}
