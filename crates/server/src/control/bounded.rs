//! Bounded listeners of the control API: so many connections at once, and none that is silent or stays for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use weir_config::Access;

use super::caller::{Caller, Identity};

/// Connections of a listener at once; further ones wait in the socket's backlog.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Longest that a connection may neither send nor take anything.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Longest that a connection may last.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// How long a listener rests after it failed: the backlog keeps what comes meanwhile.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// The kernel knows it by its socket.
    Known(Caller),
    /// Each request has to show a token.
    Remote(SocketAddr),
}

/// A Unix socket whose connections are bounded in number and time.
pub(super) struct BoundedListener {
    listener: UnixListener,
    places: Arc<Semaphore>,
    /// What its callers may do.
    access: Access,
}

impl BoundedListener {
    pub(super) fn new(listener: UnixListener, access: Access) -> BoundedListener {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        BoundedListener { listener, places, access }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream<UnixStream>;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("nothing closes it");
            match self.listener.accept().await {
                Ok((stream, address)) => match identity(&stream) {
                    Ok(identity) => {
                        let caller = Caller { identity, access: self.access };
                        return (BoundedStream::new(stream, Peer::Known(caller), place), address);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a control connection without credentials");
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a control connection");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Identity of the process at the other end.
fn identity(stream: &UnixStream) -> io::Result<Identity> {
    let credentials = stream.peer_cred()?;
    // 0 is a process of another PID namespace.
    let pid = credentials.pid().filter(|pid| *pid > 0);
    Ok(Identity::Process { uid: credentials.uid(), pid })
}

/// A connection that fails with `TimedOut` when it has been silent, or has lasted, for too long.
pub(super) struct BoundedStream<S> {
    stream: S,
    peer: Peer,
    /// The earlier of the two ends.
    deadline: Pin<Box<Sleep>>,
    ends: Instant,
    _place: OwnedSemaphorePermit,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(stream: S, peer: Peer, place: OwnedSemaphorePermit) -> BoundedStream<S> {
        let now = Instant::now();
        let deadline = Box::pin(sleep_until(now + SILENCE_MAX));
        BoundedStream { stream, peer, deadline, ends: now + LIFE_MAX, _place: place }
    }

    /// The other end.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What an operation comes to: something has moved, or time may be over.
    fn bounded<R>(
        &mut self,
        context: &mut Context<'_>,
        moved: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if moved.is_ready() {
            let silent = Instant::now() + SILENCE_MAX;
            self.deadline.as_mut().reset(silent.min(self.ends));
            return moved;
        }
        self.deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Peer {
        stream.io().peer().clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(context, into);
        self.bounded(context, moved)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// How long a connection lasts whose client sends a byte every `pause`, in virtual time.
    fn lasts(pause: Duration) -> Duration {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let places = Arc::new(Semaphore::new(1));
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let caller = Caller { identity: identity(&ours).unwrap(), access: Access::Read };
            let mut ours = BoundedStream::new(ours, Peer::Known(caller), place);
            let sender = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    if theirs.try_write(&[1]).is_err() {
                        return;
                    }
                }
            });
            let begun = Instant::now();
            let mut byte = [0];
            let mut read = |context: &mut Context<'_>| {
                Pin::new(&mut ours).poll_read(context, &mut ReadBuf::new(&mut byte))
            };
            while poll_fn(&mut read).await.is_ok() {}
            assert_eq!(places.available_permits(), 0);
            drop(ours);
            assert_eq!(places.available_permits(), 1, "the place is free again");
            sender.abort();
            begun.elapsed()
        })
    }

    #[test]
    fn a_silent_connection_ends_and_one_that_lasts_too_long() {
        let second = Duration::from_secs(1);
        assert_eq!(lasts(20 * second).as_secs(), SILENCE_MAX.as_secs());
        assert_eq!(lasts(second).as_secs(), LIFE_MAX.as_secs());
    }
}
