//! `[server]`: where it listens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_units::Nanos;

use crate::backend::Files;
use crate::cgroup::CGROUPS_MAX;
use crate::listen::{self, ListenAddress};
use crate::model::{LogFormat, LogLevel, Sandbox, ServerConfig, TlsConfig, TlsMode};
use crate::report::Report;
use crate::source::Text;
use crate::table::Section;
use crate::value::{cut, path, quantity, socket_path, word};

/// Default of `max_connections`.
pub(crate) const CONNECTIONS: u32 = 1_024;
pub(crate) const CONNECTIONS_MAX: u32 = 65_536;
/// Least default of connections of a client or export: as many as programs open.
const CONNECTIONS_MIN: u32 = 16;
/// Default of `max_cgroups`.
const CGROUPS: u32 = 10_000;
/// The port for the control API in examples: the one after NBD's.
const CONTROL_PORT: u16 = 10_810;
/// The port for metrics in examples.
const METRICS_PORT: u16 = 9_810;

/// How long requests under way may take at the end.
const DRAIN_TIME: Duration = Duration::from_secs(10);
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3600);

/// Longest name of a group, in bytes: what `useradd` allows.
const GROUP_MAX: usize = 32;
/// Longest name of a machine, in bytes (RFC 1035).
const HOST_MAX: usize = 253;

pub(crate) const KEYS: [&str; 27] = [
    "socket",
    "socket_mode",
    "listen",
    "control",
    "control_mode",
    "control_group",
    "control_read",
    "control_read_mode",
    "control_read_group",
    "control_listen",
    "control_hosts",
    "control_origins",
    "metrics",
    "metrics_mode",
    "metrics_group",
    "metrics_listen",
    "max_connections",
    "exit_last",
    "drain_time",
    "max_connections_per_client",
    "max_cgroups",
    "allow_remote",
    "log",
    "log_level",
    "sandbox",
    "sandbox_paths",
    "tls",
];

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            socket: None,
            socket_mode: ServerConfig::SOCKET_MODE,
            listen: Vec::new(),
            allow_remote: false,
            tls: TlsMode::Off,
            control: None,
            control_mode: ServerConfig::SOCKET_MODE,
            control_group: None,
            control_read: None,
            control_read_mode: ServerConfig::READ_MODE,
            control_read_group: None,
            control_listen: Vec::new(),
            control_hosts: Vec::new(),
            control_origins: Vec::new(),
            metrics: None,
            metrics_mode: ServerConfig::READ_MODE,
            metrics_group: None,
            metrics_listen: Vec::new(),
            max_connections: CONNECTIONS,
            exit_last: false,
            drain_time: DRAIN_TIME,
            max_connections_per_client: max_connections_per_client(CONNECTIONS),
            max_cgroups: CGROUPS,
            log: None,
            log_level: None,
            sandbox: Sandbox::default(),
            sandbox_paths: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// Default directory of sockets for root.
    pub const RUNTIME_DIR: &'static str = "/run/weir";

    /// Default mode of the NBD socket: only its owner.
    pub const SOCKET_MODE: u32 = 0o600;

    /// Default mode of the sockets that only read: their owner and their group.
    pub const READ_MODE: u32 = 0o660;

    /// Whether anything is encrypted, so that `[tls]` is needed.
    pub fn uses_tls(&self) -> bool {
        self.tls != TlsMode::Off || !self.control_listen.is_empty()
    }

    /// Default connections of each of `exports` exports.
    pub fn max_connections_per_export(&self, exports: usize) -> u32 {
        match exports {
            ..=1 => self.max_connections,
            _ => part_of(self.max_connections, 2),
        }
    }

    /// Gives control sockets, `control.sock` and `control-read.sock`, one for metrics, `metrics.sock`, and, if it listens
    /// nowhere, an NBD socket, `nbd.sock`, in `directory`.
    pub fn fill_in(&mut self, directory: &Path) {
        if self.socket.is_none() && self.listen.is_empty() {
            self.socket = Some(directory.join("nbd.sock"));
        }
        if self.control.is_none() {
            self.control = Some(directory.join("control.sock"));
            self.control_read.get_or_insert_with(|| directory.join("control-read.sock"));
            self.metrics.get_or_insert_with(|| directory.join("metrics.sock"));
        }
    }
}

