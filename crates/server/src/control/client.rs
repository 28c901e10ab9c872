//! The control API from the other side: what `weir status` and `weir set` speak.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

use super::api::{
    ChangeReply, ChangeRequest, DevicesReply, DifferencesReply, DoneReply, ErrorReply,
    ExportsReply, MoveRequest, RecordReply, RecordRequest, Refusal, ReloadRequest, RemoveRequest,
    ResizeReply, ResizeRequest, SetReply, SetRequest,
};
use super::remote::Remote;
use crate::status::Status;

/// Longest answer that is read, in bytes: the status of a hundred thousand cgroups has about as many KiB.
const ANSWER_MAX: u64 = 256 << 20;
/// Silence after which a server counts as hung. Its own limit for a device is 2 s.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A blocking client; each call is a connection of its own.
#[derive(Clone, Debug)]
pub struct Client {
    place: Place,
    /// The generation that changes are based on.
    based_on: Option<String>,
}

/// Where a server is reached.
#[derive(Clone, Debug)]
enum Place {
    Socket(PathBuf),
    Remote(Remote),
}

/// A connection to a server, of either kind.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server is there, or its socket is not ours to use.
    #[error("{place}: {source}")]
    Connect {
        /// The socket, or the address.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("{place}: the server did not answer: {source}")]
    Broken {
        /// The socket, or the address.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// What answers is no Weir, or of another version.
    #[error("{place}: not an answer of this API: {what}")]
    Strange {
        /// The socket, or the address.
        place: String,
        /// What is strange.
        what: String,
    },
    /// The server says no.
    #[error("{}", refusal.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        refusal: Refusal,
    },
}

impl Client {
    /// Of the server whose control socket is `path`. Does not connect yet.
    pub fn new(path: &Path) -> Client {
        Client { place: Place::Socket(path.into()), based_on: None }
    }

    /// Of a server that is reached over TCP. Does not connect yet.
    pub fn remote(remote: Remote) -> Client {
        Client { place: Place::Remote(remote), based_on: None }
    }

    /// Where the server is.
    pub fn place(&self) -> String {
        match &self.place {
            Place::Socket(path) => path.display().to_string(),
            Place::Remote(remote) => remote.url().to_owned(),
        }
    }

    /// The same, whose changes are refused if anything has been set since `generation` of a [`Status`].
    #[must_use]
    pub fn based_on(mut self, generation: &str) -> Client {
        self.based_on = Some(generation.to_owned());
        self
    }

    /// The token that requests show, where they show one.
    pub(super) fn token(&self) -> Option<&str> {
        match &self.place {
            Place::Socket(_) => None,
            Place::Remote(remote) => Some(remote.token()),
        }
    }

