//! TCP proxy with fair clients: each chunk passes the engine before it is forwarded.
//!
//! ```sh
//! cargo run -p weir-engine --example tokio_proxy
//! ```
//!
//! Two clients upload through the proxy, which forwards 32 MiB a second. One opens eight connections, the other one. They
//! have equal shares, because shares belong to clients and not to connections. Upstream and clients are tasks of the same
//! process, and all end after a second.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time;
use weir_engine::{
    Change, ClientId, Config, Engine, Extent, Instant, Limits, Op, Outcome, Path, Request, TaskId,
    Ticket,
};

const RUN: Duration = Duration::from_secs(1);
const CHUNK: usize = 16 << 10;
/// Chunks of a connection that wait at a time.
const WINDOW: usize = 8;
const LIMIT: &str = "wbps=32M";

type Failure = Box<dyn Error + Send + Sync>;

/// A chunk that waits, and where its ticket will come.
type Chunk = (oneshot::Receiver<Ticket>, Vec<u8>);

/// A message to the owner of the engine.
enum Message {
    /// A connection of the client named so begins; the answer is its task.
    Open { client: u8, task: oneshot::Sender<TaskId> },
    /// The connection has ended.
    Close(TaskId),
    /// A connection has read a chunk; the ticket comes when it may be forwarded.
    Begin { task: TaskId, bytes: u32, ticket: oneshot::Sender<Ticket> },
    /// The chunk is forwarded, or upstream has failed.
    Done(Ticket, Outcome),
}

/// State of the task that owns the engine.
struct Owner {
    engine: Engine,
    clients: HashMap<u8, ClientId>,
    waiting: HashMap<u64, oneshot::Sender<Ticket>>,
    tags: u64,
}

impl Owner {
    fn new() -> Result<Owner, Failure> {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let limits = Limits::parse(LIMIT)?;
        let cgroup = engine.root();
        engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits })?;
        Ok(Owner { engine, clients: HashMap::new(), waiting: HashMap::new(), tags: 0 })
    }

    /// Owns the engine until all senders are gone. Instant 0 is `begun`.
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) -> Result<Engine, Failure> {
        let begun = time::Instant::now();
        loop {
            let due = self.engine.poll_timeout();
            let due = due.map_or(begun + RUN, |due| begun + Duration::from_nanos(due.as_nanos()));
            let message = tokio::select! {
                message = inbox.recv() => match message {
                    Some(message) => Some(message),
                    None => return Ok(self.engine),
                },
                () = time::sleep_until(due) => None,
            };
            // One reading of the clock for everything that is done with it.
            let now = Instant::from_nanos(begun.elapsed().as_nanos() as u64);
            let mut next = message;
            while let Some(message) = next {
                self.handle(now, message)?;
                next = inbox.try_recv().ok();
            }
            self.engine.handle_timeout(now);
            while let Some(dispatch) = self.engine.poll_dispatch(now) {
                let ticket = self.waiting.remove(&dispatch.request.tag).expect("submitted once");
                // The connection may have gone while its chunk waited.
                if let Err(ticket) = ticket.send(dispatch.ticket) {
                    self.engine.complete(now, ticket, Outcome::Failed);
                }
            }
        }
    }

    fn handle(&mut self, now: Instant, message: Message) -> Result<(), Failure> {
        match message {
            Message::Open { client, task } => {
                let client = match self.clients.get(&client) {
                    Some(&known) => known,
                    None => {
                        let cgroup = self.engine.ensure_cgroup(&Path::parse("/uploads")?)?;
                        let new = self.engine.open_client(cgroup)?;
                        *self.clients.entry(client).or_insert(new)
                    }
                };
                let opened = self.engine.open_task(client)?;
                if task.send(opened).is_err() {
                    self.engine.close_task(opened);
                }
            }
            Message::Close(task) => {
                while let Some(request) = self.engine.withdraw_next(now, task) {
                    self.waiting.remove(&request.tag);
                }
                self.engine.close_task(task);
            }
            Message::Begin { task, bytes, ticket } => {
                self.tags += 1;
                // A connection has a few chunks here at most, so that no queue is ever full.
                let request = Request::new(task, Op::Write, Extent::new(0, bytes), self.tags);
                self.engine.submit(now, request)?;
                self.waiting.insert(self.tags, ticket);
            }
            Message::Done(ticket, outcome) => {
                self.engine.complete(now, ticket, outcome);
            }
        }
        Ok(())
    }
}

/// Forwards one connection. Its first byte names the client.
async fn forward(
    mut from: TcpStream,
    upstream: SocketAddr,
    owner: mpsc::Sender<Message>,
) -> Result<(), Failure> {
    let client = from.read_u8().await?;
    let mut to = TcpStream::connect(upstream).await?;
    to.write_u8(client).await?;
    let (opened, task) = oneshot::channel();
    owner.send(Message::Open { client, task: opened }).await?;
    let task = task.await?;
    let mut waiting = VecDeque::new();
    let relayed = relay(from, to, task, &owner, &mut waiting).await;
    // Each ticket goes back to the engine, also of a chunk that is not forwarded any more.
    for (mut ticket, _) in waiting {
        ticket.close();
        if let Ok(ticket) = ticket.try_recv() {
            owner.send(Message::Done(ticket, Outcome::Failed)).await?;
        }
    }
    owner.send(Message::Close(task)).await?;
    relayed
}

