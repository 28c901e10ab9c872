//! Addresses of `listen`: `HOST:PORT` of TCP, `vsock:PORT` and `vsock:CID:PORT`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::report::Report;
use crate::source::Text;
use crate::value::cut;

/// The port that IANA gave to NBD.
const NBD_PORT: u16 = 10_809;
/// The CID of a machine for itself (`VMADDR_CID_LOCAL`).
const CID_LOCAL: u32 = 1;

/// Where a server listens for NBD, besides its Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// TCP; port 0 is any free port.
    Tcp(SocketAddr),
    /// A socket between virtual machines and their host, vsock(7).
    Vsock {
        /// The CID that is listened on; `None` is any of this machine's.
        cid: Option<u32>,
        /// Not `u32::MAX`.
        port: u32,
    },
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Vsock { cid: None, port } => write!(f, "vsock:any:{port}"),
            ListenAddress::Vsock { cid: Some(cid), port } => write!(f, "vsock:{cid}:{port}"),
        }
    }
}

impl ListenAddress {
    pub(crate) fn read(text: &Text, report: &mut Report) -> Option<ListenAddress> {
        match text.value.strip_prefix("vsock:") {
            Some(rest) => vsock(text, rest, report),
            None => tcp(text, NBD_PORT, report).map(ListenAddress::Tcp),
        }
    }

    /// Whether several listeners may have it.
    pub(crate) fn is_any_port(self) -> bool {
        matches!(self, ListenAddress::Tcp(address) if address.port() == 0)
    }

    /// The others that can reach it; `None` where it is this machine alone.
    pub(crate) fn reached_from(self) -> Option<&'static str> {
        match self {
            ListenAddress::Tcp(address) if address.ip().to_canonical().is_loopback() => None,
            ListenAddress::Tcp(_) => Some("other machines"),
            ListenAddress::Vsock { cid: Some(CID_LOCAL), .. } => None,
            ListenAddress::Vsock { .. } => Some("all virtual machines of this host"),
        }
    }
}

fn vsock(text: &Text, rest: &str, report: &mut Report) -> Option<ListenAddress> {
    let (cid, port) = rest.split_once(':').unwrap_or(("any", rest));
    let cid = match cid {
        "any" => Some(None),
        cid => number(cid).map(Some),
    };
    if let (Some(cid), Some(port)) = (cid, number(port)) {
        return Some(ListenAddress::Vsock { cid, port });
    }
    let hint = format!(
        "write \"vsock:{NBD_PORT}\", or a CID before the port, \"vsock:{CID_LOCAL}:{NBD_PORT}\": numbers below 2^32-1"
    );
    report.refuse(text, format!("{:?} is no vsock address", cut(&text.value)), Some(hint));
    None
}

/// The largest number means any, of CIDs and of ports.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&number| number != u32::MAX)
}

/// An address and a port of TCP; `usual_port` is for the hint.
pub(crate) fn tcp(text: &Text, usual_port: u16, report: &mut Report) -> Option<SocketAddr> {
    let value = text.value.as_str();
    let local = value.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    if let Ok(address) = local.as_deref().unwrap_or(value).parse() {
        return Some(address);
    }
    let port = value.strip_prefix(':').unwrap_or(value).parse::<u16>();
    let hint = match (value.parse::<IpAddr>(), port) {
        (Ok(host), _) => format!("add the port: \"{}\"", SocketAddr::new(host, usual_port)),
        (_, Ok(port)) => format!("add the address: \"127.0.0.1:{port}\""),
        _ => {
            format!(
                "write an address and a port, \"127.0.0.1:{usual_port}\" or \"[::1]:{usual_port}\""
            )
        }
    };
    report.refuse(text, format!("{:?} is no address and port", cut(value)), Some(hint));
    None
}
