//! TCP listener of the control API: TLS comes first, and a connection counts once that is up.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::bounded::{BoundedStream, CONNECTIONS_MAX, Peer, REST, SILENCE_MAX};
use crate::log_limit::{LogLimit, LogLine, LogPermit};
use crate::tls::CurrentCertificates;

/// A listening TCP socket of the control API.
pub struct RemoteSocket {
    listener: std::net::TcpListener,
    certificates: Arc<CurrentCertificates>,
}

impl RemoteSocket {
    /// On `listener`, with those of `certificates` that count when a connection comes.
    pub fn new(
        listener: std::net::TcpListener,
        certificates: Arc<CurrentCertificates>,
    ) -> RemoteSocket {
        RemoteSocket { listener, certificates }
    }
}

/// A listener whose connections are bounded in number and time, those whose TLS is not up yet included.
pub(super) struct TlsListener {
    up: mpsc::Receiver<BoundedStream<TlsStream<TcpStream>>>,
    address: SocketAddr,
}

impl TlsListener {
    /// Needs a tokio runtime; its task accepts until the listener is dropped.
    pub(super) fn start(socket: RemoteSocket) -> io::Result<TlsListener> {
        socket.listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket.listener)?;
        let address = listener.local_addr()?;
        let (sender, up) = mpsc::channel(CONNECTIONS_MAX);
        let accepting = Accepting {
            certificates: socket.certificates,
            sender,
            log: Mutex::default(),
            started: Instant::now(),
        };
        tokio::spawn(Arc::new(accepting).run(listener));
        Ok(TlsListener { up, address })
    }
}

impl Listener for TlsListener {
    type Io = BoundedStream<TlsStream<TcpStream>>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.up.recv().await {
            Some(stream) => (stream, self.address),
            // Its task ends after this listener only.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Peer {
        stream.io().peer().clone()
    }
}

/// What the accepting task and those of its connections share.
struct Accepting {
    certificates: Arc<CurrentCertificates>,
    sender: mpsc::Sender<BoundedStream<TlsStream<TcpStream>>>,
    log: Mutex<LogLimit>,
    started: Instant,
}

impl Accepting {
    async fn run(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("nothing closes it");
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.sender.closed() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    tokio::spawn(Arc::clone(&self).shake_hands(stream, address, place));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a control connection");
                    sleep(REST).await;
                }
            }
        }
    }

    async fn shake_hands(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        place: OwnedSemaphorePermit,
    ) {
        let acceptor = TlsAcceptor::from(self.certificates.get().control);
        let outcome = match timeout(SILENCE_MAX, acceptor.accept(stream)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        match outcome {
            Ok(stream) => {
                let stream = BoundedStream::new(stream, Peer::Remote(address), place);
                // There is room: each has a place. The receiver may have gone.
                let _ = self.sender.send(stream).await;
            }
            Err(error) => self.log(address, &error),
        }
    }

    fn log(&self, address: SocketAddr, error: &io::Error) {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = weir_engine::Instant::from_nanos(nanos);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(LogPermit { left_out }) = log.permit(now, LogLine::NoTls) {
            tracing::debug!(%address, %error, left_out, "control connection without TLS");
        }
    }
}
