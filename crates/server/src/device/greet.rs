//! New connections: shaken hands with, and given to the device that they asked for.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use tracing::{debug, warn};
use weir_engine::Instant;
use weir_nbd::{ExportId, Negotiated, Session};

use super::client_limits::JoinError;
use super::clients::{Joining, Member, Peer};
use super::connection::{Bound, Connection};
use super::export_paths::Place;
use super::quota::ClientQuota;
use super::reactor::{DeviceIo, Reactor};
use super::{Arrived, DeviceHandle, Greeting};
use crate::access::{Access, Identity};
use crate::command::Command;
use crate::log_limit::{LogLine, LogPermit};
use crate::seats::{NoSeat, Seat};

/// Connections without a seat that stay to be told so; further ones are closed at once.
const REFUSED_MAX: usize = 16;

impl DeviceIo {
    /// A connection finds no place: counts it, and says so in the log.
    pub(super) fn note_refused(&mut self, now: Instant, peer: Peer, reason: NoSeat) {
        self.connections.note_refused();
        let permit = self.log_limit.permit(now, LogLine::ConnectionRefused);
        if let Some(LogPermit { left_out }) = permit {
            warn!(device = self.name, %peer, left_out, %reason, "connection refused");
        }
    }

    /// Takes a new connection in and says hello. One without a seat is told so when it asks for an export.
    fn say_hello(
        &mut self,
        now: Instant,
        fd: OwnedFd,
        serial: u64,
        peer: Peer,
        seat: Result<Seat, NoSeat>,
        access: Access,
    ) {
        // Replies are gathered into few sends; holding a small one back for more would only delay it. Unix sockets
        // have no such option.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
        // A peer that is gone without a word is found out in the end, and its share given up.
        let _ = rustix::net::sockopt::set_socket_keepalive(&fd, true);
        let socket = match self.ring.add_socket(fd) {
            Ok(socket) => socket,
            Err(error) => {
                if let Some(LogPermit { left_out }) =
                    self.log_limit.permit(now, LogLine::ConnectionNotServed)
                {
                    warn!(device = self.name, left_out, %error, "cannot serve a connection");
                }
                return;
            }
        };
        let session = Session::new();
        let greeting = session.greeting();
        let key =
            self.connections.insert(Connection::new(socket, serial, peer, seat, access, session));
        self.connections.begin_handshake(now, key);
        self.push_bytes(key, &greeting);
        self.receive(key);
    }
}

impl Reactor {
    /// Finds a seat for a new connection. Of those for which there is none, a few stay to be told why.
    pub(super) fn greet(&mut self, now: Instant, greeting: Greeting) {
        let Greeting { fd, turn: _turn } = greeting;
        if self.io.shutdown.is_draining() {
            return;
        }
        let serial = self.io.connections.next_serial();
        let peer = self.io.ring.peer(&fd, serial);
        debug!(device = self.io.name, %peer, connection = serial, "client connected");
        let mut seat = self.io.seats.take(peer);
        if matches!(seat, Err(NoSeat::Server)) && self.make_seat(now) {
            seat = self.io.seats.take(peer);
        }
        if let Err(reason) = seat {
            self.io.note_refused(now, peer, reason);
            if self.io.connections.without_seat() >= REFUSED_MAX {
                return;
            }
        }
        let peers = &self.io.registry.tables().peers;
        let access = peers.access(|| Identity::of(fd.as_fd(), peer));
        self.io.say_hello(now, fd, serial, peer, seat, access);
    }

