//! Statements of a configuration: its keys and values, in the words of a file.
//!
//! All fields are taken apart here, without `..`: a key that is new in the grammar and not here does not compile.

use weir_engine::settings::{BytePrice, KernelProfile, Price, Prices};
use weir_engine::{Dimension, LimiterKind, PerDimension, Weight};
use weir_text::{LimitKey, WeightKey, print_bfq, print_watermark};
use weir_units::Nanos;

use crate::cgroup::INHERIT;
use crate::model::{
    Backend, BlockSize, CgroupConfig, Config, DeviceConfig, DeviceLimits, DeviceRange, Direct,
    ExportConfig, LogFormat, LogLevel, PeerConfig, RecordConfig, Sandbox, ServerConfig, TlsConfig,
    TokenConfig,
};
use crate::token::hex;

/// Block of the write-back cache, in bytes.
const BLOCK: u64 = weir_cache::writeback::BLOCK_BYTES;

/// One key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    /// The key, with the names of the tables in the section that it is in: `bfq.slice_idle`.
    pub(crate) key: Vec<&'static str>,
    /// Index of the device that a line is for.
    pub(crate) device: Option<usize>,
    /// The value that counts, also where the file need not say it; `None` where there is no word for it.
    pub(crate) value: Option<Value>,
    /// Whether that is so without the key.
    pub(crate) is_default: bool,
}

/// A value of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Switch(bool),
    List(Vec<String>),
}

