//! Valid configuration. A value that exists has passed every check.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::listen::ListenAddress;
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{LimiterKind, Limits, Path, PerDimension, Watermark, Weight};

use crate::network::Network;

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: ServerConfig,
    /// `[tls]`.
    pub tls: Option<TlsConfig>,
    /// `[record]`.
    pub record: Option<RecordConfig>,
    /// `[device.NAME]`, in the order of the file; at least one.
    pub devices: Vec<DeviceConfig>,
    /// `[cgroup."/PATH"]`, sorted by path, so that parents that are listed come before their children. Parents need
    /// not be listed.
    pub cgroups: Vec<CgroupConfig>,
    /// `[export.NAME]`, in the order of the file; at least one.
    pub exports: Vec<ExportConfig>,
    /// `[peer.NAME]`, in the order of the file: the first that a client is counts. Where there is none, every client may use
    /// every export.
    pub peers: Vec<PeerConfig>,
    /// `[token.NAME]`, in the order of the file.
    pub tokens: Vec<TokenConfig>,
}

/// Recordings of what the devices are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordConfig {
    /// `directory`: where the files are; it is made if its parent is there.
    pub directory: PathBuf,
    /// `size`: bytes of all files, 10 GiB by default; the oldest go.
    pub size: u64,
    /// `file_time`: how long a file is open, 60 s by default.
    pub file_time: Duration,
    /// `start`: whether it begins with the server; otherwise it waits for `weir record start`.
    pub start: bool,
}

/// Where the server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// `socket`: the Unix socket that serves NBD.
    pub socket: Option<PathBuf>,
    /// `socket_mode`: the mode of that socket's file, whatever the umask; 0o600 by default.
    pub socket_mode: u32,
    /// `listen`: addresses of TCP and vsock that serve NBD; those of this machine alone unless `allow_remote` says otherwise.
    pub listen: Vec<ListenAddress>,
    /// `allow_remote`: whether `listen` may name addresses that other machines can reach, virtual ones included; off by
    /// default.
    pub allow_remote: bool,
    /// `tls`: whether connections of `listen` are encrypted; off by default. Needs `[tls]`.
    pub tls: TlsMode,
    /// `control`: the Unix socket for `weir status` and `weir set`.
    pub control: Option<PathBuf>,
    /// `control_mode`: the mode of that socket's file; 0o600 by default.
    pub control_mode: u32,
    /// `control_group`: its group, by name or number; `None` is the process's own.
    pub control_group: Option<String>,
    /// `control_read`: the Unix socket that only reads.
    pub control_read: Option<PathBuf>,
    /// `control_read_mode`: the mode of that socket's file; 0o660 by default.
    pub control_read_mode: u32,
    /// `control_read_group`: its group, as `control_group`.
    pub control_read_group: Option<String>,
    /// `control_listen`: TCP addresses of the control API, which is served over TLS there.
    pub control_listen: Vec<SocketAddr>,
    /// `control_hosts`: names of the server in the header `Host` of requests, besides `weir`, `localhost` and addresses; in
    /// lower case.
    pub control_hosts: Vec<String>,
    /// `control_origins`: origins whose pages may change something.
    pub control_origins: Vec<String>,
    /// `metrics`: the Unix socket that answers `GET /metrics` and `GET /healthz` and nothing else.
    pub metrics: Option<PathBuf>,
    /// `metrics_mode`: the mode of that socket's file; 0o660 by default.
    pub metrics_mode: u32,
    /// `metrics_group`: its group, as `control_group`.
    pub metrics_group: Option<String>,
    /// `metrics_listen`: TCP addresses that answer the same, without encryption; those of this machine alone unless
    /// `allow_remote` says otherwise.
    pub metrics_listen: Vec<SocketAddr>,
    /// `max_connections`: further connections are refused; 1 to 65536, 1024 by default.
    pub max_connections: u32,
    /// `exit_last`: end when the last client leaves; off by default.
    pub exit_last: bool,
    /// `drain_time`: how long requests under way may take at the end before they are cut; 0 to 1 hour, 10 s by default.
    pub drain_time: Duration,
    /// `max_connections_per_client`: of these, as many as one process or address may have; by default a quarter, and 16
    /// where that is less.
    pub max_connections_per_client: u32,
    /// `max_cgroups`: cgroups of a device, with those that come into being while it runs; those of the configuration are
    /// never too many. 10,000 by default.
    pub max_cgroups: u32,
    /// `log`: format of the log; `None`: journald where standard error leads there, and text otherwise.
    pub log: Option<LogFormat>,
    /// `log_level`: least level of the lines of the log; `None`: info.
    pub log_level: Option<LogLevel>,
    /// `sandbox`: whether the process drops what it does not need after its start; [`Sandbox::Auto`] by default.
    pub sandbox: Sandbox,
    /// `sandbox_paths`: directories and block devices that may be opened later, besides those that the configuration names
    /// at the start.
    pub sandbox_paths: Vec<PathBuf>,
}

