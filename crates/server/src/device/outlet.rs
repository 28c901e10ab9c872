//! Requests to the device, replies to connections, and the end of a connection.

use std::io;
use std::rc::Rc;

use rustix::net::{RecvFlags, recv};
use tracing::{debug, info};
use weir_driver::Device;
use weir_engine::{Dispatch, Event, Instant};
use weir_nbd::{Command, ErrorCode, Extent, Op, Refusal, block_status, ends_in_disconnect};
use weir_uring::{Durability, IoBuf, ZeroOptions};

use super::backlog::{Hold, Memory};
use super::flight::{Asker, Client, Flight, engine_op, memory_of};
use super::storage::Work;
use super::token::Token;
use super::waits::{Received, Why};
use super::worker::{Desk, Worker};
use crate::log_limit::{LogLine, LogPermit};
use crate::seats::NoSeat;

/// Extents looked up for one answer; clients ask again from where an answer ends.
const EXTENTS_PER_ANSWER: usize = 64;

/// Most that is looked at of what a client has left behind. Twice what Linux buffers for a TCP connection at most where
/// that is not set higher.
const UNREAD_MAX: u64 = 12 << 20;

/// A client's request, as far as its reply needs it.
pub(super) struct Asked {
    pub(super) connection: usize,
    pub(super) serial: u64,
    pub(super) received_ns: u64,
    pub(super) command: Command,
}

impl Asked {
    pub(super) fn new(client: &Client, command: Command) -> Asked {
        let &Client { connection, serial, received_ns, .. } = client;
        Asked { connection, serial, received_ns, command }
    }
}

impl Device for Desk {
    const JOINS: bool = true;

    fn issue(&mut self, _now: Instant, dispatch: Dispatch) {
        let key = dispatch.request.tag as usize;
        let flight = &mut self.flights[key];
        flight.ticket = Some(dispatch.ticket);
        if flight.command.op != Op::Flush {
            flight.piece = dispatch.request.extent;
        }
        self.run.push(key);
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        self.issue(now, dispatch);
    }

    /// A model has them as one. A real device is given each by itself, in one turn, and so in one call of the ring: the
    /// kernel joins what lies side by side, and knows better what its device takes.
    fn start(&mut self, now: Instant) {
        let run = std::mem::take(&mut self.run);
        let len = run.iter().map(|&key| self.flights[key].piece.len).sum();
        let first = &self.flights[run[0]];
        let (op, offset) = (engine_op(first.command.op), first.piece.offset);
        let is_durable = run.iter().any(|&key| self.flights[key].is_durable());
        let work = Work { op, offset, len, is_durable };
        if self.storage.defer(now.as_nanos(), run[0], work) {
            for pair in run.windows(2) {
                self.flights[pair[0]].joined = Some(pair[1]);
            }
        } else {
            run.iter().for_each(|&key| self.carry_out(key));
        }
        self.run = run;
        self.run.clear();
    }

    fn record(&mut self, _now: Instant, event: Event) {
        let Event::CgroupReleased(cgroup) = event;
        debug!(device = self.name, ?cgroup, "a removed cgroup has let its last request go");
    }
}

impl Desk {
    /// Carries out a dispatched request at the device, as soon as the cache has nothing there that it must not meet.
    pub(super) fn carry_out(&mut self, key: usize) {
        let has_begun = !self.flights[key].is_at_first_piece();
        if self.cache.is_none() || has_begun || self.may_go_to_device(key) {
            self.start_at_device(key);
        }
    }

    /// Starts a request at the device, or puts it where it waits for memory.
    pub(super) fn start_at_device(&mut self, key: usize) {
        let flight = &mut self.flights[key];
        let op = flight.command.op;
        let (offset, len) = (flight.piece.offset, u64::from(flight.piece.len));
        let durability = match flight.is_durable() {
            true => Durability::Durable,
            false => Durability::Volatile,
        };
        let (ring, disk, token) = (&mut self.ring, &self.storage.disk, Token::Disk(key).pack());
        match op {
            Op::Read { .. } => {
                let buffer = flight.buffer.take();
                match buffer.or_else(|| ring.pool().get(flight.extent.len as usize)) {
                    Some(mut buffer) => {
                        flight.show_piece(&mut buffer);
                        ring.read(disk, offset, buffer, token);
                    }
                    None => self.unfunded.push_back(key),
                }
            }
            Op::Write => {
                let mut buffer = flight.buffer.take().expect("a write has its payload");
                flight.show_piece(&mut buffer);
                ring.write(disk, offset, buffer, durability, token);
            }
            Op::Flush => ring.flush(disk, token),
            Op::Trim => ring.trim(disk, offset, len, durability, token),
            Op::WriteZeroes { no_hole, fast } => {
                let options = ZeroOptions { keep_allocated: no_hole, fast_only: fast, durability };
                ring.write_zeroes(disk, offset, len, options, token);
            }
            Op::Cache => ring.prefetch(disk, offset, flight.piece.len, token),
            Op::BlockStatus { .. } => self.instant.push_back(key),
        }
    }

