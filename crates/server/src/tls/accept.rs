//! New connections that may be encrypted: shaken hands with here, and given to the thread of the device they asked for.
//!
//! ```text
//!  accepted ─► greeting, options ─► STARTTLS ─► TLS ─► options ─► GO ─► relay ─► socket pair ─► device thread
//!                    └─ GO without TLS, where that may be ─────────────► the connection itself ─► device thread
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};
use weir_engine::Instant;
use weir_nbd::{CloseReason, Negotiated, Session, TlsMode};
use weir_uring::monotonic_ns;

use super::CurrentCertificates;
use super::names::names;
use super::negotiate::{Negotiation, Outcome};
use super::relay::relay;
use crate::access::{Access, Identity};
use crate::command::Command;
use crate::device::{Arrived, Peer, other_protocol};
use crate::log_limit::{LogLimit, LogLine, LogPermit};
use crate::registry::Registry;
use crate::seats::{NoSeat, Seat, Seats};
use crate::serve::lock;

/// Longest a connection may take from its first byte to the choice of an export.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Connections that may be shaking hands at once; further ones wait in the listener's backlog. More than one client may have.
const HANDSHAKES_MAX: usize = 512;
/// Bytes between relay and device in one direction, where the system allows it: replies to several reads.
const SOCKET_BYTES: usize = 1 << 20;

/// What the tasks of all connections share.
#[derive(Debug)]
pub(crate) struct Accept {
    pub(super) registry: Arc<Registry>,
    seats: Arc<Seats>,
    certificates: Arc<CurrentCertificates>,
    handshakes: Arc<Semaphore>,
    /// Relays that may be at work; all of them are back when none is.
    relays: Arc<Semaphore>,
    relays_max: u32,
    log_limit: Mutex<LogLimit>,
    /// Connections of which nothing is known.
    unknown: AtomicU64,
}

/// Why a connection comes to no export.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("it took longer than {HANDSHAKE_MAX:?}")]
    Late,
    #[error("the client has gone")]
    Gone,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{bytes} bytes came after STARTTLS, before TLS had begun")]
    Injected { bytes: usize },
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("{0}")]
    Closed(CloseReason),
    #[error("its export has been removed")]
    NoExport,
    #[error("its device's thread has ended")]
    NoDevice,
}

impl Accept {
    pub(super) fn new(
        registry: Arc<Registry>,
        seats: Arc<Seats>,
        certificates: Arc<CurrentCertificates>,
        connections_max: u32,
    ) -> Accept {
        // One whose seat is free again may still have last bytes to send.
        let relays_max = connections_max.saturating_mul(2);
        Accept {
            registry,
            seats,
            certificates,
            handshakes: Arc::new(Semaphore::new(HANDSHAKES_MAX)),
            relays: Arc::new(Semaphore::new(relays_max as usize)),
            relays_max,
            log_limit: Mutex::default(),
            unknown: AtomicU64::new(u64::MAX),
        }
    }