/// Whether a server drops what it does not need after its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sandbox {
    /// As far as the machine can; the default.
    #[default]
    Auto,
    /// All of it; the start fails where something is missing.
    On,
    /// Nothing.
    Off,
}

impl Sandbox {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Sandbox); 3] =
        [("auto", Sandbox::Auto), ("on", Sandbox::On), ("off", Sandbox::Off)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Sandbox::NAMES.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

/// Encryption of NBD connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsMode {
    /// None.
    #[default]
    Off,
    /// As the client likes.
    Allowed,
    /// Over TCP nothing is served without it.
    Required,
}

impl TlsMode {
    /// All of them, by name.
    pub const NAMES: [(&'static str, TlsMode); 3] =
        [("off", TlsMode::Off), ("allowed", TlsMode::Allowed), ("required", TlsMode::Required)];

    /// Its name.
    pub fn name(self) -> &'static str {
        TlsMode::NAMES.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

/// Certificates, and the threads that encrypt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConfig {
    /// `certificate`: PEM file of the server's certificate and those between it and its CA.
    pub certificate: PathBuf,
    /// `key`: PEM file of its private key.
    pub key: PathBuf,
    /// `client_ca`: PEM file of the CAs whose clients are known; without it they are not asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// `require_client_certificate`: whether a client without one is refused; by default where there is a `client_ca`.
    pub require_client_certificate: bool,
    /// `crl`: PEM file of revoked certificates of clients.
    pub crl: Option<PathBuf>,
    /// `threads`: threads that encrypt connections; 1 to 64, 2 by default.
    pub threads: u32,
}

/// Clients and what they may use. A client is one of them if it has one of the values of each list that is not empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerConfig {
    /// The name after `peer.`, for the log.
    pub name: String,
    /// `uid`: users of processes on Unix sockets.
    pub uid: Vec<u32>,
    /// `gid`: their groups.
    pub gid: Vec<u32>,
    /// `address`: addresses on TCP.
    pub address: Vec<Network>,
    /// `certificate`: common or DNS names of certificates, `*.` and the end of one, or `*` for any.
    pub certificate: Vec<String>,
    /// `exports`: names, or beginnings with `*` after them; `None` is all.
    pub exports: Option<Vec<String>>,
    /// `cgroup`: of its connections; `None` is the export's.
    pub cgroup: Option<Path>,
    /// `read_only`: refuse writes.
    pub read_only: bool,
}

/// A token for the control API over TCP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenConfig {
    /// What the log calls its holder.
    pub name: String,
    /// `sha256`: digest of the token, which itself is kept nowhere.
    pub sha256: [u8; 32],
    /// `access`: what its holder may do.
    pub access: Access,
}

/// What a caller of the control API may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Ask; a change is refused with 403.
    Read,
    /// Ask and change.
    Change,
}

impl Access {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Access); 2] =
        [("read", Access::Read), ("change", Access::Change)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Change => "change",
        }
    }
}

/// Format of a server's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Lines of text on standard error.
    Text,
    /// JSON on standard error, one object a line.
    Json,
    /// Entries of systemd's journal.
    Journald,
}

