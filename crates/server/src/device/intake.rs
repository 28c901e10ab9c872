//! Bytes from connections, made into requests, as fast as there is room for them.

use std::io;

use tracing::debug;
use weir_engine::{Extent, Instant, Request, SubmitError};
use weir_nbd::{Command, HandshakeState, Item, Op};
use weir_uring::{IoBuf, ReceivedBuf};

use super::backlog::{Backlog, Left, Memory};
use super::connection::{Arrival, Load, Payload, Stalled};
use super::ending::cut_refusal;
use super::flight::{Asker, Client, Flight, engine_op, memory_of};
use super::token::Token;
use super::waits::{Received, Why};
use super::worker::{Desk, Worker};
use crate::exports::Admission;

/// A payload with more than this still to come is received right into its buffer.
const FILL_BYTES: usize = 16 << 10;

/// Requests of one connection that are taken in at once: as many as take some tens of microseconds.
const REQUESTS_A_TURN: u32 = 128;

impl Worker {
    pub(super) fn received(
        &mut self,
        now: Instant,
        token: u64,
        result: io::Result<Option<ReceivedBuf>>,
    ) {
        let Token::Receive(key) = Token::unpack(token) else { unreachable!("a receive's token") };
        let connection = &mut self.desk.connections[key];
        (connection.receiving, connection.heard_ns) = (false, now.as_nanos());
        match result {
            Ok(Some(bytes)) => {
                let received = connection.stall_clock.now(now.as_nanos());
                self.digest(now, key, Arrival::ring(bytes, received));
            }
            // The peer is gone. Nobody is left to answer: what waits is withdrawn.
            Ok(None) => self.close(now, key),
            Err(error) => {
                debug!(device = self.desk.name, %error, "receive failed");
                self.close(now, key);
            }
        }
    }

    pub(super) fn filled(
        &mut self,
        now: Instant,
        token: u64,
        buffer: IoBuf,
        result: io::Result<()>,
    ) {
        let Token::Fill(key) = Token::unpack(token) else { unreachable!("a fill's token") };
        let connection = &mut self.desk.connections[key];
        (connection.receiving, connection.heard_ns) = (false, now.as_nanos());
        if result.is_err() {
            drop(buffer);
            self.close(now, key);
            return;
        }
        let payload = connection.payload.take().expect("a fill has a payload");
        if let Some(transmission) = connection.session.transmission() {
            transmission.take_payload(transmission.payload_remaining());
        }
        let load = Some(Load { buffer, hold: payload.hold });
        let (command, received) = (payload.command, payload.received);
        match self.enter(now, key, command, &received, load) {
            Ok(()) => self.digest(now, key, Arrival::none()),
            Err((why, load)) => {
                self.desk.stall(key, why, Some((command, received, load)), None);
            }
        }
    }

    /// Takes in what has arrived on a connection, until it is used up or there is no room for more.
    ///
    /// At most [`REQUESTS_A_TURN`] requests: the others of the device wait for it.
    pub(super) fn digest(&mut self, now: Instant, key: usize, mut arrival: Arrival) {
        let mut requests = REQUESTS_A_TURN;
        loop {
            let connection = &mut self.desk.connections[key];
            let is_behind = connection.is_behind();
            let Some(transmission) = connection.session.transmission() else {
                match self.shake_hands(now, key, arrival) {
                    Some(rest) => {
                        arrival = rest;
                        continue;
                    }
                    None => break,
                }
            };
            if connection.finishing {
                break;
            }
            if is_behind {
                return self.desk.stall(key, Why::Sending, None, Some(arrival));
            }
            if requests == 0 {
                return self.desk.stall(key, Why::Turn, None, Some(arrival));
            }
            let parsed = transmission.parse(arrival.left());
            let from = arrival.at;
            arrival.at += parsed.consumed;
            let received = arrival.received;
            match parsed.item {
                Item::NeedMore { .. } => {
                    self.desk.receive(key);
                    return;
                }
                Item::Request(command) => {
                    requests -= 1;
                    if let Err((why, _)) = self.enter(now, key, command, &received, None) {
                        return self.desk.stall(
                            key,
                            why,
                            Some((command, received, None)),
                            Some(arrival),
                        );
                    }
                }
                Item::Write(command) => {
                    requests -= 1;
                    if let Err(why) = self.desk.make_room(now, key, command, received) {
                        return self.desk.stall(
                            key,
                            why,
                            Some((command, received, None)),
                            Some(arrival),
                        );
                    }
                }
                Item::Payload { len } => {
                    let bytes = arrival.slice(from, len);
                    let payload = connection.payload.as_mut().expect("a payload has a write");
                    let buffer = payload.buffer.as_mut().expect("not at the ring");
                    buffer[payload.filled..payload.filled + len].copy_from_slice(bytes);
                    payload.filled += len;
                    if payload.filled == payload.command.len as usize {
                        let payload = connection.payload.take().expect("looked just now");
                        let buffer = payload.buffer.expect("not at the ring");
                        let load = Some(Load { buffer, hold: payload.hold });
                        let (command, received) = (payload.command, payload.received);
                        if let Err((why, load)) = self.enter(now, key, command, &received, load) {
                            let request = Some((command, received, load));
                            return self.desk.stall(key, why, request, Some(arrival));
                        }
                    }
                }
                Item::Refused(refusal) => {
                    requests -= 1;
                    self.desk.refuse(key, &refusal, &received);
                }
                Item::Disconnect => connection.finishing = true,
                Item::Broken(why) => {
                    self.drop_client(now, key, &why.to_string());
                    return;
                }
            }
        }
        self.finish_if_answered(now, key);
    }

