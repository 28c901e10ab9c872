//! One export from the command line, through the same checks as a file.

use std::path::PathBuf;

use weir_engine::settings::PrioClass;
use weir_engine::{Dimension, Path, PerDimension, Resource, Weight};
use weir_text::{DeviceRef, LimitKey, WeightKey, parse_limits};
use weir_units::{Bytes, Ios};

use crate::backend::{self, Files};
use crate::bfq;
use crate::cache;
use crate::device::{self, Devices, is_rotational};
use crate::error::ConfigErrors;
use crate::limits::LimitLines;
use crate::model::{
    BlockSize, CgroupConfig, Config, DeviceConfig, DeviceLimits, DeviceRange, ExportConfig,
    ServerConfig,
};
use crate::report::{Problem, Report};
use crate::source::{Source, Span, Text};
use crate::{cgroup, limiter, server, value};

/// `weir serve IMAGE --max "rbps=50M riops=500" ...`: flags as they were written, unchecked.
///
/// The result has one device, [`SingleExport::DEVICE`], one cgroup, [`SingleExport::CGROUP`], with the limits, and
/// one export with the empty name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SingleExport {
    /// An image, a block device, `memory:SIZE` or `emulated:SPEC`.
    pub image: String,
    /// `--read-only`.
    pub read_only: bool,
    /// `--max`: as `io.max` without the device.
    pub max: Option<String>,
    /// `--burst`: as `io.burst` without the device, or one amount for every key of `--max` that it fits: a plain
    /// number is I/Os (`8`), one with a unit is bytes (`1M`).
    pub burst: Option<String>,
    /// `--peak`: as `io.peak` without the device.
    pub peak: Option<String>,
    /// `--weight`: as `io.weight`.
    pub weight: Option<String>,
    /// `--limiter`: as `io.limiter`.
    pub limiter: Option<String>,
    /// `--scheduler`: as `scheduler` of a device.
    pub scheduler: Option<String>,
    /// `--bfq`: as `[device.NAME.bfq]`, in one line: `KEY=VALUE ...`.
    pub bfq: Option<String>,
    /// `--watermark`: as `watermark` of a device.
    pub watermark: Option<String>,
    /// `--model`: as `model` of a device.
    pub model: Option<String>,
    /// `--cache`: as `cache` of a device.
    pub cache: Option<String>,
    /// `--cache-size`: as `cache_size` of a device.
    pub cache_size: Option<String>,
    /// `--socket`.
    pub socket: Option<String>,
    /// `--socket-mode`.
    pub socket_mode: Option<String>,
    /// `--listen`, each time it was given.
    pub listen: Vec<String>,
    /// `--allow-remote`.
    pub allow_remote: bool,
    /// `--control`.
    pub control: Option<String>,
    /// `--drain-time`: as `drain_time` of the server.
    pub drain_time: Option<String>,
}

impl SingleExport {
    /// The name of the one device.
    pub const DEVICE: &'static str = "disk";
    /// The path of the one cgroup.
    pub const CGROUP: &'static str = "/main";
}

impl Config {
    /// Configuration of the flags of `single`. An image must exist; relative paths begin in the current directory.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them, each with its flag, as pictures of the command line.
    pub fn single(single: &SingleExport) -> Result<Config, ConfigErrors> {
        let mut line = CommandLine::new();
        let image = line.word("IMAGE", None, &single.image);
        let mut flag = |name: &'static str, value: &Option<String>| {
            value.as_ref().map(|value| line.word(name, Some(name), value))
        };
        let flags = Flags {
            max: flag("--max", &single.max),
            burst: flag("--burst", &single.burst),
            peak: flag("--peak", &single.peak),
            weight: flag("--weight", &single.weight),
            limiter: flag("--limiter", &single.limiter),
            scheduler: flag("--scheduler", &single.scheduler),
            bfq: flag("--bfq", &single.bfq),
            watermark: flag("--watermark", &single.watermark),
            model: flag("--model", &single.model),
            cache: flag("--cache", &single.cache),
            cache_size: flag("--cache-size", &single.cache_size),
            socket: flag("--socket", &single.socket),
            socket_mode: flag("--socket-mode", &single.socket_mode),
            control: flag("--control", &single.control),
            drain_time: flag("--drain-time", &single.drain_time),
            listen: single
                .listen
                .iter()
                .map(|value| line.word("--listen", Some("--listen"), value))
                .collect(),
        };
        let base = std::path::absolute(".").unwrap_or_else(|_| PathBuf::from("."));
        let mut report = Report::default();
        let config = build(single, &image, &flags, &Files::Look(base), &mut report);
        if report.is_empty() {
            return Ok(config);
        }
        Err(report.into_errors(&Source::of_command_line("command line", line.text)))
    }
}