impl LogFormat {
    /// All of them, by name.
    pub const NAMES: [(&'static str, LogFormat); 3] =
        [("text", LogFormat::Text), ("json", LogFormat::Json), ("journald", LogFormat::Journald)];

    /// Its name.
    pub fn name(self) -> &'static str {
        LogFormat::NAMES.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

/// Importance of a line of a server's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something may need an operator.
    Warn,
    /// What is expected: start, changes, end.
    Info,
    /// Connections come and go.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// All of them, by name.
    pub const NAMES: [(&'static str, LogLevel); 5] = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        LogLevel::NAMES.into_iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }
}

/// One device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    /// The name after `device.`: what `io.max` lines and exports call it.
    pub name: String,
    /// `path`, and what else says where the bytes are.
    pub backend: Backend,
    /// `read_only`: refuse writes from every export.
    pub read_only: bool,
    /// `watermark`: the utilisation from which on limits bind; 0 by default, where they always do.
    pub watermark: Watermark,
    /// `model`: where the file is that the engine's capacity was read from.
    pub model: Option<PathBuf>,
    /// What the device's engine is made with: `scheduler`, `depth` (1 to 4096, 32 by default), `queue` (as `requests_max`; at
    /// least `depth`, at most 16777216, 65536 by default), `[device.NAME.price]` and `iops_size` (512 B to 32 MiB).
    pub engine: weir_engine::Config,
    /// `cache` and `cache_size` (1 MiB to 1 TiB, 256 MiB by default): how much may be written and not be on the device yet;
    /// `None`: nothing, every write goes there before it is answered.
    pub cache: Option<weir_cache::writeback::Settings>,
}

/// Where a device's bytes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backend {
    /// An image file or a block device.
    File {
        /// Where it is.
        path: PathBuf,
        /// Whether to go around the page cache.
        direct: Direct,
    },
    /// `memory:SIZE`: zeroes at the start, gone at the end.
    Memory {
        /// Bytes; a multiple of 512.
        size: u64,
    },
    /// `emulated:SPEC`: memory that takes the time of a disk model.
    Emulated(weir_disk::Spec),
}

/// Whether to open with O_DIRECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Where the file system can; the default.
    #[default]
    Auto,
    /// Always; opening fails where it cannot be.
    On,
    /// Never: through the page cache.
    Off,
}

/// One cgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupConfig {
    /// Where it is in the tree; at most 64 names deep.
    pub path: Path,
    /// `io.weight`: `N` or `default N`, on devices without a weight of their own.
    pub weight: Weight,
    /// `io.weight` of single devices, `DEVICE N`: index into [`Config::devices`] and weight, sorted.
    pub device_weights: Vec<(usize, Weight)>,
    /// `io.prio.class`.
    pub prio_class: PrioClass,
    /// `io.bfq.low_latency`; `None` goes by the nearest cgroup above that says something.
    pub low_latency: Option<LowLatency>,
    /// `io.watermark`, on every device; `None` goes by the nearest cgroup above that says something, and then by the
    /// device.
    pub watermark: Option<Watermark>,
    /// `io.limiter`: for all its limits, also those set later.
    pub limiter: LimiterKind,
    /// `io.max`, `io.burst` and `io.peak`, by device; devices without any are left out.
    pub limits: Vec<DeviceLimits>,
}

impl CgroupConfig {
    /// The weight on the device at `index` of [`Config::devices`].
    pub fn weight_on(&self, index: usize) -> Weight {
        let own = self.device_weights.iter().find(|(device, _)| *device == index);
        own.map_or(self.weight, |(_, weight)| *weight)
    }
}

/// A cgroup's limits on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLimits {
    /// Index into [`Config::devices`].
    pub device: usize,
    /// Valid as the engine defines it.
    pub limits: Limits,
}

/// One export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportConfig {
    /// The name that clients ask for; empty is the default export.
    pub name: String,
    /// Index into [`Config::devices`].
    pub device: usize,
    /// The cgroup of its connections: listed, above one that is listed, or the root.
    pub cgroup: Path,
    /// Refuse writes; also set where the device is read-only.
    pub read_only: bool,
    /// `range`: the part of the device that is served.
    pub range: DeviceRange,
    /// Shown to clients that list exports.
    pub description: String,
    /// `max_connections`: as many as it may have; `None` is half of the server's, and all where it is the only export.
    pub max_connections: Option<u32>,
    /// `block_size`: sizes of requests that clients are told.
    pub block_size: BlockSize,
    /// `rotational`: whether clients are told that seeks take time; `None` goes by the device.
    pub rotational: Option<bool>,
    /// `multi_conn`: whether clients are told that they may open several connections, where they may; on by default.
    pub multi_conn: bool,
    /// `client_max`: limits of each of its clients by itself, below those of the cgroup.
    pub client_max: PerDimension,
}

/// Sizes of requests that clients are told, in bytes; what is left out goes by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockSize {
    /// Granularity of offsets and lengths, a power of two up to 64 KiB; requests of clients that were told and that do not
    /// keep to it are refused.
    pub min: Option<u32>,
    /// What requests had best be multiples of: a power of two of at least 512 and `min`.
    pub preferred: Option<u32>,
    /// Longest read or write, up to 32 MiB.
    pub max: Option<u32>,
}

/// Part of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceRange {
    /// First byte.
    pub start: u64,
    /// The byte after the last, more than `start`; `None` is the device's end.
    pub end: Option<u64>,
}