    /// Starts reads that were waiting for memory, as far as it goes.
    pub(super) fn fund(&mut self) {
        for _ in 0..self.unfunded.len() {
            let Some(key) = self.unfunded.pop_front() else { return };
            self.carry_out(key);
            if self.unfunded.back() == Some(&key) {
                return;
            }
        }
    }

    /// Answers a request that the device is done with, if its connection is still there.
    pub(super) fn answer(&mut self, flight: Flight, buffer: Option<IoBuf>, result: io::Result<()>) {
        let Asker::Client(client) = flight.asker else { return };
        let asked = Asked::new(&client, flight.command);
        self.reply(&asked, Some(client.hold), buffer, result);
    }

    /// Replies to a request, if its connection is still there. What it `hold`s is held until the reply is sent.
    pub(super) fn reply(
        &mut self,
        asked: &Asked,
        hold: Option<Hold>,
        buffer: Option<IoBuf>,
        result: io::Result<()>,
    ) {
        let (key, command) = (asked.connection, asked.command);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.serial != asked.serial || connection.socket.is_none() {
            return;
        }
        connection.requests -= 1;
        let Some(bound) = connection.bound else { return };
        if command.op == Op::Write {
            connection.held_bytes[Memory::Payload as usize] -= memory_of(&command);
        }
        self.relieve(key);
        let now_ns = self.now_ns;
        let connection = &mut self.connections[key];
        let is_read = matches!(command.op, Op::Read { .. });
        if is_read && (result.is_err() || !connection.takes_replies) {
            connection.held_bytes[Memory::Replies as usize] -= memory_of(&command);
        }
        if !connection.takes_replies {
            if connection.is_answered() {
                self.answered.push((key, asked.serial));
            }
            return;
        }
        connection.outbox_replies.push(asked.received_ns, now_ns);
        if let Err(error) = result {
            let code = ErrorCode::from_errno(error.raw_os_error().unwrap_or(0), command.op);
            self.scratch.clear();
            bound.replies.error(command.cookie, code, &error.to_string(), &mut self.scratch);
            return self.push_scratch(key);
        }
        match (command.op, buffer) {
            (Op::Read { .. }, Some(buffer)) => {
                connection.outbox_held_bytes += memory_of(&command);
                if let Some(hold) = hold {
                    connection.outbox_hold = Some(hold.answered(connection.outbox_hold.take()));
                }
                let head = bound.replies.data(command.cookie, command.offset, command.len);
                self.push_bytes(key, &head);
                self.push_buffer(key, buffer);
            }
            (Op::BlockStatus { .. }, _) => {
                self.scratch.clear();
                block_status(&command, self.extents.drain(..), &mut self.scratch);
                self.push_scratch(key);
            }
            _ => self.push_bytes(key, &bound.replies.done(command.cookie)),
        }
    }

    /// Goes on with the first of the requests that are done by looking, with at most `looks` more extents; its key when
    /// all is seen, which is then in `extents`. A device that cannot say has data everywhere, which is always true enough.
    pub(super) fn look(&mut self, looks: &mut usize) -> Option<usize> {
        let key = *self.instant.front()?;
        let flight = &self.flights[key];
        let is_asked_for = match &flight.asker {
            Asker::Client(client) => {
                let connection = self.connections.get(client.connection);
                connection.is_some_and(|connection| connection.serial == client.serial)
            }
            Asker::Cache(_) => false,
        };
        if let (true, Op::BlockStatus { one }) = (is_asked_for, flight.command.op) {
            let most = if one { 1 } else { EXTENTS_PER_ANSWER };
            let asked = flight.extent;
            let end = asked.offset + u64::from(asked.len);
            let mut at = asked.offset + self.extents.iter().map(|extent| extent.len).sum::<u64>();
            while at < end && self.extents.len() < most {
                *looks = looks.checked_sub(1)?;
                let Ok(extent) = self.ring.extent(&self.storage.disk, at, end) else { break };
                let extent = self.with_cached(extent);
                let (len, is_hole) = (extent.len, !extent.data);
                self.extents.push(Extent { len, hole: is_hole, zero: is_hole });
                at += len;
            }
        } else {
            self.extents.clear();
        }
        self.instant.pop_front()
    }

