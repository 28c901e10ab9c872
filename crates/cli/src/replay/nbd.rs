//! An NBD server: one connection, requests sent by the caller's thread, replies taken by another.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_engine::Op;
use weir_nbd::client::{Client, Connected, Connecting, Reply, Wishes};
use weir_nbd::{Command, Cookie, Op as NbdOp, TransmissionFlags};

use super::fit::Room;
use super::target::{Done, EMPTY_HEAD, Job, looks_used, no_room};
use super::uri::{Address, NbdUri};
use super::{Intent, Message};
use crate::clock;
use crate::failure::Failure;
use crate::pattern::pattern;

/// A server that says nothing for so long while connecting is none.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Room for a queue of 4 KiB replies in one receive.
const BUFFER: usize = 256 << 10;
/// The longest request that is sent whole, whatever the server would take.
const PIECE_MAX: u32 = 32 << 20;
/// How much is sent of a write's data at a time.
const FILLER: usize = 1 << 20;

/// A connection to one export.
pub(super) struct Nbd {
    out: Box<dyn Write + Send>,
    shared: Arc<Mutex<Shared>>,
    connected: Connected,
    room: Room,
    cookie: u64,
    filler: Vec<u8>,
}

/// State shared by the sending and the receiving thread.
struct Shared {
    client: Client,
    /// Pieces by cookie: the request they belong to.
    pieces: BTreeMap<u64, u64>,
    /// Requests in flight: missing pieces, and errors of the others.
    jobs: BTreeMap<u64, (u64, io::Result<()>)>,
}

/// A connection as bytes that come.
struct Input {
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    unread: std::ops::Range<usize>,
}

impl Nbd {
    pub(super) fn connect(
        name: &str,
        uri: &NbdUri,
        intent: Intent,
        done: Sender<Message>,
    ) -> Result<Nbd, Failure> {
        let failed = |error: io::Error| {
            Failure::failed(format!("{name}: {error}")).hint(
                "is the server running? `weir serve` starts one and prints its URI".to_owned(),
            )
        };
        let (stream, mut out, patience) = connect(&uri.server).map_err(failed)?;
        let mut input = Input { stream, buffer: vec![0; BUFFER], unread: 0..0 };
        let mut client = shake_hands(&mut input, &mut out, &uri.export).map_err(failed)?;
        let connected = *client.connected();
        let room = Room::new(connected.size, connected.block_sizes.minimum());
        let room = room.ok_or_else(|| no_room(name, connected.size))?;
        if intent.write && connected.flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(Failure::wrong(format!("{name} is read-only"))
                .hint("--read-only leaves writes out".to_owned()));
        }
        if intent.write && !intent.force {
            let len =
                EMPTY_HEAD.min(room.size()).min(connected.block_sizes.maximum().into()) as u32;
            if !is_empty(&mut client, &mut input, &mut out, len).map_err(failed)? {
                return Err(looks_used(name));
            }
        }
        // From here on a reply may take as long as its limits require.
        patience(None).map_err(failed)?;
        let shared = Shared { client, pieces: BTreeMap::new(), jobs: BTreeMap::new() };
        let shared = Arc::new(Mutex::new(shared));
        let receiving = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("replay-replies".to_owned())
            .spawn(move || {
                if let Err(error) = receive(&mut input, &receiving, &done) {
                    // The receiver is gone once the report is being written.
                    let _ = done.send(Message::Broken(error));
                }
            })
            .map_err(failed)?;
        let filler = pattern(if intent.write { FILLER } else { 0 });
        Ok(Nbd { out, shared, connected, room, cookie: 0, filler })
    }

    pub(super) fn room(&self) -> Room {
        self.room
    }

    pub(super) fn can(&self, op: Op) -> bool {
        match op {
            Op::Flush => self.connected.flags.contains(TransmissionFlags::FLUSH),
            Op::Discard => self.connected.flags.contains(TransmissionFlags::TRIM),
            _ => true,
        }
    }

    pub(super) fn start(&mut self, job: Job) -> io::Result<()> {
        let op = match job.op {
            Op::Read => NbdOp::Read { whole: false },
            Op::Write => NbdOp::Write,
            Op::Discard => NbdOp::Trim,
            _ => NbdOp::Flush,
        };
        // Only reads and writes have a payload that could be too long; a flush is one piece of nothing.
        let minimum = self.connected.block_sizes.minimum();
        let piece_max = match op {
            NbdOp::Read { .. } | NbdOp::Write => {
                PIECE_MAX.min(self.connected.block_sizes.maximum()) / minimum * minimum
            }
            _ => u32::MAX,
        };
        let count = u64::from(job.len.div_ceil(piece_max).max(1));
        lock(&self.shared).jobs.insert(job.number, (count, Ok(())));
        let mut head = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let len = piece_max.min(job.len - at);
            let cookie = self.cookie;
            self.cookie += 1;
            let offset = job.offset + u64::from(at);
            let command =
                Command { cookie: Cookie(cookie), op, fua: false, offset, len: len.into() };
            {
                let mut shared = lock(&self.shared);
                shared.pieces.insert(cookie, job.number);
                shared.client.request(&command, &mut head);
            }
            self.out.write_all(&head)?;
            head.clear();
            if op == NbdOp::Write {
                let mut left = len as usize;
                while left > 0 {
                    let part = left.min(self.filler.len());
                    self.out.write_all(&self.filler[..part])?;
                    left -= part;
                }
            }
            at += len;
        }
        Ok(())
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        let mut bye = Vec::new();
        lock(&self.shared).client.disconnect(&mut bye);
        // A server that is gone needs no farewell.
        let _ = self.out.write_all(&bye);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // A panic has ended the replay with it.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