    /// The handshake of `key` has come to an export: opens its task, or has it given to the thread of its device.
    /// `true` if it is this thread's.
    pub(super) fn bind(
        &mut self,
        now: Instant,
        key: usize,
        negotiated: &Negotiated,
        rest: &[u8],
    ) -> bool {
        let tables = self.io.registry.tables();
        let export = tables.exports.get(negotiated.export);
        let device = export.map(|export| export.device);
        if device != Some(self.io.id)
            && let Some(device) = device.and_then(|device| tables.device(device))
        {
            // What we have said must be out first: the other thread's replies come after it.
            self.io.connections[key].moving = Some((device.clone(), rest.to_vec()));
            return false;
        }
        let place = self.io.export_paths.of(negotiated.export).cloned();
        let (Some(export), Some(mut place)) = (export, place) else {
            self.drop_client(now, key, "its export has been removed");
            return false;
        };
        if let Some(cgroup) = self.io.connections[key].access.cgroup() {
            place.cgroup = cgroup.clone();
        }
        let start = export.start;
        // The client has been told this size.
        let end = start + negotiated.size;
        let (name, counters) = (export.nbd.name.clone(), Arc::clone(&export.counters));
        let connection = &mut self.io.connections[key];
        let replies = connection.session.transmission().expect("negotiated just now").replies();
        let joined = self.join(now, key, negotiated.export, &place);
        match joined {
            Ok((member, quota)) => {
                let connection = &mut self.io.connections[key];
                connection.quota = quota;
                let export = negotiated.export;
                connection.bound = Some(Bound { member, export, start, end, replies });
                connection.waits = Arc::clone(self.io.published.waits_of(member.counted_in()));
                connection.waits.connected();
                connection.export_counters = counters;
                connection.export_counters.connected();
                self.io.presence.enter();
                let failures = self.io.ring.sync_failures(&self.io.storage.disk);
                connection.syncs_failed_seen = failures.count;
                if let Some(cache) = &self.io.cache {
                    connection.failures_seen = cache.unseen(member.cgroup);
                }
                let (peer, access) = (connection.peer, &connection.access);
                debug!(device = self.io.name, export = name, cgroup = %place.cgroup, %peer, %access, "serving");
                true
            }
            Err(error) => {
                if let Some(LogPermit { left_out }) =
                    self.io.log_limit.permit(now, LogLine::ConnectionNotServed)
                {
                    let device = &self.io.name;
                    warn!(device, export = name, cgroup = %place.cgroup, left_out, %error, "cannot serve a connection");
                }
                self.io.connections[key].finishing = true;
                false
            }
        }
    }

    /// Makes the connection's peer a client of its export.
    fn join(
        &mut self,
        now: Instant,
        key: usize,
        export: ExportId,
        place: &Place,
    ) -> Result<(Member, Rc<ClientQuota>), JoinError> {
        let cgroup = self.engine.ensure_cgroup(&place.cgroup)?;
        let joining = Joining { cgroup, export, place, cgroups_max: self.io.cgroups_max };
        let peer = self.io.connections[key].peer;
        self.io.clients.join(&mut self.engine, now, peer, &joining, None)
    }

    /// Gives a connection, on which nothing is in flight, to the thread of the device it asked for.
    pub(super) fn hand_over(
        &mut self,
        now: Instant,
        key: usize,
        device: &DeviceHandle,
        input: Vec<u8>,
    ) {
        let connection = &mut self.io.connections[key];
        let Some(socket) = &connection.socket else { return };
        let fd = match self.io.ring.duplicate(socket) {
            Ok(fd) => fd,
            Err(error) => {
                if let Some(LogPermit { left_out }) =
                    self.io.log_limit.permit(now, LogLine::ConnectionNotServed)
                {
                    warn!(device = self.io.name, left_out, %error, "cannot hand a connection over");
                }
                return self.close(now, key);
            }
        };
        let session = std::mem::replace(&mut connection.session, Session::new());
        // Only a connection with a seat gets to an export.
        let seat = std::mem::replace(&mut connection.seat, Err(NoSeat::Server));
        let Ok(seat) = seat else { return self.close(now, key) };
        let access = connection.access.clone();
        let arrived = Arrived { fd, session, peer: connection.peer, seat, access, input };
        if device.send(Command::Adopt(Box::new(arrived))).is_err() {
            debug!(from = self.io.name, "the other device's thread has ended");
        }
        self.io.forget(key);
    }

    /// Goes on with a connection that another thread has shaken hands with.
    pub(super) fn adopt(&mut self, now: Instant, arrived: Arrived) {
        let Arrived { fd, mut session, peer, seat, access, input } = arrived;
        if self.io.shutdown.is_draining() {
            return;
        }
        let Some(negotiated) = session.transmission().map(|session| *session.negotiated()) else {
            return;
        };
        let serial = self.io.connections.next_serial();
        let socket = match self.io.ring.add_socket(fd) {
            Ok(socket) => socket,
            Err(error) => {
                if let Some(LogPermit { left_out }) =
                    self.io.log_limit.permit(now, LogLine::ConnectionNotServed)
                {
                    warn!(device = self.io.name, left_out, %error, "cannot take a connection over");
                }
                return;
            }
        };
        let connection = Connection::new(socket, serial, peer, Ok(seat), access, session);
        let received = connection.stall_clock.now(now.as_nanos());
        let key = self.io.connections.insert(connection);
        if self.bind(now, key, &negotiated, &[]) {
            self.handle_input(now, key, super::connection::Arrival::own(input, received));
        } else {
            self.finish_if_answered(now, key);
        }
    }
}
