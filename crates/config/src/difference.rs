//! Differences of two configurations, in the words of a file.

use std::cmp::Ordering;
use std::fmt;

use crate::model::Config;
use crate::statement::{Described, Statement};

/// Kinds of sections, in the order in which differences are told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionKind {
    /// `[server]`.
    Server,
    /// `[tls]`.
    Tls,
    /// `[record]`.
    Record,
    /// `[device.NAME]`.
    Device,
    /// `[cgroup."/PATH"]`.
    Cgroup,
    /// `[export.NAME]`.
    Export,
    /// `[peer.NAME]`.
    Peer,
    /// `[token.NAME]`.
    Token,
}

impl SectionKind {
    /// Those of which there may be several, each with a name.
    pub(crate) const NAMED: [SectionKind; 4] =
        [SectionKind::Device, SectionKind::Cgroup, SectionKind::Export, SectionKind::Peer];

    /// As files call it.
    pub const fn name(self) -> &'static str {
        match self {
            SectionKind::Server => "server",
            SectionKind::Tls => "tls",
            SectionKind::Record => "record",
            SectionKind::Device => "device",
            SectionKind::Cgroup => "cgroup",
            SectionKind::Export => "export",
            SectionKind::Peer => "peer",
            SectionKind::Token => "token",
        }
    }
}

/// One difference. Serialises as a flat record: `section`, `name` and `change`, and what that has.
///
/// `Display` is a line as of `diff`: `+ export vm9`, `- export vm9`, `~ cgroup /vm1 io.max: disk0 riops=100 -> riops=200`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Difference {
    /// The section's kind.
    pub section: SectionKind,
    /// Its name; empty for `[server]`, `[tls]` and `[record]`, and for the default export.
    pub name: String,
    /// What has changed.
    #[serde(flatten)]
    pub change: Change,
}

/// What has changed in a section.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    /// The section is new.
    Added {
        /// What it says, without defaults.
        keys: Vec<KeyValue>,
    },
    /// The section is gone.
    Removed {
        /// What it said, without defaults.
        keys: Vec<KeyValue>,
    },
    /// A key has another value; one that is not said has its default.
    Changed {
        /// The key, with the names of tables in the section: `io.max`, `price.flush.ios`. `after` of a peer is the one that
        /// comes before it.
        key: String,
        /// The device that the value is for, where a key has one for each.
        device: Option<String>,
        /// The value before; `None` where nothing is said and there is no word for that.
        old: Option<String>,
        /// The value now.
        new: Option<String>,
    },
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct KeyValue {
    /// The key, with the names of tables in the section.
    pub key: String,
    /// The device that the value is for, where a key has one for each.
    pub device: Option<String>,
    /// The value.
    pub value: String,
}

/// All differences between `old` and `new`: by kind of section, then by name; keys in the order of the documentation. A
/// default that is said is no difference from one that is not, and neither is another order of sections, but of peers. Empty for
/// configurations of which a server does the same.
///
/// O(n log n) for n sections.
pub fn difference(old: &Config, new: &Config) -> Vec<Difference> {
    let names = |config: &'_ Config| -> Vec<String> {
        config.devices.iter().map(|device| device.name.clone()).collect()
    };
    // Then indices of devices mean the same, and what is equal says the same.
    let is_comparable = names(old) == names(new);
    let (old, new) = (Side::of(old), Side::of(new));
    let mut differences = Vec::new();
    let (mut left, mut right) = (old.sections.iter().peekable(), new.sections.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return differences,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => (old.kind, old.name).cmp(&(new.kind, new.name)),
        };
        let section = match order {
            Ordering::Greater => None,
            _ => left.next(),
        };
        let other = match order {
            Ordering::Less => None,
            _ => right.next(),
        };
        match (section, other) {
            (Some(gone), None) => {
                differences.push(gone.difference(Change::Removed { keys: old.keys(gone) }));
            }
            (None, Some(added)) => {
                differences.push(added.difference(Change::Added { keys: new.keys(added) }));
            }
            (Some(before), Some(after)) => {
                if !is_comparable || before.described != after.described {
                    compare(&old, before, &new, after, &mut differences);
                }
            }
            (None, None) => {}
        }
    }
}

