//! End of a connection.

use tracing::info;
use weir_engine::Instant;

use super::reactor::{DeviceIo, Reactor};
use super::token::Token;
use super::waits::StallReason;
use crate::log_limit::{LogLine, LogPermit};
use crate::seats::NoSeat;

/// Most that is looked at of what a client has left behind. Twice what Linux buffers for a TCP connection at most where
/// that is not set higher.
const UNREAD_MAX: u64 = 12 << 20;

impl DeviceIo {
    /// Whether what a connection has sent and is not read yet ends in a disconnect request. Its client is gone, so it gets
    /// no longer; the kernel bounds it, as the socket's buffer.
    fn has_disconnect_ahead(&mut self, key: usize) -> bool {
        let connection = &mut self.connections[key];
        let (Some(socket), Some(transmission)) =
            (&connection.socket, connection.session.transmission())
        else {
            return false;
        };
        let unread = self.ring.unread(socket);
        let Ok(unread) = usize::try_from(unread.min(UNREAD_MAX)) else { return false };
        let rest = connection.stalled.as_ref().and_then(|stalled| stalled.rest.as_ref());
        let mut ahead = rest.map_or_else(Vec::new, |rest| rest.left().to_vec());
        let from = ahead.len();
        ahead.resize(from + unread, 0);
        let len = self.ring.peek(socket, &mut ahead[from..]);
        transmission.is_disconnect_at_end_of(&ahead[..from + len])
    }

    /// Lets go of a connection that another thread has now.
    pub(super) fn forget(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        if let Some(socket) = connection.socket.take() {
            self.ring.release(socket, Token::Close(key).pack());
        }
    }
}

impl Reactor {
    /// Closes a connection that is done once all is answered.
    pub(super) fn finish_if_answered(&mut self, now: Instant, key: usize) {
        let Some(connection) = self.io.connections.get(key) else { return };
        let is_done = connection.finishing && connection.is_answered();
        if is_done || self.io.shutdown.is_draining() && self.io.is_quiet(now, key) {
            self.close(now, key);
        }
    }

    /// A connection's client takes no replies any more. What its client asked for before a disconnect request
    /// (`NBD_CMD_DISC`) is carried out all the same, as the protocol has it; without one, what waits is withdrawn.
    pub(super) fn peer_is_gone(&mut self, now: Instant, key: usize) {
        let connection = &mut self.io.connections[key];
        // Where a receive is in flight, it brings what the client has sent, and then its end.
        let goes_on = connection.finishing || connection.receiving;
        if connection.bound.is_none() || !(goes_on || self.io.has_disconnect_ahead(key)) {
            return self.close(now, key);
        }
        let connection = &mut self.io.connections[key];
        connection.drop_replies();
        if connection.stalled.as_ref().is_some_and(|stalled| stalled.reason == StallReason::Sending)
        {
            self.resume_connection(now, key);
        }
        self.finish_if_answered(now, key);
    }

    /// Closes a connection whose client does not behave.
    pub(super) fn drop_client(&mut self, now: Instant, key: usize, reason: &str) {
        let peer = self.io.connections[key].peer;
        let permit = self.io.log_limit.permit(now, LogLine::ConnectionDropped);
        if let Some(LogPermit { left_out }) = permit {
            info!(device = self.io.name, ?peer, left_out, reason, "connection dropped");
        }
        self.io.connections.note_dropped();
        self.close(now, key);
    }

    /// Ends a connection: what waits is withdrawn, what is at the device goes on unanswered.
    pub(super) fn close(&mut self, now: Instant, key: usize) {
        let connection = &mut self.io.connections[key];
        let Some(socket) = connection.socket.take() else { return };
        connection.incoming = None;
        connection.stalled = None;
        connection.outbox = None;
        connection.outbox_reservation = None;
        match std::mem::replace(&mut connection.seat, Err(NoSeat::Server)) {
            Ok(seat) => drop(seat),
            Err(_) => self.io.connections.forget_without_seat(),
        }
        let connection = &mut self.io.connections[key];
        if let Some(bound) = connection.bound {
            let member = bound.member;
            connection.waits.disconnected();
            connection.export_counters.disconnected();
            for task in member.tasks() {
                while let Some(request) = self.engine.withdraw_next(now, task) {
                    self.io.forget_withdrawn(request.tag as usize);
                }
            }
            self.io.clients.leave(&mut self.engine, now, member);
            self.io.presence.leave();
        }
        self.io.backpressure.note_released();
        self.io.ring.close(socket, Token::Close(key).pack());
    }

    /// Nothing is in flight on a closed connection any more.
    pub(super) fn closed(&mut self, token: u64) {
        if let Token::Close(key) = Token::unpack(token) {
            self.io.connections.remove(key);
            self.io.backpressure.note_released();
        }
    }
}
