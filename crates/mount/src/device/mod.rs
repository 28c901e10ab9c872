//! Device thread: requests in, engine, workers, and interrupts.

mod in_flight;
mod messages;
mod shared;
mod worker;

use std::io;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weir_driver::turn;
use weir_engine::{Config, Engine, Extent, Instant, Op, Outcome, Request};
use weir_fuse_proto::flags::WriteFlags;
use weir_fuse_proto::init::{Negotiation, negotiate};
use weir_fuse_proto::{Malformed, Op as FuseOp, Session, parse, reply};
use weir_passthrough::wishes;
use weir_uring::monotonic_ns;

use crate::clients::Clients;
use crate::device::in_flight::{Held, InFlight};
use crate::device::messages::Message;
use crate::device::worker::{THREADS, start_workers};
use crate::error::MountError;
use crate::identity::{Caller, Identities};
use crate::report::Report;
use crate::tree::{Tree, TreeSettings};

pub(crate) use shared::{Shared, Stop};

/// Requests of data that are carried out at once; the other workers are for requests without data, which then never wait for it.
const DEPTH: u32 = THREADS as u32 - 4;

/// Messages that are read before completions are looked at.
const BATCH: usize = 32;

/// Most bytes of held requests. Beyond them nothing is read until some are done: callers wait in the kernel then, and only a
/// kill ends that.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Requests that the engine holds at most.
const REQUESTS_MAX: u32 = 65_536;

/// The thread's state.
pub(crate) struct Device {
    engine: Engine,
    tree: Tree,
    identities: Identities,
    clients: Clients,
    in_flight: InFlight,
    shared: Arc<Shared>,
    report: Report,
}

/// Whether the loop goes on.
enum Next {
    Read,
    Empty,
    Ended,
}

impl Device {
    pub(crate) fn new(shared: Arc<Shared>, settings: TreeSettings) -> Result<Device, MountError> {
        let most = REQUESTS_MAX.try_into().expect("not zero");
        let config = Config {
            depth: DEPTH.try_into().expect("not zero"),
            requests_max: most,
            requests_per_task_max: most,
            ..Config::default()
        };
        let mut engine = Engine::new(config, now());
        let tree = Tree::new(settings, &mut engine)?;
        Ok(Device {
            engine,
            tree,
            identities: Identities::new(),
            clients: Clients::default(),
            in_flight: InFlight::new(shared.clone()),
            shared,
            report: Report::default(),
        })
    }

    /// Runs until the end of the mount.
    pub(crate) fn run(mut self) -> io::Result<Report> {
        let ended = self.serve();
        // Programs that wait get an error now, and workers end after what they do.
        self.shared.close();
        ended?;
        Ok(self.report.with_cgroups(&self.engine))
    }

    fn serve(&mut self) -> io::Result<()> {
        let Some(session) = self.greet()? else { return Ok(()) };
        start_workers(&self.shared, session)?;
        let mut due = None;
        loop {
            if self.wait(due)? {
                return Ok(());
            }
            let now = now();
            self.complete(now);
            for _ in 0..BATCH {
                if self.in_flight.bytes() >= HELD_BYTES_MAX {
                    break;
                }
                match self.read(&session, now)? {
                    Next::Read => {}
                    Next::Empty => break,
                    Next::Ended => return Ok(()),
                }
            }
            due = turn(&mut self.engine, now, &mut self.in_flight);
        }
    }