    /// A connection that waited for its own requests may have room again.
    fn relieve(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let is_light = connection.is_light();
        let Some(stalled) = &mut connection.stalled else { return };
        match stalled.why {
            Why::Itself => self.relieved.push((key, connection.serial)),
            // Now it is one of those that may go further; its old place is void once it has gone on.
            why if why.is_shared() && is_light && !stalled.is_light => {
                stalled.is_light = true;
                self.await_memory(key);
            }
            Why::Memory | Why::Queue | Why::Sending | Why::Turn => {}
        }
    }

    /// Puts a connection in the row of those that wait for what others hold.
    pub(super) fn await_memory(&mut self, key: usize) {
        let connection = &self.connections[key];
        let waiter = (key, connection.serial);
        if connection.backlog.wait(waiter, connection.is_light()) {
            self.starved.push_back(Rc::clone(&connection.backlog));
        }
    }

    /// Answers a request that never became one.
    pub(super) fn refuse(&mut self, key: usize, refusal: &Refusal, received: &Received) {
        let Some(bound) = self.connections[key].bound else { return };
        self.note_entered(key, received);
        self.connections[key].outbox_replies.push(received.at_ns, self.now_ns);
        self.scratch.clear();
        bound.replies.refusal(refusal, &mut self.scratch);
        self.push_scratch(key);
    }

    /// A request is on its way to the engine, or answered already: what it has waited for until now is known.
    pub(super) fn note_entered(&mut self, key: usize, received: &Received) {
        let connection = &mut self.connections[key];
        connection.waits.note_entered(received, &connection.stall_clock, self.now_ns);
    }

    pub(super) fn push_bytes(&mut self, key: usize, bytes: &[u8]) {
        if !self.connections[key].takes_replies {
            return;
        }
        let message = self.connections[key].outbox.get_or_insert_with(|| self.ring.message());
        message.push_bytes(bytes);
        self.mark_dirty(key);
    }

    pub(super) fn push_scratch(&mut self, key: usize) {
        if !self.scratch.is_empty() {
            let scratch = std::mem::take(&mut self.scratch);
            self.push_bytes(key, &scratch);
            self.scratch = scratch;
        }
    }

    fn push_buffer(&mut self, key: usize, buffer: IoBuf) {
        let message = self.connections[key].outbox.get_or_insert_with(|| self.ring.message());
        let len = buffer.len();
        message.push_buffer(buffer, 0..len);
        self.mark_dirty(key);
    }

    fn mark_dirty(&mut self, key: usize) {
        if !std::mem::replace(&mut self.connections[key].is_dirty, true) {
            self.dirty.push(key);
        }
    }

    /// Sends what this turn has answered, one message a connection.
    pub(super) fn send_all(&mut self, now: Instant) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.is_dirty = false;
            if connection.sending_bytes > 0 {
                continue;
            }
            if let (Some(socket), Some(message)) = (&connection.socket, connection.outbox.take()) {
                connection.sending_bytes = message.len();
                connection.sending_inline_bytes = message.inline_len();
                connection.sending_held_bytes = std::mem::take(&mut connection.outbox_held_bytes);
                connection.sending_hold = connection.outbox_hold.take();
                connection.sending_replies = std::mem::take(&mut connection.outbox_replies);
                connection.sending_since_ns = now.as_nanos();
                self.ring.send(socket, message, Token::Send(key).pack());
            }
        }
        self.dirty = dirty;
    }

    /// Drops a request that the engine has given back, before its first piece or between two.
    pub(super) fn forget_withdrawn(&mut self, key: usize) {
        let has_begun = self.flights[key].piece.len < self.flights[key].extent.len;
        if has_begun && !self.storage.is_modelled() {
            self.end_past_cache(key);
        }
        self.flights.remove(key);
        self.released = true;
    }

    /// Whether what a connection has sent and is not read yet ends in a disconnect request. Its client is gone, so it gets
    /// no longer; the kernel bounds it, as the socket's buffer.
    fn has_disconnect_ahead(&self, key: usize) -> bool {
        let connection = &self.connections[key];
        let Some(socket) = &connection.socket else { return false };
        let fd = self.ring.socket_fd(socket);
        let unread = rustix::io::ioctl_fionread(fd).unwrap_or(0);
        let Ok(unread) = usize::try_from(unread.min(UNREAD_MAX)) else { return false };
        let rest = connection.stalled.as_ref().and_then(|stalled| stalled.rest.as_ref());
        let mut ahead = rest.map_or_else(Vec::new, |rest| rest.left().to_vec());
        let from = ahead.len();
        ahead.resize(from + unread, 0);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let len = recv(fd, &mut ahead[from..], flags).map_or(0, |(len, _)| len);
        ends_in_disconnect(&ahead[..from + len])
    }

    /// Lets go of a connection that another thread has now.
    pub(super) fn forget(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        if let Some(socket) = connection.socket.take() {
            self.ring.release(socket, Token::Close(key).pack());
        }
    }
}

