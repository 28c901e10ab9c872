//! `[device.NAME]`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

use weir_engine::settings::{BytePrice, Price, Prices};
use weir_engine::utilisation::Capacity;
use weir_engine::{SchedulerKind, Watermark};
use weir_text::{DeviceRef, parse_watermark};
use weir_units::Bytes;

use crate::backend::{self, Facts, Files};
use crate::bfq;
use crate::cache;
use crate::model::{Backend, DeviceConfig, Direct};
use crate::model_file::DeviceModel;
use crate::report::{Problem, Report};
use crate::source::{Layer, Span, Text};
use crate::table::{Entry, Section};
use crate::value;

/// Most devices of one server: each has a thread.
pub(crate) const DEVICES_MAX: usize = 256;
pub(crate) const DEPTH_MAX: u32 = 4_096;
pub(crate) const QUEUE_MAX: u32 = 1 << 24;
const NAME_MAX: usize = 64;
const IOPS_SIZE_MIN: u64 = 512;
const IOPS_SIZE_MAX: u64 = 32 << 20;
/// A call that is worth more reads than this should be refused, not priced.
pub(crate) const PRICE_IOS_MAX: u32 = 1_000;
const PRICE_BYTES_MAX: u64 = 1 << 30;

pub(crate) const KEYS: [&str; 13] = [
    "path",
    "scheduler",
    "bfq",
    "watermark",
    "model",
    "depth",
    "queue",
    "direct",
    "read_only",
    "cache",
    "cache_size",
    "iops_size",
    "price",
];

/// Keys of `[device.NAME.price]`, and of each table in it.
pub(crate) const PRICES: [&str; 5] = ["flush", "discard", "write_zeroes", "cache", "status"];
pub(crate) const PRICE: [&str; 2] = ["ios", "bytes"];

/// Devices of a configuration, and their properties.
#[derive(Default)]
pub(crate) struct Devices {
    pub(crate) configs: Vec<DeviceConfig>,
    /// Every name in the file, also of devices that were refused: those are known, if not usable.
    names: BTreeMap<String, Option<usize>>,
    /// Devices that a file takes away, each with that file.
    removed: BTreeMap<String, Removal>,
    /// Properties of each file, as far as files are inspected.
    facts: Vec<Facts>,
    paths: BTreeMap<std::path::PathBuf, String>,
}

/// A file that takes something away.
pub(crate) struct Removal {
    pub(crate) file: String,
    /// The place of its first byte.
    start: usize,
}

/// Meaning of a device name.
pub(crate) enum Lookup<'d> {
    Found(usize),
    /// It was refused, and that has been reported.
    Refused,
    /// A file takes it away.
    Removed(&'d Removal),
    Unknown,
}