/// Reads `[server]`.
pub(crate) fn read(
    root: &Section<'_>,
    tls: Option<&TlsConfig>,
    files: &Files,
    report: &mut Report,
) -> ServerConfig {
    let mut server = ServerConfig::default();
    let Some(section) = root.section("server", report) else { return server };
    section.allow(&KEYS, report);
    let allow_remote = section.switch("allow_remote", report).unwrap_or(false);
    server.allow_remote = allow_remote;
    if let Some(text) = section.text("tls", report) {
        server.tls = named(&TlsMode::NAMES, &text, report).unwrap_or_default();
        if server.tls != TlsMode::Off && root.get("tls").is_none() {
            let hint = "add `[tls]` with `certificate = \"...\"` and `key = \"...\"`".to_owned();
            report.refuse(&text, "TLS needs a certificate", Some(hint));
        }
    }
    let knows_clients =
        server.tls == TlsMode::Required && tls.is_some_and(|tls| tls.require_client_certificate);
    for text in section.get("listen").map(|entry| entry.texts(report)).unwrap_or_default() {
        listen(&mut server, &text, allow_remote || knows_clients, "allow_remote = true", report);
    }
    server.socket = section.text("socket", report).and_then(|text| unix(&text, files, report));
    if let Some(text) = section.text("socket_mode", report) {
        server.socket_mode = socket_mode(&text, report).unwrap_or(server.socket_mode);
    }
    let text = section.text("control", report);
    control(&mut server, text.as_ref(), files, report);
    control_files(&mut server, &section, files, report);
    control_listen(&mut server, root, &section, report);
    metrics(&mut server, &section, files, report);
    if let Some(connections) = section.number("max_connections", 1, CONNECTIONS_MAX, report) {
        server.max_connections = connections;
        server.max_connections_per_client = max_connections_per_client(connections);
    }
    let most = CONNECTIONS_MAX;
    if let Some(connections) = section.number("max_connections_per_client", 1, most, report) {
        server.max_connections_per_client = connections;
    }
    if let Some(cgroups) = section.number("max_cgroups", 1, CGROUPS_MAX as u32, report) {
        server.max_cgroups = cgroups;
    }
    server.exit_last = section.switch("exit_last", report).unwrap_or(server.exit_last);
    if let Some(text) = section.text("drain_time", report) {
        server.drain_time = drain_time(&text, report).unwrap_or(server.drain_time);
    }
    server.log =
        section.text("log", report).and_then(|text| named(&LogFormat::NAMES, &text, report));
    let level = section.text("log_level", report);
    server.log_level = level.and_then(|text| named(&LogLevel::NAMES, &text, report));
    if let Some(text) = section.text("sandbox", report) {
        server.sandbox = named(&Sandbox::NAMES, &text, report).unwrap_or_default();
    }
    for text in section.get("sandbox_paths").map(|entry| entry.texts(report)).unwrap_or_default() {
        server.sandbox_paths.extend(path(&text, report).map(|path| files.place(path)));
    }
    server
}

/// The value that `text` names.
fn named<T: Copy>(names: &[(&str, T)], text: &Text, report: &mut Report) -> Option<T> {
    let words: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
    word(text, &words, report).map(|index| names[index].1)
}

/// How long requests under way may take at the end.
pub(crate) fn drain_time(text: &Text, report: &mut Report) -> Option<Duration> {
    let time = quantity::<Nanos>(text, report)?.duration();
    if time > DRAIN_TIME_MAX {
        let message = format!("{time:?} is more than an hour");
        report.refuse(text, message, Some("what is usual: \"10s\"".into()));
        return None;
    }
    Some(time)
}

/// Default of `max_connections_per_client`.
pub(crate) fn max_connections_per_client(max_connections: u32) -> u32 {
    part_of(max_connections, 4)
}

/// An even part of all connections, but no fewer than programs open at once.
fn part_of(connections: u32, parts: u32) -> u32 {
    (connections / parts).max(CONNECTIONS_MIN).min(connections)
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
        let hint = "choose another path, or leave it out".to_owned();
        report.refuse(text, "NBD has the same socket", Some(hint));
    }
}

