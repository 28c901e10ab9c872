//! Simulated world behind [`DeviceRing`]: clock, sockets with clients behind them, a disk, and what goes wrong.
//!
//! All happens inside [`DeviceRing::wait`], in the order of virtual time: the device thread's loop runs as it is.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::Semaphore;
use weir_engine::{Limits, Path, PerDimension, SchedulerKind};
use weir_nbd::ExportId;
use weir_uring::{
    Backend, BufferPool, Completion, Disk as DiskHandle, DiskExtent, Durability, IoBuf, Message,
    Socket, SyncFailures, ZeroOptions, fake,
};

use super::checker::{Checker, UNIT};
use super::client::{Client, State};
use super::disk::{Disk, Request, Work};
use super::plan::{End, Faults, Plan};
use super::rng::Rng;
use crate::command::{Command, Setting};
use crate::device::DeviceReport;
use crate::device::Greeting;
use crate::device::clients::Peer;
use crate::device::ring::DeviceRing;
use crate::exports::ExportPlace;

/// Most bytes that lie in a socket each way.
const SOCKET_BYTES: usize = 64 << 10;
/// Longest that clients may wait for answers once nothing goes wrong any more, and that a drain may take.
const PATIENCE_NS: u64 = 600_000_000_000;
/// Most turns of the loop: more is a loop without progress.
const TURNS_MAX: u64 = 2_000_000;

pub(super) struct World {
    pub(super) now_ns: u64,
    rng: Rng,
    plan: Plan,
    faults: Faults,
    events: BTreeMap<(u64, u64), Event>,
    serial: u64,
    ready: VecDeque<Completion>,
    /// By the number of their descriptors, those that are not the ring's yet.
    incoming: BTreeMap<i32, usize>,
    sockets: Vec<Link>,
    /// Clients that wait to be accepted.
    arriving: VecDeque<usize>,
    turns_to_greet: Arc<Semaphore>,
    pub(super) clients: Vec<Client>,
    pub(super) checker: Checker,
    pub(super) disk: Disk,
    at_disk: BTreeMap<u64, Request>,
    commands: Sender<Command>,
    phase: Phase,
    pub(super) status: Option<tokio::sync::oneshot::Receiver<DeviceReport>>,
    turns: u64,
    pub(super) violation: Option<String>,
    pub(super) has_crashed: bool,
    /// What the descriptors of sockets are copies of.
    null: std::fs::File,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Faulty,
    /// Nothing goes wrong any more.
    Calm {
        since_ns: u64,
    },
    Draining {
        since_ns: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Step(usize),
    Accept,
    Receive(usize),
    Send(usize),
    Closed(usize, u64),
    Disk(u64),
    Change,
    Gone(bool),
    Calm,
    Drain,
    Crash,
}

/// A connection between a client and the server.
#[derive(Default)]
struct Link {
    client: Option<usize>,
    fd: Option<OwnedFd>,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// The client sends no more.
    is_ended: bool,
    /// The client has gone without a word.
    is_reset: bool,
    /// The server has closed it.
    is_closed: bool,
    receiving: Option<Receiving>,
    sending: Option<Sending>,
}

struct Sending {
    token: u64,
    /// Keeps its buffers until all is sent.
    _message: Message,
    bytes: Vec<u8>,
    done: usize,
}

enum Receiving {
    Some { token: u64 },
    Fill { token: u64, buffer: IoBuf, done: usize },
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan, commands: Sender<Command>) -> io::Result<World> {
        let units = (plan.device_bytes / UNIT) as usize;
        let size = plan.device_bytes / plan.exports as u64;
        let clients = plan
            .clients
            .iter()
            .map(|client| Client::new(client.clone(), client.export as u64 * size, size))
            .collect();
        let mut world = World {
            now_ns: 1_000_000_000,
            rng: Rng::new(seed ^ 0x5eed),
            faults: plan.faults,
            events: BTreeMap::new(),
            serial: 0,
            ready: VecDeque::new(),
            incoming: BTreeMap::new(),
            sockets: Vec::new(),
            arriving: VecDeque::new(),
            turns_to_greet: Arc::new(Semaphore::new(1 << 20)),
            clients,
            checker: Checker::new(units),
            disk: Disk::new(units),
            at_disk: BTreeMap::new(),
            commands,
            phase: Phase::Faulty,
            status: None,
            turns: 0,
            violation: None,
            has_crashed: false,
            null: std::fs::File::open("/dev/null")?,
            plan,
        };
        for client in 0..world.clients.len() {
            let starts_ns = world.clients[client].plan.starts_ns;
            world.after(starts_ns, Event::Step(client));
        }
        match world.plan.end {
            End::Crash { at_ns } => world.after(at_ns, Event::Crash),
            End::Busy { at_ns, again_ns } => {
                world.after(at_ns, Event::Drain);
                again_ns.into_iter().for_each(|at_ns| world.after(at_ns, Event::Drain));
            }
            End::Quiet => {}
        }
        world.after(world.plan.faults_until_ns, Event::Calm);
        if world.faults.gone {
            let from_ns = world.rng.below(world.plan.faults_until_ns);
            world.after(from_ns, Event::Gone(true));
            world.after(world.plan.faults_until_ns, Event::Gone(false));
        }
        if world.faults.changes {
            for _ in 0..world.rng.between(1, 6) {
                let at_ns = world.rng.below(world.plan.faults_until_ns);
                world.after(at_ns, Event::Change);
            }
        }
        Ok(world)
    }