impl Devices {
    pub(crate) fn find(&self, name: &str) -> Lookup<'_> {
        match (self.names.get(name), self.removed.get(name)) {
            (Some(Some(index)), _) => Lookup::Found(*index),
            (Some(None), _) => Lookup::Refused,
            (None, Some(removal)) => Lookup::Removed(removal),
            (None, None) => Lookup::Unknown,
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Devices of the first word of `line`; reports an unknown one. One that a later file takes away is none.
    pub(crate) fn targets(
        &self,
        device: DeviceRef<'_>,
        line: &Text,
        report: &mut Report,
    ) -> Range<usize> {
        match device {
            DeviceRef::Any => 0..self.configs.len(),
            DeviceRef::Name(name) => match self.find(name) {
                Lookup::Found(index) => index..index + 1,
                Lookup::Refused => 0..0,
                // What earlier files say of a device goes with it.
                Lookup::Removed(removal) if line.span.start < removal.start => 0..0,
                missing => {
                    let message = format!("there is no device {:?}", value::cut(name));
                    let hint = match missing {
                        Lookup::Removed(removal) => {
                            Some(format!("{} removes it: take this line out", removal.file))
                        }
                        _ => value::unknown_name(name, self.names()),
                    };
                    report.add(Problem::new(line.place_of(name), &line.key, message).hint(hint));
                    0..0
                }
            },
            DeviceRef::Number { major, minor } => {
                let number = Some((major, minor));
                if let Some(index) = self.facts.iter().position(|facts| facts.number == number) {
                    return index..index + 1;
                }
                let message = format!("no device here is the block device {major}:{minor}");
                report.refuse(line, message, value::unknown_name("", self.names()));
                0..0
            }
        }
    }

    /// Size of the device at `index`, if known.
    pub(crate) fn size(&self, index: usize) -> Option<u64> {
        match &self.configs[index].backend {
            Backend::Memory { size } => Some(*size),
            Backend::Emulated(spec) => Some(spec.size()),
            Backend::File { .. } => self.facts[index].size,
        }
    }

    /// Adds `device`, configured with `path`.
    pub(crate) fn add(
        &mut self,
        device: DeviceConfig,
        path: &Text,
        files: &Files,
        report: &mut Report,
    ) {
        if let Backend::File { path: file, .. } = &device.backend
            && let Some(first) = self.paths.insert(file.clone(), device.name.clone())
        {
            let message = format!("device {first:?} has the same path");
            let hint = "two engines on one device know nothing of each other's limits: \
                        give both exports the one device";
            report.refuse(path, message, Some(hint.into()));
        }
        self.names.insert(device.name.clone(), Some(self.configs.len()));
        self.facts.push(backend::facts(&device.backend, files));
        self.configs.push(device);
    }
}

/// Reads `[device]`.
pub(crate) fn read_all(root: &Section<'_>, files: &Files, report: &mut Report) -> Devices {
    let mut devices = Devices::default();
    let section = root.section("device", report);
    let entries = section.as_ref().map(|section| section.entries()).unwrap_or_default();
    let removed = section.map(|section| section.removed()).unwrap_or_default();
    let removal = |file: Layer<'_>| Removal { file: file.name.into(), start: file.start };
    devices.removed =
        removed.into_iter().map(|(name, file)| (name.into_owned(), removal(file))).collect();
    if entries.is_empty() && report.is_empty() {
        let problem = Problem::of_all("no device is configured");
        report
            .add(problem.hint("add `[device.disk0]` with `path = \"/srv/disk0.img\"`".to_owned()));
    }
    if entries.len() > DEVICES_MAX {
        let message =
            format!("{} devices are configured, at most {DEVICES_MAX} are allowed", entries.len());
        let hint = "split them among several servers".to_owned();
        report.add(Problem::of_all(message).hint(hint));
        return devices;
    }
    for entry in entries {
        devices.names.insert(entry.name.into(), None);
        read(entry, files, &mut devices, report);
    }
    devices
}

fn read(entry: Entry<'_>, files: &Files, devices: &mut Devices, report: &mut Report) {
    let name = entry.name.to_owned();
    check_name(&name, entry.key_span, &entry.key, report);
    let Some(section) = entry.section(report) else { return };
    section.allow(&KEYS, report);
    let direct = section.text("direct", report).and_then(|text| {
        let index = value::word(&text, &["auto", "on", "off"], report)?;
        Some((text, [Direct::Auto, Direct::On, Direct::Off][index]))
    });
    let mut engine = engine(&section, report);
    let watermark = section.amount("watermark", report).and_then(|text| watermark(&text, report));
    let model_text = section.text("model", report);
    engine.capacity = model_text.as_ref().and_then(|text| model(text, files, report));
    let model = model_text.map(|text| files.place(text.value.into()));
    let read_only = section.switch("read_only", report).unwrap_or(false);
    let (kind, size) = (section.text("cache", report), section.amount("cache_size", report));
    let cache = cache::read(kind.as_ref(), size.as_ref(), report);
    let path = section.need("path", "\"/srv/disk0.img\"", report);
    let Some(path) = path.and_then(|path| path.text(report)) else { return };
    let Some(backend) = backend::read(&path, direct, files, report) else { return };
    engine.rotational = is_rotational(&backend);
    let watermark = watermark.unwrap_or_default();
    let device = DeviceConfig { name, backend, read_only, watermark, model, engine, cache };
    devices.add(device, &path, files, report);
}

/// Whether seeks take time, if known: a file may be on any disk.
pub(crate) fn is_rotational(backend: &Backend) -> bool {
    match backend {
        Backend::File { .. } => true,
        Backend::Memory { .. } => false,
        Backend::Emulated(spec) => spec.is_rotational(),
    }
}

/// Configuration of the engine.
fn engine(section: &Section<'_>, report: &mut Report) -> weir_engine::Config {
    let mut engine = weir_engine::Config::default();
    let nonzero = |number: Option<u32>| number.and_then(NonZeroU32::new);
    if let Some(text) = section.text("scheduler", report) {
        engine.scheduler = scheduler(&text, report).unwrap_or_default();
    }
    if let Some(section) = section.section("bfq", report) {
        engine.bfq = bfq::read(&section, report);
    }
    if let Some(depth) = nonzero(section.number("depth", 1, DEPTH_MAX, report)) {
        engine.depth = depth;
    }
    if let Some(queue) = nonzero(section.number("queue", 1, QUEUE_MAX, report)) {
        engine.requests_max = queue;
        engine.requests_per_task_max = engine.requests_per_task_max.min(queue);
    }
    if engine.requests_max < engine.depth {
        let key = section.get("queue").or_else(|| section.get("depth"));
        let (depth, queue) = (engine.depth, engine.requests_max);
        let message = format!("a queue of {queue} requests never fills a depth of {depth}");
        let span = key.map_or(section.span, |key| key.span());
        let hint = "give `queue` room for many times `depth`, or leave it out".to_owned();
        report.add(Problem::new(span, &section.key, message).hint(hint));
    }
    engine.prices = prices(section, report);
    engine.prices.iops_size = section.amount("iops_size", report).and_then(|text| {
        let size = value::size(&text, IOPS_SIZE_MIN, IOPS_SIZE_MAX, report)?;
        NonZeroU32::new(u32::try_from(size).ok()?)
    });
    engine
}

/// One of the schedulers, by its name.
pub(crate) fn scheduler(text: &Text, report: &mut Report) -> Option<SchedulerKind> {
    let names = SchedulerKind::ALL.map(SchedulerKind::name);
    value::word(text, &names, report).map(|index| SchedulerKind::ALL[index])
}

/// Watermark of a device.
pub(crate) fn watermark(text: &Text, report: &mut Report) -> Option<Watermark> {
    match parse_watermark(&text.value) {
        Ok(watermark) => Some(watermark),
        Err(error) => {
            report.refuse(text, error.to_string(), error.hint());
            None
        }
    }
}

/// Model from a file of `weir calibrate`; `None` also where files are not inspected.
pub(crate) fn model(text: &Text, files: &Files, report: &mut Report) -> Option<Capacity> {
    let path = value::path(text, report)?;
    if matches!(files, Files::Ignore) {
        return None;
    }
    match DeviceModel::from_file(&files.place(path)) {
        Ok(model) => Some(model.capacity()),
        Err(errors) => {
            let hint = "`weir calibrate` writes such a file";
            let message = errors.errors()[0].to_string();
            report.refuse(text, message, Some(hint.into()));
            None
        }
    }
}

/// Names stand in `io.max` and `io.weight` lines, so they have no blanks, and none of the words that mean something there.
fn check_name(name: &str, span: Span, key: &str, report: &mut Report) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let first = |c: char| c.is_ascii_alphanumeric();
    let message = if name == "any" {
        "`any` means every device in io.max, so none can have this name"
    } else if name == "default" {
        "`default` means every other device in io.weight, so none can have this name"
    } else if name.len() > NAME_MAX {
        "a device's name has at most 64 bytes"
    } else if !name.starts_with(first) || !name.chars().all(allowed) {
        "a device's name has only letters, digits, `.`, `_` and `-`, a letter or digit first"
    } else {
        return;
    };
    report.add(Problem::new(span, key, message).hint("for example `[device.disk0]`".to_owned()));
}