impl Value {
    /// As one text, without quotes.
    pub(crate) fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Switch(is_on) => is_on.to_string(),
            Value::List(texts) => texts.join(" "),
        }
    }

    /// Text, or the number that it is.
    fn word(text: &str) -> Value {
        let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
        number.map_or_else(|| Value::Text(text.into()), Value::Number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(is_on: bool) -> Value {
        Value::Switch(is_on)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

/// A key whose default is the value of another configuration that says nothing.
fn key(name: &'static str, value: impl Into<Value>, default: impl Into<Value>) -> Statement {
    let value = value.into();
    let is_default = value == default.into();
    Statement { key: vec![name], device: None, value: Some(value), is_default }
}

/// A key without a word for its default.
fn optional(name: &'static str, value: Option<impl Into<Value>>) -> Statement {
    let is_default = value.is_none();
    Statement { key: vec![name], device: None, value: value.map(Into::into), is_default }
}

/// A key that has no default.
fn required(name: &'static str, value: &str) -> Statement {
    Statement { key: vec![name], device: None, value: Some(value.into()), is_default: false }
}

/// A time as one word: what has a unit reads back.
fn time(time: std::time::Duration) -> Value {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Nanos(nanos).to_string().replace(' ', "").into()
}

/// `[server]`.
pub(crate) fn of_server(server: &ServerConfig) -> Vec<Statement> {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let ServerConfig {
        socket,
        socket_mode,
        listen,
        allow_remote,
        tls,
        control,
        control_mode,
        control_group,
        control_read,
        control_read_mode,
        control_read_group,
        control_listen,
        control_hosts,
        control_origins,
        metrics,
        metrics_mode,
        metrics_group,
        metrics_listen,
        max_connections,
        exit_last,
        drain_time,
        max_connections_per_client,
        max_cgroups,
        log,
        log_level,
        sandbox,
        sandbox_paths,
    } = server;
    let default = ServerConfig::default();
    let mode = |mode: u32| format!("{mode:03o}");
    let list = |texts: &[String]| (!texts.is_empty()).then(|| Value::List(texts.to_vec()));
    let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
    let metrics_listen: Vec<String> = metrics_listen.iter().map(ToString::to_string).collect();
    let control_listen: Vec<String> = control_listen.iter().map(ToString::to_string).collect();
    let sandbox_paths: Vec<String> = sandbox_paths.iter().map(path).collect();
    let per_client = crate::server::max_connections_per_client(*max_connections);
    vec![
        optional("socket", socket.as_ref().map(path)),
        key("socket_mode", mode(*socket_mode), mode(default.socket_mode)),
        optional("listen", list(&listen)),
        key("allow_remote", *allow_remote, default.allow_remote),
        optional("control", control.as_ref().map(path)),
        key("control_mode", mode(*control_mode), mode(default.control_mode)),
        optional("control_group", control_group.clone()),
        optional("control_read", control_read.as_ref().map(path)),
        key("control_read_mode", mode(*control_read_mode), mode(default.control_read_mode)),
        optional("control_read_group", control_read_group.clone()),
        optional("control_listen", list(&control_listen)),
        optional("control_hosts", list(control_hosts)),
        optional("control_origins", list(control_origins)),
        optional("metrics", metrics.as_ref().map(path)),
        key("metrics_mode", mode(*metrics_mode), mode(default.metrics_mode)),
        optional("metrics_group", metrics_group.clone()),
        optional("metrics_listen", list(&metrics_listen)),
        key("exit_last", *exit_last, default.exit_last),
        key("drain_time", time(*drain_time), time(default.drain_time)),
        key("max_connections", *max_connections, default.max_connections),
        key("max_connections_per_client", *max_connections_per_client, per_client),
        key("max_cgroups", *max_cgroups, default.max_cgroups),
        optional("log", log.map(LogFormat::name)),
        optional("log_level", log_level.map(LogLevel::name)),
        key("sandbox", sandbox.name(), Sandbox::default().name()),
        optional("sandbox_paths", list(&sandbox_paths)),
        key("tls", tls.name(), default.tls.name()),
    ]
}

/// `[tls]`.
pub(crate) fn of_tls(tls: &TlsConfig) -> Vec<Statement> {
    let TlsConfig {
        certificate,
        key: private,
        client_ca,
        require_client_certificate,
        crl,
        threads,
    } = tls;
    let path = |path: &std::path::PathBuf| path.display().to_string();
    vec![
        required("certificate", &path(certificate)),
        required("key", &path(private)),
        optional("client_ca", client_ca.as_ref().map(path)),
        key("require_client_certificate", *require_client_certificate, client_ca.is_some()),
        optional("crl", crl.as_ref().map(path)),
        key("threads", *threads, crate::tls::THREADS),
    ]
}

/// `[record]`.
pub(crate) fn of_record(record: &RecordConfig) -> Vec<Statement> {
    let RecordConfig { directory, size, file_time, start } = record;
    vec![
        required("directory", &directory.display().to_string()),
        key("size", size.to_string(), RecordConfig::SIZE.to_string()),
        key("file_time", time(*file_time), time(RecordConfig::FILE_TIME)),
        key("start", *start, true),
    ]
}

/// `[peer.NAME]`, which comes after the peer `after`.
pub(crate) fn of_peer(peer: &PeerConfig, after: Option<&str>) -> Vec<Statement> {
    let PeerConfig { name: _, uid, gid, address, certificate, exports, cgroup, read_only } = peer;
    fn list<T: ToString>(values: &[T]) -> Option<Value> {
        (!values.is_empty()).then(|| Value::List(values.iter().map(ToString::to_string).collect()))
    }
    let order = Statement {
        key: vec!["after"],
        device: None,
        value: after.map(Into::into),
        // No key of a file: the order of the sections says it.
        is_default: true,
    };
    vec![
        order,
        optional("uid", list(uid)),
        optional("gid", list(gid)),
        optional("address", list(address)),
        optional("certificate", list(certificate)),
        optional("exports", exports.clone().map(Value::List)),
        optional("cgroup", cgroup.as_ref().map(|cgroup| cgroup.as_str())),
        key("read_only", *read_only, false),
    ]
}

/// `[device.NAME]`.
pub(crate) fn of_device(device: &DeviceConfig) -> Vec<Statement> {
    let DeviceConfig { name: _, backend, read_only, watermark, model, engine, cache } = device;
    let default = weir_engine::Config::default();
    let weir_engine::Config {
        depth,
        scheduler,
        bfq,
        // Follow from `path` and `queue`; pieces are the server's own.
        rotational: _,
        requests_per_task_max: _,
        piece_bytes_max: _,
        requests_max,
        prices,
        // Comes from the file that `model` names.
        capacity: _,
    } = engine;
    let (path, direct) = match backend {
        Backend::File { path, direct } => (path.display().to_string(), *direct),
        Backend::Memory { size } => (format!("memory:{size}"), Direct::Auto),
        Backend::Emulated(spec) => (format!("emulated:{spec}"), Direct::Auto),
    };
    let direct = match direct {
        Direct::Auto => "auto",
        Direct::On => "on",
        Direct::Off => "off",
    };
    let cached = cache.as_ref().map(|cache| u64::from(cache.blocks_max.get()) * BLOCK);
    let default_size =
        u64::from(weir_cache::writeback::Settings::default().blocks_max.get()) * BLOCK;
    let percent = |watermark| Value::word(&print_watermark(watermark));
    let mut statements = vec![
        required("path", &path),
        key("direct", direct, "auto"),
        key("read_only", *read_only, false),
        key("scheduler", scheduler.name(), default.scheduler.name()),
        key("watermark", percent(*watermark), percent(weir_engine::Watermark::default())),
        optional("model", model.as_ref().map(|path| path.display().to_string())),
        key("depth", depth.get(), default.depth.get()),
        key("queue", requests_max.get(), default.requests_max.get()),
        key("cache", if cached.is_some() { "writeback" } else { "none" }, "none"),
        Statement {
            key: vec!["cache_size"],
            device: None,
            value: cached.map(Value::Number),
            is_default: cached.is_none_or(|size| size == default_size),
        },
    ];
    of_prices(prices, &mut statements);
    of_bfq(bfq, &mut statements);
    statements
}

fn of_prices(prices: &Prices, statements: &mut Vec<Statement>) {
    let Prices { flush, discard, write_zeroes, cache, status, iops_size } = prices;
    statements.push(optional("iops_size", iops_size.map(std::num::NonZeroU32::get)));
    let default = Prices::default();
    for (name, price, default) in [
        ("flush", flush, default.flush),
        ("discard", discard, default.discard),
        ("write_zeroes", write_zeroes, default.write_zeroes),
        ("cache", cache, default.cache),
        ("status", status, default.status),
    ] {
        let Price { ios, bytes } = price;
        let in_words = |bytes: BytePrice| match bytes {
            BytePrice::Length => Value::from("length"),
            BytePrice::Fixed(bytes) => Value::from(bytes),
        };
        for statement in [
            key("ios", ios.get(), default.ios.get()),
            key("bytes", in_words(*bytes), in_words(default.bytes)),
        ] {
            let key = vec!["price", name, statement.key[0]];
            statements.push(Statement { key, ..statement });
        }
    }
}

fn of_bfq(settings: &weir_engine::settings::BfqSettings, statements: &mut Vec<Statement>) {
    let default = print_bfq(&weir_engine::settings::BfqSettings::DEFAULT);
    let find = |words: &str, name: &str| {
        let mut words = words.split(' ').filter_map(|word| word.split_once('='));
        words.find_map(|(key, value)| (key == name).then(|| Value::word(value)))
    };
    let said = print_bfq(settings);
    for bfq_key in weir_text::BfqKey::ALL {
        let name = bfq_key.name();
        let value = find(&said, name);
        // A part of `stable` that is not said is as the whole says.
        let is_default = value == find(&default, name) || value.is_none();
        statements.push(Statement { key: vec!["bfq", name], device: None, value, is_default });
    }
}

/// `[cgroup."/PATH"]`, for `devices` devices.
pub(crate) fn of_cgroup(cgroup: &CgroupConfig) -> Vec<Statement> {
    let CgroupConfig {
        path: _,
        weight,
        device_weights,
        prio_class,
        low_latency,
        watermark,
        limiter,
        limits,
    } = cgroup;
    let mut statements = Vec::new();
    for limit in LimitKey::ALL {
        for DeviceLimits { device, limits } in limits {
            let weir_engine::Limits { max, burst, peak, limiter: _ } = limits;
            let values = match limit {
                LimitKey::Max => max,
                LimitKey::Burst => burst,
                LimitKey::Peak => peak,
            };
            if !values.is_none() {
                let value = Some(in_words(values).into());
                let (key, device) = (vec![limit.key()], Some(*device));
                statements.push(Statement { key, device, value, is_default: false });
            }
        }
    }
    let name = WeightKey::Io.key();
    statements.push(key(name, u32::from(weight.get()), u32::from(Weight::DEFAULT.get())));
    for (device, weight) in device_weights {
        let value = Some(u32::from(weight.get()).into());
        let device = Some(*device);
        statements.push(Statement { key: vec![name], device, value, is_default: false });
    }
    let class = weir_engine::settings::PrioClass::default();
    statements.push(key("io.prio.class", prio_class.name(), class.name()));
    let policy = low_latency.map_or(INHERIT, weir_engine::settings::LowLatency::name);
    statements.push(key("io.bfq.low_latency", policy, INHERIT));
    let percent = watermark.map_or_else(|| INHERIT.to_owned(), print_watermark);
    statements.push(key("io.watermark", Value::word(&percent), INHERIT));
    let default = limiter_name(LimiterKind::default());
    statements.push(key("io.limiter", limiter_name(*limiter), default));
    statements
}

/// Values that are set, as `io.max` says them.
fn in_words(values: &PerDimension) -> String {
    let word =
        |dimension: Dimension| Some(format!("{}={}", dimension.key(), values.get(dimension)?));
    Dimension::ALL.into_iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// As `io.limiter` says it.
fn limiter_name(limiter: LimiterKind) -> String {
    let LimiterKind::Slice(profile) = limiter else { return limiter.name().into() };
    let weir_engine::settings::SliceProfile { kernel, hz, slice_ticks } = profile;
    let kernel: KernelProfile = kernel;
    let nanos = u64::from(slice_ticks) * 1_000_000_000 / u64::from(hz.max(1));
    format!("slice:{kernel:?},hz={hz},slice={}", Nanos(nanos).to_string().replace(' ', ""))
}

/// `[export.NAME]`, of a configuration with `devices`.
pub(crate) fn of_export(export: &ExportConfig, devices: &[DeviceConfig]) -> Vec<Statement> {
    let ExportConfig {
        name: _,
        device,
        cgroup,
        read_only,
        range,
        description,
        max_connections,
        block_size,
        rotational,
        multi_conn,
        client_max,
    } = export;
    let BlockSize { min, preferred, max } = *block_size;
    let sizes = [("min", min), ("preferred", preferred), ("max", max)];
    let sizes: Vec<String> =
        sizes.into_iter().filter_map(|(key, size)| Some(format!("{key}={}", size?))).collect();
    let rotational: Value = match *rotational {
        Some(is_rotational) => is_rotational.into(),
        None => "auto".into(),
    };
    let DeviceRange { start, end } = *range;
    let range = (*range != DeviceRange::default()).then(|| match end {
        Some(end) => format!("{start}..{end}"),
        None => format!("{start}.."),
    });
    let device = &devices[*device];
    vec![
        required("device", &device.name),
        required("cgroup", cgroup.as_str()),
        key("read_only", *read_only, device.read_only),
        optional("range", range),
        key("description", description.as_str(), ""),
        optional("max_connections", *max_connections),
        key("block_size", sizes.join(" "), ""),
        key("rotational", rotational, "auto"),
        key("multi_conn", *multi_conn, true),
        key("client_max", in_words(client_max), ""),
    ]
}

/// `[token.NAME]`.
pub(crate) fn of_token(token: &TokenConfig) -> Vec<Statement> {
    let TokenConfig { name: _, sha256, access } = token;
    [("sha256", hex(sha256)), ("access", access.name().to_owned())]
        .map(|(name, value)| required(name, &value))
        .into()
}

/// A section of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Described<'c> {
    Server(&'c ServerConfig),
    Device(&'c DeviceConfig),
    Cgroup(&'c CgroupConfig),
    Export(&'c ExportConfig),
    Tls(&'c TlsConfig),
    Record(&'c RecordConfig),
    /// The peer, and the name of the one before it.
    Peer(&'c PeerConfig, Option<&'c str>),
    Token(&'c TokenConfig),
}

impl Described<'_> {
    /// What it says, all keys of it.
    pub(crate) fn statements(self, config: &Config) -> Vec<Statement> {
        match self {
            Described::Server(server) => of_server(server),
            Described::Device(device) => of_device(device),
            Described::Cgroup(cgroup) => of_cgroup(cgroup),
            Described::Export(export) => of_export(export, &config.devices),
            Described::Tls(tls) => of_tls(tls),
            Described::Record(record) => of_record(record),
            Described::Peer(peer, after) => of_peer(peer, after),
            Described::Token(token) => of_token(token),
        }
    }
}