/// A configuration with its sections in order.
struct Side<'c> {
    config: &'c Config,
    sections: Vec<Section<'c>>,
}

struct Section<'c> {
    kind: SectionKind,
    name: &'c str,
    described: Described<'c>,
}

impl Section<'_> {
    fn difference(&self, change: Change) -> Difference {
        Difference { section: self.kind, name: self.name.to_owned(), change }
    }
}

impl<'c> Side<'c> {
    fn of(config: &'c Config) -> Side<'c> {
        let Config { server, tls, record, devices, cgroups, exports, peers, tokens } = config;
        let server =
            Section { kind: SectionKind::Server, name: "", described: Described::Server(server) };
        let tls = tls.iter().map(|tls| Section {
            kind: SectionKind::Tls,
            name: "",
            described: Described::Tls(tls),
        });
        let record = record.iter().map(|record| Section {
            kind: SectionKind::Record,
            name: "",
            described: Described::Record(record),
        });
        let devices = devices.iter().map(|device| Section {
            kind: SectionKind::Device,
            name: &device.name,
            described: Described::Device(device),
        });
        let cgroups = cgroups.iter().map(|cgroup| Section {
            kind: SectionKind::Cgroup,
            name: cgroup.path.as_str(),
            described: Described::Cgroup(cgroup),
        });
        let exports = exports.iter().map(|export| Section {
            kind: SectionKind::Export,
            name: &export.name,
            described: Described::Export(export),
        });
        let before = std::iter::once(None).chain(peers.iter().map(|peer| Some(peer.name.as_str())));
        let peers = peers.iter().zip(before).map(|(peer, before)| Section {
            kind: SectionKind::Peer,
            name: &peer.name,
            described: Described::Peer(peer, before),
        });
        let tokens = tokens.iter().map(|token| Section {
            kind: SectionKind::Token,
            name: &token.name,
            described: Described::Token(token),
        });
        let mut sections: Vec<Section<'c>> = std::iter::once(server)
            .chain(tls)
            .chain(record)
            .chain(devices)
            .chain(cgroups)
            .chain(exports)
            .chain(peers)
            .chain(tokens)
            .collect();
        sections.sort_by(|a, b| (a.kind, a.name).cmp(&(b.kind, b.name)));
        Side { config, sections }
    }

    fn statements(&self, section: &Section<'_>) -> Vec<Statement> {
        section.described.statements(self.config)
    }

    /// The name of the device that `statement` is for.
    fn device(&self, statement: &Statement) -> Option<&'c str> {
        statement.device.map(|device| self.config.devices[device].name.as_str())
    }

    /// What `section` says, without defaults.
    fn keys(&self, section: &Section<'_>) -> Vec<KeyValue> {
        let said = self.statements(section).into_iter().filter(|said| !said.is_default);
        said.filter_map(|said| {
            let device = self.device(&said).map(str::to_owned);
            Some(KeyValue { key: said.key.join("."), device, value: said.value?.text() })
        })
        .collect()
    }
}

