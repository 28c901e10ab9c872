//! An NBD client that shares no code with the server, and that can be made to misbehave.
//!
//! Numbers are those of "The NBD protocol", doc/proto.md of the reference implementation. Simple replies only; the
//! rest of the protocol is for libnbd to try.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::{PATIENCE, Server};

/// First eight bytes of a server's greeting, `NBDMAGIC`.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before every option, and next in the greeting: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every simple reply.
pub const REPLY_MAGIC: u32 = 0x6744_6698;
/// The client's answer to the greeting: fixed newstyle, no zeroes after EXPORT_NAME.
pub const CLIENT_FLAGS: u32 = 3;
/// The option that names an export and begins transmission.
pub const OPT_GO: u32 = 7;
/// The flag of commands that are answered when their effect is on stable storage.
pub const FUA: u16 = 1;
/// The number for a device that failed.
pub const EIO: u32 = 5;
/// The number for an offset or length that makes no sense.
pub const EINVAL: u32 = 22;
/// The number for a server that is going away.
pub const ESHUTDOWN: u32 = 108;

/// Commands, with their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "their names are the protocol's")]
pub enum Kind {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
    Cache = 5,
    WriteZeroes = 6,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Cookie of the request.
    pub cookie: u64,
    /// 0, or an error number.
    pub error: u32,
    /// Data of a read.
    pub data: Vec<u8>,
}

/// A connection to an export.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    size: u64,
    flags: u16,
    /// Requests not answered yet, with the bytes of data that their replies bring.
    pending: BTreeMap<u64, usize>,
    next: u64,
}

/// Connects to a Unix socket and says nothing.
///
/// # Panics
/// When no server listens there.
#[track_caller]
pub fn dial(socket: &Path) -> UnixStream {
    let stream =
        UnixStream::connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    patient(stream)
}

/// Connects to the TCP port in an `nbd://` URI and says nothing.
///
/// # Panics
/// When no server listens there.
#[track_caller]
pub fn dial_tcp(uri: &str) -> UnixStream {
    dial_tcp_from(uri, Ipv4Addr::LOCALHOST)
}

/// As [`dial_tcp`], as the machine at `from`: any address of 127.0.0.0/8 is this one's.
///
/// # Panics
/// When no server listens there.
#[track_caller]
pub fn dial_tcp_from(uri: &str, from: Ipv4Addr) -> UnixStream {
    let address = uri.strip_prefix("nbd://").and_then(|rest| rest.split('/').next());
    let address: Option<SocketAddr> = address.and_then(|address| address.parse().ok());
    let address = address.unwrap_or_else(|| panic!("{uri} is not of TCP"));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(from, 0)).expect("an address of this machine");
    connect(&socket, &address).unwrap_or_else(|error| panic!("{uri}: {error}"));
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("a TCP socket has this option");
    // All that is used from here on, the two kinds of socket have in common.
    patient(UnixStream::from(OwnedFd::from(stream)))
}

fn patient(stream: UnixStream) -> UnixStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("not zero");
    stream
}

/// An option as a client sends it.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).expect("options are short");
    let head = [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &len.to_be_bytes()];
    [&head.concat(), data].concat()
}

/// GO for `export`, without asking for information.
pub fn go(export: &str) -> Vec<u8> {
    let len = u32::try_from(export.len()).expect("names are short");
    option(OPT_GO, &[&len.to_be_bytes(), export.as_bytes(), &[0, 0]].concat())
}

/// The head of a request.
pub fn request(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    [
        &REQUEST_MAGIC.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ]
    .concat()
}

