//! An NBD client over a Unix socket: as much of one as a job that reads needs.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use weir_nbd::client::{Client, Connecting, Reply, Wishes};
use weir_nbd::{Command, Cookie, Op};

/// Silence after which a server counts as gone, far longer than any wait of the demo.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Room for a queue of 4 KiB replies in one receive.
const BUFFER: usize = 256 << 10;

/// A connection to one export.
#[derive(Debug)]
pub(super) struct Disk {
    stream: UnixStream,
    client: Client,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were received and not yet read.
    unread: std::ops::Range<usize>,
}

impl Disk {
    /// Connects to `export` of the server at `socket`.
    pub(super) fn connect(socket: &Path, export: &str) -> io::Result<Disk> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        let wishes =
            Wishes { export: export.into(), structured_replies: true, ..Wishes::default() };
        let (mut connecting, mut out) = (Connecting::new(wishes), Vec::new());
        let mut buffer = vec![0; BUFFER];
        loop {
            let len = receive(&mut stream, &mut buffer)?;
            let progress =
                connecting.handle_input(&buffer[..len], &mut out).map_err(io::Error::other)?;
            stream.write_all(&out)?;
            out.clear();
            if let Some(connected) = progress.connected {
                let (client, unread) = (Client::new(connected), progress.consumed..len);
                return Ok(Disk { stream, client, buffer, unread });
            }
        }
    }

    /// Bytes of the export.
    pub(super) fn size(&self) -> u64 {
        self.client.connected().size
    }

    /// Asks for `len` bytes at `offset`; `cookie` comes back when they are there.
    pub(super) fn read(&mut self, cookie: u64, offset: u64, len: u32) -> io::Result<()> {
        let op = Op::Read { whole: false };
        let command = Command { cookie: Cookie(cookie), op, fua: false, offset, len: len.into() };
        let mut out = Vec::new();
        self.client.request(&command, &mut out);
        self.stream.write_all(&out)
    }

    /// Waits for the next read; its bytes are ignored.
    pub(super) fn wait(&mut self) -> io::Result<u64> {
        loop {
            let parsed =
                self.client.parse(&self.buffer[self.unread.clone()]).map_err(io::Error::other)?;
            self.unread.start += parsed.consumed;
            match parsed.reply {
                Reply::Done { cookie } => return Ok(cookie.0),
                Reply::Error { error, message, .. } => {
                    return Err(io::Error::other(format!("a read failed: {error:?} {message}")));
                }
                Reply::NeedMore { .. } => {
                    self.unread = 0..receive(&mut self.stream, &mut self.buffer)?;
                }
                _ => {}
            }
        }
    }
}

fn receive(stream: &mut UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(io::Error::other("the server closed the connection")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("the server does not answer"));
            }
            result => return result,
        }
    }
}