fn prices(device: &Section<'_>, report: &mut Report) -> Prices {
    let mut prices = Prices::default();
    let Some(section) = device.section("price", report) else { return prices };
    section.allow(&PRICES, report);
    for (name, price) in [
        ("flush", &mut prices.flush),
        ("discard", &mut prices.discard),
        ("write_zeroes", &mut prices.write_zeroes),
        ("cache", &mut prices.cache),
        ("status", &mut prices.status),
    ] {
        if let Some(section) = section.section(name, report) {
            price_of(&section, price, report);
        }
    }
    prices
}

fn price_of(section: &Section<'_>, price: &mut Price, report: &mut Report) {
    section.allow(&PRICE, report);
    // At least one: an operation that costs no I/O is a way around every limit on I/Os.
    if let Some(ios) = section.number("ios", 1, PRICE_IOS_MAX, report).and_then(NonZeroU32::new) {
        price.ios = ios;
    }
    if let Some(text) = section.amount("bytes", report) {
        if text.value == "length" {
            price.bytes = BytePrice::Length;
        } else if let Some(bytes) = price_bytes(&text, report) {
            price.bytes = BytePrice::Fixed(bytes);
        }
    }
}

fn price_bytes(text: &Text, report: &mut Report) -> Option<u32> {
    let hint = "write a size such as \"512\", or \"length\" for the request's own";
    match text.value.parse::<Bytes>() {
        Ok(Bytes(bytes)) if bytes <= PRICE_BYTES_MAX => u32::try_from(bytes).ok(),
        Ok(bytes) => {
            report.refuse(text, format!("{bytes} is more than 1 GiB"), Some(hint.into()));
            None
        }
        Err(error) => {
            report.refuse(text, error.to_string(), Some(hint.into()));
            None
        }
    }
}
