//! Replies to connections.

use std::io;
use std::ops::Range;

use tracing::debug;
use weir_engine::Instant;
use weir_nbd::{Command, ErrorCode, Op, Refusal, ReplyFormat, block_status};
use weir_uring::IoBuf;

use super::quota::{Memory, Reservation};
use super::reactor::{DeviceIo, Reactor};
use super::request::{Client, Origin, PendingRequest, memory_of};
use super::token::Token;
use super::waits::{Received, StallReason};
use super::zero_runs::{self, runs};

/// A client's request, as far as its reply needs it.
pub(super) struct ReplyTo {
    pub(super) connection: usize,
    pub(super) serial: u64,
    pub(super) received_ns: u64,
    pub(super) elsewhere_ns: u64,
    pub(super) command: Command,
}

impl ReplyTo {
    pub(super) fn new(client: &Client, command: Command) -> ReplyTo {
        let &Client { connection, serial, received_ns, elsewhere_ns, .. } = client;
        ReplyTo { connection, serial, received_ns, elsewhere_ns, command }
    }
}

impl DeviceIo {
    /// Answers a request that the device is done with, if its connection is still there.
    pub(super) fn answer(
        &mut self,
        pending: PendingRequest,
        buffer: Option<IoBuf>,
        result: io::Result<()>,
    ) {
        let Origin::Client(client) = pending.origin else { return };
        let asked = ReplyTo::new(&client, pending.command);
        self.reply(&asked, Some(client.reservation), buffer, result);
    }

    /// Replies to a request, if its connection is still there. Its `reservation` is held until the reply is sent.
    pub(super) fn reply(
        &mut self,
        asked: &ReplyTo,
        reservation: Option<Reservation>,
        buffer: Option<IoBuf>,
        result: io::Result<()>,
    ) {
        let (key, command) = (asked.connection, asked.command);
        let Some(connection) = self.connections.open_mut(key, asked.serial) else { return };
        connection.requests -= 1;
        let Some(bound) = connection.bound else { return };
        if command.op == Op::Write {
            connection.held_bytes[Memory::Payload as usize] -= memory_of(&command);
        }
        self.mark_resumable(key);
        let now_ns = self.now_ns;
        let connection = &mut self.connections[key];
        let is_read = matches!(command.op, Op::Read { .. });
        if is_read && (result.is_err() || !connection.takes_replies) {
            connection.held_bytes[Memory::Replies as usize] -= memory_of(&command);
        }
        if !connection.takes_replies {
            if connection.is_answered() {
                self.connections.note_answered(key);
            }
            return;
        }
        connection.outbox_replies.push(asked.received_ns + asked.elsewhere_ns, now_ns);
        let inside_ns = now_ns.saturating_sub(asked.received_ns);
        connection.export_counters.answered(&command, result.is_err(), inside_ns);
        if let Err(error) = result {
            let code = ErrorCode::from_errno(error.raw_os_error().unwrap_or(0), command.op);
            self.scratch.clear();
            bound.replies.error(command.mark(), code, &error.to_string(), &mut self.scratch);
            return self.push_scratch(key);
        }
        match (command.op, buffer) {
            (Op::Read { .. }, Some(buffer)) => {
                connection.outbox_held_bytes += memory_of(&command);
                if let Some(reservation) = reservation {
                    connection.outbox_reservation =
                        Some(reservation.answered(connection.outbox_reservation.take()));
                }
                self.push_read(key, bound.replies, &command, buffer);
            }
            (Op::BlockStatus { .. }, _) => {
                self.scratch.clear();
                let extents = self.dispatching.extents();
                block_status(bound.replies, &command, extents, &mut self.scratch);
                self.dispatching.clear_extents();
                self.push_scratch(key);
            }
            _ => self.push_bytes(key, &bound.replies.done(command.mark())),
        }
    }