type Patience = Box<dyn Fn(Option<Duration>) -> io::Result<()>>;
type Connection = (Box<dyn Read + Send>, Box<dyn Write + Send>, Patience);

/// Both directions of a new connection, and its timeout.
fn connect(server: &Address) -> io::Result<Connection> {
    match server {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            let (out, timer) = (stream.try_clone()?, stream.try_clone()?);
            Ok((
                Box::new(stream),
                Box::new(out),
                Box::new(move |time| timer.set_read_timeout(time)),
            ))
        }
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            let (out, timer) = (stream.try_clone()?, stream.try_clone()?);
            Ok((
                Box::new(stream),
                Box::new(out),
                Box::new(move |time| timer.set_read_timeout(time)),
            ))
        }
    }
}

fn shake_hands(input: &mut Input, out: &mut impl Write, export: &str) -> io::Result<Client> {
    let wishes = Wishes { export: export.into(), structured_replies: true, ..Wishes::default() };
    let (mut connecting, mut to_send) = (Connecting::new(wishes), Vec::new());
    loop {
        let bytes = input.bytes()?;
        let progress = connecting.handle_input(bytes, &mut to_send).map_err(io::Error::other)?;
        input.unread.start += progress.consumed;
        out.write_all(&to_send)?;
        to_send.clear();
        if let Some(connected) = progress.connected {
            return Ok(Client::new(connected));
        }
    }
}

/// Whether the first `len` bytes are all zeroes.
fn is_empty(
    client: &mut Client,
    input: &mut Input,
    out: &mut impl Write,
    len: u32,
) -> io::Result<bool> {
    let op = NbdOp::Read { whole: false };
    let command = Command { cookie: Cookie(u64::MAX), op, fua: false, offset: 0, len: len.into() };
    let mut head = Vec::new();
    client.request(&command, &mut head);
    out.write_all(&head)?;
    let mut empty = true;
    loop {
        let bytes = match input.unread.is_empty() {
            // Something may be known already, and only then is there nothing to wait for.
            true => &[],
            false => &input.buffer[input.unread.clone()],
        };
        let parsed = client.parse(bytes).map_err(io::Error::other)?;
        match parsed.reply {
            Reply::NeedMore { .. } => {
                input.unread = 0..0;
                input.bytes()?;
                continue;
            }
            Reply::Payload { .. } => {
                empty &= bytes[..parsed.consumed].iter().all(|&byte| byte == 0);
            }
            Reply::Error { error, message, .. } => {
                return Err(io::Error::other(format!(
                    "its beginning cannot be read: {error:?} {message}"
                )));
            }
            Reply::Done { .. } => {
                input.unread.start += parsed.consumed;
                return Ok(empty);
            }
            _ => {}
        }
        input.unread.start += parsed.consumed;
    }
}

/// Takes replies until the server ends the connection.
fn receive(input: &mut Input, shared: &Mutex<Shared>, done: &Sender<Message>) -> io::Result<()> {
    loop {
        input.bytes()?;
        let at_ns = clock::now_ns();
        let mut shared = lock(shared);
        loop {
            let bytes = &input.buffer[input.unread.clone()];
            let parsed = shared.client.parse(bytes).map_err(io::Error::other)?;
            input.unread.start += parsed.consumed;
            match parsed.reply {
                Reply::NeedMore { .. } => break,
                Reply::Error { cookie, error, message, .. } => {
                    let error =
                        io::Error::other(format!("{error:?} {message}").trim_end().to_owned());
                    if let Some((_, result)) = shared.job(cookie) {
                        *result = Err(error);
                    }
                }
                Reply::Done { cookie } => {
                    if let Some(number) = shared.piece_done(cookie) {
                        let (_, result) =
                            shared.jobs.remove(&number).expect("its last piece was under way");
                        if done.send(Message::Done(Done { number, at_ns, result })).is_err() {
                            return Ok(());
                        }
                    }
                }
                _ => {}
            }
        }
        input.unread = 0..0;
    }
}

impl Shared {
    fn job(&mut self, cookie: Cookie) -> Option<&mut (u64, io::Result<()>)> {
        let number = self.pieces.get(&cookie.0)?;
        self.jobs.get_mut(number)
    }

    /// The job that is done with this piece, if it was the last.
    fn piece_done(&mut self, cookie: Cookie) -> Option<u64> {
        let number = self.pieces.remove(&cookie.0)?;
        let (left, _) = self.jobs.get_mut(&number)?;
        *left -= 1;
        (*left == 0).then_some(number)
    }
}

impl Input {
    /// Received bytes; waits if there are none.
    fn bytes(&mut self) -> io::Result<&[u8]> {
        while self.unread.is_empty() {
            self.unread = match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(len) => 0..len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other("the server does not answer"));
                }
                Err(error) => return Err(error),
            };
        }
        Ok(&self.buffer[self.unread.clone()])
    }
}
