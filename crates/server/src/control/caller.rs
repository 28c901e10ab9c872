//! Callers of the control API.

use std::fmt;
use std::net::SocketAddr;

use weir_config::Access;

use crate::log_limit::LogPermit;

/// Where a request comes from: an axum extension of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Identity of the caller.
    pub identity: Identity,
    /// What it may do.
    pub access: Access,
}

/// Identity of a caller.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Identity {
    /// A process of this machine, by the credentials that the kernel keeps for its socket (`SO_PEERCRED`).
    Process {
        /// Its user.
        uid: u32,
        /// Its number when it connected; unknown from another PID namespace.
        pid: Option<i32>,
    },
    /// The holder of a token, over TCP.
    Token {
        /// The token's name.
        name: String,
        /// Where the connection comes from.
        address: SocketAddr,
    },
    /// A reader of metrics, over TCP.
    Reader(SocketAddr),
    /// The server itself, asked by a signal.
    Signal(&'static str),
}

impl Caller {
    /// What a rate of changes is counted by.
    pub(super) fn rate_key(&self) -> String {
        match &self.identity {
            Identity::Process { uid, .. } => format!("uid {uid}"),
            Identity::Token { name, .. } => format!("token {name}"),
            identity @ (Identity::Reader(_) | Identity::Signal(_)) => identity.to_string(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Process { uid, pid: Some(pid) } => write!(f, "uid {uid}, pid {pid}"),
            Identity::Process { uid, pid: None } => write!(f, "uid {uid}"),
            Identity::Token { name, address } => write!(f, "token {name}, {address}"),
            Identity::Reader(address) => address.fmt(f),
            Identity::Signal(name) => f.write_str(name),
        }
    }
}

/// Identity as fields of a log line; those that are `None` are left out.
struct Fields<'i> {
    uid: Option<u32>,
    pid: Option<i32>,
    token: Option<&'i str>,
    address: Option<String>,
    signal: Option<&'static str>,
}

impl Identity {
    fn fields(&self) -> Fields<'_> {
        let mut fields = Fields { uid: None, pid: None, token: None, address: None, signal: None };
        match self {
            Identity::Process { uid, pid } => (fields.uid, fields.pid) = (Some(*uid), *pid),
            Identity::Token { name, address } => {
                (fields.token, fields.address) = (Some(name.as_str()), Some(address.to_string()));
            }
            Identity::Reader(address) => fields.address = Some(address.to_string()),
            Identity::Signal(name) => fields.signal = Some(name),
        }
        fields
    }
}

/// One change that was made: a log line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// `set`, `remove`, `move` and so on.
    pub operation: &'static str,
    /// The cgroup, where it is about one.
    pub cgroup: Option<String>,
    /// The device, where it is about one.
    pub device: Option<String>,
    /// The key that was set.
    pub key: Option<String>,
    /// What held before.
    pub old: Option<String>,
    /// What holds now.
    pub new: Option<String>,
}

impl Change {
    /// Writes the line.
    pub(super) fn log(&self, caller: &Identity, generation: &str) {
        let Fields { uid, pid, token, address, signal } = caller.fields();
        let Change { operation, cgroup, device, key, old, new } = self;
        let [cgroup, device, key, old, new] =
            [cgroup, device, key, old, new].map(|text| text.as_deref());
        tracing::info!(
            uid, pid, token, address, signal, operation, cgroup, device, key, old, new, generation,
            "changed"
        );
    }
}

/// Writes the line of a change that was refused: a warning where the caller may not make it.
pub(super) fn log_refusal(
    caller: &Identity,
    operation: &'static str,
    status: u16,
    reason: &str,
    permit: &LogPermit,
) {
    let Fields { uid, pid, token, address, signal } = caller.fields();
    let left_out = permit.left_out;
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                uid,
                pid,
                token,
                address,
                signal,
                operation,
                status,
                reason,
                left_out,
                "change refused"
            )
        };
    }
    match status {
        403 | 421 | 429 => line!(warn),
        _ => line!(debug),
    }
}