/// Modes and groups of the control sockets, the reading one, and what requests there may name.
fn control_files(
    server: &mut ServerConfig,
    section: &Section<'_>,
    files: &Files,
    report: &mut Report,
) {
    if let Some(text) = section.text("control_mode", report) {
        server.control_mode = socket_mode(&text, report).unwrap_or(server.control_mode);
    }
    server.control_group =
        section.text("control_group", report).and_then(|text| group(&text, report));
    let text = section.text("control_read", report);
    control_read(server, text.as_ref(), files, report);
    if let Some(text) = section.text("control_read_mode", report) {
        server.control_read_mode = socket_mode(&text, report).unwrap_or(server.control_read_mode);
    }
    server.control_read_group =
        section.text("control_read_group", report).and_then(|text| group(&text, report));
    for text in section.get("control_hosts").map(|entry| entry.texts(report)).unwrap_or_default() {
        server.control_hosts.extend(host(&text, report));
    }
    let origins = section.get("control_origins").map(|entry| entry.texts(report));
    for text in origins.unwrap_or_default() {
        server.control_origins.extend(origin(&text, report));
    }
}

/// Addresses of the control API, which needs certificate and token there.
fn control_listen(
    server: &mut ServerConfig,
    root: &Section<'_>,
    section: &Section<'_>,
    report: &mut Report,
) {
    let addresses = section.get("control_listen").map(|entry| entry.texts(report));
    let addresses = addresses.unwrap_or_default();
    for (table, what, hint) in [
        ("tls", "a certificate", "add `[tls]` with `certificate = \"...\"` and `key = \"...\"`"),
        ("token", "a token", "add one: `weir api token NAME --out FILE` prints its section"),
    ] {
        if let (Some(text), None) = (addresses.first(), root.get(table)) {
            report.refuse(
                text,
                format!("over TCP the control API needs {what}"),
                Some(hint.into()),
            );
        }
    }
    for text in addresses {
        if let Some(address) = listen::tcp(&text, CONTROL_PORT, report) {
            if server.control_listen.contains(&address) && address.port() != 0 {
                let message = format!("{address} is there twice");
                report.refuse(&text, message, Some("say it once".into()));
            }
            server.control_listen.push(address);
        }
    }
}

/// Sets the reading control socket, which must be none of the others.
pub(crate) fn control_read(
    server: &mut ServerConfig,
    text: Option<&Text>,
    files: &Files,
    report: &mut Report,
) {
    let Some(text) = text else { return };
    server.control_read = unix(text, files, report);
    if server.control_read.is_none() {
        return;
    }
    for (other, name) in [(&server.socket, "NBD"), (&server.control, "`control`")] {
        if server.control_read == *other {
            let hint = "choose another path, or leave it out".to_owned();
            report.refuse(text, format!("{name} has the same socket"), Some(hint));
        }
    }
}

/// Where metrics are read: a Unix socket, which must be none of the others, and addresses, which only `allow_remote` lets
/// other machines reach.
fn metrics(server: &mut ServerConfig, section: &Section<'_>, files: &Files, report: &mut Report) {
    if let Some(text) = section.text("metrics", report) {
        server.metrics = unix(&text, files, report);
        let others = [
            (&server.socket, "NBD"),
            (&server.control, "`control`"),
            (&server.control_read, "`control_read`"),
        ];
        for (_, name) in others
            .into_iter()
            .filter(|(other, _)| server.metrics.is_some() && server.metrics == **other)
        {
            let hint = "choose another path, or leave it out".to_owned();
            report.refuse(&text, format!("{name} has the same socket"), Some(hint));
        }
    }
    if let Some(text) = section.text("metrics_mode", report) {
        server.metrics_mode = socket_mode(&text, report).unwrap_or(server.metrics_mode);
    }
    server.metrics_group =
        section.text("metrics_group", report).and_then(|text| group(&text, report));
    let addresses = section.get("metrics_listen").map(|entry| entry.texts(report));
    for text in addresses.unwrap_or_default() {
        let Some(address) = listen::tcp(&text, METRICS_PORT, report) else { continue };
        if let (Some(others), false) =
            (ListenAddress::Tcp(address).reached_from(), server.allow_remote)
        {
            let message =
                format!("{address} can be reached from {others}, and metrics need no token");
            let hint = "listen on 127.0.0.1; or say `allow_remote = true` if everyone on that network may read and write the exports";
            report.refuse(&text, message, Some(hint.into()));
        } else if server.metrics_listen.contains(&address) && address.port() != 0 {
            report.refuse(&text, format!("{address} is there twice"), Some("say it once".into()));
        } else {
            server.metrics_listen.push(address);
        }
    }
}

