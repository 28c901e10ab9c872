//! The live page on a loopback address: passes a browser's requests on to a server's control API, to read alone.
//!
//! A browser reaches neither a Unix socket nor shows a token. Here it reaches two paths below a random one that only the user
//! is told, as Jupyter does it; requests that a page of another site makes are refused by `Host` and `Origin` besides.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::client::Client;
use super::plain_listener::PlainListener;
use super::token::{random_hex, sha256};

/// Paths that are passed on.
const PATHS: [&str; 2] = ["/page", "/v1/live"];
/// Longest that a server may take to connect and to begin its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A listening socket of a browser's own machine, and the server whose page it shows.
pub struct PageProxy {
    listener: TcpListener,
    address: SocketAddr,
    client: Client,
    secret: String,
}

impl PageProxy {
    /// On `listener`, which is on a loopback address, for the server of `client`.
    ///
    /// # Errors
    ///
    /// The system has no random numbers, or the listener no address.
    pub fn new(listener: TcpListener, client: Client) -> io::Result<PageProxy> {
        let address = listener.local_addr()?;
        Ok(PageProxy { listener, address, client, secret: random_hex()? })
    }

    /// Where the page is: for the user alone.
    pub fn url(&self) -> String {
        format!("http://{}/{}/page", self.address, self.secret)
    }

    /// Serves until it fails. Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    ///
    /// When the runtime cannot take the socket.
    pub async fn serve(self) -> io::Result<()> {
        let listener = PlainListener::new(self.listener)?;
        let proxy = Arc::new(Passing {
            origin: Origin { port: self.address.port() },
            secret: sha256(&self.secret),
            client: self.client,
        });
        let router = Router::new().fallback(move |request: Request| {
            let proxy = Arc::clone(&proxy);
            async move { proxy.answer(&request.into_parts().0).await }
        });
        axum::serve(listener, router).await
    }
}

/// What the answers need.
struct Passing {
    origin: Origin,
    secret: [u8; 32],
    client: Client,
}

impl Passing {
    async fn answer(&self, request: &Parts) -> Response {
        if !self.origin.is_of(&request.headers) {
            return (StatusCode::FORBIDDEN, "another site asks for this\n").into_response();
        }
        let Some(path) = self.path(request.uri.path()) else {
            return (StatusCode::NOT_FOUND, "no such page\n").into_response();
        };
        if request.method != Method::GET {
            return (StatusCode::METHOD_NOT_ALLOWED, "it can be read alone\n").into_response();
        }
        match timeout(ANSWER_WITHIN, ask(&self.client, path, &request.headers)).await {
            Ok(Ok(answer)) => passed_on(answer),
            Ok(Err(error)) => {
                (StatusCode::BAD_GATEWAY, format!("the server cannot be reached: {error}\n"))
                    .into_response()
            }
            Err(_) => (StatusCode::GATEWAY_TIMEOUT, "the server does not answer\n").into_response(),
        }
    }

    /// The server's path. The secret is compared by its digest, so how long it takes says nothing of it.
    fn path(&self, path: &str) -> Option<&'static str> {
        let (secret, rest) = path.strip_prefix('/')?.split_at_checked(random_hex_len())?;
        let path = PATHS.into_iter().find(|path| *path == rest)?;
        (sha256(secret) == self.secret).then_some(path)
    }
}

/// The names that a browser of this machine calls a port by.
struct Origin {
    port: u16,
}

impl Origin {
    /// Whether a request is for this port, and not made by a page of another origin.
    fn is_of(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let Some(host) = names
            .map(|name| format!("{name}:{}", self.port))
            .into_iter()
            .find(|name| name.as_bytes() == host.as_bytes())
        else {
            return false;
        };
        let own = format!("http://{host}");
        headers.get_all(header::ORIGIN).iter().all(|origin| origin.as_bytes() == own.as_bytes())
    }
}

/// Asks the server.
async fn ask(
    client: &Client,
    path: &str,
    headers: &HeaderMap,
) -> io::Result<hyper::Response<Incoming>> {
    let mut request = hyper::Request::get(path).header(header::HOST, "weir");
    if let Some(token) = client.token() {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some(last) = headers.get("last-event-id") {
        request = request.header("last-event-id", last);
    }
    let request = request.body(Body::empty()).map_err(io::Error::other)?;
    let stream = client.connect_async().await?;
    exchange(stream, request).await.map_err(io::Error::other)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: hyper::Request<Body>,
) -> hyper::Result<hyper::Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer's body, or when that is dropped.
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// An answer without what is about its connection.
fn passed_on(answer: hyper::Response<Incoming>) -> Response {
    let mut answer = answer.map(Body::new);
    let headers = answer.headers_mut();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    answer
}

fn random_hex_len() -> usize {
    2 * super::token::RANDOM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing() -> Passing {
        Passing {
            origin: Origin { port: 80 },
            secret: sha256(&"a".repeat(64)),
            client: Client::new(std::path::Path::new("/nowhere")),
        }
    }

    #[test]
    fn two_paths_lead_on_for_those_that_know_the_secret() {
        let passing = passing();
        let path = |secret: &str, rest: &str| passing.path(&format!("/{secret}{rest}"));
        let secret = "a".repeat(64);
        assert_eq!(path(&secret, "/page"), Some("/page"));
        assert_eq!(path(&secret, "/v1/live"), Some("/v1/live"));
        for rest in ["", "/", "/v1/status", "/v1/set", "/page/", "/../page", "//page"] {
            assert_eq!(path(&secret, rest), None, "{rest}");
        }
        for secret in ["", &"b".repeat(64), &"a".repeat(63), &"a".repeat(65), &"ä".repeat(40)] {
            assert_eq!(path(secret, "/page"), None, "{secret}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let is_of = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            passing().origin.is_of(&headers)
        };
        assert!(is_of("127.0.0.1:80", None));
        assert!(is_of("localhost:80", Some("http://localhost:80")));
        assert!(!is_of("evil.example:80", None), "its name was led here");
        assert!(!is_of("127.0.0.1:81", None));
        assert!(!is_of("127.0.0.1", None));
        for origin in ["null", "http://evil.example", "https://127.0.0.1:80", "http://localhost:80"]
        {
            assert!(!is_of("127.0.0.1:80", Some(origin)), "{origin}");
        }
        assert!(!passing().origin.is_of(&HeaderMap::new()));
    }
}