    /// A connection to the server, for a tokio runtime.
    pub(super) async fn connect_async(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match &self.place {
            Place::Socket(path) => Box::new(tokio::net::UnixStream::connect(path).await?),
            Place::Remote(remote) => Box::new(remote.connect_async().await?),
        })
    }

    /// How everything is. The server's work is linear in its cgroups.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn status(&self) -> Result<Status, ClientError> {
        self.exchange("GET", "/v1/status", &[])
    }

    /// Changes a setting.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn set(&self, request: &SetRequest) -> Result<SetReply, ClientError> {
        self.post("/v1/set", request)
    }

    /// Removes a cgroup.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn remove(&self, request: &RemoveRequest) -> Result<DoneReply, ClientError> {
        self.post("/v1/remove", request)
    }

    /// Moves a cgroup.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn relocate(&self, request: &MoveRequest) -> Result<DoneReply, ClientError> {
        self.post("/v1/move", request)
    }

    /// The devices.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn devices(&self) -> Result<DevicesReply, ClientError> {
        self.exchange("GET", "/v1/devices", &[])
    }

    /// The exports.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn exports(&self) -> Result<ExportsReply, ClientError> {
        self.exchange("GET", "/v1/exports", &[])
    }

    /// Adds and removes devices, exports and cgroups.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn change(&self, request: &ChangeRequest) -> Result<ChangeReply, ClientError> {
        self.post("/v1/change", request)
    }

    /// Has the configuration read again.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn reload(&self, request: &ReloadRequest) -> Result<ChangeReply, ClientError> {
        self.post("/v1/reload", request)
    }

    /// Sees that a device has grown.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn resize(&self, request: &ResizeRequest) -> Result<ResizeReply, ClientError> {
        self.post("/v1/resize", request)
    }

    /// How the recording is.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; refused without `[record]`.
    pub fn recording(&self) -> Result<RecordReply, ClientError> {
        self.exchange("GET", "/v1/record", &[])
    }

    /// Begins the recording or ends it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; when refused, nothing has changed.
    pub fn record(&self, request: RecordRequest) -> Result<RecordReply, ClientError> {
        self.post("/v1/record", &request)
    }

    /// What a reload would change.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn differences(&self) -> Result<DifferencesReply, ClientError> {
        self.exchange("GET", "/v1/differences", &[])
    }

    fn post<Q: Serialize, R: DeserializeOwned>(
        &self,
        target: &str,
        request: &Q,
    ) -> Result<R, ClientError> {
        let body = serde_json::to_vec(request).map_err(|error| self.strange(error))?;
        self.exchange("POST", target, &body)
    }

    fn exchange<R: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<R, ClientError> {
        let request = self.request(method, target, body).map_err(|source| self.broken(source))?;
        let refused = |source| ClientError::Connect { place: self.place(), source };
        let bytes = match &self.place {
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).map_err(refused)?;
                let talk = || {
                    stream.set_read_timeout(Some(SILENCE_MAX))?;
                    stream.set_write_timeout(Some(SILENCE_MAX))?;
                    talk(stream, &request)
                };
                talk()
            }
            Place::Remote(remote) => talk(remote.connect(SILENCE_MAX).map_err(refused)?, &request),
        };
        let bytes = bytes.map_err(|source| self.broken(source))?;
        let (status, body) = parse(&bytes).map_err(|what| self.strange(what))?;
        if status == 200 {
            return serde_json::from_slice(body).map_err(|error| self.strange(error));
        }
        match serde_json::from_slice(body) {
            Ok(ErrorReply { error: refusal }) => Err(ClientError::Refused { status, refusal }),
            Err(_) => Err(self.strange(format!("status {status}"))),
        }
    }

    fn request(&self, method: &str, target: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        // No other sign may get into the head.
        let is_tag =
            |tag: &&String| tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let if_match = match &self.based_on {
            Some(tag) => {
                let tag = Some(tag).filter(is_tag).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, format!("{tag:?} is no generation"))
                })?;
                format!("If-Match: \"{tag}\"\r\n")
            }
            None => String::new(),
        };
        let authorization = match &self.place {
            Place::Socket(_) => String::new(),
            Place::Remote(remote) => format!("Authorization: Bearer {}\r\n", remote.token()),
        };
        let mut request = format!(
            "{method} {target} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{authorization}{if_match}\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Ok(request)
    }

    fn broken(&self, source: io::Error) -> ClientError {
        ClientError::Broken { place: self.place(), source }
    }

    fn strange(&self, what: impl ToString) -> ClientError {
        ClientError::Strange { place: self.place(), what: what.to_string() }
    }
}

/// Sends a request and reads the answer, to the end of the connection.
fn talk(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX + 1).read_to_end(&mut answer)?;
    if answer.len() as u64 > ANSWER_MAX {
        return Err(io::Error::other(format!("the answer has more than {ANSWER_MAX} bytes")));
    }
    Ok(answer)
}

/// Status and body of an HTTP/1.1 answer that ended with its connection.
fn parse(answer: &[u8]) -> Result<(u16, &[u8]), &'static str> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or("no HTTP head")?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| "an HTTP head that is no text")?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or("no HTTP status")?;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") && value.trim().parse() != Ok(body.len()) {
            return Err("the body was cut short");
        }
        // The server knows the size of all that it sends, so pieces never come.
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("a body in pieces");
        }
    }
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answers_are_whole_or_refused() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse(ok), Ok((200, &b"{}"[..])));
        assert_eq!(parse(b"HTTP/1.1 404 Not Found\r\n\r\nx"), Ok((404, &b"x"[..])));
        for (answer, what) in [
            (&ok[..ok.len() - 1], "the body was cut short"),
            (&ok[..30], "no HTTP head"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a body in pieces"),
            (b"SSH-2.0\r\n\r\n", "no HTTP status"),
            (b"HTTP/1.1 20\r\n\r\n", "no HTTP status"),
            (b"", "no HTTP head"),
        ] {
            assert_eq!(parse(answer), Err(what));
        }
    }
}