    /// Leave to shake hands with one more connection.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turns = Arc::clone(&self.handshakes);
        turns.acquire_owned().await.expect("it is never closed")
    }

    /// Waits until no relay is at work.
    pub(super) async fn all_relayed(&self) {
        let _all = self.relays.acquire_many(self.relays_max).await;
    }

    /// One connection, from its first byte to its last where it is encrypted.
    pub(super) async fn serve(
        self: Arc<Accept>,
        fd: OwnedFd,
        tls: TlsMode,
        turn: OwnedSemaphorePermit,
    ) {
        // As of connections that a device's thread greets; Unix sockets have no such option.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&fd, true);
        // Counted down, so that it is no number of a connection that a device's thread has greeted.
        let peer = Peer::of(fd.as_fd(), self.unknown.fetch_sub(1, Ordering::Relaxed));
        let seat = match self.seats.take(peer) {
            Ok(seat) => seat,
            Err(reason) => return self.note_refused(peer, reason),
        };
        debug!(%peer, "client connected");
        let shaken = tokio::time::timeout(HANDSHAKE_MAX, self.shake_hands(fd, peer, seat, tls));
        match shaken.await.unwrap_or(Err(End::Late)) {
            Ok(None) => {}
            Ok(Some((client, plain))) => {
                let Ok(_at_work) = Arc::clone(&self.relays).try_acquire_owned() else {
                    return self.note_refused(peer, NoSeat::Server);
                };
                drop(turn);
                relay(client, plain).await;
                debug!(%peer, "encrypted connection over");
            }
            Err(end) => self.note_end(peer, &end),
        }
    }

    /// What is left to do for an encrypted connection: carry bytes between these two.
    async fn shake_hands(
        &self,
        fd: OwnedFd,
        peer: Peer,
        seat: Seat,
        tls: TlsMode,
    ) -> Result<Option<Encrypted>, End> {
        let mut identity = Identity::of(fd.as_fd(), peer);
        // The calls that are made for a Unix socket are those for a TCP socket.
        let mut stream = UnixStream::from_std(fd.into())?;
        let mut session = Session::with_tls(tls);
        stream.write_all(&session.greeting()).await?;
        let mut negotiation =
            Negotiation { accept: self, peer, seat: Ok(seat), access: self.access(&identity) };
        if let Outcome::Chosen(negotiated, input) =
            negotiation.run(&mut stream, &mut session).await?
        {
            let fd = stream.into_std()?.into();
            self.hand_over(negotiation, fd, session, &negotiated, input)?;
            return Ok(None);
        }
        let acceptor = TlsAcceptor::from(self.certificates.get().nbd);
        let mut client = acceptor.accept(stream).await.map_err(End::Tls)?;
        let (_, connection) = client.get_ref();
        let shown = connection.peer_certificates().and_then(<[_]>::first);
        identity.certificate = shown.map(names);
        negotiation.access = self.access(&identity);
        debug!(
            %peer, certificate = ?identity.certificate, access = %negotiation.access,
            version = ?connection.protocol_version(), "encrypted"
        );
        session.tls_started();
        let Outcome::Chosen(negotiated, input) = negotiation.run(&mut client, &mut session).await?
        else {
            unreachable!("TLS starts once")
        };
        let (plain, device) = pair()?;
        self.hand_over(negotiation, device, session, &negotiated, input)?;
        Ok(Some((client, plain)))
    }

    fn access(&self, identity: &Identity) -> Access {
        self.registry.tables().peers.access(|| identity.clone())
    }

    /// Gives a connection that has chosen an export to the thread of its device.
    fn hand_over(
        &self,
        negotiation: Negotiation<'_>,
        fd: OwnedFd,
        session: Session,
        negotiated: &Negotiated,
        input: Vec<u8>,
    ) -> Result<(), End> {
        let Negotiation { peer, seat, access, .. } = negotiation;
        let tables = self.registry.tables();
        let device =
            tables.exports.get(negotiated.export).and_then(|export| tables.device(export.device));
        let (Some(device), Ok(seat)) = (device, seat) else { return Err(End::NoExport) };
        let arrived = Arrived { fd, session, peer, seat, access, input };
        device.send(Command::Adopt(Box::new(arrived))).map_err(|_| End::NoDevice)
    }

    fn note_refused(&self, peer: Peer, reason: NoSeat) {
        if let Some(LogPermit { left_out }) = self.permit(LogLine::ConnectionRefused) {
            warn!(%peer, left_out, %reason, "connection refused");
        }
    }

    fn note_end(&self, peer: Peer, end: &End) {
        let told = match end {
            End::Tls(_) | End::Injected { .. } => Some((LogLine::TlsFailed, "")),
            End::Closed(reason) => {
                other_protocol(reason).map(|protocol| (LogLine::NoNbd, protocol))
            }
            _ => None,
        };
        match told.and_then(|(line, protocol)| Some((line, protocol, self.permit(line)?))) {
            Some((LogLine::TlsFailed, _, LogPermit { left_out })) => {
                info!(%peer, left_out, error = %end, "no encrypted connection");
            }
            Some((_, protocol, LogPermit { left_out })) => {
                info!(protocol, %peer, left_out, "a client of an NBD socket speaks another protocol");
            }
            None => debug!(%peer, reason = %end, "handshake ended"),
        }
    }

    /// Leave to write a line now.
    pub(super) fn permit(&self, line: LogLine) -> Option<LogPermit> {
        lock(&self.log_limit).permit(Instant::from_nanos(monotonic_ns()), line)
    }
}

/// An encrypted connection, and this end of the socket that its device has.
type Encrypted = (tokio_rustls::server::TlsStream<UnixStream>, UnixStream);

/// Two sockets that are connected: one for this runtime, one for a device's thread.
fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    for socket in [&near, &far] {
        // The system may allow less.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SOCKET_BYTES);
        socket.set_nonblocking(true)?;
    }
    Ok((UnixStream::from_std(near)?, far.into()))
}