    /// One step of the handshake; what is left of the input if transmission has begun.
    fn shake_hands(&mut self, now: Instant, key: usize, mut arrival: Arrival) -> Option<Arrival> {
        let desk = &mut self.desk;
        desk.scratch.clear();
        let connection = &mut desk.connections[key];
        let peer = connection.peer;
        let exports = Admission::new(&desk.exports, &mut connection.seat);
        let progress =
            connection.session.handle_handshake(arrival.left(), &exports, &mut desk.scratch);
        let refused = exports.refused();
        if let Some(reason) = refused {
            desk.note_refused(now, peer, reason);
        }
        arrival.at += progress.consumed;
        if let HandshakeState::Transmission(negotiated) = progress.state {
            desk.push_scratch(key);
            return self.bind(now, key, &negotiated, arrival.left()).then_some(arrival);
        }
        desk.push_scratch(key);
        match progress.state {
            HandshakeState::NeedInput => desk.receive(key),
            HandshakeState::NeedOutput => desk.stall(key, Why::Sending, None, Some(arrival)),
            HandshakeState::Closed(reason) => {
                debug!(device = self.desk.name, %reason, "handshake ended");
                self.desk.connections[key].finishing = true;
            }
            HandshakeState::Transmission(_) => unreachable!("dealt with above"),
        }
        None
    }

    /// Hands a request to the engine. A full queue gives it back, with what to wait for.
    fn enter(
        &mut self,
        now: Instant,
        key: usize,
        command: Command,
        received: &Received,
        load: Option<Load>,
    ) -> Result<(), (Why, Option<Load>)> {
        if self.desk.ending.is_cut {
            self.desk.refuse(key, &cut_refusal(command.cookie), received);
            return Ok(());
        }
        let left = self.desk.left(Memory::Replies);
        let connection = &mut self.desk.connections[key];
        let bytes = memory_of(&command);
        // A write has been counted since its payload began to arrive.
        if command.op != Op::Write && connection.is_full(Memory::Replies, bytes) {
            return Err((Why::Itself, load));
        }
        let (buffer, hold) = match load {
            Some(Load { buffer, hold }) => (Some(buffer), hold),
            None => {
                let taken = if bytes > 0 { self.desk.ring.pool().rounded(bytes) } else { 0 };
                let is_light = connection.holds_no(Memory::Replies);
                let hold = connection.backlog.hold(Memory::Replies, taken, is_light, left);
                (None, hold.map_err(|why| (why, None))?)
            }
        };
        let bound = connection.bound.expect("requests come after the handshake");
        let extent = Extent::new(bound.start + command.offset, command.len);
        let (serial, received_ns) = (connection.serial, received.at_ns);
        let client = Client { connection: key, serial, received_ns, hold };
        let flight = Flight {
            asker: Asker::Client(client),
            command,
            extent,
            piece: extent,
            buffer,
            request: None,
            ticket: None,
            joined: None,
            overlay: None,
        };
        let tag = self.desk.flights.insert(flight);
        if self.desk.cache.is_some() && self.take_into_cache(now, key, tag) {
            self.desk.note_entered(key, received);
            return Ok(());
        }
        let connection = &mut self.desk.connections[key];
        let request = Request::new(bound.member.task, engine_op(command.op), extent, tag as u64);
        match self.engine.submit(now, request) {
            Ok(request) => {
                self.desk.flights[tag].request = Some(request);
                connection.requests += 1;
                if command.op != Op::Write {
                    connection.held_bytes[Memory::Replies as usize] += bytes;
                }
                self.desk.note_entered(key, received);
                Ok(())
            }
            Err(error) => {
                let flight = self.desk.flights.remove(tag);
                let why = match error {
                    SubmitError::TaskFull { .. } => Why::Itself,
                    SubmitError::EngineFull { .. } => Why::Queue,
                    SubmitError::UnknownTask => unreachable!("an open connection has a task"),
                };
                let Asker::Client(Client { hold, .. }) = flight.asker else { unreachable!() };
                let load = flight.buffer.map(|buffer| Load { buffer, hold });
                Err((why, load))
            }
        }
    }

