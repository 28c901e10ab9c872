//! The loop of a device thread: completions in, engine, operations out.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use slab::Slab;
use tokio::sync::oneshot;
use tracing::{debug, info};
use weir_engine::{Instant, Outcome, Request};
use weir_recording::RecordedEngine;
use weir_uring::Completion;

use super::backpressure::Backpressure;
use super::cached::Cached;
use super::clients::Clients;
use super::connection::Connection;
use super::connections::Connections;
use super::dispatch::Dispatching;
use super::export_paths::ExportPaths;
use super::failures::Failures;
use super::health;
use super::lateness::Lateness;
use super::published::Published;
use super::quota::{ClientQuota, Memory, Waiter};
use super::report::DeviceReport;
use super::request::{Origin, PendingRequest, engine_op};
use super::ring::DeviceRing;
use super::shutdown::Shutdown;
use super::storage::Storage;
use super::token::Token;
use super::zero_runs::Run;
use super::{DeviceError, Setup};
use crate::command::Command;
use crate::exports::DeviceId;
use crate::log_limit::LogLimit;
use crate::presence::Presence;
use crate::registry::Registry;
use crate::seats::Seats;

/// Longest a send or a payload may make no end while other connections wait for the memory it holds.
const STUCK_NS: u64 = 5_000_000_000;
/// How often in one turn connections that have waited for what the turn itself has given back may go on: once more is
/// what most need, and clients whose requests end at once would go on for ever.
const ROUNDS_A_TURN: u32 = 2;
/// Extents looked up in one turn. Each takes a microsecond or two, more where the file's map is not in memory, and other
/// connections wait for it.
const LOOKS_A_TURN: usize = 16;

/// A device thread at work: the engine, and everything else.
pub(super) struct Reactor {
    pub(super) engine: RecordedEngine,
    pub(super) io: DeviceIo,
}

/// Connections, requests, device and counters of a device thread; all but the engine, which it feeds.
pub(super) struct DeviceIo {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) id: DeviceId,
    pub(super) ring: Box<dyn DeviceRing>,
    pub(super) storage: Storage,
    /// The write-back cache, if there is one.
    pub(super) cache: Option<Box<Cached>>,
    /// All devices and exports of the server.
    pub(super) registry: Arc<Registry>,
    pub(super) export_paths: ExportPaths,
    /// Connections of all device threads that have chosen an export.
    pub(super) presence: Arc<Presence>,
    pub(super) connections: Connections,
    pub(super) seats: Arc<Seats>,
    pub(super) cgroups_max: usize,
    /// What is told of cgroups to those that look.
    pub(super) published: Published,
    /// The present turn's instant, in nanoseconds.
    pub(super) now_ns: u64,
    pub(super) clients: Clients,
    pub(super) requests: Slab<PendingRequest>,
    /// Longest part of a long command.
    pub(super) part_bytes_max: u32,
    pub(super) dispatching: Dispatching,
    /// There is more to do than was done in this turn.
    pub(super) is_busy: bool,
    pub(super) backpressure: Backpressure,
    pub(super) shutdown: Shutdown,
    pub(super) health: health::DeviceHealth,
    /// Rate limiter of log lines that clients can cause.
    pub(super) log_limit: LogLimit,
    pub(super) failures: Failures,
    pub(super) lateness: Lateness,
    /// Those that wait for a status.
    pub(super) status_waiters: Vec<oneshot::Sender<DeviceReport>>,
    /// Scratch for what the protocol writes.
    pub(super) scratch: Vec<u8>,
    /// Scratch for the parts of a read that has holes.
    pub(super) runs: Vec<Run>,
}

