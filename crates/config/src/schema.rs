//! JSON Schema of configurations, for editors: which keys there are, and of what type.
//!
//! Every key is optional in it, as a file may extend others. What a text must look like, and what must fit together, is for
//! the reader to say. `tests/schema.rs` compares it with the reader, key by key.

use serde_json::{Map, Value, json};
use weir_engine::SchedulerKind;
use weir_engine::settings::{LowLatency, PrioClass};
use weir_text::BfqKey;

use crate::cgroup::CGROUPS_MAX;
use crate::device::{DEPTH_MAX, PRICE_IOS_MAX, QUEUE_MAX};
use crate::model::{Access, LogFormat, LogLevel, Sandbox, TlsMode};
use crate::server::CONNECTIONS_MAX;
use crate::table::Level;
use crate::tls::THREADS_MAX;

/// A key, its type, and what it is.
type Key = (&'static str, Value, String);

fn key(name: &'static str, schema: Value, description: impl Into<String>) -> Key {
    (name, schema, description.into())
}

/// The schema, in draft 2020-12.
pub fn schema() -> Value {
    let mut schema = object(
        [
            key("server", object(server(), Level::Settings), "Where the server listens"),
            key("tls", object(tls(), Level::Settings), "Certificates"),
            key("record", object(record(), Level::Settings), "Recordings"),
            key("device", named(device()), "Devices, by name"),
            key("cgroup", named(cgroup()), "Cgroups, by path, such as \"/vms/db\""),
            key("export", named(export()), "Exports, by the name that clients ask for"),
            key("peer", named(peer()), "Clients and what they may use; the first that fits counts"),
            key("token", named(token()), "Tokens of the control API over TCP, by name"),
        ],
        Level::Top,
    );
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Weir configuration");
    schema
}

/// A table with these keys, and with those that say how files extend each other.
fn object(keys: impl IntoIterator<Item = Key>, level: Level) -> Value {
    let marks = level.marks().iter().map(|&mark| {
        let description =
            "In a file that is read over others: what those say of this table does not count";
        key(mark, json!({ "type": "boolean", "const": true }), description)
    });
    let properties: Map<String, Value> = keys
        .into_iter()
        .chain(marks)
        .map(|(name, mut schema, description)| {
            schema["description"] = description.into();
            (name.to_owned(), schema)
        })
        .collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Tables with these keys, by their names.
fn named(keys: impl IntoIterator<Item = Key>) -> Value {
    json!({ "type": "object", "additionalProperties": object(keys, Level::Named) })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "anyOf": [text(), { "type": "array", "items": text() }] })
}

/// A text, or a whole number.
fn amount() -> Value {
    json!({ "type": ["string", "integer"] })
}

fn amounts() -> Value {
    json!({ "anyOf": [amount(), { "type": "array", "items": amount() }] })
}

fn switch() -> Value {
    json!({ "type": "boolean" })
}