    /// Lets stalled connections go on for which there may be room now; `true` if any did.
    pub(super) fn resume(&mut self, now: Instant) -> bool {
        if !std::mem::take(&mut self.desk.released) {
            return false;
        }
        self.desk.fund();
        let mut any = false;
        // Those that stop again, with more to do, are for the next time.
        let mut relieved = std::mem::take(&mut self.desk.relieved);
        for (key, serial) in relieved.drain(..) {
            let connection = self.desk.connections.get(key);
            if connection.is_some_and(|connection| connection.serial == serial) {
                any = true;
                self.go_on(now, key);
            }
        }
        relieved.append(&mut self.desk.relieved);
        self.desk.relieved = relieved;
        for _ in 0..self.desk.starved.len() {
            let Some(backlog) = self.desk.starved.pop_front() else { break };
            any |= self.resume_client(now, &backlog);
            match backlog.waiting() {
                [0, 0] => backlog.unlist(),
                _ => self.desk.starved.push_back(backlog),
            }
        }
        any
    }

    /// Lets connections of one client go on, those that hold nothing and then those that do, each in their order until
    /// one has to wait again; `true` if any did.
    fn resume_client(&mut self, now: Instant, backlog: &Backlog) -> bool {
        let mut any = false;
        for (row, waiting) in backlog.waiting().into_iter().enumerate() {
            for _ in 0..waiting {
                let Some((key, serial)) = backlog.next(row) else { break };
                let connection = self.desk.connections.get(key);
                let stalled = connection
                    .filter(|connection| connection.serial == serial)
                    .and_then(|connection| connection.stalled.as_ref());
                if stalled.is_some_and(|stalled| stalled.why.is_shared()) {
                    any = true;
                    self.go_on(now, key);
                    // One that is stalled again is at the end; what is left is not enough for the others either.
                    if backlog.is_last(row, (key, serial)) {
                        break;
                    }
                }
            }
        }
        any
    }

    /// Takes up a stalled connection where it stopped.
    pub(super) fn go_on(&mut self, now: Instant, key: usize) {
        let connection = &mut self.desk.connections[key];
        let Some(stalled) = connection.stalled.take() else { return };
        if connection.socket.is_none() {
            return;
        }
        connection.stall_clock.advance(stalled.why, stalled.since_ns, now.as_nanos());
        if let Some((command, received, load)) = stalled.request {
            let begins = command.op == Op::Write && load.is_none();
            let result = match begins {
                true => {
                    let room = self.desk.make_room(now, key, command, received);
                    room.map_err(|why| (why, None))
                }
                false => self.enter(now, key, command, &received, load),
            };
            if let Err((why, load)) = result {
                self.desk.stall(key, why, Some((command, received, load)), stalled.rest);
                return;
            }
        }
        self.digest(now, key, stalled.rest.unwrap_or_else(Arrival::none));
    }
}

impl Desk {
    /// Takes nothing more from a connection until what it waits for has happened.
    fn stall(
        &mut self,
        key: usize,
        why: Why,
        request: Option<(Command, Received, Option<Load>)>,
        rest: Option<Arrival>,
    ) {
        let since_ns = self.now_ns;
        let connection = &mut self.connections[key];
        let rest = rest.and_then(Arrival::detach);
        let serial = connection.serial;
        let is_light = connection.is_light();
        connection.stalled = Some(Stalled { why, since_ns, is_light, request, rest });
        match why {
            Why::Memory | Why::Queue => self.await_memory(key),
            Why::Turn => {
                self.relieved.push((key, serial));
                self.released = true;
                self.is_busy = true;
            }
            Why::Itself | Why::Sending => {}
        }
    }

    /// Asks for more bytes of a connection, right into a write's buffer where much of one is to come.
    pub(super) fn receive(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let Some(socket) = &connection.socket else { return };
        debug_assert!(!connection.receiving);
        connection.receiving = true;
        if let Some(payload) = &mut connection.payload
            && payload.command.len as usize - payload.filled > FILL_BYTES
            && let Some(buffer) = payload.buffer.take()
        {
            let token = Token::Fill(key).pack();
            self.ring.receive_into(socket, buffer, payload.filled, token);
        } else {
            self.ring.receive(socket, Token::Receive(key).pack());
        }
    }

    /// Finds memory for the payload of a write.
    fn make_room(
        &mut self,
        now: Instant,
        key: usize,
        command: Command,
        received: Received,
    ) -> Result<(), Why> {
        let left = self.left(Memory::Payload);
        let connection = &mut self.connections[key];
        let len = command.len as usize;
        let pool = self.ring.pool();
        let is_light = connection.holds_no(Memory::Payload);
        if connection.is_full(Memory::Payload, len) {
            return Err(Why::Itself);
        }
        let taken = pool.rounded(len);
        let hold = connection.backlog.hold(Memory::Payload, taken, is_light, left)?;
        let buffer = Some(pool.get(len).ok_or(Why::Memory)?);
        connection.held_bytes[Memory::Payload as usize] += len;
        let since_ns = now.as_nanos();
        connection.payload = Some(Payload { command, buffer, filled: 0, since_ns, received, hold });
        Ok(())
    }

    /// What is not held by anybody. Payload and replies have half of the memory each: writes that wait for a limit
    /// cannot stop reads, nor replies that nobody takes writes.
    fn left(&self, memory: Memory) -> Left {
        let half = self.ring.pool().budget() / 2;
        Left {
            bytes: half.saturating_sub(self.clients.held(memory)),
            requests: self.requests_max.saturating_sub(self.flights.len()),
            depth: self.depth,
        }
    }
}
