//! `[server]`: where it listens.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::backend::Files;
use crate::model::ServerConfig;
use crate::report::Report;
use crate::source::Text;
use crate::table::Section;
use crate::value::{cut, path, socket_path};

/// Connections at once where nothing is said.
pub(crate) const CONNECTIONS: u32 = 1_024;
const CONNECTIONS_MAX: u32 = 65_536;
/// The port that IANA gave to NBD.
const NBD_PORT: u16 = 10_809;

const KEYS: [&str; 6] = ["socket", "listen", "control", "max_connections", "allow_remote", "tls"];

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        let listen = Vec::new();
        ServerConfig { socket: None, listen, control: None, max_connections: CONNECTIONS }
    }
}

impl ServerConfig {
    /// Where sockets are if nothing is said and the server is root's.
    pub const RUNTIME_DIR: &'static str = "/run/weir";

    /// Gives a control socket, `control.sock`, and, if it listens nowhere, an NBD socket, `nbd.sock`, in
    /// `directory`.
    pub fn fill_in(&mut self, directory: &Path) {
        if self.socket.is_none() && self.listen.is_empty() {
            self.socket = Some(directory.join("nbd.sock"));
        }
        self.control.get_or_insert_with(|| directory.join("control.sock"));
    }
}

/// Reads `[server]`.
pub(crate) fn read(root: &Section<'_>, files: &Files, report: &mut Report) -> ServerConfig {
    let mut server = ServerConfig::default();
    let Some(section) = root.section("server", report) else { return server };
    section.allow(&KEYS, report);
    let allow_remote = section.switch("allow_remote", report).unwrap_or(false);
    if let Some(text) = section.text("tls", report)
        && text.value != "none"
    {
        let hint = Some(
            "write \"none\", or leave it out; put a tunnel in front for remote clients".into(),
        );
        report.refuse(&text, "there is no TLS yet", hint);
    }
    for text in section.get("listen").map(|entry| entry.texts(report)).unwrap_or_default() {
        listen(&mut server, &text, allow_remote, "allow_remote = true", report);
    }
    server.socket = section.text("socket", report).and_then(|text| unix(&text, files, report));
    let text = section.text("control", report);
    control(&mut server, text.as_ref(), files, report);
    if let Some(connections) = section.number("max_connections", 1, CONNECTIONS_MAX, report) {
        server.max_connections = connections;
    }
    server
}

/// Sets the control socket, which must not be the one for NBD.
pub(crate) fn control(
    server: &mut ServerConfig,
    text: Option<&Text>,
    files: &Files,
    report: &mut Report,
) {
    let Some(text) = text else { return };
    server.control = unix(text, files, report);
    if server.control.is_some() && server.control == server.socket {
        report.refuse(text, "NBD has the same socket", None);
    }
}

/// A Unix socket's path; relative ones begin where the configuration is.
pub(crate) fn unix(text: &Text, files: &Files, report: &mut Report) -> Option<PathBuf> {
    let path = path(text, report)?;
    let path = match files {
        Files::Look(base) => base.join(path),
        Files::Ignore => path,
    };
    socket_path(path, text, report)
}

/// Adds one TCP address. `permission` is what has to be said to listen for other machines.
pub(crate) fn listen(
    server: &mut ServerConfig,
    text: &Text,
    allow_remote: bool,
    permission: &str,
    report: &mut Report,
) {
    let Some(address) = address(text, report) else { return };
    if !address.ip().to_canonical().is_loopback() && !allow_remote {
        let message =
            format!("{address} can be reached from other machines, and there is no TLS yet");
        let hint = format!(
            "listen on 127.0.0.1, or say `{permission}` if everyone on that network may read and write the exports"
        );
        report.refuse(text, message, Some(hint));
    } else if server.listen.contains(&address) && address.port() != 0 {
        report.refuse(text, format!("{address} is there twice"), None);
    } else {
        server.listen.push(address);
    }
}

fn address(text: &Text, report: &mut Report) -> Option<SocketAddr> {
    let value = text.value.as_str();
    let local = value.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    if let Ok(address) = local.as_deref().unwrap_or(value).parse() {
        return Some(address);
    }
    let port = value.strip_prefix(':').unwrap_or(value).parse::<u16>();
    let hint = match (value.parse::<IpAddr>(), port) {
        (Ok(host), _) => format!("add the port: \"{}\"", SocketAddr::new(host, NBD_PORT)),
        (_, Ok(port)) => format!("add the address: \"127.0.0.1:{port}\""),
        _ => {
            format!("write an address and a port, \"127.0.0.1:{NBD_PORT}\" or \"[::1]:{NBD_PORT}\"")
        }
    };
    report.refuse(text, format!("{:?} is no address and port", cut(value)), Some(hint));
    None
}