    fn after(&mut self, delay_ns: u64, event: Event) {
        self.serial += 1;
        // Events of one instant come in any order.
        let order = self.rng.next() << 20 | self.serial & 0xf_ffff;
        self.events.insert((self.now_ns + delay_ns, order), event);
    }

    fn soon(&mut self, event: Event) {
        let delay_ns = self.rng.below(50_000);
        self.after(delay_ns, event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Step(client) => self.step(client),
            Event::Accept => self.accept_next(),
            Event::Receive(link) => self.deliver(link),
            Event::Send(link) => self.take_message(link),
            Event::Closed(link, token) => {
                self.sockets[link].fd = None;
                self.sockets[link].receiving = None;
                self.sockets[link].sending = None;
                self.ready.push_back(Completion::Closed { token });
            }
            Event::Disk(id) => self.finish(id),
            Event::Change => self.change(),
            Event::Gone(is_gone) => self.disk.is_gone = is_gone,
            Event::Calm => {
                self.faults = Faults::default();
                self.phase = Phase::Calm { since_ns: self.now_ns };
                for client in 0..self.clients.len() {
                    self.clients[client].reads = true;
                    self.clients[client].plan.chunk = 1 << 20;
                    self.soon(Event::Step(client));
                }
            }
            Event::Drain => self.drain(),
            Event::Crash => self.has_crashed = true,
        }
    }

    fn drain(&mut self) {
        self.phase = Phase::Draining { since_ns: self.now_ns };
        self.command(Command::Drain);
    }

    fn command(&mut self, command: Command) {
        // A loop that has ended takes none.
        let _ = self.commands.send(command);
        self.ready.push_back(Completion::Woken);
    }

    fn change(&mut self) {
        let export = self.rng.below(self.plan.exports as u64) as usize;
        let cgroup = Path::parse(&format!("/e{export}")).expect("a path");
        if self.rng.chance(300) {
            let written = [self.plan.client_max[export], PerDimension::NONE];
            let (name, export) = (format!("e{export}"), ExportId(export as u32));
            if self.faults.closes_exports {
                self.command(Command::CloseExport(export));
            }
            let client_max = self.rng.pick(&written);
            let place = ExportPlace { export, name, cgroup, client_max };
            return self.command(Command::ServeExport(place));
        }
        let setting = match self.rng.below(4) {
            0 => Setting::Limits(Limits::default()),
            1 => Setting::Limits(self.plan.limits[export]),
            2 => Setting::Depth(NonZeroU32::new(self.rng.between(1, 32) as u32).expect("from 1")),
            _ => Setting::Scheduler(self.rng.pick(&[SchedulerKind::None, SchedulerKind::Bfq])),
        };
        let (reply, _) = tokio::sync::oneshot::channel();
        self.command(Command::Apply { settings: vec![(cgroup, setting)], reply });
    }