impl Reactor {
    pub(super) fn new(
        setup: Setup,
        engine: RecordedEngine,
        mut ring: Box<dyn DeviceRing>,
    ) -> io::Result<Reactor> {
        let disk = ring.attach(setup.backend);
        let now_ns = ring.now_ns();
        let cache = setup
            .cache
            .map(|settings| Cached::new(settings, disk.info().size, now_ns))
            .transpose()?;
        let requests_max = setup.engine.requests_max.get() as usize;
        let depth = setup.engine.depth.get() as usize;
        let io = DeviceIo {
            name: setup.name,
            path: setup.path,
            id: setup.handle.id,
            ring,
            storage: Storage::new(disk, setup.model),
            cache: cache.map(Box::new),
            export_paths: ExportPaths::new(setup.exports),
            registry: setup.registry,
            presence: setup.presence,
            connections: Connections::default(),
            seats: setup.seats,
            published: Published::new(setup.handle.board),
            // What the configuration has is there already.
            now_ns,
            cgroups_max: setup.cgroups_max.max(engine.cgroup_count() as usize),
            clients: Clients::default(),
            requests: Slab::new(),
            part_bytes_max: setup.part_bytes_max,
            dispatching: Dispatching::default(),
            is_busy: false,
            backpressure: Backpressure::new(requests_max, depth),
            shutdown: Shutdown::new(setup.drain_ns),
            health: health::DeviceHealth::default(),
            log_limit: LogLimit::default(),
            failures: Failures::default(),
            lateness: Lateness::default(),
            status_waiters: Vec::new(),
            scratch: Vec::new(),
            runs: Vec::new(),
        };
        let mut reactor = Reactor { engine, io };
        reactor.publish_root();
        Ok(reactor)
    }

    /// Serves until a drain is over. The engine's clock is the ring's: nanoseconds of the monotonic clock.
    pub(super) fn run(&mut self, commands: &Receiver<Command>) -> Result<(), DeviceError> {
        // What was said before there was a waker.
        let mut now = Instant::from_nanos(self.io.ring.now_ns());
        self.handle_commands(now, commands);
        while !self.io.shutdown.has_ended() {
            let due = self.engine.poll_timeout();
            let is_busy = std::mem::take(&mut self.io.is_busy);
            let deadline = match is_busy || self.io.storage.warm(&mut *self.io.ring) {
                true => Some(0),
                false => self.deadline(now, due),
            };
            self.io.ring.wait(deadline).map_err(DeviceError::Ring)?;
            now = Instant::from_nanos(self.io.ring.now_ns());
            self.io.now_ns = now.as_nanos();
            if let Some(late_ns) = self.io.lateness.note(now, due) {
                debug!(device = self.io.name, late_ns, "woke late for a limit");
            }
            while let Some(completion) = self.io.ring.poll_completion() {
                self.handle(now, completion, commands);
            }
            self.finish_modelled(now, commands);
            let mut looks = LOOKS_A_TURN;
            for _ in 0..ROUNDS_A_TURN {
                self.tend_cache(now);
                self.engine.turn(now, &mut self.io);
                let mut has_completed = false;
                while let Some(key) = self.io.look(&mut looks) {
                    has_completed = true;
                    self.on_complete(now, Token::Disk(key).pack(), None, Ok(()));
                }
                // What is done may be what a flush, or a write, waits for.
                let is_news = has_completed && self.io.cache.is_some();
                self.io.is_busy = self.resume(now) || is_news;
                if !self.io.is_busy {
                    break;
                }
            }
            self.io.is_busy |= self.io.dispatching.has_immediate();
            self.publish();
            self.report(now);
            while let Some(key) = self.io.connections.poll_answered() {
                self.finish_if_answered(now, key);
            }
            self.expire(now);
            self.io.send_all(now);
        }
        let left_out = self.io.log_limit.left_out_untold();
        if left_out > 0 {
            info!(device = self.io.name, left_out, "log lines were left out");
        }
        self.io.check_loss()?;
        self.io.check_cut()?;
        self.io.shutdown.check_flushed()
    }

    fn handle(&mut self, now: Instant, completion: Completion, commands: &Receiver<Command>) {
        match completion {
            Completion::Received { token, result } => self.received(now, token, result),
            Completion::Filled { token, buffer, result } => {
                self.filled(now, token, buffer, result);
            }
            Completion::Sent { token, result } => self.sent(now, token, result),
            Completion::Closed { token } => self.closed(token),
            Completion::Read { token, buffer, result } => {
                self.on_complete(now, token, Some(buffer), result);
            }
            Completion::Written { token, buffer, result } => {
                self.io.backpressure.note_released();
                self.on_complete(now, token, Some(buffer), result);
            }
            Completion::Done { token, result } => match Token::unpack(token) {
                Token::LastFlush => self.io.flushed_last(result),
                _ => self.on_complete(now, token, None, result),
            },
            Completion::Woken => self.handle_commands(now, commands),
        }
    }