/// Adds the differences of two sections of one name.
fn compare(
    old: &Side<'_>,
    before: &Section<'_>,
    new: &Side<'_>,
    after: &Section<'_>,
    differences: &mut Vec<Difference>,
) {
    let (mut left, right) = (old.statements(before), new.statements(after));
    let name = |side: &Side<'_>, said: &Statement| side.device(said).map(str::to_owned);
    let mut changed = |said: &Statement, device, old: Option<String>, new: Option<String>| {
        if old != new {
            let key = said.key.join(".");
            differences.push(before.difference(Change::Changed { key, device, old, new }));
        }
    };
    // A section has few keys, but may have a line for each of many devices.
    left.sort_by(|a, b| (&a.key, old.device(a)).cmp(&(&b.key, old.device(b))));
    let mut is_seen = vec![false; left.len()];
    for said in &right {
        let device = new.device(said);
        let found = left
            .binary_search_by(|other| (&other.key, old.device(other)).cmp(&(&said.key, device)));
        let value =
            found.ok().and_then(|index| left[index].value.as_ref()).map(|value| value.text());
        if let Ok(index) = found {
            is_seen[index] = true;
        }
        changed(said, name(new, said), value, said.value.as_ref().map(|value| value.text()));
    }
    for (said, is_seen) in left.iter().zip(is_seen) {
        if !is_seen {
            changed(said, name(old, said), said.value.as_ref().map(|value| value.text()), None);
        }
    }
}

/// What stands for a value that is not said.
const UNSAID: &str = "-";

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.change {
            Change::Added { .. } => '+',
            Change::Removed { .. } => '-',
            Change::Changed { .. } => '~',
        };
        write!(f, "{sign} {}", self.section.name())?;
        if SectionKind::NAMED.contains(&self.section) {
            write!(f, " {}", plain(&self.name))?;
        }
        match &self.change {
            Change::Added { keys } | Change::Removed { keys } => {
                for (index, KeyValue { key, device, value }) in keys.iter().enumerate() {
                    let before = if index == 0 { ": " } else { ", " };
                    write!(f, "{before}{key} = ")?;
                    if let Some(device) = device {
                        write!(f, "{device} ")?;
                    }
                    f.write_str(&plain(value))?;
                }
                Ok(())
            }
            Change::Changed { key, device, old, new } => {
                write!(f, " {key}: ")?;
                if let Some(device) = device {
                    write!(f, "{device} ")?;
                }
                let value = |value: &Option<String>| value.as_deref().map_or(UNSAID.into(), plain);
                write!(f, "{} -> {}", value(old), value(new))
            }
        }
    }
}

