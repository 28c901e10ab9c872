//! Bytes from connections, made into requests, as fast as there is room for them.

use std::io;

use tracing::{debug, info};
use weir_engine::{Extent, Instant, Request, SubmitError};
use weir_nbd::{CloseReason, Command, ErrorCode, HandshakeState, Item, Op};
use weir_uring::{IoBuf, ReceivedBuf};

use super::connection::{Arrival, IncomingWrite, Payload, Stalled};
use super::quota::{Available, ClientQuota, Memory};
use super::reactor::{DeviceIo, Reactor};
use super::request::{Client, Origin, PendingRequest, engine_op, first_part, memory_of};
use super::shutdown::cut_refusal;
use super::token::Token;
use super::waits::{Received, StallReason};
use crate::exports::Admission;
use crate::log_limit::{LogLine, LogPermit};

/// A payload with more than this still to come is received right into its buffer.
const FILL_BYTES: usize = 16 << 10;

/// Requests of one connection that are taken in at once: as many as take some tens of microseconds.
const REQUESTS_A_TURN: u32 = 128;

/// The protocol that a client speaks instead, as its first four bytes tell.
pub(crate) fn other_protocol(reason: &CloseReason) -> Option<&'static str> {
    let CloseReason::ClientFlags { flags } = reason else { return None };
    match &flags.to_be_bytes() {
        b"GET " | b"HEAD" | b"POST" | b"PUT " | b"PATC" | b"DELE" | b"OPTI" | b"PRI " => {
            Some("HTTP")
        }
        [0x16, 3, ..] => Some("TLS, before STARTTLS"),
        _ => None,
    }
}

