//! Attaches an export to the kernel's NBD client by its netlink interface, and gives it a new connection whenever the old
//! one breaks, which `nbd-client` does not do.
//!
//! Usage: `kernel-nbd SOCKET EXPORT NUMBER`, for `/dev/nbdNUMBER`. Prints a line for each connection. Numbers are those of
//! `linux/genetlink.h` and `linux/nbd-netlink.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use weir_tests::nbd::Client;

/// A request that is not answered within so many seconds is sent again, on a new connection where the old one is dead.
const REQUEST_TIMEOUT_S: u64 = 2;
/// For so many seconds without a connection requests wait, and do not fail.
const DEAD_CONNECTION_TIMEOUT_S: u64 = 60;
/// Bytes of the device's blocks.
const BLOCK_SIZE: u64 = 4096;

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// The family of the controller, which knows those of all others.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NBD_CMD_CONNECT: u8 = 1;
const NBD_CMD_RECONFIGURE: u8 = 3;
const NBD_ATTR_INDEX: u16 = 1;
const NBD_ATTR_SIZE_BYTES: u16 = 2;
const NBD_ATTR_BLOCK_SIZE_BYTES: u16 = 3;
const NBD_ATTR_TIMEOUT: u16 = 4;
const NBD_ATTR_SERVER_FLAGS: u16 = 5;
const NBD_ATTR_SOCKETS: u16 = 7;
const NBD_ATTR_DEAD_CONN_TIMEOUT: u16 = 8;
const NBD_SOCK_ITEM: u16 = 1;
const NBD_SOCK_FD: u16 = 1;
const NLA_F_NESTED: u16 = 1 << 15;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, export, number] = &arguments[..] else {
        panic!("usage: kernel-nbd SOCKET EXPORT NUMBER")
    };
    let number: u32 = number.parse().expect("the number of a device");
    let mut kernel = Kernel::new()?;
    let mut command = NBD_CMD_CONNECT;
    loop {
        let mut client = connect(Path::new(socket), export);
        kernel.attach(command, number, &mut client)?;
        println!("connected");
        // Wakes when either side has closed it. What arrives is the kernel's to read.
        let mut end = [PollFd::new(client.stream(), PollFlags::empty())];
        poll(&mut end, None)?;
        command = NBD_CMD_RECONFIGURE;
    }
}

/// A connection to an export, as soon as there is a server.
fn connect(socket: &Path, export: &str) -> Client {
    loop {
        let connected = UnixStream::connect(socket).and_then(|stream| Client::open(stream, export));
        match connected {
            Ok(client) => return client,
            Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(50)),
        }
    }
}

/// Generic netlink, and in it the number of the family of NBD.
struct Kernel {
    netlink: OwnedFd,
    family: u16,
}

impl Kernel {
    fn new() -> io::Result<Kernel> {
        let protocol = Some(netlink::GENERIC);
        let flags = SocketFlags::CLOEXEC;
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        let mut kernel = Kernel { netlink, family: GENL_ID_CTRL };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"nbd\0");
        let answer = kernel.call(CTRL_CMD_GETFAMILY, &name)?;
        kernel.family = find(&answer, CTRL_ATTR_FAMILY_ID).expect("the module nbd is loaded");
        Ok(kernel)
    }

    fn attach(&mut self, command: u8, number: u32, client: &mut Client) -> io::Result<()> {
        let descriptor = u32::try_from(client.stream().as_fd().as_raw_fd()).expect("it is open");
        let item = attribute(NBD_SOCK_FD, &descriptor.to_ne_bytes());
        let sockets = attribute(NBD_SOCK_ITEM | NLA_F_NESTED, &item);
        let mut attributes = attribute(NBD_ATTR_INDEX, &number.to_ne_bytes());
        attributes.extend(attribute(NBD_ATTR_SOCKETS | NLA_F_NESTED, &sockets));
        if command == NBD_CMD_CONNECT {
            for (kind, value) in [
                (NBD_ATTR_SIZE_BYTES, client.size()),
                (NBD_ATTR_BLOCK_SIZE_BYTES, BLOCK_SIZE),
                (NBD_ATTR_SERVER_FLAGS, client.flags().into()),
                (NBD_ATTR_TIMEOUT, REQUEST_TIMEOUT_S),
                (NBD_ATTR_DEAD_CONN_TIMEOUT, DEAD_CONNECTION_TIMEOUT_S),
            ] {
                attributes.extend(attribute(kind, &value.to_ne_bytes()));
            }
        }
        self.call(command, &attributes).map(drop)
    }

    /// Sends a message to the family; returns the attributes of its answer.
    fn call(&mut self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        let length = u32::try_from(20 + attributes.len()).expect("it is short");
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(self.family.to_ne_bytes());
        message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        message.extend([0; 8]);
        message.extend([command, 1, 0, 0]);
        message.extend(attributes);
        send(&self.netlink, &message, SendFlags::empty())?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = vec![0; 16 << 10];
            let (length, _) = recv(&self.netlink, &mut buffer[..], RecvFlags::empty())?;
            let message = &buffer[..length];
            if message[4..6] != NLMSG_ERROR.to_ne_bytes() {
                answer = message[20..].to_vec();
                continue;
            }
            let error = i32::from_ne_bytes(message[16..20].try_into().expect("four bytes"));
            return match error {
                0 => Ok(answer),
                _ => Err(io::Error::from_raw_os_error(-error)),
            };
        }
    }
}

/// An attribute, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("it is short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the attribute `kind`, of 16 bits.
fn find(mut attributes: &[u8], kind: u16) -> Option<u16> {
    while let [low, high, first, second, rest @ ..] = attributes {
        if u16::from_ne_bytes([*first, *second]) == kind {
            return rest.first_chunk().map(|value| u16::from_ne_bytes(*value));
        }
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}