    /// A client does what it does next.
    fn step(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let step_ns = client.plan.step_ns;
        match client.state {
            State::Done => return,
            State::Away if !self.arriving.contains(&index) => {
                self.arriving.push_back(index);
                self.soon(Event::Accept);
            }
            State::Away => {}
            State::Shaking(_) | State::Ready(_) => {
                if let Err(violation) = self.talk(index) {
                    self.violation.get_or_insert(violation);
                }
            }
        }
        let client = &self.clients[index];
        let unread = client.socket.map_or(0, |link| self.sockets[link].to_client.len());
        let is_waiting = client.to_send.is_empty() && unread == 0;
        let again_ns = 1 + self.rng.below(if is_waiting { 40 * step_ns } else { step_ns });
        self.after(again_ns, Event::Step(index));
    }

    fn talk(&mut self, index: usize) -> Result<(), String> {
        let client = &mut self.clients[index];
        let link = client.socket.expect("it is connected");
        if client.is_refused || self.rng.chance(self.faults.reset) {
            self.sockets[link].is_reset = true;
            client.disconnected(&mut self.checker);
            self.soon(Event::Receive(link));
            self.soon(Event::Send(link));
            return Ok(());
        }
        client.reads &=
            !(client.plan.stops_reading && self.phase == Phase::Faulty && self.rng.chance(100));
        let socket = &mut self.sockets[link];
        if client.reads {
            let len = socket.to_client.len().min(client.plan.chunk);
            let bytes: Vec<u8> = socket.to_client.drain(..len).collect();
            client.take(&bytes, &mut self.checker, self.disk.sync_failures.count)?;
            if socket.is_closed && socket.to_client.is_empty() {
                client.disconnected(&mut self.checker);
                return Ok(());
            }
            if len > 0 && socket.sending.is_some() {
                self.soon(Event::Send(link));
            }
        }
        let client = &mut self.clients[index];
        while client.issue(&mut self.checker, self.disk.sync_failures.count, &mut self.rng) {}
        let is_finished = client.left == 0 && client.asked.is_empty();
        if is_finished && matches!(client.state, State::Ready(_)) && client.to_send.is_empty() {
            let socket = &mut self.sockets[link];
            if !socket.is_ended && self.rng.chance(200) {
                if self.rng.chance(700) {
                    client.say_goodbye();
                }
                client.state = State::Done;
                let last: Vec<u8> = client.to_send.drain(..).collect();
                socket.to_server.extend(last);
                socket.is_ended = true;
                client.disconnected(&mut self.checker);
                self.soon(Event::Receive(link));
                self.soon(Event::Send(link));
                return Ok(());
            }
        }
        let socket = &mut self.sockets[link];
        let room = SOCKET_BYTES.saturating_sub(socket.to_server.len());
        let len = client.to_send.len().min(client.plan.chunk).min(room);
        if len > 0 && !socket.is_closed {
            socket.to_server.extend(client.to_send.drain(..len));
            if socket.receiving.is_some() {
                self.soon(Event::Receive(link));
            }
        }
        Ok(())
    }

    fn accept_next(&mut self) {
        // A server that ends accepts nothing.
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        let client = self.arriving.pop_front().expect("one event for each");
        let link = self.sockets.len();
        self.sockets.push(Link { client: Some(client), ..Link::default() });
        self.clients[client].connect(link);
        let fd = self.descriptor();
        self.incoming.insert(fd.as_raw_fd(), link);
        let turn = Arc::clone(&self.turns_to_greet).try_acquire_owned().expect("there are many");
        self.command(Command::Greet(Greeting { fd, turn }));
    }

    /// A descriptor to stand for a socket.
    fn descriptor(&self) -> OwnedFd {
        self.null.try_clone().expect("a descriptor").into()
    }