    /// A connection that waited for its own requests may have room again.
    fn mark_resumable(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let holds_none = connection.holds_none();
        let Some(stalled) = &mut connection.stalled else { return };
        match stalled.reason {
            StallReason::Itself => self.backpressure.push_resumable(key, connection.serial),
            // Now it is one of those that may go further; its old place is void once it has gone on.
            reason if reason.is_shared() && holds_none && !stalled.holds_none => {
                stalled.holds_none = true;
                self.backpressure.wait(key, &self.connections[key]);
            }
            StallReason::Memory | StallReason::Queue | StallReason::Sending | StallReason::Turn => {
            }
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
        self.connections.queue_send(key);
    }

    pub(super) fn push_scratch(&mut self, key: usize) {
        if !self.scratch.is_empty() {
            let scratch = std::mem::take(&mut self.scratch);
            self.push_bytes(key, &scratch);
            self.scratch = scratch;
        }
    }

    /// Answers a read. Long runs of zeroes in it are told as holes where the format has them, and are not sent.
    fn push_read(&mut self, key: usize, format: ReplyFormat, command: &Command, buffer: IoBuf) {
        if buffer.len() >= zero_runs::BLOCK_BYTES && format != ReplyFormat::Simple {
            self.runs.clear();
            self.runs.extend(runs(command.offset, &buffer));
            let is_whole = matches!(command.op, Op::Read { whole: true });
            // An unfragmented reply has one chunk.
            let is_told = self.runs.len() == 1 || !is_whole;
            if is_told && self.runs.iter().any(|(_, is_zero)| *is_zero) {
                return self.push_runs(key, format, command, buffer);
            }
        }
        let head = format.data(command.mark(), command.len as u32);
        let len = buffer.len();
        self.push_bytes(key, &head);
        self.push_buffer(key, Some(buffer), 0..len);
    }

    fn push_runs(&mut self, key: usize, format: ReplyFormat, command: &Command, buffer: IoBuf) {
        let runs = std::mem::take(&mut self.runs);
        let (mark, end, mut buffer) = (command.mark(), buffer.len(), Some(buffer));
        for (range, is_zero) in &runs {
            let is_last = range.end == end;
            let (at, len) = (command.offset + range.start as u64, range.len() as u32);
            if *is_zero {
                self.push_bytes(key, &format.hole_chunk(mark, at, len, is_last));
            } else {
                self.push_bytes(key, &format.data_chunk(mark, at, len, is_last));
                self.push_buffer(key, buffer.take(), range.clone());
            }
        }
        self.runs = runs;
    }

    /// A part of a buffer: of this one, or of the one before it where there is none.
    fn push_buffer(&mut self, key: usize, buffer: Option<IoBuf>, range: Range<usize>) {
        let message = self.connections[key].outbox.get_or_insert_with(|| self.ring.message());
        match buffer {
            Some(buffer) => message.push_buffer(buffer, range),
            None => message.push_again(range),
        }
        self.connections.queue_send(key);
    }

    /// Sends what this turn has answered, one message a connection.
    pub(super) fn send_all(&mut self, now: Instant) {
        while let Some(key) = self.connections.poll_send() {
            let connection = &mut self.connections[key];
            if connection.sending_bytes > 0 {
                continue;
            }
            if let (Some(socket), Some(message)) = (&connection.socket, connection.outbox.take()) {
                connection.sending_bytes = message.len();
                connection.sending_inline_bytes = message.inline_len();
                connection.sending_held_bytes = std::mem::take(&mut connection.outbox_held_bytes);
                connection.sending_reservation = connection.outbox_reservation.take();
                connection.sending_replies = std::mem::take(&mut connection.outbox_replies);
                connection.sending_since_ns = now.as_nanos();
                self.ring.send(socket, message, Token::Send(key).pack());
            }
        }
    }
}

impl Reactor {
    pub(super) fn sent(&mut self, now: Instant, token: u64, result: io::Result<()>) {
        let Token::Send(key) = Token::unpack(token) else { unreachable!("a send's token") };
        let connection = &mut self.io.connections[key];
        connection.sending_bytes = 0;
        connection.sending_inline_bytes = 0;
        connection.held_bytes[Memory::Replies as usize] -=
            std::mem::take(&mut connection.sending_held_bytes);
        connection.sending_reservation = None;
        let replies = std::mem::take(&mut connection.sending_replies);
        connection.waits.note_sent(replies, now.as_nanos());
        self.io.backpressure.note_released();
        self.io.mark_resumable(key);
        if let Err(error) = result {
            debug!(device = self.io.name, %error, "send failed");
            return self.peer_is_gone(now, key);
        }
        let connection = &mut self.io.connections[key];
        if connection.outbox.is_some() {
            self.io.connections.queue_send(key);
        } else if let Some((device, input)) = connection.moving.take() {
            return self.hand_over(now, key, &device, input);
        }
        if self.io.connections[key]
            .stalled
            .as_ref()
            .is_some_and(|stalled| stalled.reason == StallReason::Sending)
        {
            self.resume_connection(now, key);
        }
        self.finish_if_answered(now, key);
    }
}
