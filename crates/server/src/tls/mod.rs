//! TLS of NBD connections, ended on threads beside those of the devices.
//!
//! A device's thread gets one end of a socket pair and the handshake as it was left, and knows of no encryption. Nothing of
//! this runs where the configuration has no `tls`.

mod accept;
mod certificates;
mod names;
mod negotiate;
mod relay;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::OwnedSemaphorePermit;
use weir_config::TlsConfig;
use weir_nbd::TlsMode;

use self::accept::Accept;
pub use self::certificates::{
    CertificateError, CertificateFiles, Certificates, CurrentCertificates, Item,
};
use crate::registry::Registry;
use crate::seats::Seats;

/// How long replies that devices have sent last may take to be encrypted and sent at the end.
const LAST_BYTES: Duration = Duration::from_secs(2);

impl From<&TlsConfig> for CertificateFiles {
    fn from(config: &TlsConfig) -> CertificateFiles {
        CertificateFiles {
            certificate: config.certificate.clone(),
            key: config.key.clone(),
            client_ca: config.client_ca.clone(),
            require_client_certificate: config.require_client_certificate,
            crl: config.crl.clone(),
        }
    }
}

/// The threads, and what new connections on them use.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
    mode: TlsMode,
    accept: Arc<Accept>,
}

/// Where the front takes connections to.
#[derive(Clone, Debug)]
pub(crate) struct TlsEntry {
    runtime: tokio::runtime::Handle,
    accept: Arc<Accept>,
    mode: TlsMode,
}

impl Tls {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has none.
    pub(crate) fn start(
        config: &TlsConfig,
        mode: weir_config::TlsMode,
        certificates: Arc<CurrentCertificates>,
        (registry, seats, connections_max): (Arc<Registry>, Arc<Seats>, u32),
    ) -> io::Result<Tls> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads as usize)
            .thread_name("weir-tls")
            .enable_all()
            .build()?;
        let mode = match mode {
            weir_config::TlsMode::Off => TlsMode::Off,
            weir_config::TlsMode::Allowed => TlsMode::Allowed,
            weir_config::TlsMode::Required => TlsMode::Required,
        };
        let accept = Accept::new(registry, seats, certificates, connections_max);
        Ok(Tls { runtime: Some(runtime), mode, accept: Arc::new(accept) })
    }

    /// For connections from other machines, or over a Unix socket: its file's mode keeps others out, so no client there must
    /// encrypt.
    pub(crate) fn entry(&self, is_remote: bool) -> Option<TlsEntry> {
        let runtime = self.runtime.as_ref()?.handle().clone();
        let mode = if is_remote { self.mode } else { TlsMode::Allowed };
        Some(TlsEntry { runtime, accept: Arc::clone(&self.accept), mode })
    }

    /// Waits until what the devices have sent is sent on; for a thread that may block.
    pub(crate) fn finish(&self) {
        if let Some(runtime) = &self.runtime {
            // A client that takes nothing loses it.
            let _ = runtime.block_on(async {
                tokio::time::timeout(LAST_BYTES, self.accept.all_relayed()).await
            });
        }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl TlsEntry {
    /// Leave to take one more connection in; waits while too many are shaking hands.
    pub(crate) async fn turn(&self) -> OwnedSemaphorePermit {
        self.accept.turn().await
    }

    /// Takes a connection in.
    pub(crate) fn take(&self, fd: OwnedFd, turn: OwnedSemaphorePermit) {
        self.runtime.spawn(Arc::clone(&self.accept).serve(fd, self.mode, turn));
    }
}