    /// Gives the server bytes that its receive has waited for.
    fn deliver(&mut self, link: usize) {
        let socket = &mut self.sockets[link];
        if socket.is_closed {
            return;
        }
        let is_over = socket.is_ended && socket.to_server.is_empty();
        let reset = || io::Error::from_raw_os_error(104);
        match socket.receiving.take() {
            None => {}
            Some(Receiving::Some { token }) if socket.is_reset => {
                self.ready.push_back(Completion::Received { token, result: Err(reset()) });
            }
            Some(Receiving::Some { token }) if is_over => {
                self.ready.push_back(Completion::Received { token, result: Ok(None) });
            }
            Some(Receiving::Some { token }) if !socket.to_server.is_empty() => {
                let most = 1 + self.rng.below(16 << 10) as usize;
                let len = socket.to_server.len().min(most);
                let bytes = fake::received(socket.to_server.drain(..len).collect());
                self.ready.push_back(Completion::Received { token, result: Ok(Some(bytes)) });
            }
            Some(Receiving::Fill { token, mut buffer, mut done }) => {
                let len = socket.to_server.len().min(buffer.len() - done);
                for byte in &mut buffer[done..done + len] {
                    *byte = socket.to_server.pop_front().expect("so many are there");
                }
                done += len;
                let result = match done == buffer.len() {
                    _ if socket.is_reset => Err(reset()),
                    true => Ok(()),
                    false if is_over || socket.is_ended => Err(io::ErrorKind::UnexpectedEof.into()),
                    false => {
                        socket.receiving = Some(Receiving::Fill { token, buffer, done });
                        return;
                    }
                };
                self.ready.push_back(Completion::Filled { token, buffer, result });
            }
            waiting => socket.receiving = waiting,
        }
    }

    /// Takes bytes of a message into the socket, as far as there is room.
    fn take_message(&mut self, link: usize) {
        let socket = &mut self.sockets[link];
        let Some(mut sending) = socket.sending.take() else { return };
        if socket.is_closed {
            return;
        }
        let is_gone = socket.is_reset || socket.is_ended && self.rng.chance(500);
        if is_gone {
            let result = Err(io::Error::from_raw_os_error(32));
            self.ready.push_back(Completion::Sent { token: sending.token, result });
            return;
        }
        let room = SOCKET_BYTES.saturating_sub(socket.to_client.len());
        let len = room.min(sending.bytes.len() - sending.done);
        // A client that has said goodbye reads no more.
        if !socket.is_ended {
            socket.to_client.extend(&sending.bytes[sending.done..sending.done + len]);
        }
        sending.done += len;
        if sending.done == sending.bytes.len() {
            self.ready.push_back(Completion::Sent { token: sending.token, result: Ok(()) });
        } else {
            socket.sending = Some(sending);
        }
    }

    fn start(&mut self, request: Request) {
        let is_modelled = self.plan.model.is_some();
        self.serial += 1;
        let id = self.serial;
        self.at_disk.insert(id, request);
        if is_modelled {
            return self.finish(id);
        }
        let delay_ns = match self.rng.chance(self.faults.slow) {
            true => self.rng.below(3_000_000_000),
            false => self.rng.between(20_000, 300_000),
        };
        self.after(delay_ns, Event::Disk(id));
    }

    fn finish(&mut self, id: u64) {
        let mut request = self.at_disk.remove(&id).expect("it is at the disk");
        let per_mille = match request.work {
            Work::Read { .. } => self.faults.read_fails,
            Work::Write { .. } | Work::Zero => self.faults.write_fails,
            Work::Flush { .. } => self.faults.flush_fails,
            Work::Prefetch => 0,
        };
        let fails = self.rng.chance(per_mille);
        let result = self.disk.finish(&mut request, fails, &mut self.rng);
        let token = request.token;
        // Without a cache only a sync can fail what has been acknowledged.
        let is_acked = self.plan.cache.is_some() || matches!(request.work, Work::Flush { .. });
        let result = result.map_err(|(errno, lost)| {
            if is_acked {
                self.checker.fail_device(lost.into_iter());
            }
            io::Error::from_raw_os_error(errno)
        });
        self.ready.push_back(match request.work {
            Work::Read { buffer, .. } => Completion::Read { token, buffer, result },
            Work::Write { buffer } => Completion::Written { token, buffer, result },
            Work::Zero | Work::Flush { .. } | Work::Prefetch => Completion::Done { token, result },
        });
    }

