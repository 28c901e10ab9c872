//! Checks against requests that a browser sends for a page of another site: `Host`, `Origin`, `Content-Type`.
//!
//! A control socket is not reached by a browser, but a bridge to TCP (socat, a reverse proxy) may lead there.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, header};

use super::refuse::Refused;
use super::route::JSON;

/// Names of the server that are always right, besides addresses.
const NAMES: [&str; 2] = ["weir", "localhost"];

/// Values of `Host` and `Origin` that are let through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Guard {
    /// Further names in `Host`, in lower case, without ports.
    pub hosts: Vec<String>,
    /// Origins whose pages may change something, such as `https://panel.example`.
    pub origins: Vec<String>,
}

impl Guard {
    /// Refuses a `Host` that is not a name of this server. An address is always right: a page of another site can have
    /// its own name lead here, and not an address (DNS rebinding).
    pub(super) fn host(&self, request: &Request) -> Result<(), Refused> {
        let hint = || {
            let names = NAMES.into_iter().chain(self.hosts.iter().map(String::as_str));
            let names = names.collect::<Vec<_>>().join(", ");
            format!("allowed are {names} and addresses; others go into `control_hosts` of [server]")
        };
        let mut values = request.headers().get_all(header::HOST).iter();
        let (value, more) = (values.next(), values.next());
        // An absolute target counts instead of the header (RFC 9112, 3.2.2).
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let text = match (authority, value, more) {
            (Some(authority), _, _) => authority,
            (None, Some(value), None) => value.to_str().unwrap_or_default(),
            (None, None, _) => {
                return Err(Refused::bad("Host", "the header Host is missing").hint(hint()));
            }
            (None, Some(_), Some(_)) => {
                return Err(Refused::bad("Host", "the header Host is there twice"));
            }
        };
        let name = without_port(text).to_ascii_lowercase();
        let is_address = || {
            let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
            inner.unwrap_or(&name).parse::<IpAddr>().is_ok()
        };
        if NAMES.contains(&&*name) || self.hosts.contains(&name) || is_address() {
            return Ok(());
        }
        Err(Refused::misdirected(format!("{text:?} is no name of this server")).hint(hint()))
    }

    /// Refuses a change that a page asks for, unless its origin is one of those allowed.
    pub(super) fn origin(&self, headers: &HeaderMap) -> Result<(), Refused> {
        for value in headers.get_all(header::ORIGIN) {
            let origin = String::from_utf8_lossy(value.as_bytes());
            if !self.origins.iter().any(|allowed| *allowed == origin) {
                let message = format!("a page of {origin:?} may not change anything");
                let hint = "allow it with `control_origins` of [server]; other programs leave the header Origin out";
                return Err(Refused::forbidden(message).hint(hint.to_owned()));
            }
        }
        Ok(())
    }

    /// Refuses a body that is not said to be JSON: forms and plain text are what a page may send without being asked.
    #[expect(clippy::unused_self, reason = "one of the three checks")]
    pub(super) fn content_type(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let value = headers.get(header::CONTENT_TYPE);
        let text = value.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let essence = text.as_deref().unwrap_or_default().split(';').next().unwrap_or_default();
        if essence.trim().eq_ignore_ascii_case(JSON) {
            return Ok(());
        }
        let message = match &text {
            Some(text) => format!("the body is said to be {text:?}"),
            None => "the header Content-Type is missing".to_owned(),
        };
        Err(Refused::unsupported(message).hint(format!("send `Content-Type: {JSON}`")))
    }
}

/// `host` of `host:port`.
fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') =>
        {
            // A bare IPv6 address is not a valid Host; its brackets tell it from a port.
            if host.contains(':') && !host.ends_with(']') { text } else { host }
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn host(guard: &Guard, hosts: &[&str]) -> Result<(), u16> {
        let mut request = Request::builder().uri("/v1/status");
        for host in hosts {
            request = request.header("Host", *host);
        }
        let request = request.body(Body::empty()).unwrap();
        guard.host(&request).map_err(|refused| refused.status)
    }

    #[test]
    fn names_of_the_server_and_addresses_are_let_through() {
        let guard = Guard { hosts: vec!["store.example".into()], ..Guard::default() };
        for name in [
            "weir",
            "Weir",
            "localhost",
            "localhost:9464",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
            "10.0.0.5",
            "store.example:443",
        ] {
            assert_eq!(host(&guard, &[name]), Ok(()), "{name}");
        }
        for name in ["evil.example", "weir.evil.example", "x", "", "127.0.0.1.evil.example"] {
            assert_eq!(host(&guard, &[name]), Err(421), "{name}");
        }
        assert_eq!(host(&guard, &[]), Err(400));
        assert_eq!(host(&guard, &["weir", "weir"]), Err(400));
    }

    #[test]
    fn an_absolute_target_counts_instead_of_host() {
        let to = |uri: &str| {
            let request = Request::builder().uri(uri).header("Host", "weir");
            let request = request.body(Body::empty()).unwrap();
            Guard::default().host(&request).map_err(|refused| refused.status)
        };
        assert_eq!(to("http://localhost/v1/status"), Ok(()));
        assert_eq!(to("http://evil.example/v1/status"), Err(421));
    }

    #[test]
    fn pages_change_nothing_unless_their_origin_is_allowed() {
        let guard = Guard { origins: vec!["https://panel.example".into()], ..Guard::default() };
        let from = |origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, origin.parse().unwrap());
            }
            guard.origin(&headers).map_err(|refused| refused.status)
        };
        assert_eq!(from(&[]), Ok(()));
        assert_eq!(from(&["https://panel.example"]), Ok(()));
        for origin in ["null", "http://weir", "https://panel.example.evil.example", ""] {
            assert_eq!(from(&[origin]), Err(403), "{origin}");
        }
        assert_eq!(from(&["https://panel.example", "null"]), Err(403));
    }

    #[test]
    fn only_json_is_taken() {
        let of = |value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.append(header::CONTENT_TYPE, value.parse().unwrap());
            }
            Guard::default().content_type(&headers).map_err(|refused| refused.status)
        };
        for value in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(of(Some(value)), Ok(()), "{value}");
        }
        for value in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            assert_eq!(of(Some(value)), Err(415), "{value}");
        }
        assert_eq!(of(None), Err(415));
    }
}