impl Reactor {
    pub(super) fn received(
        &mut self,
        now: Instant,
        token: u64,
        result: io::Result<Option<ReceivedBuf>>,
    ) {
        let Token::Receive(key) = Token::unpack(token) else { unreachable!("a receive's token") };
        let connection = &mut self.io.connections[key];
        (connection.receiving, connection.heard_ns) = (false, now.as_nanos());
        match result {
            Ok(Some(bytes)) => {
                let received = connection.stall_clock.now(now.as_nanos());
                self.handle_input(now, key, Arrival::ring(bytes, received));
            }
            // The peer is gone and takes no answers: what waits is withdrawn.
            Ok(None) => self.close(now, key),
            Err(error) => {
                debug!(device = self.io.name, %error, "receive failed");
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
        let connection = &mut self.io.connections[key];
        (connection.receiving, connection.heard_ns) = (false, now.as_nanos());
        if result.is_err() {
            drop(buffer);
            self.close(now, key);
            return;
        }
        let incoming = connection.incoming.take().expect("a fill has a payload");
        if let Some(transmission) = connection.session.transmission() {
            transmission.take_payload(transmission.payload_remaining());
        }
        let payload = Some(Payload { buffer, reservation: incoming.reservation });
        let (command, received) = (incoming.command, incoming.received);
        match self.enter(now, key, command, &received, payload) {
            Ok(()) => self.handle_input(now, key, Arrival::none()),
            Err((reason, payload)) => {
                self.io.stall(key, reason, Some((command, received, payload)), None);
            }
        }
    }

    /// Takes in what has arrived on a connection, until it is used up or there is no room for more.
    ///
    /// At most [`REQUESTS_A_TURN`] requests: the others of the device wait for it.
    pub(super) fn handle_input(&mut self, now: Instant, key: usize, mut arrival: Arrival) {
        let mut requests = REQUESTS_A_TURN;
        loop {
            let connection = &mut self.io.connections[key];
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
                return self.io.stall(key, StallReason::Sending, None, Some(arrival));
            }
            if requests == 0 {
                return self.io.stall(key, StallReason::Turn, None, Some(arrival));
            }
            let parsed = transmission.parse(arrival.left());
            let from = arrival.at;
            arrival.at += parsed.consumed;
            let received = arrival.received;
            match parsed.item {
                Item::NeedMore { .. } => {
                    self.io.receive(key);
                    return;
                }
                Item::Request(command) => {
                    requests -= 1;
                    if let Err((reason, _)) = self.enter(now, key, command, &received, None) {
                        return self.io.stall(
                            key,
                            reason,
                            Some((command, received, None)),
                            Some(arrival),
                        );
                    }
                }
                Item::Write(command) => {
                    requests -= 1;
                    if let Err(reason) = self.io.make_room(now, key, command, received) {
                        return self.io.stall(
                            key,
                            reason,
                            Some((command, received, None)),
                            Some(arrival),
                        );
                    }
                }
                Item::Payload { len } => {
                    let bytes = arrival.slice(from, len);
                    let incoming = connection.incoming.as_mut().expect("a payload has a write");
                    let buffer = incoming.buffer.as_mut().expect("not at the ring");
                    buffer[incoming.filled..incoming.filled + len].copy_from_slice(bytes);
                    incoming.filled += len;
                    if incoming.filled == incoming.command.len as usize {
                        let incoming = connection.incoming.take().expect("looked just now");
                        let buffer = incoming.buffer.expect("not at the ring");
                        let payload = Some(Payload { buffer, reservation: incoming.reservation });
                        let (command, received) = (incoming.command, incoming.received);
                        if let Err((reason, payload)) =
                            self.enter(now, key, command, &received, payload)
                        {
                            let request = Some((command, received, payload));
                            return self.io.stall(key, reason, request, Some(arrival));
                        }
                    }
                }
                Item::Refused(refusal) => {
                    requests -= 1;
                    // Where the server ends, a client that reconnects repeats what was not answered, and fails what was
                    // refused.
                    if refusal.error != ErrorCode::Shutdown {
                        self.io.refuse(key, &refusal, &received);
                    }
                }
                Item::Disconnect => connection.finishing = true,
                Item::Broken(reason) => {
                    self.drop_client(now, key, &reason.to_string());
                    return;
                }
            }
        }
        self.finish_if_answered(now, key);
    }

    /// One step of the handshake; what is left of the input if transmission has begun.
    fn shake_hands(&mut self, now: Instant, key: usize, mut arrival: Arrival) -> Option<Arrival> {
        let io = &mut self.io;
        io.scratch.clear();
        let connection = &mut io.connections[key];
        let peer = connection.peer;
        let tables = io.registry.tables();
        let exports = Admission::new(&tables.exports, &mut connection.seat, &connection.access);
        let progress =
            connection.session.handle_handshake(arrival.left(), &exports, &mut io.scratch);
        let refused = exports.refused();
        let (unknown, denied) = (exports.unknown(), exports.denied());
        if let Some(reason) = refused {
            io.note_refused(now, peer, reason);
        }
        if let Some(export) = unknown
            && let Some(LogPermit { left_out }) = io.log_limit.permit(now, LogLine::ExportUnknown)
        {
            info!(export, %peer, left_out, "a client asked for an export that is not there");
        }
        if let Some(export) = denied
            && let Some(LogPermit { left_out }) = io.log_limit.permit(now, LogLine::ExportDenied)
        {
            let access = &io.connections[key].access;
            info!(export, %peer, %access, left_out, "a client asked for an export that is not for it");
        }
        arrival.at += progress.consumed;
        if let HandshakeState::Transmission(negotiated) = progress.state {
            io.push_scratch(key);
            return self.bind(now, key, &negotiated, arrival.left()).then_some(arrival);
        }
        io.push_scratch(key);
        match progress.state {
            HandshakeState::NeedInput => io.receive(key),
            HandshakeState::NeedOutput => io.stall(key, StallReason::Sending, None, Some(arrival)),
            HandshakeState::Closed(reason) => {
                let other = other_protocol(&reason);
                if let Some(protocol) = other
                    && let Some(LogPermit { left_out }) =
                        self.io.log_limit.permit(now, LogLine::NoNbd)
                {
                    info!(protocol, %peer, left_out, "a client of an NBD socket speaks another protocol");
                } else {
                    debug!(device = self.io.name, %peer, %reason, "handshake ended");
                }
                self.io.connections[key].finishing = true;
            }
            HandshakeState::StartTls => unreachable!("TLS is offered on no session of this thread"),
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
        payload: Option<Payload>,
    ) -> Result<(), (StallReason, Option<Payload>)> {
        if self.io.shutdown.is_cut() {
            self.io.refuse(key, &cut_refusal(command.mark()), received);
            return Ok(());
        }
        let available = self.io.available(Memory::Replies);
        let connection = &mut self.io.connections[key];
        let bytes = memory_of(&command);
        // A write has been counted since its payload began to arrive.
        if command.op != Op::Write && connection.is_full(Memory::Replies, bytes) {
            return Err((StallReason::Itself, payload));
        }
        let (buffer, reservation) = match payload {
            Some(Payload { buffer, reservation }) => (Some(buffer), reservation),
            None => {
                let taken = if bytes > 0 { self.io.ring.pool().rounded(bytes) } else { 0 };
                let holds_none = connection.holds_no(Memory::Replies);
                let reservation =
                    connection.quota.reserve(Memory::Replies, taken, holds_none, available);
                (None, reservation.map_err(|reason| (reason, None))?)
            }
        };
        let bound = connection.bound.expect("requests come after the handshake");
        let (part, rest) = first_part(&command, self.io.part_bytes_max);
        let extent = Extent::new(bound.start + command.offset, part);
        let (serial, received_ns) = (connection.serial, received.at_ns);
        let client = Client {
            connection: key,
            serial,
            received_ns,
            former: None,
            elsewhere_ns: 0,
            syncs_failed: self.io.failures.syncs,
            reservation,
        };
        let pending = PendingRequest {
            origin: Origin::Client(client),
            command,
            extent,
            piece: extent,
            rest,
            buffer,
            id: None,
            ticket: None,
            joined: None,
            overlay: None,
        };
        let tag = self.io.requests.insert(pending);
        if self.io.cache.is_some() && self.take_into_cache(now, key, tag) {
            self.io.note_entered(key, received);
            return Ok(());
        }
        let connection = &mut self.io.connections[key];
        let request = Request::new(bound.member.task, engine_op(command.op), extent, tag as u64);
        match self.engine.submit(now, request) {
            Ok(request) => {
                self.io.requests[tag].id = Some(request);
                connection.requests += 1;
                if command.op != Op::Write {
                    connection.held_bytes[Memory::Replies as usize] += bytes;
                }
                self.io.note_entered(key, received);
                Ok(())
            }
            Err(error) => {
                let pending = self.io.requests.remove(tag);
                let reason = match error {
                    SubmitError::TaskFull { .. } => StallReason::Itself,
                    SubmitError::EngineFull { .. } => StallReason::Queue,
                    SubmitError::UnknownTask => unreachable!("an open connection has a task"),
                };
                let Origin::Client(Client { reservation, .. }) = pending.origin else {
                    unreachable!()
                };
                let payload = pending.buffer.map(|buffer| Payload { buffer, reservation });
                Err((reason, payload))
            }
        }
    }

    /// Lets stalled connections go on for which there may be room now; `true` if any did.
    pub(super) fn resume(&mut self, now: Instant) -> bool {
        if !self.io.backpressure.take_released() {
            return false;
        }
        self.io.start_waiting_for_buffer();
        let mut any = false;
        // Those that stop again, with more to do, are for the next time.
        for _ in 0..self.io.backpressure.resumable_count() {
            let Some((key, serial)) = self.io.backpressure.poll_resumable() else { break };
            if self.io.connections.open(key, serial).is_some() {
                any = true;
                self.resume_connection(now, key);
            }
        }
        for _ in 0..self.io.backpressure.client_count() {
            let Some(quota) = self.io.backpressure.poll_client() else { break };
            any |= self.resume_client(now, &quota);
            self.io.backpressure.put_back(quota);
        }
        any
    }

    /// Lets connections of one client go on, those that hold nothing and then those that do, each in their order until
    /// one has to wait again; `true` if any did.
    fn resume_client(&mut self, now: Instant, quota: &ClientQuota) -> bool {
        let mut any = false;
        for (row, waiting) in quota.waiting().into_iter().enumerate() {
            for _ in 0..waiting {
                let Some((key, serial)) = quota.next(row) else { break };
                let connection = self.io.connections.open(key, serial);
                let stalled = connection.and_then(|connection| connection.stalled.as_ref());
                if stalled.is_some_and(|stalled| stalled.reason.is_shared()) {
                    any = true;
                    self.resume_connection(now, key);
                    // One that is stalled again is at the end; what is left is not enough for the others either.
                    if quota.is_last(row, (key, serial)) {
                        break;
                    }
                }
            }
        }
        any
    }

    /// Takes up a stalled connection where it stopped.
    pub(super) fn resume_connection(&mut self, now: Instant, key: usize) {
        let connection = &mut self.io.connections[key];
        let Some(stalled) = connection.stalled.take() else { return };
        if connection.socket.is_none() {
            return;
        }
        connection.stall_clock.advance(stalled.reason, stalled.since_ns, now.as_nanos());
        if let Some((command, received, payload)) = stalled.request {
            let begins = command.op == Op::Write && payload.is_none();
            let result = match begins {
                true => {
                    let room = self.io.make_room(now, key, command, received);
                    room.map_err(|reason| (reason, None))
                }
                false => self.enter(now, key, command, &received, payload),
            };
            if let Err((reason, payload)) = result {
                self.io.stall(key, reason, Some((command, received, payload)), stalled.rest);
                return;
            }
        }
        self.handle_input(now, key, stalled.rest.unwrap_or_else(Arrival::none));
    }
}

impl DeviceIo {
    /// Takes nothing more from a connection until what it waits for has happened.
    fn stall(
        &mut self,
        key: usize,
        reason: StallReason,
        request: Option<(Command, Received, Option<Payload>)>,
        rest: Option<Arrival>,
    ) {
        let since_ns = self.now_ns;
        let connection = &mut self.connections[key];
        let rest = rest.and_then(Arrival::detach);
        let serial = connection.serial;
        let holds_none = connection.holds_none();
        connection.stalled = Some(Stalled { reason, since_ns, holds_none, request, rest });
        match reason {
            StallReason::Memory | StallReason::Queue => {
                self.backpressure.wait(key, &self.connections[key]);
            }
            StallReason::Turn => {
                self.backpressure.push_resumable(key, serial);
                self.backpressure.note_released();
                self.is_busy = true;
            }
            StallReason::Itself | StallReason::Sending => {}
        }
    }

    /// Asks for more bytes of a connection, right into a write's buffer where much of one is to come.
    pub(super) fn receive(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let Some(socket) = &connection.socket else { return };
        debug_assert!(!connection.receiving);
        connection.receiving = true;
        if let Some(incoming) = &mut connection.incoming
            && incoming.command.len as usize - incoming.filled > FILL_BYTES
            && let Some(buffer) = incoming.buffer.take()
        {
            let token = Token::Fill(key).pack();
            self.ring.receive_into(socket, buffer, incoming.filled, token);
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
    ) -> Result<(), StallReason> {
        let available = self.available(Memory::Payload);
        let connection = &mut self.connections[key];
        let len = command.len as usize;
        let pool = self.ring.pool();
        let holds_none = connection.holds_no(Memory::Payload);
        if connection.is_full(Memory::Payload, len) {
            return Err(StallReason::Itself);
        }
        let taken = pool.rounded(len);
        let reservation =
            connection.quota.reserve(Memory::Payload, taken, holds_none, available)?;
        let buffer = Some(pool.get(len).ok_or(StallReason::Memory)?);
        connection.held_bytes[Memory::Payload as usize] += len;
        let since_ns = now.as_nanos();
        connection.incoming =
            Some(IncomingWrite { command, buffer, filled: 0, since_ns, received, reservation });
        Ok(())
    }

    /// What no request holds. Payload and replies have half of the memory each: writes that wait for a limit
    /// cannot stop reads, nor replies that are not taken writes.
    fn available(&self, memory: Memory) -> Available {
        let half = self.ring.pool().budget() / 2;
        let bytes = half.saturating_sub(self.clients.held(memory));
        self.backpressure.available(bytes, self.requests.len())
    }
}