impl Worker {
    pub(super) fn sent(&mut self, now: Instant, token: u64, result: io::Result<()>) {
        let Token::Send(key) = Token::unpack(token) else { unreachable!("a send's token") };
        let connection = &mut self.desk.connections[key];
        connection.sending_bytes = 0;
        connection.sending_inline_bytes = 0;
        connection.held_bytes[Memory::Replies as usize] -=
            std::mem::take(&mut connection.sending_held_bytes);
        connection.sending_hold = None;
        let replies = std::mem::take(&mut connection.sending_replies);
        connection.waits.note_sent(replies, now.as_nanos());
        self.desk.released = true;
        self.desk.relieve(key);
        if let Err(error) = result {
            debug!(device = self.desk.name, %error, "send failed");
            return self.peer_is_gone(now, key);
        }
        let connection = &mut self.desk.connections[key];
        if connection.outbox.is_some() {
            self.desk.mark_dirty(key);
        } else if let Some((device, input)) = connection.moving.take() {
            return self.hand_over(now, key, device, input);
        }
        if self.desk.connections[key]
            .stalled
            .as_ref()
            .is_some_and(|stalled| stalled.why == Why::Sending)
        {
            self.go_on(now, key);
        }
        self.finish_if_answered(now, key);
    }

    /// Closes a connection that is done once all is answered.
    pub(super) fn finish_if_answered(&mut self, now: Instant, key: usize) {
        let Some(connection) = self.desk.connections.get(key) else { return };
        let is_done = connection.finishing && connection.is_answered();
        if is_done || self.desk.is_draining && self.desk.is_quiet(now, key) {
            self.close(now, key);
        }
    }

    /// A connection's client takes no replies any more. What its client asked for before a disconnect request
    /// (`NBD_CMD_DISC`) is carried out all the same, as the protocol has it; without one, what waits is withdrawn.
    fn peer_is_gone(&mut self, now: Instant, key: usize) {
        let connection = &mut self.desk.connections[key];
        // Where a receive is in flight, it brings what the client has sent, and then its end.
        let goes_on = connection.finishing || connection.receiving;
        if connection.bound.is_none() || !(goes_on || self.desk.has_disconnect_ahead(key)) {
            return self.close(now, key);
        }
        let connection = &mut self.desk.connections[key];
        connection.drop_replies();
        if connection.stalled.as_ref().is_some_and(|stalled| stalled.why == Why::Sending) {
            self.go_on(now, key);
        }
        self.finish_if_answered(now, key);
    }

    /// Closes a connection whose client does not behave.
    pub(super) fn drop_client(&mut self, now: Instant, key: usize, reason: &str) {
        let peer = self.desk.connections[key].peer;
        let permit = self.desk.log_limit.permit(now, LogLine::ConnectionDropped);
        if let Some(LogPermit { left_out }) = permit {
            info!(device = self.desk.name, ?peer, left_out, reason, "connection dropped");
        }
        self.desk.connections_dropped += 1;
        self.close(now, key);
    }

    /// Ends a connection: what waits is withdrawn, what is at the device goes on unanswered.
    pub(super) fn close(&mut self, now: Instant, key: usize) {
        let connection = &mut self.desk.connections[key];
        let Some(socket) = connection.socket.take() else { return };
        connection.payload = None;
        connection.stalled = None;
        connection.outbox = None;
        connection.outbox_hold = None;
        match std::mem::replace(&mut connection.seat, Err(NoSeat::Server)) {
            Ok(seat) => drop(seat),
            Err(_) => self.desk.refused_now -= 1,
        }
        let connection = &mut self.desk.connections[key];
        if let Some(bound) = connection.bound {
            self.desk.waits.entry(bound.member.cgroup).or_default().absorb(&connection.waits);
            while let Some(request) = self.engine.withdraw_next(now, bound.member.task) {
                self.desk.forget_withdrawn(request.tag as usize);
            }
            self.desk.clients.leave(&mut self.engine, bound.member);
            self.desk.presence.leave();
        }
        self.desk.released = true;
        self.desk.ring.close(socket, Token::Close(key).pack());
    }

    /// Nothing is in flight on a closed connection any more.
    pub(super) fn closed(&mut self, token: u64) {
        if let Token::Close(key) = Token::unpack(token) {
            self.desk.connections.remove(key);
            self.desk.released = true;
        }
    }
}