    /// Lets the clients read what the server has sent them before its end: it takes that as told.
    ///
    /// # Errors
    /// What the server has answered and must not have.
    pub(super) fn deliver_rest(&mut self) -> Result<(), String> {
        for client in &mut self.clients {
            let Some(link) = client.socket else { continue };
            let socket = &mut self.sockets[link];
            if !socket.is_reset && !client.is_refused {
                let bytes: Vec<u8> = socket.to_client.drain(..).collect();
                client.take(&bytes, &mut self.checker, self.disk.sync_failures.count)?;
            }
        }
        Ok(())
    }

    fn describe(&self, index: usize) -> String {
        let client = &self.clients[index];
        let link = client.socket.map(|link| &self.sockets[link]);
        let link = link.map_or_else(String::new, |link| {
            format!(
                ", {} B to the server ({}), {} B to the client ({}{})",
                link.to_server.len() + client.to_send.len(),
                if link.receiving.is_some() { "wanted" } else { "not wanted" },
                link.to_client.len(),
                if link.sending.is_some() { "more to come" } else { "no more" },
                if link.is_closed { ", closed" } else { "" },
            )
        });
        let state = match client.state {
            State::Away => "away",
            State::Shaking(_) => "shaking hands",
            State::Ready(_) => "connected",
            State::Done => "done",
        };
        let asked = client.asked.values().next();
        format!(
            "client {index} {state}, first {asked:?}, {} without answer, {} to ask{link}",
            client.asked.len(),
            client.left
        )
    }

    /// What must be checked, and done, between two events.
    fn look_around(&mut self) -> io::Result<()> {
        let over = |reason: String| Err(io::Error::other(reason));
        if self.has_crashed {
            return over("power is lost".into());
        }
        if let Some(violation) = &self.violation {
            return over(violation.clone());
        }
        let waits_ns = match self.phase {
            Phase::Faulty => 0,
            Phase::Calm { since_ns } | Phase::Draining { since_ns } => self.now_ns - since_ns,
        };
        if waits_ns > PATIENCE_NS + self.plan.drain_ns || self.turns > TURNS_MAX {
            let waiting: Vec<_> = (0..self.clients.len())
                .filter(|&client| !self.clients[client].is_idle())
                .map(|client| self.describe(client))
                .collect();
            let violation = format!(
                "no end after {} turns, {:?} for {} s: {}; {} requests at the disk",
                self.turns,
                self.phase,
                waits_ns / 1_000_000_000,
                waiting.join(", "),
                self.at_disk.len()
            );
            self.violation = Some(violation.clone());
            return over(violation);
        }
        let is_quiet = self.plan.end == End::Quiet
            && matches!(self.phase, Phase::Calm { .. })
            && self.clients.iter().all(Client::is_idle);
        if is_quiet && self.status.is_none() {
            let (reply, status) = tokio::sync::oneshot::channel();
            self.status = Some(status);
            self.command(Command::Status { reply });
            self.soon(Event::Drain);
        }
        Ok(())
    }
}

/// The ring of a simulated world.
pub(super) struct SimulatedRing {
    world: Rc<RefCell<World>>,
    pool: BufferPool,
    messages: fake::Messages,
}

impl SimulatedRing {
    pub(super) fn new(world: Rc<RefCell<World>>, pool_bytes: usize) -> io::Result<SimulatedRing> {
        let (pool, messages) = (BufferPool::new(pool_bytes)?, fake::Messages::new()?);
        Ok(SimulatedRing { world, pool, messages })
    }