    /// The first request; `None` if it is unmounted before.
    fn greet(&mut self) -> io::Result<Option<Session>> {
        let before = Session::default();
        let mut buffer = vec![0; before.buffer_len() + 4096];
        loop {
            let len = match rustix::io::read(self.shared.fuse(), &mut buffer) {
                Ok(len) => len,
                Err(Errno::AGAIN) => {
                    if self.wait(None)? {
                        return Ok(None);
                    }
                    continue;
                }
                Err(Errno::INTR | Errno::NOENT) => continue,
                Err(Errno::NODEV) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let request = parse(&buffer[..len], &before).map_err(io::Error::other)?;
            match negotiate(request.unique, &request.op, &wishes()) {
                Ok(Negotiation::Again { reply }) => self.shared.reply(&reply),
                Ok(Negotiation::Done { reply, session }) => {
                    self.shared.reply(&reply);
                    tracing::debug!(minor = session.minor, flags = ?session.flags, "agreed");
                    self.in_flight.set_buffer_len(session.buffer_len());
                    return Ok(Some(session));
                }
                Err(error) => {
                    self.shared.reply(&reply::error(request.unique, Errno::PROTO.raw_os_error()));
                    return Err(io::Error::other(error));
                }
            }
        }
    }

    /// Waits for requests, completions, or an instant. True if the mount is to end.
    fn wait(&mut self, due: Option<Instant>) -> io::Result<bool> {
        let reads = self.in_flight.bytes() < HELD_BYTES_MAX;
        let interest = if reads { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(self.shared.fuse(), interest),
            PollFd::new(self.shared.wake(), PollFlags::IN),
        ];
        let timeout = due.map(|due| {
            let ns = due.nanos_since(now());
            // 10^9 ns are a second; both fit.
            Timespec {
                tv_sec: (ns / 1_000_000_000).cast_signed(),
                tv_nsec: (ns % 1_000_000_000).cast_signed(),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The kernel has ended the mount, which a read would tell too.
        let is_over = fds[0].revents().contains(PollFlags::ERR);
        self.shared.clear_wake();
        Ok(is_over || self.shared.is_stopping())
    }

    /// Takes completions of workers.
    fn complete(&mut self, now: Instant) {
        for done in self.in_flight.take_done() {
            let (ticket, key) = done;
            self.engine.complete(now, ticket, Outcome::Done);
            self.clients.done(key);
        }
    }

    fn read(&mut self, session: &Session, now: Instant) -> io::Result<Next> {
        let mut message = self.in_flight.buffer();
        match rustix::io::read(self.shared.fuse(), &mut message.bytes) {
            Ok(len) => message.len = len,
            Err(error) => {
                self.in_flight.put_back(message);
                return match error {
                    Errno::AGAIN => Ok(Next::Empty),
                    // A request that was interrupted before it could be read.
                    Errno::INTR | Errno::NOENT => Ok(Next::Read),
                    Errno::NODEV | Errno::CONNABORTED => Ok(Next::Ended),
                    error => Err(error.into()),
                };
            }
        }
        self.handle(message, session, now);
        Ok(Next::Read)
    }

    fn handle(&mut self, message: Message, session: &Session, now: Instant) {
        let request = match parse(message.bytes(), session) {
            Ok(request) => request,
            Err(error) => {
                tracing::error!("a message makes no sense: {error}");
                if let Malformed::Body { unique, .. } = error {
                    self.shared.reply(&reply::error(unique, Errno::IO.raw_os_error()));
                }
                return self.in_flight.put_back(message);
            }
        };
        let (unique, thread, ids) = (request.unique, request.pid, (request.uid, request.gid));
        let (handle, op, extent, sync) = match request.op {
            FuseOp::Interrupt { unique } => {
                self.interrupt(unique, now);
                return self.in_flight.put_back(message);
            }
            FuseOp::Read { handle, offset, size, .. } => {
                (handle, Op::Read, Extent::new(offset, size), true)
            }
            FuseOp::Write { handle, offset, data, write_flags, .. } => {
                let is_back = write_flags.contains(WriteFlags::CACHE);
                (handle, Op::Write, Extent::new(offset, data.len() as u32), !is_back)
            }
            // Copies would go past the limits: the kernel reads and writes instead.
            FuseOp::CopyFileRange { .. } => {
                self.shared.reply(&reply::error(unique, Errno::NOSYS.raw_os_error()));
                return self.in_flight.put_back(message);
            }
            ref op => {
                // So that its writes are known, which the kernel makes later without a process.
                if matches!(op, FuseOp::Open { .. } | FuseOp::Create { .. }) {
                    self.caller(thread, ids, now);
                }
                return self.in_flight.carry_out(message);
            }
        };
        let caller = match thread {
            0 => self.opener(handle, extent, op),
            thread => self.caller(thread, ids, now),
        };
        let (client, task) = self.clients.begin(&mut self.engine, caller, now);
        let tag = self.in_flight.hold(Held { message, unique, client, id: None });
        let request = Request { sync, ..Request::new(task, op, extent, tag) };
        match self.engine.submit(now, request) {
            Ok(id) => self.in_flight.is_inside(tag, id),
            Err(error) => {
                tracing::warn!("a request is refused: {error}");
                self.shared.reply(&reply::error(unique, Errno::AGAIN.raw_os_error()));
                self.in_flight.drop_held(tag);
                self.clients.done(client);
            }
        }
    }

    fn caller(&mut self, thread: u32, ids: (u32, u32), now: Instant) -> Caller {
        self.identities.of(thread, ids, now, &mut self.tree, &mut self.engine)
    }

    /// The caller that opened a file, for a request of the kernel's own.
    fn opener(&mut self, handle: u64, extent: Extent, op: Op) -> Caller {
        let opener = self.shared.fs().opener(handle);
        let known = opener.and_then(|thread| self.identities.last_known(thread));
        known.unwrap_or_else(|| {
            if op == Op::Write {
                self.report.unknown_bytes += u64::from(extent.len);
            }
            Caller { process: 0, cgroup: self.engine.root() }
        })
    }

    /// Withdraws a request that has not been dispatched. One that has been is soon done.
    fn interrupt(&mut self, unique: u64, now: Instant) {
        let Some((tag, id)) = self.in_flight.find(unique) else { return };
        if self.engine.withdraw(now, id).is_some() {
            self.report.interrupted += 1;
            self.shared.reply(&reply::error(unique, Errno::INTR.raw_os_error()));
            let client = self.in_flight.drop_held(tag);
            self.clients.done(client);
        }
    }
}

fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}
