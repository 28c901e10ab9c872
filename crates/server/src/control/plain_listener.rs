//! TCP listener without TLS, for readers of this machine or of a network that is trusted: of metrics, and of the live page.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use weir_config::Access;

use super::bounded::{BoundedStream, CONNECTIONS_MAX, Peer, REST};
use super::caller::{Caller, Identity};

/// A TCP socket whose connections are bounded in number and time.
pub(super) struct PlainListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl PlainListener {
    /// Needs a tokio runtime.
    pub(super) fn new(listener: std::net::TcpListener) -> io::Result<PlainListener> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(PlainListener { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) })
    }
}

impl Listener for PlainListener {
    type Io = BoundedStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("nothing closes it");
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let identity = Identity::Reader(address);
                    let peer = Peer::Known(Caller { identity, access: Access::Read });
                    return (BoundedStream::new(stream, peer, place), address);
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a plain connection");
                    sleep(REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, PlainListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PlainListener>) -> Peer {
        stream.io().peer().clone()
    }
}