/// Forwards chunks in order, each with its ticket. Several wait at a time, so that the connection is not idle between two.
async fn relay(
    mut from: TcpStream,
    mut to: TcpStream,
    task: TaskId,
    owner: &mpsc::Sender<Message>,
    waiting: &mut VecDeque<Chunk>,
) -> Result<(), Failure> {
    let mut ended = false;
    loop {
        let mut chunk = vec![0; CHUNK];
        tokio::select! {
            len = from.read(&mut chunk), if !ended && waiting.len() < WINDOW => {
                chunk.truncate(len?);
                ended = chunk.is_empty();
                if !ended {
                    let (sent, ticket) = oneshot::channel();
                    let bytes = chunk.len() as u32;
                    owner.send(Message::Begin { task, bytes, ticket: sent }).await?;
                    waiting.push_back((ticket, chunk));
                }
            }
            ticket = first(waiting), if !waiting.is_empty() => {
                let (ticket, chunk) = ticket?;
                let written = to.write_all(&chunk).await;
                let outcome = if written.is_ok() { Outcome::Done } else { Outcome::Failed };
                owner.send(Message::Done(ticket, outcome)).await?;
                written?;
            }
            else => return Ok(()),
        }
    }
}

/// Waits for the ticket of the first chunk, and takes both. Cancel safe: the chunk stays until its ticket is there.
async fn first(waiting: &mut VecDeque<Chunk>) -> Result<(Ticket, Vec<u8>), Failure> {
    let (ticket, _) = waiting.front_mut().expect("a chunk waits");
    let ticket = ticket.await?;
    let (_, chunk) = waiting.pop_front().expect("a chunk waits");
    Ok((ticket, chunk))
}

/// Accepts connections and forwards them; ends when it is aborted.
async fn proxy(listener: TcpListener, upstream: SocketAddr, owner: mpsc::Sender<Message>) {
    while let Ok((connection, _)) = listener.accept().await {
        let owner = owner.clone();
        tokio::spawn(async move {
            // A connection that fails is closed; the others go on.
            let _ = forward(connection, upstream, owner).await;
        });
    }
}

/// Reads what arrives and counts the bytes of each client.
async fn sink(listener: TcpListener, counts: mpsc::Sender<(u8, usize)>) {
    while let Ok((mut connection, _)) = listener.accept().await {
        let counts = counts.clone();
        tokio::spawn(async move {
            let Ok(client) = connection.read_u8().await else { return };
            let mut chunk = vec![0; CHUNK];
            while let Ok(len @ 1..) = connection.read(&mut chunk).await {
                if counts.send((client, len)).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Uploads for [`RUN`].
async fn upload(client: u8, proxy: SocketAddr) -> Result<(), Failure> {
    let mut connection = TcpStream::connect(proxy).await?;
    connection.write_u8(client).await?;
    let end = time::Instant::now() + RUN;
    let chunk = vec![0; CHUNK];
    while let Ok(written) = time::timeout_at(end, connection.write_all(&chunk)).await {
        written?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let upstream = TcpListener::bind("127.0.0.1:0").await?;
    let front = TcpListener::bind("127.0.0.1:0").await?;
    let (upstream_at, front_at) = (upstream.local_addr()?, front.local_addr()?);
    let (owner, inbox) = mpsc::channel(64);
    let (counts, mut counted) = mpsc::channel(64);
    let engine = tokio::spawn(Owner::new()?.run(inbox));
    let sink = tokio::spawn(sink(upstream, counts));
    let proxy = tokio::spawn(proxy(front, upstream_at, owner));

    let mut uploads = Vec::new();
    for (client, connections) in [(b'a', 8), (b'b', 1)] {
        for _ in 0..connections {
            uploads.push(tokio::spawn(upload(client, front_at)));
        }
    }
    let mut bytes = HashMap::from([(b'a', 0), (b'b', 0)]);
    let end = time::Instant::now() + RUN;
    while let Ok(Some((client, len))) = time::timeout_at(end, counted.recv()).await {
        *bytes.entry(client).or_default() += len;
    }
    for upload in uploads {
        upload.await??;
    }
    // What the sockets still hold may be lost: the listeners end, and the owner with the last connection.
    drop(counted);
    proxy.abort();
    sink.abort();
    let engine = engine.await??;
    assert!(engine.audit().balances(), "each chunk that was forwarded was charged");
    for (client, connections) in [(b'a', "8 connections"), (b'b', "1 connection ")] {
        let mib = bytes[&client] as f64 / RUN.as_secs_f64() / f64::from(1 << 20);
        println!("client {} with {connections}: {mib:5.1} MiB a second", char::from(client));
    }
    Ok(())
}