impl Client {
    /// Connects to the default export of `server`.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn of(server: &Server) -> Client {
        Client::open(dial(server.socket()), "").expect("the server lets clients in")
    }

    /// Shakes hands on a new connection.
    ///
    /// # Errors
    /// Errors of the socket; `InvalidData` if the server does not speak the protocol or refuses the export.
    pub fn open(mut stream: UnixStream, export: &str) -> io::Result<Client> {
        stream.write_all(&CLIENT_FLAGS.to_be_bytes())?;
        stream.write_all(&go(export))?;
        Client::accepted(stream)
    }

    /// Reads the server's side of a handshake whose other side, flags and [`go`], has been sent already.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn accepted(mut stream: UnixStream) -> io::Result<Client> {
        let strange = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let greeting: [u8; 18] = bytes(&mut stream)?;
        if greeting[..16] != [MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat() {
            return strange(format!("the greeting is {greeting:x?}"));
        }
        let mut export = None;
        loop {
            let head: [u8; 20] = bytes(&mut stream)?;
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
            let mut data = vec![0; word(16) as usize];
            stream.read_exact(&mut data)?;
            match (head[..8] == OPTION_REPLY_MAGIC.to_be_bytes(), word(12), &data[..]) {
                // ACK
                (true, 1, _) => break,
                // INFO, of type EXPORT
                (true, 3, [0, 0, size @ .., high, low]) => {
                    let size = size.first_chunk().map(|size| u64::from_be_bytes(*size));
                    export = size.map(|size| (size, u16::from_be_bytes([*high, *low])));
                }
                (true, 3, _) => {}
                (_, kind, _) => return strange(format!("GO is answered with {kind:#x} {data:x?}")),
            }
        }
        let Some((size, flags)) = export else {
            return strange("GO is answered without a size".into());
        };
        Ok(Client { stream, size, flags, pending: BTreeMap::new(), next: 1 })
    }

    /// Bytes of the export.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The export's transmission flags.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// The connection itself, to be abused.
    pub fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    /// How many requests have not been answered.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Sends a request, and a write's payload after it; gives its cookie.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send(
        &mut self,
        kind: Kind,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        let cookie = self.next;
        self.next += 1;
        let expected = if kind == Kind::Read { len as usize } else { 0 };
        self.pending.insert(cookie, expected);
        let head = request(kind as u16, flags, cookie, offset, len);
        self.stream.write_all(&[&head, payload].concat())?;
        Ok(cookie)
    }

    /// The next reply, to whichever request.
    ///
    /// # Errors
    /// `UnexpectedEof` when the server has closed the connection, `InvalidData` for what is no reply to a request of
    /// this client, `WouldBlock` when nothing comes; what the socket says.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let head: [u8; 16] = bytes(&mut self.stream)?;
        let (magic, rest) = head.split_at(4);
        let (error, cookie) = rest.split_at(4);
        let error = u32::from_be_bytes(error.try_into().expect("four bytes"));
        let cookie = u64::from_be_bytes(cookie.try_into().expect("eight bytes"));
        let expected = self.pending.remove(&cookie);
        let (true, Some(expected)) = (magic == REPLY_MAGIC.to_be_bytes(), expected) else {
            let what = format!("{head:x?} is no reply to {:?}", self.pending.keys());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        let mut data = vec![0; if error == 0 { expected } else { 0 }];
        self.stream.read_exact(&mut data)?;
        Ok(Reply { cookie, error, data })
    }

    /// A request and its reply, with nothing else under way.
    ///
    /// # Errors
    /// As [`Client::receive`]; an error reply is `Other`.
    pub fn call(&mut self, kind: Kind, flags: u16, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        self.send(kind, flags, offset, len, &[])?;
        self.done()
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn read(&mut self, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        self.call(Kind::Read, 0, offset, len)
    }

    /// Writes.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).expect("writes are short");
        self.send(Kind::Write, flags, offset, len, bytes)?;
        self.done().map(drop)
    }

    fn done(&mut self) -> io::Result<Vec<u8>> {
        match self.receive()? {
            Reply { error: 0, data, .. } => Ok(data),
            Reply { error, .. } => Err(io::Error::other(format!("answered with error {error}"))),
        }
    }
}

fn bytes<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