/// Name or number of a group, which is looked up at the start.
fn group(text: &Text, report: &mut Report) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    let is_name = (1..=GROUP_MAX).contains(&text.value.len()) && text.value.chars().all(good);
    if !is_name {
        let message = format!("{:?} is no name of a group", cut(&text.value));
        report.refuse(text, message, Some("write one of /etc/group, or its number".into()));
        return None;
    }
    Some(text.value.clone())
}

/// Name in the header `Host`, without a port, in lower case.
fn host(text: &Text, report: &mut Report) -> Option<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if text.value.is_empty() || text.value.len() > HOST_MAX || !text.value.chars().all(good) {
        let message = format!("{:?} is no name of a machine", cut(&text.value));
        let hint = "write it without a port, as \"store.example\"; addresses need not be named";
        report.refuse(text, message, Some(hint.into()));
        return None;
    }
    Some(text.value.to_ascii_lowercase())
}

/// Origin as browsers write it (RFC 6454, 6.2): scheme, name, and port where it is not the scheme's own.
fn origin(text: &Text, report: &mut Report) -> Option<String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.value.strip_prefix(scheme));
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._:[]".contains(c);
    let is_good = |rest: &str| (1..=HOST_MAX).contains(&rest.len()) && rest.chars().all(good);
    if !rest.is_some_and(is_good) {
        let message = format!("{:?} is no origin", cut(&text.value));
        let hint =
            "write it as browsers do, in lower case and without a path: \"https://panel.example\"";
        report.refuse(text, message, Some(hint.into()));
        return None;
    }
    Some(text.value.clone())
}

/// Mode of the Unix socket as for `chmod`: three octal digits, which must allow its owner.
pub(crate) fn socket_mode(text: &Text, report: &mut Report) -> Option<u32> {
    let digits = text.value.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(&text.value);
    let is_octal = digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let hint = || {
        Some("\"600\" is its owner's alone, \"660\" its group's too, \"666\" everybody's".into())
    };
    if !is_octal {
        let message = format!("{:?} is no file mode of three octal digits", cut(&text.value));
        report.refuse(text, message, hint());
        return None;
    }
    let mode = u32::from_str_radix(digits, 8).ok()?;
    if mode & 0o600 != 0o600 {
        report.refuse(text, format!("with mode {digits} not even its owner could connect"), hint());
        return None;
    }
    Some(mode)
}

/// A Unix socket's path; relative ones begin where the configuration is.
pub(crate) fn unix(text: &Text, files: &Files, report: &mut Report) -> Option<PathBuf> {
    let path = path(text, report)?;
    socket_path(files.place(path), text, report)
}

/// Adds an address. `permission` names the setting that allows other machines.
pub(crate) fn listen(
    server: &mut ServerConfig,
    text: &Text,
    allow_remote: bool,
    permission: &str,
    report: &mut Report,
) {
    let Some(address) = ListenAddress::read(text, report) else { return };
    if let (Some(others), false) = (address.reached_from(), allow_remote) {
        let message =
            format!("{address} can be reached from {others}, and clients need no certificate");
        let (alone, all) = match address {
            ListenAddress::Tcp(_) => ("127.0.0.1", "everyone on that network"),
            ListenAddress::Vsock { .. } => ("a Unix socket", "all of them"),
        };
        let tls = match permission.starts_with("--") {
            true => "serve a configuration that has TLS",
            false => "set `tls = \"required\"` under [server] and `client_ca` under [tls]",
        };
        let hint = format!(
            "listen on {alone}; or {tls}; or say `{permission}` if {all} may read and write the exports"
        );
        report.refuse(text, message, Some(hint));
    } else if server.listen.contains(&address) && !address.is_any_port() {
        report.refuse(text, format!("{address} is there twice"), Some("say it once".into()));
    } else {
        server.listen.push(address);
    }
}