/// `text` as it is, or in quotes where it would not be seen as a value.
fn plain(text: &str) -> String {
    let is_odd = text.is_empty()
        || text == UNSAID
        || text.trim() != text
        || weir_units::hidden_character(text).is_some();
    if is_odd { format!("{text:?}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHA256: &str =
        "sha256 = '00000000000000000000000000000000000000000000000000000000000000a0'";

    /// A configuration with `keys` in its section `kind`.
    fn config(kind: &str, keys: &str) -> Config {
        let of = |section: &str| if section == kind { keys } else { "" };
        let unless = |key: &str, line: &str| {
            if keys.lines().any(|line| line.starts_with(key)) { String::new() } else { line.into() }
        };
        let of_tls = |key: &str, line: &str| match kind {
            "tls" => unless(key, line),
            _ => line.to_owned(),
        };
        let path = match kind {
            "device" if keys.contains("direct") => "path = \"/srv/x.img\"".into(),
            "device" => unless("path", "path = \"memory:64M\""),
            _ => "path = \"memory:64M\"".into(),
        };
        let (device, cgroup) = match kind {
            "export" => (unless("device", "device = \"d\""), unless("cgroup", "cgroup = \"/c\"")),
            _ => ("device = \"d\"".into(), "cgroup = \"/c\"".into()),
        };
        let text = format!(
            "[server]\n{}\n[tls]\n{}\n{}\n{}\n[record]\n{}\n{}\n[device.d]\n{path}\n{}\n[device.d2]\npath = \"memory:1M\"\n[cgroup.\"/c\"]\n{}\n\
             [export.e]\n{device}\n{cgroup}\n{}\n[peer.p]\n{}\n[token.t]\n{}\n{}\n{}\n",
            of("server"),
            of_tls("certificate", "certificate = '/c'"),
            of_tls("key", "key = '/k'"),
            of("tls"),
            match kind {
                "record" => unless("directory", "directory = '/r'"),
                _ => "directory = '/r'".into(),
            },
            of("record"),
            of("device"),
            of("cgroup"),
            of("export"),
            of("peer"),
            match kind {
                "token" => unless("sha256", SHA256),
                _ => SHA256.into(),
            },
            match kind {
                "token" => unless("access", "access = 'read'"),
                _ => "access = 'read'".into(),
            },
            of("token"),
        );
        Config::from_str("x", &text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Keys of sections, and for each what it may be instead of its default, and what instead of that. Where a key needs
    /// another one, both have it.
    const VALUES: [(&str, &str, &str, &str); 104] = [
        ("server", "socket", "socket = '/a'", "socket = '/b'"),
        ("server", "socket_mode", "socket_mode = '660'", "socket_mode = '666'"),
        ("server", "listen", "listen = '127.0.0.1:1'", "listen = ['[::1]:2', 'vsock:1:7']"),
        ("server", "allow_remote", "allow_remote = true", "allow_remote = false"),
        ("server", "control", "control = '/a'", "control = '/b'"),
        ("server", "control_mode", "control_mode = '660'", "control_mode = '666'"),
        ("server", "control_group", "control_group = 'a'", "control_group = '7'"),
        ("server", "control_read", "control_read = '/a'", "control_read = '/b'"),
        ("server", "control_read_mode", "control_read_mode = '600'", "control_read_mode = '666'"),
        ("server", "control_read_group", "control_read_group = 'a'", "control_read_group = 'b'"),
        (
            "server",
            "control_listen",
            "control_listen = '127.0.0.1:1'",
            "control_listen = ['127.0.0.1:1', '[::1]:2']",
        ),
        ("server", "control_hosts", "control_hosts = 'a'", "control_hosts = ['a', 'b']"),
        (
            "server",
            "control_origins",
            "control_origins = 'http://a'",
            "control_origins = 'http://b'",
        ),
        ("server", "metrics", "metrics = '/a'", "metrics = '/b'"),
        ("server", "metrics_mode", "metrics_mode = '600'", "metrics_mode = '666'"),
        ("server", "metrics_group", "metrics_group = 'a'", "metrics_group = 'b'"),
        (
            "server",
            "metrics_listen",
            "metrics_listen = '127.0.0.1:1'",
            "metrics_listen = ['127.0.0.1:1', '[::1]:2']",
        ),
        ("server", "max_connections", "max_connections = 7", "max_connections = 8"),
        ("server", "exit_last", "exit_last = true", "exit_last = false"),
        ("server", "drain_time", "drain_time = '1s'", "drain_time = '1ms'"),
        (
            "server",
            "max_connections_per_client",
            "max_connections_per_client = 7",
            "max_connections_per_client = 8",
        ),
        ("server", "max_cgroups", "max_cgroups = 7", "max_cgroups = 8"),
        ("server", "log", "log = 'json'", "log = 'text'"),
        ("server", "tls", "tls = 'allowed'", "tls = 'required'"),
        ("tls", "certificate", "certificate = '/a'", "certificate = '/b'"),
        ("tls", "key", "key = '/a'", "key = '/b'"),
        ("tls", "client_ca", "client_ca = '/a'", "client_ca = '/b'"),
        (
            "tls",
            "require_client_certificate",
            "client_ca = '/a'\nrequire_client_certificate = true",
            "client_ca = '/a'\nrequire_client_certificate = false",
        ),
        ("tls", "crl", "client_ca = '/a'\ncrl = '/b'", "client_ca = '/a'\ncrl = '/c'"),
        ("tls", "threads", "threads = 1", "threads = 3"),
        ("record", "directory", "directory = '/a'", "directory = '/b'"),
        ("record", "size", "size = '1G'", "size = '2G'"),
        ("record", "file_time", "file_time = '1s'", "file_time = '2s'"),
        ("record", "start", "start = false", "start = true"),
        ("peer", "uid", "uid = 7", "uid = [7, 8]"),
        ("peer", "gid", "gid = 7", "gid = 8"),
        ("peer", "address", "address = '10.0.0.0/8'", "address = ['10.0.0.0/8', '::1']"),
        ("peer", "certificate", "certificate = 'a'", "certificate = ['*.b', '*']"),
        ("peer", "exports", "exports = 'e'", "exports = ['e', 'f-*']"),
        ("peer", "cgroup", "cgroup = '/c'", "cgroup = '/'"),
        ("peer", "read_only", "read_only = true", "read_only = false"),
        ("token", "access", "access = 'change'", "access = 'read'"),
        (
            "token",
            "sha256",
            "sha256 = '00000000000000000000000000000000000000000000000000000000000000b1'",
            "sha256 = '00000000000000000000000000000000000000000000000000000000000000c2'",
        ),
        ("server", "log_level", "log_level = 'warn'", "log_level = 'debug'"),
        ("server", "sandbox", "sandbox = 'on'", "sandbox = 'off'"),
        ("server", "sandbox_paths", "sandbox_paths = '/a'", "sandbox_paths = ['/a', '/b']"),
        ("device", "path", "path = 'emulated:null'", "path = 'memory:2M'"),
        ("device", "scheduler", "scheduler = 'bfq'", "scheduler = 'none'"),
        ("device", "watermark", "watermark = 90", "watermark = '90 mode=gate'"),
        ("device", "model", "model = 'a.toml'", "model = 'b.toml'"),
        ("device", "depth", "depth = 1", "depth = 2"),
        ("device", "queue", "queue = 1000", "queue = 2000"),
        ("device", "direct", "direct = 'on'", "direct = 'off'"),
        ("device", "read_only", "read_only = true", "read_only = false"),
        ("device", "cache", "cache = 'writeback'", "cache = 'none'"),
        (
            "device",
            "cache_size",
            "cache = 'writeback'\ncache_size = '1M'",
            "cache = 'writeback'\ncache_size = '2M'",
        ),
        ("device", "iops_size", "iops_size = 4096", "iops_size = '16K'"),
        ("device", "price.flush.ios", "price.flush.ios = 2", "price.flush.ios = 3"),
        ("device", "price.flush.bytes", "price.flush.bytes = 2", "price.flush.bytes = 'length'"),
        ("device", "price.discard.ios", "price.discard.ios = 2", "price.discard.ios = 3"),
        ("device", "price.discard.bytes", "price.discard.bytes = 2", "price.discard.bytes = 3"),
        ("device", "price.write_zeroes.ios", "price.write_zeroes.ios = 2", ""),
        ("device", "price.write_zeroes.bytes", "price.write_zeroes.bytes = 2", ""),
        ("device", "price.cache.ios", "price.cache.ios = 2", ""),
        ("device", "price.cache.bytes", "price.cache.bytes = 2", ""),
        ("device", "price.status.ios", "price.status.ios = 2", ""),
        ("device", "price.status.bytes", "price.status.bytes = 'length'", ""),
        ("device", "bfq.slice_idle", "bfq.slice_idle = 0", "bfq.slice_idle = '1500us'"),
        ("device", "bfq.slice_idle_us", "bfq.slice_idle_us = 1", "bfq.slice_idle_us = 2"),
        ("device", "bfq.strict_guarantees", "bfq.strict_guarantees = true", ""),
        ("device", "bfq.low_latency", "bfq.low_latency = false", "bfq.low_latency = 1"),
        ("device", "bfq.timeout_sync", "bfq.timeout_sync = '1s'", "bfq.timeout_sync = 7"),
        ("device", "bfq.max_budget", "bfq.max_budget = 100", "bfq.max_budget = 200"),
        ("device", "bfq.fifo_expire_sync", "bfq.fifo_expire_sync = 7", ""),
        ("device", "bfq.fifo_expire_async", "bfq.fifo_expire_async = 7", ""),
        ("device", "bfq.back_seek_max", "bfq.back_seek_max = 7", "bfq.back_seek_max = '1M'"),
        ("device", "bfq.back_seek_penalty", "bfq.back_seek_penalty = 7", ""),
        ("device", "bfq.merge_window", "bfq.merge_window = 'off'", "bfq.merge_window = '1s'"),
        ("device", "bfq.close_bytes", "bfq.close_bytes = '1M'", "bfq.close_bytes = '2M'"),
        ("device", "bfq.stable", "bfq.stable = 'intent'", "bfq.stable = 'kernel'"),
        (
            "device",
            "bfq.stable_anchor_life",
            "bfq.stable = 'intent'\nbfq.stable_anchor_life = '1s'",
            "bfq.stable = 'intent'\nbfq.stable_anchor_life = '2s'",
        ),
        (
            "device",
            "bfq.stable_create_window",
            "bfq.stable = 'intent'\nbfq.stable_create_window = '100ms'",
            "bfq.stable = 'intent'\nbfq.stable_create_window = '200ms'",
        ),
        (
            "device",
            "bfq.stable_late",
            "bfq.stable = 'intent'\nbfq.stable_late = '1s'",
            "bfq.stable = 'intent'\nbfq.stable_late = '2s'",
        ),
        ("device", "bfq.evidence_insertions", "bfq.evidence_insertions = 7", ""),
        ("device", "bfq.stable_tries_max", "bfq.stable_tries_max = 7", ""),
        ("device", "bfq.merge_rules", "bfq.merge_rules = 'kernel'", "bfq.merge_rules = 'weir'"),
        ("cgroup", "io.max", "'io.max' = 'd riops=1'", "'io.max' = 'd2 riops=1'"),
        (
            "cgroup",
            "io.burst",
            "'io.max' = 'd riops=1'\n'io.burst' = 'd riops=2'",
            "'io.max' = 'd riops=1'\n'io.burst' = 'd riops=3'",
        ),
        (
            "cgroup",
            "io.peak",
            "'io.max' = 'd riops=1'\n'io.peak' = 'd riops=2'",
            "'io.max' = 'd riops=1'\n'io.peak' = 'd riops=3'",
        ),
        ("cgroup", "io.weight", "'io.weight' = 7", "'io.weight' = ['7', 'd2 8']"),
        ("cgroup", "io.bfq.weight", "'io.bfq.weight' = 7", "'io.bfq.weight' = 8"),
        (
            "cgroup",
            "io.prio.class",
            "'io.prio.class' = 'idle'",
            "'io.prio.class' = 'promote-to-rt'",
        ),
        (
            "cgroup",
            "io.bfq.low_latency",
            "'io.bfq.low_latency' = 'never'",
            "'io.bfq.low_latency' = 'auto'",
        ),
        ("cgroup", "io.limiter", "'io.limiter' = 'token'", "'io.limiter' = 'slice:6.1,hz=100'"),
        ("cgroup", "io.watermark", "'io.watermark' = 0", "'io.watermark' = 90"),
        ("export", "device", "device = 'd2'", "device = 'd'"),
        ("export", "cgroup", "cgroup = '/'", "cgroup = '/c'"),
        ("export", "read_only", "read_only = true", "read_only = false"),
        ("export", "range", "range = '0..4K'", "range = '512..'"),
        ("export", "description", "description = 'x'", "description = 'y'"),
        ("export", "block_size", "block_size = 'min=512'", "block_size = 'min=512 max=1M'"),
        ("export", "rotational", "rotational = true", "rotational = false"),
        ("export", "multi_conn", "multi_conn = false", "multi_conn = true"),
        ("export", "client_max", "client_max = 'riops=1'", "client_max = 'riops=1 wbps=1M'"),
    ];

    /// Every key of the grammar.
    fn grammar() -> BTreeSet<(&'static str, String)> {
        let mut keys = BTreeSet::new();
        for (kind, names) in [
            ("server", crate::server::KEYS.as_slice()),
            ("device", crate::device::KEYS.as_slice()),
            ("cgroup", crate::cgroup::KEYS.as_slice()),
            ("export", crate::export::KEYS.as_slice()),
            ("tls", crate::tls::KEYS.as_slice()),
            ("record", crate::record::KEYS.as_slice()),
            ("peer", crate::peer::KEYS.as_slice()),
            ("token", crate::token::KEYS.as_slice()),
        ] {
            keys.extend(names.iter().map(|name| (kind, (*name).to_owned())));
        }
        // These two are tables.
        assert!(keys.remove(&("device", "bfq".into())) && keys.remove(&("device", "price".into())));
        keys.extend(weir_text::BfqKey::ALL.map(|key| ("device", format!("bfq.{}", key.name()))));
        for operation in crate::device::PRICES {
            let price = crate::device::PRICE.map(|name| format!("price.{operation}.{name}"));
            keys.extend(price.map(|key| ("device", key)));
        }
        keys
    }

    /// Whether a difference between the two names `key`.
    fn is_named(old: &Config, new: &Config, section: &str, key: &str) -> bool {
        // Two names of one setting.
        let key = match key {
            "io.bfq.weight" => "io.weight",
            "bfq.slice_idle_us" => "bfq.slice_idle",
            key => key,
        };
        difference(old, new).iter().any(|difference| match &difference.change {
            Change::Changed { key: found, old, new, .. } => {
                assert_ne!(old, new);
                difference.section.name() == section && found == key
            }
            change => panic!("{change:?}"),
        })
    }

    #[test]
    fn each_key_of_the_grammar_makes_a_difference_that_names_it() {
        let mut known = grammar();
        for (section, key, one, other) in
            VALUES.into_iter().chain([("export", "max_connections", "max_connections = 1", "")])
        {
            assert!(known.remove(&(section, key.into())), "{section} {key} is in no grammar");
            let said = [config(section, ""), config(section, one), config(section, other)];
            assert!(is_named(&said[0], &said[1], section, key), "{key} is set");
            assert!(is_named(&said[1], &said[2], section, key), "{key} is changed");
            for said in &said {
                assert_eq!(difference(said, said), []);
                let printed = said.to_toml();
                // Only `capacity` is not read here, and is none in both.
                assert_eq!(Config::from_str("y", &printed).as_ref(), Ok(said), "{printed}");
            }
        }
        assert!(known.is_empty(), "no difference is shown for {known:?}");
    }

    #[test]
    fn defaults_are_as_if_not_said() {
        for (section, said) in [
            (
                "server",
                "socket_mode = '600'\nlisten = []\nallow_remote = false\nexit_last = false\ndrain_time = '10000ms'\n\
                 max_connections = 1024\nmax_connections_per_client = 256\nmax_cgroups = 10000\ntls = 'off'",
            ),
            (
                "device",
                "read_only = false\nscheduler = 'none'\nwatermark = '0'\ndepth = 32\nqueue = 65536\ncache = 'none'\n\
                 bfq.slice_idle = '8ms'\nbfq.stable = 'off'\nbfq.close_bytes = '4M'\nprice.flush = { ios = 1, bytes = '512' }",
            ),
            ("device", "direct = 'auto'"),
            (
                "cgroup",
                "'io.max' = '* riops=max'\n'io.weight' = ['100', 'd default']\n'io.prio.class' = 'no-change'\n\
                 'io.bfq.low_latency' = 'inherit'\n'io.watermark' = 'inherit'\n'io.limiter' = 'pace'",
            ),
            ("tls", "require_client_certificate = false\nthreads = 2"),
            ("record", "size = '10G'\nfile_time = '60000ms'\nstart = true"),
            ("peer", "read_only = false"),
            ("export", "read_only = false\nrange = '0..'\ndescription = ''"),
        ] {
            let mut silent = config(section, "");
            if said.contains("direct") {
                silent.devices[0].backend = config(section, said).devices[0].backend.clone();
                silent.devices[0].engine.rotational = true;
            }
            assert_eq!(difference(&silent, &config(section, said)), [], "{section}");
        }
        let cached = |size: &str| config("device", &format!("cache = 'writeback'\n{size}"));
        assert_eq!(difference(&cached(""), &cached("cache_size = '256M'")), []);
    }

    #[test]
    fn another_order_of_peers_is_a_difference() {
        let config = |peers: &[&str]| {
            let peers: String = peers.iter().map(|peer| format!("[peer.{peer}]\n")).collect();
            let text = format!(
                "[device.d]\npath = 'memory:1M'\n[export.e]\ndevice = 'd'\ncgroup = '/'\n{peers}"
            );
            Config::from_str("x", &text).unwrap()
        };
        let lines = |old: &[&str], new: &[&str]| -> Vec<String> {
            let differences = difference(&config(old), &config(new));
            differences.iter().map(ToString::to_string).collect()
        };
        assert_eq!(lines(&["b", "a"], &["b", "a"]), [""; 0]);
        assert_eq!(
            lines(&["a", "b"], &["b", "a"]),
            ["~ peer a after: - -> b", "~ peer b after: a -> -"]
        );
        assert_eq!(lines(&["a", "c"], &["a", "b", "c"]), ["+ peer b", "~ peer c after: a -> b"]);
        let printed = config(&["b", "a"]).to_toml();
        assert_eq!(Config::from_str("y", &printed).as_ref(), Ok(&config(&["b", "a"])), "{printed}");
    }

    #[test]
    fn differences_are_lines_and_records() {
        let old = config("cgroup", "'io.max' = 'd riops=100'\n'io.weight' = 'd2 7'");
        let text = "[device.d]\npath = 'memory:64M'\n[cgroup.'/c']\n'io.max' = 'd riops=200'\n\
                    [cgroup.'/n']\n'io.max' = '* rbps=1'\n[export.'']\ndevice = 'd'\ncgroup = '/n'\ndescription = ' '\n\
                    [export.e]\ndevice = 'd'\ncgroup = '/c'\n[tls]\ncertificate = '/c'\nkey = '/k'\n[record]\ndirectory = '/r'\n[peer.p]\n";
        let text = format!("{text}[token.t]\n{SHA256}\naccess = 'read'\n");
        let new = Config::from_str("y", &text).unwrap();
        let lines = |old: &Config, new: &Config| -> Vec<String> {
            difference(old, new).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            lines(&old, &new),
            [
                "- device d2: path = memory:1048576",
                "~ cgroup /c io.max: d riops=100 -> riops=200",
                "~ cgroup /c io.weight: d2 7 -> -",
                "+ cgroup /n: io.max = d rbps=1",
                "+ export \"\": device = d, cgroup = /n, description = \" \"",
            ]
        );
        assert_eq!(lines(&new, &old).len(), 5);
        let json = serde_json::to_value(&difference(&old, &new)[1]).unwrap();
        let expected = serde_json::json!({
            "section": "cgroup", "name": "/c", "change": "changed", "key": "io.max", "device": "d", "old": "riops=100",
            "new": "riops=200"
        });
        assert_eq!(json, expected);
        let json = serde_json::to_value(&difference(&old, &new)[0]).unwrap();
        let keys =
            serde_json::json!([{ "key": "path", "device": null, "value": "memory:1048576" }]);
        let expected = serde_json::json!({ "section": "device", "name": "d2", "change": "removed", "keys": keys });
        assert_eq!(json, expected);
    }
}
