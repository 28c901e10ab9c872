//! Drain of a device thread: what is inside is finished, and cut when the drain time is over.
//!
//! ```text
//!  drain ──► limits are lifted, new requests are refused ──► all answered ─────────────────► last flush ──► end
//!                     │ drain time is over                                                                  ▲
//!                     └► what is inside is answered with ESHUTDOWN ──► sent, or GRACE_NS is over ───────────┘
//! ```
//!
//! What a write-back cache holds has been acknowledged and is not cut: it is waited for, unless the drain is asked for a
//! second time.

use std::io;

use rustix::io::Errno;
use tracing::{error, info, warn};
use weir_engine::Instant;
use weir_nbd::{ErrorCode, Mark, Op, Refusal};

use super::DeviceError;
use super::connection::Arrival;
use super::reactor::{DeviceIo, Reactor};
use super::request::Origin;
use super::token::Token;
use super::tx::ReplyTo;

/// How long the answers to what is cut may take to be sent.
const GRACE_NS: u64 = 1_000_000_000;
/// The same when the drain was asked for a second time.
const HURRIED_GRACE_NS: u64 = 100_000_000;
/// Silence after which a client is taken to have sent what it was sending when the drain began.
const QUIET_NS: u64 = 20_000_000;
/// How long clients that go on sending are answered that the server ends; one that has a request inside, longer.
const LINGER_NS: u64 = 1_000_000_000;
/// Longest that the device is waited for when the thread ends.
const LET_GO_NS: u64 = 2_000_000_000;
/// Serial of no connection: a request with it is not answered.
const NO_SERIAL: u64 = 0;

/// State of the end of a device thread.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// How long requests inside are waited for.
    drain_ns: u64,
    /// No new connection and no new request is taken.
    is_draining: bool,
    /// When clients that go on sending are not listened to any more.
    linger_by_ns: u64,
    /// When the drain time is over, and then the time for the answers to what was cut.
    by_ns: Option<u64>,
    /// Requests have been cut. None is taken any more.
    is_cut: bool,
    /// Nothing is waited for but what the cache writes back.
    is_over: bool,
    /// The cache is not waited for either.
    is_hurried: bool,
    /// The last flush is under way.
    is_flushing: bool,
    /// Requests that the device had when it was not flushed because it did not answer.
    unanswered: Option<usize>,
    has_ended: bool,
    cut: Cut,
}

impl Shutdown {
    pub(super) fn new(drain_ns: u64) -> Shutdown {
        Shutdown {
            drain_ns,
            is_draining: false,
            linger_by_ns: 0,
            by_ns: None,
            is_cut: false,
            is_over: false,
            is_hurried: false,
            is_flushing: false,
            unanswered: None,
            has_ended: false,
            cut: Cut::default(),
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the loop is over.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// # Errors
    /// The device was not flushed at the end.
    pub(super) fn check_flushed(&self) -> Result<(), DeviceError> {
        match self.unanswered {
            Some(requests) => Err(DeviceError::NotFlushed { requests }),
            None => Ok(()),
        }
    }

    /// Nothing is left to do.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }
}

/// Requests that were taken in and not carried out, or not known to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// All of them.
    pub requests: u64,
    /// Of these, those that the device had: they may still be carried out.
    pub at_device: u64,
}

/// How a request is refused once requests are cut.
pub(super) fn cut_refusal(mark: Mark) -> Refusal {
    Refusal { mark, error: ErrorCode::Shutdown, reason: "the server ends" }
}

impl Reactor {
    /// Starts a drain: new connections and requests are refused, limits hold nothing back any more. The second time
    /// requests inside are cut at once, and what is cached is given up.
    pub(super) fn start_draining(&mut self, now: Instant) {
        if std::mem::replace(&mut self.io.shutdown.is_draining, true) {
            self.io.shutdown.is_hurried = true;
            if !self.io.shutdown.is_cut {
                self.cut(now);
            }
            let by_ns = now.as_nanos().saturating_add(HURRIED_GRACE_NS);
            self.io.shutdown.by_ns = Some(by_ns);
            return;
        }
        self.io.shutdown.by_ns = Some(now.as_nanos().saturating_add(self.io.shutdown.drain_ns));
        self.io.shutdown.linger_by_ns = now.as_nanos().saturating_add(LINGER_NS);
        for (_, connection) in self.io.connections.iter_mut() {
            connection.session.shut_down();
            connection.finishing |= connection.bound.is_none();
        }
        self.lift_limits(now);
        self.drain(now);
    }

    /// Moves a drain forward: connections with nothing left are closed; when all are, the device is flushed and the loop
    /// ends.
    pub(super) fn drain(&mut self, now: Instant) {
        if self.io.shutdown.by_ns.take_if(|by| *by <= now.as_nanos()).is_some() {
            if self.io.shutdown.is_cut {
                self.io.shutdown.is_over = true;
            } else {
                self.cut(now);
                self.io.shutdown.by_ns = Some(now.as_nanos().saturating_add(GRACE_NS));
            }
        }
        let open = self.io.connections.iter().filter(|(_, connection)| connection.socket.is_some());
        let open: Vec<usize> = open.map(|(key, _)| key).collect();
        for key in open {
            if self.io.shutdown.is_over || self.io.is_quiet(now, key) {
                self.close(now, key);
            }
        }
        let DeviceIo { connections, requests, cache, shutdown, .. } = &self.io;
        let is_written = cache.as_ref().is_none_or(|cache| cache.is_drained());
        if !connections.is_empty() || !(is_written || shutdown.is_hurried) {
            return;
        }
        if requests.is_empty() && !self.io.shutdown.is_flushing {
            self.io.shutdown.is_flushing = true;
            self.io.ring.flush(&self.io.storage.disk, Token::LastFlush.pack());
            return;
        }
        // A flush may have much to write, and a client has been told of what is written back: only a second drain gives
        // those up.
        let is_cache = |origin: &Origin| matches!(origin, Origin::Cache(_));
        let is_owed = self.io.shutdown.is_flushing
            || requests.iter().any(|(_, pending)| is_cache(&pending.origin));
        if shutdown.is_over && (shutdown.is_hurried || !is_owed) {
            let (device, requests) = (&self.io.name, requests.len());
            warn!(device, requests, "the device has not answered: it is not flushed");
            self.io.shutdown.unanswered = Some(requests);
            self.io.shutdown.end();
        }
    }