fn number(least: u32, most: u32) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn word<'w>(words: impl IntoIterator<Item = &'w str>) -> Value {
    json!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

fn server() -> Vec<Key> {
    vec![
        key("socket", text(), "Unix socket for NBD"),
        key("socket_mode", text(), "Mode of that socket's file, as \"660\""),
        key("listen", texts(), "Addresses for NBD, as \"127.0.0.1:10809\" or \"vsock:10809\""),
        key("allow_remote", switch(), "Whether `listen` may be reached from other machines"),
        key("tls", word(TlsMode::NAMES.map(|(name, _)| name)), "Encryption of `listen`"),
        key("control", text(), "Unix socket of the control API that takes changes"),
        key("control_mode", text(), "Mode of that socket's file"),
        key("control_group", text(), "Its group, by name or number"),
        key("control_read", text(), "Unix socket of the control API that only reads"),
        key("control_read_mode", text(), "Mode of that socket's file"),
        key("control_read_group", text(), "Its group, by name or number"),
        key("control_listen", texts(), "TCP addresses of the control API, over TLS"),
        key("control_hosts", texts(), "Names of the server in the header Host"),
        key("control_origins", texts(), "Origins whose pages may change something"),
        key("metrics", text(), "Unix socket of the metrics"),
        key("metrics_mode", text(), "Mode of that socket's file"),
        key("metrics_group", text(), "Its group, by name or number"),
        key("metrics_listen", texts(), "TCP addresses of the metrics, as \"127.0.0.1:9810\""),
        key("exit_last", switch(), "End with the last client"),
        key("log", word(LogFormat::NAMES.map(|(name, _)| name)), "Form of the log"),
        key("log_level", word(LogLevel::NAMES.map(|(name, _)| name)), "Least level of its lines"),
        key("sandbox", word(Sandbox::NAMES.map(|(name, _)| name)), "Drop what is not needed"),
        key("sandbox_paths", texts(), "Directories and block devices that may be opened later"),
        key("drain_time", text(), "How long requests may take at the end, as \"10s\""),
        key("max_connections", number(1, CONNECTIONS_MAX), "Further connections are refused"),
        key(
            "max_connections_per_client",
            number(1, CONNECTIONS_MAX),
            "Of these, as many as one process or address may have",
        ),
        key("max_cgroups", number(1, CGROUPS_MAX as u32), "Cgroups of a device"),
    ]
}

fn tls() -> Vec<Key> {
    vec![
        key("certificate", text(), "PEM file of the server's certificate"),
        key("key", text(), "PEM file of its private key"),
        key("client_ca", text(), "PEM file of the CAs whose clients are known"),
        key("require_client_certificate", switch(), "Refuse clients without a certificate"),
        key("crl", text(), "PEM file of revoked certificates of clients"),
        key("threads", number(1, THREADS_MAX), "Threads that encrypt"),
    ]
}

fn record() -> Vec<Key> {
    vec![
        key("directory", text(), "Where the files are"),
        key("size", text(), "Bytes of all files, as \"10G\"; the oldest go"),
        key("file_time", text(), "How long a file is open, as \"60s\""),
        key("start", switch(), "Whether it begins with the server"),
    ]
}

fn peer() -> Vec<Key> {
    vec![
        key("uid", amounts(), "Users of processes on Unix sockets"),
        key("gid", amounts(), "Their groups"),
        key("address", texts(), "Addresses on TCP, as \"10.0.0.0/8\""),
        key("certificate", texts(), "Names of certificates, as \"vm1.example\" or \"*.example\""),
        key("exports", texts(), "What it may use, as \"vm1\" or \"vm-*\"; all, if left out"),
        key("cgroup", text(), "The cgroup of its connections, instead of the export's"),
        key("read_only", switch(), "Refuse writes"),
    ]
}

fn device() -> Vec<Key> {
    let bfq = BfqKey::ALL.map(|setting| {
        let schema = json!({ "type": ["string", "integer", "boolean"] });
        key(setting.name(), schema, format!("Allowed are {}", setting.allowed()))
    });
    let price = || {
        [
            key("ios", number(1, PRICE_IOS_MAX), "I/Os that it counts as"),
            key("bytes", amount(), "Bytes that it counts as, or \"length\""),
        ]
    };
    let prices = [
        ("flush", "Of a flush"),
        ("discard", "Of a discard"),
        ("write_zeroes", "Of zeroes"),
        ("cache", "Of a request to read ahead"),
        ("status", "Of a question about allocation"),
    ]
    .map(|(name, description)| key(name, object(price(), Level::Settings), description));
    vec![
        key("path", text(), "An image, a block device, \"memory:SIZE\" or \"emulated:DISK\""),
        key("direct", word(["auto", "on", "off"]), "Whether to go around the page cache"),
        key("read_only", switch(), "Refuse writes"),
        key("scheduler", word(SchedulerKind::ALL.map(SchedulerKind::name)), "Its scheduler"),
        key("bfq", object(bfq, Level::Settings), "Settings of the scheduler bfq"),
        key("watermark", amount(), "Utilisation in percent from which on limits bind"),
        key("model", text(), "A file of `weir calibrate`"),
        key("depth", number(1, DEPTH_MAX), "Requests at the device at once"),
        key("queue", number(1, QUEUE_MAX), "Requests inside before connections are held back"),
        key("cache", word(["none", "writeback"]), "When writes are answered"),
        key("cache_size", amount(), "Bytes that may wait to be written back"),
        key("iops_size", amount(), "Bytes of which each counts as one I/O more"),
        key("price", object(prices, Level::Settings), "What operations count as"),
    ]
}

fn cgroup() -> Vec<Key> {
    vec![
        key("io.max", texts(), "Limits: \"DEVICE rbps=4M wbps=2M riops=100 wiops=50\""),
        key("io.burst", texts(), "How much may go at once after a pause"),
        key("io.peak", texts(), "The rate inside a burst"),
        key("io.weight", amounts(), "Share among siblings, 1 to 10000"),
        key("io.bfq.weight", amounts(), "The same as io.weight, 1 to 1000"),
        key(
            "io.prio.class",
            word(PrioClass::ALL.map(PrioClass::name)),
            "Which goes first, with bfq",
        ),
        key(
            "io.bfq.low_latency",
            word(LowLatency::ALL.map(LowLatency::name)),
            "Whether bfq may raise its weight",
        ),
        key("io.limiter", text(), "How limits are enforced: pace, slice:KERNEL, token or leaky"),
        key("io.watermark", amount(), "As of the device, for this cgroup, or \"inherit\""),
    ]
}

fn token() -> Vec<Key> {
    let sha256 = json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{64}$" });
    vec![
        key("sha256", sha256, "SHA-256 of the token, as `weir api token` prints it"),
        key("access", word(Access::NAMES.map(|(name, _)| name)), "What its holder may do"),
    ]
}

fn export() -> Vec<Key> {
    vec![
        key("device", text(), "Its device"),
        key("cgroup", text(), "The cgroup of its connections"),
        key("read_only", switch(), "Refuse writes"),
        key("range", text(), "The part of the device, \"1G..3G\""),
        key("description", text(), "Shown to clients that list exports"),
        key("max_connections", number(1, CONNECTIONS_MAX), "As many as it may have"),
        key("block_size", text(), "Sizes of requests: \"min=512 preferred=4096 max=32M\""),
        key(
            "rotational",
            json!({ "anyOf": [switch(), word(["auto"])] }),
            "Whether clients are told that seeks take time",
        ),
        key("multi_conn", switch(), "Whether clients may open several connections"),
        key("client_max", text(), "Limits of each client: \"riops=200 wbps=10M\""),
    ]
}