    fn handle_commands(&mut self, now: Instant, commands: &Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.handle_command(now, command);
        }
    }

    /// Carries out what an emulated device has finished by now. Memory has done it at once: it is answered in this turn.
    fn finish_modelled(&mut self, now: Instant, commands: &Receiver<Command>) {
        let mut is_any = false;
        while let Some(key) = self.io.storage.poll_done(now.as_nanos()) {
            is_any = true;
            let mut next = Some(key);
            while let Some(key) = next {
                next = self.io.requests[key].joined.take();
                if self.io.requests[key].is_at_last_piece() {
                    self.io.requests[key].piece = self.io.requests[key].extent;
                    self.io.start_dispatched(key);
                } else {
                    self.next_piece(now, key, None);
                }
            }
        }
        while is_any && let Some(completion) = self.io.ring.poll_completion() {
            self.handle(now, completion, commands);
        }
    }

    /// A request is back from the device.
    fn on_complete(
        &mut self,
        now: Instant,
        token: u64,
        buffer: Option<weir_uring::IoBuf>,
        result: io::Result<()>,
    ) {
        let Token::Disk(key) = Token::unpack(token) else { unreachable!("a device's token") };
        self.io.end_piece(key, result.is_ok());
        let pending = &mut self.io.requests[key];
        if result.is_ok() && !pending.is_at_last_piece() {
            return self.next_piece(now, key, buffer);
        }
        if result.is_ok() && pending.rest > 0 {
            return self.next_part(now, key);
        }
        let mut buffer = buffer;
        if let (Origin::Client(_), Some(buffer)) = (&pending.origin, &mut buffer) {
            pending.show_whole(buffer);
        }
        let (buffer, result) = match self.io.cache {
            Some(_) => match self.io.back_from_device(key, buffer, result) {
                Some(done) => done,
                None => return,
            },
            None => (buffer, result),
        };
        let mut pending = self.io.requests.remove(key);
        let size = self.io.storage.disk.info().size;
        self.io.health.note(pending.extent.offset, size, &result);
        let result = self.io.note_outcome(now, &pending, result);
        let ticket = pending.ticket.take().expect("only dispatched requests reach the device");
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        self.engine.complete(now, ticket, outcome);
        self.io.backpressure.note_released();
        self.io.note_left_former(now, &mut pending.origin);
        match pending.origin {
            Origin::Client(_) => self.io.answer(pending, buffer, result),
            Origin::Cache(write) => self.io.written_back(now, write.id, &result),
        }
    }

    /// The device is done with a piece of a long request: the next one waits for its turn, unless there is no client left
    /// that wants it.
    fn next_piece(&mut self, now: Instant, key: usize, buffer: Option<weir_uring::IoBuf>) {
        let pending = &mut self.io.requests[key];
        pending.buffer = pending.buffer.take().or(buffer);
        let ticket = pending.ticket.take().expect("only dispatched requests reach the device");
        let id = ticket.id();
        let is_done = self.engine.complete(now, ticket, Outcome::Done);
        assert!(!is_done, "the engine cuts requests, and knows of a last piece");
        let Origin::Client(client) = &pending.origin else { return };
        if self.io.connections.open(client.connection, client.serial).is_none() {
            self.engine.withdraw(now, id).expect("its next piece waits");
            self.io.forget_withdrawn(key);
        }
    }

    /// The device is done with a part of a command that is too long for the engine: the next one is a request of its own,
    /// unless there is no client left that wants it.
    #[cold]
    fn next_part(&mut self, now: Instant, key: usize) {
        let pending = &mut self.io.requests[key];
        let ticket = pending.ticket.take().expect("only dispatched requests reach the device");
        let is_done = self.engine.complete(now, ticket, Outcome::Done);
        assert!(is_done, "the last piece of a part is the last that the engine knows of");
        let (op, joined) = (pending.command.op, pending.joined);
        debug_assert!(joined.is_none(), "what was joined has been carried out");
        let Origin::Client(client) = &mut pending.origin else { return };
        if let Some((former, inside_ns)) = client.left_former(now.as_nanos()) {
            self.io.published.waits_of(former).note_inside(inside_ns);
        }
        let connection = self.io.connections.open(client.connection, client.serial);
        let Some(bound) = connection.and_then(|connection| connection.bound) else {
            return self.io.forget_withdrawn(key);
        };
        pending.advance(self.io.part_bytes_max);
        let request = Request::new(bound.member.task, engine_op(op), pending.extent, key as u64);
        // The place of the part before it is free.
        let id = self.engine.submit(now, request);
        pending.id = Some(id.expect("the engine has room for one request more than a moment ago"));
    }

    /// The earliest of everything that happens by itself.
    fn deadline(&self, now: Instant, due: Option<Instant>) -> Option<u64> {
        let io = &self.io;
        let pressed = io.backpressure.is_waiting() || io.dispatching.is_waiting_for_buffer();
        [
            due.map(Instant::as_nanos),
            self.engine.recording_due().map(Instant::as_nanos),
            io.cache.as_ref().and_then(|cache| cache.next_event()),
            io.storage.next_event(),
            io.connections.next_due(),
            io.drain_due_ns(now.as_nanos()),
            pressed.then(|| now.as_nanos() + STUCK_NS / 5),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Ends what has taken too long: handshakes, stuck sends when memory is short, a drain.
    fn expire(&mut self, now: Instant) {
        self.watch_device(now);
        while let Some(key) = self.io.connections.poll_late_handshake(now) {
            self.drop_client(now, key, "the handshake took too long");
        }
        if self.io.backpressure.is_waiting() || self.io.dispatching.is_waiting_for_buffer() {
            self.drop_slowest(now);
        }
        if self.io.shutdown.is_draining() {
            self.drain(now);
        }
    }

    /// Ends one connection for the memory it holds, where another connection waits for memory: of those that have not taken
    /// their replies, or not sent the payload that they have announced, for [`STUCK_NS`], the one that holds most. It is one
    /// of the cgroup that waits, unless memory is short for all.
    fn drop_slowest(&mut self, now: Instant) {
        let io = &self.io;
        let stands_for = |connection: &Connection, ns| {
            let too_long = |since_ns| now.as_nanos().saturating_sub(since_ns) > ns;
            let incoming = connection.incoming.as_ref();
            connection.sending_bytes > 0 && too_long(connection.sending_since_ns)
                || incoming.is_some_and(|incoming| too_long(incoming.since_ns))
        };
        let is_stuck = |connection: &Connection| stands_for(connection, STUCK_NS);
        // A connection that takes nothing would not be helped by more, and is known long before it is stuck.
        let is_slow = |connection: &Connection| stands_for(connection, STUCK_NS / 5);
        let is_in_need = |(key, serial): Waiter| {
            let connection = io.connections.open(key, serial);
            connection
                .is_some_and(|connection| connection.stalled.is_some() && !is_slow(connection))
        };
        let in_need = |quota: &&Rc<ClientQuota>| quota.any_waiting(is_in_need);
        let clients: Vec<&Rc<ClientQuota>> = io.backpressure.clients().filter(in_need).collect();
        // Each kind of memory is half of the budget.
        let is_scarce = |memory| io.clients.held(memory) > io.ring.pool().budget() / 4;
        let is_short = io.dispatching.is_waiting_for_buffer()
            || !clients.is_empty() && [Memory::Payload, Memory::Replies].into_iter().any(is_scarce);
        let may_go = |connection: &Connection| {
            is_short || clients.iter().any(|client| client.is_beside(&connection.quota))
        };
        let stuck = io
            .connections
            .iter()
            .filter(|(_, connection)| is_stuck(connection) && may_go(connection));
        let slowest =
            stuck.max_by_key(|(_, connection)| connection.held_bytes.iter().sum::<usize>());
        if let Some((key, _)) = slowest {
            self.drop_client(now, key, "it is too slow and others need the memory it holds");
        }
    }

    /// Ends the oldest connection that has not shaken hands for a second, for a new one that finds no seat; `true` if there
    /// was one. Those that have a seat are kept in the order in which they came.
    pub(super) fn make_seat(&mut self, now: Instant) -> bool {
        let slow = self.io.connections.slow_handshake(now);
        if let Some(key) = slow {
            self.drop_client(now, key, "it does not shake hands and others need its place");
        }
        slow.is_some()
    }
}