    /// Answers everything inside with ESHUTDOWN, and counts it. Nothing is submitted from here on.
    fn cut(&mut self, now: Instant) {
        self.io.shutdown.is_cut = true;
        let open: Vec<_> = self
            .io
            .connections
            .iter()
            .filter(|(_, connection)| connection.socket.is_some())
            .filter_map(|(key, connection)| Some((key, connection.bound?)))
            .collect();
        self.io.cut_requests();
        for &(_, bound) in &open {
            for task in bound.member.tasks() {
                while let Some(request) = self.engine.withdraw_next(now, task) {
                    self.io.forget_withdrawn(request.tag as usize);
                }
            }
        }
        for &(key, _) in &open {
            let connection = &mut self.io.connections[key];
            let is_behind = connection.sending_bytes > 0;
            let Some(stalled) = connection.stalled.take() else { continue };
            connection.stall_clock.advance(stalled.reason, stalled.since_ns, now.as_nanos());
            if let Some((command, received, payload)) = stalled.request {
                // Where replies are not taken, that is what it has waited for.
                self.io.shutdown.cut.requests += u64::from(!is_behind);
                let refusal = cut_refusal(command.mark());
                let is_to_come = command.op == Op::Write && payload.is_none();
                match connection.session.transmission().filter(|_| is_to_come) {
                    Some(transmission) => transmission.refuse_payload(refusal),
                    None => self.io.refuse(key, &refusal, &received),
                }
            }
            // What came after it is refused in its turn.
            self.handle_input(now, key, stalled.rest.unwrap_or_else(Arrival::none));
        }
        let Cut { requests, at_device } = self.io.shutdown.cut;
        let (device, connections) = (&self.io.name, self.io.connections.len());
        if requests > 0 {
            warn!(device, requests, at_device, "requests are cut: answered with ESHUTDOWN");
        } else if connections > 0 {
            info!(device, connections, "clients that take no replies are not waited for");
        }
    }
}

impl Reactor {
    /// The thread ends: so does what is in flight, as far as the device lets go of it.
    pub(super) fn let_go(&mut self) {
        let left = self.io.ring.cancel_all(LET_GO_NS);
        if left > 0 {
            let device = &self.io.name;
            error!(
                device,
                left, "the device does not answer: what it has may still be carried out"
            );
        }
    }
}

impl DeviceIo {
    /// What was taken in and not carried out.
    ///
    /// # Errors
    /// How many requests.
    pub(super) fn check_cut(&self) -> Result<(), DeviceError> {
        match self.shutdown.cut {
            Cut { requests: 0, .. } => Ok(()),
            cut => Err(DeviceError::Cut(cut)),
        }
    }

    /// Answers clients' requests, wherever they are; what cannot be withdrawn goes on without an origin.
    fn cut_requests(&mut self) {
        let mut cut = Vec::new();
        for (_, pending) in &mut self.requests {
            let Origin::Client(client) = &mut pending.origin else { continue };
            let (connection, serial) = (client.connection, client.serial);
            if self.connections.open(connection, serial).is_some() {
                let asked = ReplyTo::new(client, pending.command);
                client.serial = NO_SERIAL;
                cut.push((asked, pending.ticket.is_some()));
            }
        }
        for (asked, is_at_device) in cut {
            self.shutdown.cut.requests += 1;
            self.shutdown.cut.at_device += u64::from(is_at_device);
            self.reply(&asked, None, None, Err(shut_down()));
        }
    }

    /// When a drain is to be looked at again, where no completion tells of it.
    pub(super) fn drain_due_ns(&self, now_ns: u64) -> Option<u64> {
        let waits_for_silence = self.shutdown.is_draining && now_ns <= self.shutdown.linger_by_ns;
        let looks_again = waits_for_silence && !self.connections.is_empty();
        let silence = looks_again.then_some(now_ns.saturating_add(QUIET_NS / 2));
        [self.shutdown.by_ns, silence].into_iter().flatten().min()
    }

    /// Whether a connection has nothing left to be answered, sent or read, and its client is silent.
    pub(super) fn is_quiet(&mut self, now: Instant, key: usize) -> bool {
        let connection = &mut self.connections[key];
        if !connection.is_answered() || connection.stalled.is_some() {
            return false;
        }
        let Some(transmission) = connection.session.transmission() else { return true };
        if transmission.is_within_request() {
            return false;
        }
        if now.as_nanos() > self.shutdown.linger_by_ns {
            return true;
        }
        let silent_ns = now.as_nanos().saturating_sub(connection.heard_ns);
        let socket = connection.socket.as_ref();
        let unread = socket.map_or(0, |socket| self.ring.unread(socket));
        silent_ns >= QUIET_NS && unread == 0
    }
}

fn shut_down() -> io::Error {
    Errno::SHUTDOWN.into()
}
