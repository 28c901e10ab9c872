//! NBD URIs: `nbd+unix:///EXPORT?socket=PATH` and `nbd://HOST[:PORT]/EXPORT`.
//!
//! Source: "The NBD URI specification", doc/uri.md of the reference implementation.

use std::path::PathBuf;

/// The port that IANA keeps for NBD.
const PORT: u16 = 10809;

/// Address of a server, and the export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NbdUri {
    pub(super) server: Address,
    pub(super) export: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Address {
    Unix(PathBuf),
    /// Host name or address, without brackets, and port.
    Tcp(String, u16),
}

impl NbdUri {
    /// `None` if `text` is no URI of this kind at all, and so names a file.
    pub(super) fn parse(text: &str) -> Option<Result<NbdUri, String>> {
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            Some(unix(rest))
        } else if let Some(rest) = text.strip_prefix("nbd://") {
            Some(tcp(rest))
        } else if text.starts_with("nbds://") || text.starts_with("nbds+unix://") {
            Some(Err("NBD over TLS is not spoken; use nbd:// or nbd+unix://".to_owned()))
        } else {
            None
        }
    }
}

fn unix(rest: &str) -> Result<NbdUri, String> {
    let example = "an example: nbd+unix:///EXPORT?socket=/run/weir/nbd.sock";
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let export =
        path.strip_prefix('/').ok_or_else(|| format!("a host has no place here; {example}"))?;
    let mut sockets = query.split('&').filter_map(|pair| pair.strip_prefix("socket="));
    let socket = sockets.next_back().filter(|socket| !socket.is_empty());
    let socket = socket.ok_or_else(|| format!("it names no socket; {example}"))?;
    Ok(NbdUri { server: Address::Unix(decoded(socket)?.into()), export: decoded(export)? })
}

fn tcp(rest: &str) -> Result<NbdUri, String> {
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, port.parse().map_err(|_| format!("`{port}` is no port"))?)
        }
        _ => (authority, PORT),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = if host.is_empty() { "localhost" } else { host };
    Ok(NbdUri { server: Address::Tcp(host.to_owned(), port), export: decoded(export)? })
}

/// `%41` is `A`.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(
            value.ok_or_else(|| format!("`{text}` has a `%` without two hexadecimal digits"))?,
        );
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}` is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<(Address, String), ()>> {
        NbdUri::parse(text).map(|uri| uri.map(|uri| (uri.server, uri.export)).map_err(drop))
    }

    #[test]
    fn uris_are_taken_apart() {
        let unix =
            |path: &str, export: &str| Some(Ok((Address::Unix(path.into()), export.to_owned())));
        let tcp = |host: &str, port, export: &str| {
            Some(Ok((Address::Tcp(host.to_owned(), port), export.to_owned())))
        };
        let cases = [
            ("nbd+unix:///?socket=/tmp/weir.sock", unix("/tmp/weir.sock", "")),
            ("nbd+unix:///a%20b?socket=/tmp/%25.sock", unix("/tmp/%.sock", "a b")),
            ("nbd+unix:///vm1?tls=no&socket=x", unix("x", "vm1")),
            ("nbd+unix:///vm1", Some(Err(()))),
            ("nbd+unix://host/vm1?socket=x", Some(Err(()))),
            ("nbd+unix:///%4?socket=x", Some(Err(()))),
            ("nbd://example.org", tcp("example.org", 10809, "")),
            ("nbd://127.0.0.1:10810/vm1", tcp("127.0.0.1", 10810, "vm1")),
            ("nbd://[::1]:7/vm/1", tcp("::1", 7, "vm/1")),
            ("nbd://[::1]/", tcp("::1", 10809, "")),
            ("nbd:///vm1", tcp("localhost", 10809, "vm1")),
            ("nbd://h:x/", Some(Err(()))),
            ("nbds://h/", Some(Err(()))),
            ("/dev/sda", None),
            ("image.raw", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text), wanted, "{text}");
        }
    }
}
