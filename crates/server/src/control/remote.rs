//! Servers whose control API is reached over TCP: `https://HOST:PORT`, a token, and whom to trust.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Where Debian keeps the authorities that the machine trusts.
const SYSTEM_CA: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Longest time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest file of a token that is read, in bytes.
const TOKEN_FILE_MAX: u64 = 4096;

/// A server elsewhere.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `https://HOST:PORT`, for messages.
    url: String,
    host: ServerName<'static>,
    /// `HOST:PORT`.
    address: String,
    tls: Arc<ClientConfig>,
    token: String,
}

/// Why a server cannot be reached over TCP, before it is tried.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Not `https://HOST:PORT`.
    #[error("{0:?} is not https://HOST:PORT")]
    Url(String),
    /// A file cannot be read, or is not what it should be.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
}

impl Remote {
    /// The server at `url`, whose certificate one of the authorities in the PEM file `ca` vouches for; without one, one of the
    /// system's. `token` is a file with the token.
    ///
    /// # Errors
    ///
    /// [`RemoteError`].
    pub fn new(url: &str, ca: Option<&Path>, token: &Path) -> Result<Remote, RemoteError> {
        let bad_url = || RemoteError::Url(url.to_owned());
        let address = url.strip_prefix("https://").ok_or_else(bad_url)?.trim_end_matches('/');
        let (host, port) = address.rsplit_once(':').ok_or_else(bad_url)?;
        port.parse::<u16>().map_err(|_| bad_url())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = ServerName::try_from(host.to_owned()).map_err(|_| bad_url())?;
        Ok(Remote {
            url: format!("https://{address}"),
            host,
            address: address.to_owned(),
            tls: Arc::new(trusting(ca.unwrap_or(Path::new(SYSTEM_CA)))?),
            token: read_token(token)?,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// A connection, of which neither side may be silent for longer than `silence`.
    pub(super) fn connect(
        &self,
        silence: Duration,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut tried = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(silence))?;
                    stream.set_write_timeout(Some(silence))?;
                    stream.set_nodelay(true)?;
                    let connection =
                        ClientConnection::new(Arc::clone(&self.tls), self.host.clone());
                    return Ok(StreamOwned::new(connection.map_err(io::Error::other)?, stream));
                }
                Err(error) => tried = error,
            }
        }
        Err(tried)
    }

    /// A connection for a tokio runtime.
    pub(super) async fn connect_async(
        &self,
    ) -> io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
        let stream = tokio::net::TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        connector.connect(self.host.clone(), stream).await
    }
}

/// Settings of TLS that trust the authorities in `path`.
fn trusting(path: &Path) -> Result<ClientConfig, RemoteError> {
    let fail = |what: String| RemoteError::File { path: path.into(), what };
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(path).map_err(|error| fail(error.to_string()))?
    {
        let certificate = certificate.map_err(|error| fail(error.to_string()))?;
        // Of a system's hundred authorities a few may be too odd for rustls.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(fail("it has no certificate of an authority".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// The token in a file: its first line.
fn read_token(path: &Path) -> Result<String, RemoteError> {
    use std::io::Read;
    let fail = |what: String| RemoteError::File { path: path.into(), what };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    file.take(TOKEN_FILE_MAX).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    // No other sign may get into the head of a request.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(fail("its first line is no token".to_owned()));
    }
    Ok(token.to_owned())
}
