//! Client that speaks NBD inside TLS, for what others never send.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::authority::{Authority, Certified};
use crate::nbd;

/// The option that starts TLS.
pub const OPT_STARTTLS: u32 = 5;
/// The reply to an option that was carried out.
pub const REP_ACK: u32 = 1;
/// The reply to an option that has no place here.
pub const REP_ERR_INVALID: u32 = 0x8000_0003;
/// The reply to an option that is not for this client.
pub const REP_ERR_POLICY: u32 = 0x8000_0002;
/// The reply to an option before TLS, where that is required.
pub const REP_ERR_TLS_REQD: u32 = 0x8000_0005;

/// An encrypted connection.
pub struct TlsClient {
    stream: StreamOwned<ClientConnection, UnixStream>,
}

/// How a client shows itself.
pub struct Credentials<'c> {
    /// The CA that the server's certificate is from.
    pub authority: &'c Authority,
    /// Its own certificate.
    pub own: Option<&'c Certified>,
    /// Versions of TLS that it speaks.
    pub versions: &'static [&'static SupportedProtocolVersion],
}

/// Answers to one option: their types, and the data of the last.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Types, in order.
    pub kinds: Vec<u32>,
    /// What the last one says.
    pub data: Vec<u8>,
}

impl TlsClient {
    /// Starts TLS on a connection that has said nothing.
    ///
    /// # Errors
    /// The server refuses, or one side does not take the other's certificate: at the latest with the first answer.
    ///
    /// # Panics
    /// When the credentials are not of the right form.
    pub fn start(mut stream: UnixStream, credentials: &Credentials<'_>) -> io::Result<TlsClient> {
        greet(&mut stream)?;
        let answer = ask(&mut stream, OPT_STARTTLS, b"")?;
        if answer.kinds != [REP_ACK] {
            return Err(io::Error::other(format!("STARTTLS is answered with {answer:?}")));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(credentials.authority.der()).expect("a CA");
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(credentials.versions)
            .expect("the provider has them")
            .with_root_certificates(roots);
        let config = match credentials.own.map(Certified::der) {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key).expect("a key");
                config
                    .with_client_auth_cert(vec![CertificateDer::from(certificate)], key)
                    .expect("they fit")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let mut connection =
            ClientConnection::new(Arc::new(config), name).expect("a good configuration");
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(TlsClient { stream: StreamOwned::new(connection, stream) })
    }

    /// Asks an option.
    ///
    /// # Errors
    /// Of the connection; `InvalidData` for what is no answer.
    pub fn ask(&mut self, option: u32, data: &[u8]) -> io::Result<Answer> {
        ask(&mut self.stream, option, data)
    }

    /// GO for `export`.
    ///
    /// # Errors
    /// As [`TlsClient::ask`].
    pub fn go(&mut self, export: &str) -> io::Result<Answer> {
        answer_to(&mut self.stream, &nbd::go(export))
    }

    /// Reads, after GO.
    ///
    /// # Errors
    /// Of the connection, and `Other` for an error of the server.
    pub fn read(&mut self, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        self.stream.write_all(&nbd::request(0, 0, 7, offset, len))?;
        self.reply(len as usize)
    }

    /// Writes, after GO.
    ///
    /// # Errors
    /// As [`TlsClient::read`].
    ///
    /// # Panics
    /// When there are too many bytes.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).expect("writes are short");
        self.stream.write_all(&nbd::request(1, 0, 7, offset, len))?;
        self.stream.write_all(bytes)?;
        self.reply(0).map(drop)
    }

    fn reply(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        match head[4..8] {
            [0, 0, 0, 0] => {
                let mut data = vec![0; len];
                self.stream.read_exact(&mut data)?;
                Ok(data)
            }
            _ => Err(io::Error::other(format!("answered with {head:x?}"))),
        }
    }
}

/// Reads the server's greeting, and answers it.
///
/// # Errors
/// Of the connection.
pub fn greet(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    stream.write_all(&nbd::CLIENT_FLAGS.to_be_bytes())
}

/// Asks an option on a connection that has been greeted.
///
/// # Errors
/// As [`TlsClient::ask`].
pub fn ask(stream: &mut (impl Read + Write), option: u32, data: &[u8]) -> io::Result<Answer> {
    answer_to(stream, &nbd::option(option, data))
}

fn answer_to(stream: &mut (impl Read + Write), option: &[u8]) -> io::Result<Answer> {
    stream.write_all(option)?;
    let mut answer = Answer { kinds: Vec::new(), data: Vec::new() };
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        if head[..8] != nbd::OPTION_REPLY_MAGIC.to_be_bytes() {
            let what = format!("{head:x?} is no answer to an option");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let (kind, len) = (word(12), word(16));
        answer.data = vec![0; len as usize];
        stream.read_exact(&mut answer.data)?;
        answer.kinds.push(kind);
        if kind == REP_ACK || kind >= 0x8000_0000 {
            return Ok(answer);
        }
    }
}