    /// The listener is the first socket, 0; links have the numbers after it.
    fn link(socket: &Socket) -> usize {
        fake::number(socket) as usize - 1
    }
}

impl DeviceRing for SimulatedRing {
    fn now_ns(&self) -> u64 {
        self.world.borrow().now_ns
    }

    fn wait(&mut self, deadline_ns: Option<u64>) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        world.turns += 1;
        // A turn takes some time, too.
        let turn_ns = world.rng.between(200, 2200);
        world.now_ns += turn_ns;
        loop {
            world.look_around()?;
            let next = world.events.keys().next().copied();
            let at_ns = next.map_or(u64::MAX, |(at_ns, _)| at_ns);
            let is_due = at_ns <= world.now_ns;
            if !is_due && !world.ready.is_empty() {
                return Ok(());
            }
            if deadline_ns.is_some_and(|deadline_ns| deadline_ns < at_ns) && !is_due {
                let late_ns = world.rng.below(60_000);
                world.now_ns =
                    world.now_ns.max(deadline_ns.unwrap_or(0).saturating_add(late_ns).min(at_ns));
                return Ok(());
            }
            let Some((key, event)) = world.events.pop_first() else {
                let violation = "nothing will ever happen any more".to_owned();
                world.violation = Some(violation.clone());
                return Err(io::Error::other(violation));
            };
            world.now_ns = world.now_ns.max(key.0);
            world.handle(event);
            // Completions may come one by one, or all of an instant and of what follows shortly.
            if !world.ready.is_empty() && world.rng.chance(500) {
                return Ok(());
            }
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.world.borrow_mut().ready.pop_front()
    }

    fn cancel_all(&mut self, _within_ns: u64) -> usize {
        0
    }

    fn pool(&self) -> &BufferPool {
        &self.pool
    }

    fn message(&mut self) -> Message {
        self.messages.message()
    }

    fn peer(&self, connection: &OwnedFd, serial: u64) -> Peer {
        let world = self.world.borrow();
        let link = world.incoming.get(&connection.as_raw_fd());
        let client = link.and_then(|&link| world.sockets[link].client);
        match client.map(|client| world.clients[client].plan.address) {
            Some(address) if address < 3 => Peer::Address([192, 0, 2, address].into()),
            _ => Peer::Unknown(serial),
        }
    }

    fn add_socket(&mut self, fd: OwnedFd) -> io::Result<Socket> {
        let mut world = self.world.borrow_mut();
        let Some(link) = world.incoming.remove(&fd.as_raw_fd()) else {
            return Ok(fake::socket(0));
        };
        world.sockets[link].fd = Some(fd);
        Ok(fake::socket(link as u32 + 1))
    }

    fn duplicate(&self, _socket: &Socket) -> io::Result<OwnedFd> {
        unreachable!("there is one device")
    }

    fn unread(&self, socket: &Socket) -> u64 {
        let world = self.world.borrow();
        let link = &world.sockets[SimulatedRing::link(socket)];
        if link.is_reset { 0 } else { link.to_server.len() as u64 }
    }

    fn peek(&self, socket: &Socket, bytes: &mut [u8]) -> usize {
        let world = self.world.borrow();
        let there = &world.sockets[SimulatedRing::link(socket)].to_server;
        bytes.iter_mut().zip(there).map(|(to, from)| *to = *from).count()
    }

    fn receive(&mut self, socket: &Socket, token: u64) {
        let mut world = self.world.borrow_mut();
        let link = SimulatedRing::link(socket);
        assert!(world.sockets[link].receiving.is_none(), "one receive at a time");
        world.sockets[link].receiving = Some(Receiving::Some { token });
        world.soon(Event::Receive(link));
    }

    fn receive_into(&mut self, socket: &Socket, buffer: IoBuf, from: usize, token: u64) {
        let mut world = self.world.borrow_mut();
        let link = SimulatedRing::link(socket);
        assert!(world.sockets[link].receiving.is_none(), "one receive at a time");
        world.sockets[link].receiving = Some(Receiving::Fill { token, buffer, done: from });
        world.soon(Event::Receive(link));
    }