/// The flags with values, and their places.
struct Flags {
    max: Option<Text>,
    burst: Option<Text>,
    peak: Option<Text>,
    weight: Option<Text>,
    limiter: Option<Text>,
    scheduler: Option<Text>,
    bfq: Option<Text>,
    watermark: Option<Text>,
    model: Option<Text>,
    cache: Option<Text>,
    cache_size: Option<Text>,
    socket: Option<Text>,
    socket_mode: Option<Text>,
    control: Option<Text>,
    drain_time: Option<Text>,
    listen: Vec<Text>,
}

fn build(
    single: &SingleExport,
    image: &Text,
    flags: &Flags,
    files: &Files,
    report: &mut Report,
) -> Config {
    let backend = backend::read(image, None, files, report);
    let server = server(single, flags, files, report);
    let weight = flags.weight.as_ref().and_then(|text| weight(text, report));
    let limiter =
        flags.limiter.as_ref().and_then(|text| limiter::read(text, report)).unwrap_or_default();
    let mut engine = weir_engine::Config::default();
    if let Some(text) = &flags.scheduler {
        engine.scheduler = device::scheduler(text, report).unwrap_or_default();
    }
    if let Some(text) = &flags.bfq {
        engine.bfq = bfq::words(text, report);
    }
    let watermark = flags.watermark.as_ref().and_then(|text| device::watermark(text, report));
    let watermark = watermark.unwrap_or_default();
    engine.capacity = flags.model.as_ref().and_then(|text| device::model(text, files, report));
    let cache = cache::read(flags.cache.as_ref(), flags.cache_size.as_ref(), report);
    let mut devices = Devices::default();
    if let Some(backend) = backend {
        engine.rotational = is_rotational(&backend);
        let name = SingleExport::DEVICE.to_owned();
        let read_only = single.read_only;
        let model = flags.model.as_ref().map(|text| files.place(text.value.clone().into()));
        let device = DeviceConfig { name, backend, read_only, watermark, model, engine, cache };
        devices.add(device, image, files, report);
    }
    let mut lines = LimitLines::new(1);
    for (limit, text) in [(LimitKey::Max, &flags.max), (LimitKey::Peak, &flags.peak)] {
        if let Some(text) = text
            && names_no_device(text, report)
        {
            lines.words(limit, text, &text.value, 0..1, report);
        }
    }
    if let Some(text) = &flags.burst {
        burst(&mut lines, text, report);
    }
    let limits: Vec<DeviceLimits> = lines
        .finish(limiter, &devices, report)
        .into_iter()
        .map(|(device, limits)| DeviceLimits { device, limits })
        .collect();
    let path = Path::parse(SingleExport::CGROUP).expect("it is a cgroup's path");
    let cgroup = CgroupConfig {
        path: path.clone(),
        weight: weight.unwrap_or_default(),
        device_weights: Vec::new(),
        prio_class: PrioClass::NoChange,
        low_latency: None,
        watermark: None,
        limiter,
        limits,
    };
    let export = ExportConfig {
        name: String::new(),
        device: 0,
        cgroup: path,
        read_only: single.read_only,
        range: DeviceRange::default(),
        description: String::new(),
        max_connections: None,
        block_size: BlockSize::default(),
        rotational: None,
        multi_conn: true,
        client_max: PerDimension::NONE,
    };
    Config {
        server,
        tls: None,
        record: None,
        devices: devices.configs,
        cgroups: vec![cgroup],
        exports: vec![export],
        peers: Vec::new(),
        tokens: Vec::new(),
    }
}

fn server(
    single: &SingleExport,
    flags: &Flags,
    files: &Files,
    report: &mut Report,
) -> ServerConfig {
    let mut server = ServerConfig { allow_remote: single.allow_remote, ..ServerConfig::default() };
    for text in &flags.listen {
        server::listen(&mut server, text, single.allow_remote, "--allow-remote", report);
    }
    let socket = flags.socket.as_ref();
    server.socket = socket.and_then(|text| server::unix(text, files, report));
    if let Some(text) = &flags.socket_mode {
        server.socket_mode = server::socket_mode(text, report).unwrap_or(server.socket_mode);
    }
    server::control(&mut server, flags.control.as_ref(), files, report);
    if let Some(text) = &flags.drain_time {
        server.drain_time = server::drain_time(text, report).unwrap_or(server.drain_time);
    }
    server
}

/// Reports a device in front of a limit: with one image there is none to name.
fn names_no_device(text: &Text, report: &mut Report) -> bool {
    let Some((first, rest)) = text.value.trim_ascii().split_once(|c: char| c.is_ascii_whitespace())
    else {
        return true;
    };
    // Not with blanks around the sign: "rbps = 4M".
    let is_limit = rest.trim_ascii_start().find('=').is_some_and(|at| at > 0);
    if first.contains('=') || DeviceRef::parse(first).is_none() || !is_limit {
        return true;
    }
    let message = format!("{:?} names a device: a single image has no name", value::cut(first));
    let hint = format!("leave it out: {:?}", rest.trim_ascii());
    report.add(Problem::new(text.place_of(first), &text.key, message).hint(hint));
    false
}

/// `--weight`: as `io.weight`, but for the only device.
fn weight(text: &Text, report: &mut Report) -> Option<Weight> {
    let line = cgroup::weight_line(WeightKey::Io, text, report)?;
    if line.device.is_some() {
        let hint = "leave it out: write the weight alone".to_owned();
        report.refuse(text, "a single image has no name: no device can be named", Some(hint));
        return None;
    }
    line.weight
}

/// `--burst`: words with keys as they are, a single amount for each key of `--max` that it fits.
fn burst(lines: &mut LimitLines, text: &Text, report: &mut Report) {
    let amount = text.value.trim_ascii();
    if amount.contains('=') {
        if !names_no_device(text, report) {
            return;
        }
        return lines.words(LimitKey::Burst, text, &text.value, 0..1, report);
    }
    let (resource, keys) = if amount.bytes().all(|byte| byte.is_ascii_digit()) {
        (Resource::Ios, "riops, wiops or rwiops")
    } else {
        (Resource::Bytes, "rbps, wbps or rwbps")
    };
    // Read once here, so that an error is reported once.
    let readable = match resource {
        Resource::Ios => value::quantity::<Ios>(text, report).map(|Ios(amount)| amount),
        Resource::Bytes => value::quantity::<Bytes>(text, report).map(|Bytes(amount)| amount),
    };
    let Some(amount) = readable else { return };
    let words: Vec<String> = Dimension::ALL
        .into_iter()
        .filter(|&dimension| dimension.resource() == resource && lines.has_max(0, dimension))
        .map(|dimension| format!("{}={amount}", dimension.key()))
        .collect();
    if words.is_empty() {
        let unit = if resource == Resource::Ios { "I/Os" } else { "bytes" };
        let hint = "a plain number is I/Os (8), one with a unit is bytes (1M)";
        let message = format!("a burst of {amount} {unit}, but --max has no {keys}");
        return report.refuse(text, message, Some(hint.into()));
    }
    // All would be refused for the same reason.
    let refused = parse_limits(LimitKey::Burst, &words[0], PerDimension::NONE).is_err();
    let words = if refused { &words[..1] } else { &words[..] };
    lines.words(LimitKey::Burst, text, &words.join(" "), 0..1, report);
}

/// The command line, put together again while its places are noted.
struct CommandLine {
    text: String,
}

impl CommandLine {
    fn new() -> CommandLine {
        CommandLine { text: "weir serve".into() }
    }

    /// Adds `value`, after `flag` if it has one, in quotes where a shell would need them.
    fn word(&mut self, key: &str, flag: Option<&str>, value: &str) -> Text {
        let line = &mut self.text;
        if let Some(part) = flag {
            line.push(' ');
            line.push_str(part);
        }
        let plain = |c: char| c.is_alphanumeric() || "/.,:=_-".contains(c);
        let quote = if !value.is_empty() && value.chars().all(plain) { "" } else { "\"" };
        line.push(' ');
        line.push_str(quote);
        let start = line.len();
        line.push_str(value);
        let span = Span { start, end: line.len() };
        line.push_str(quote);
        Text { value: value.into(), key: key.into(), span, verbatim: true }
    }
}