    fn send(&mut self, socket: &Socket, message: Message, token: u64) {
        let mut world = self.world.borrow_mut();
        let link = SimulatedRing::link(socket);
        assert!(world.sockets[link].sending.is_none(), "one send at a time");
        let bytes = fake::bytes(&message);
        world.sockets[link].sending = Some(Sending { token, _message: message, bytes, done: 0 });
        world.soon(Event::Send(link));
    }

    fn close(&mut self, socket: Socket, token: u64) {
        let mut world = self.world.borrow_mut();
        let link = SimulatedRing::link(&socket);
        world.sockets[link].is_closed = true;
        // Bytes that the server has not read reset the connection, and what the client has not read is lost.
        if !world.sockets[link].to_server.is_empty() && world.rng.chance(500) {
            world.sockets[link].to_client.clear();
        }
        world.soon(Event::Closed(link, token));
    }

    fn release(&mut self, _socket: Socket, _token: u64) {
        unreachable!("there is one device")
    }

    fn attach(&mut self, backend: Backend) -> DiskHandle {
        let mut info = backend.info().clone();
        info.kind = weir_uring::DiskKind::Block;
        fake::disk(info)
    }

    fn read(&mut self, _disk: &DiskHandle, offset: u64, buffer: IoBuf, token: u64) {
        let world = &mut *self.world.borrow_mut();
        let request = world.disk.read(offset, buffer, token, &mut world.rng);
        world.start(request);
    }

    fn write(
        &mut self,
        _disk: &DiskHandle,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
    ) {
        let world = &mut *self.world.borrow_mut();
        let request = world.disk.write(offset, buffer, durability, token, &mut world.rng);
        world.start(request);
    }

    fn flush(&mut self, _disk: &DiskHandle, token: u64) {
        let world = &mut *self.world.borrow_mut();
        let request = world.disk.flush(token);
        world.start(request);
    }

    fn trim(
        &mut self,
        _disk: &DiskHandle,
        offset: u64,
        len: u64,
        durability: Durability,
        token: u64,
    ) {
        let world = &mut *self.world.borrow_mut();
        let units = offset / UNIT..(offset + len) / UNIT;
        let request = world.disk.zero(units, true, durability, token, &mut world.rng);
        world.start(request);
    }

    fn write_zeroes(
        &mut self,
        _disk: &DiskHandle,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        token: u64,
    ) {
        let world = &mut *self.world.borrow_mut();
        if options.fast_only && world.rng.chance(500) {
            let result = Err(io::Error::from_raw_os_error(95));
            return world.ready.push_back(Completion::Done { token, result });
        }
        let units = offset / UNIT..(offset + len) / UNIT;
        let request = world.disk.zero(units, false, options.durability, token, &mut world.rng);
        world.start(request);
    }

    fn prefetch(&mut self, _disk: &DiskHandle, _offset: u64, _len: u32, token: u64) {
        self.world.borrow_mut().start(Disk::prefetch(token));
    }

    fn extent(&mut self, _disk: &DiskHandle, offset: u64, end: u64) -> io::Result<DiskExtent> {
        let world = self.world.borrow();
        let (len, data) = world.disk.run(offset / UNIT, end / UNIT);
        Ok(DiskExtent { offset, len: len * UNIT, data })
    }

    fn warm(&mut self, _: &DiskHandle, range: Range<u64>, _: usize) -> io::Result<Range<u64>> {
        Ok(range.end..range.end)
    }

    fn look(&mut self, _disk: &DiskHandle) -> u64 {
        let world = self.world.borrow();
        if world.disk.is_gone { 0 } else { world.disk.units() as u64 * UNIT }
    }

    fn grow(&mut self, disk: &mut DiskHandle) -> u64 {
        disk.info().size
    }

    fn sync_failures(&self, _disk: &DiskHandle) -> SyncFailures {
        self.world.borrow().disk.sync_failures
    }
}
