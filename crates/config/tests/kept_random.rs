//! Random configurations: what is printed reads back, and random edits that are kept say what a model says.
//!
//! The model is one table, as if all had been said in one file: an edit of a limit adds a line that names every
//! dimension, and what is removed is not there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use toml::{Table, Value};
use weir_config::{Config, Kept, difference};

const DEVICES: [&str; 3] = ["a", "b", "c"];
const CGROUPS: [&str; 6] = ["/x", "/x/y", "/x/y/z", "/xy", "/v", "/v/w"];
const EXPORTS: [&str; 3] = ["", "e", "f g"];
const LIMITS: [&str; 3] = ["io.max", "io.burst", "io.peak"];
const LISTED: [&str; 4] = ["io.max", "io.burst", "io.peak", "io.weight"];
const DIMENSIONS: [&str; 6] = ["rbps", "wbps", "riops", "wiops", "rwbps", "rwiops"];

fn keys(text: &str) -> Table {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Some of the lines of `all`.
fn some_of(all: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::subsequence(all, 0..=all.len().min(4)).prop_map(|lines| lines.join("\n"))
}

fn device() -> impl Strategy<Value = Table> {
    let path = select(vec![
        "path = 'memory:1M'",
        "path = 'memory:2G'",
        "path = 'emulated:null,rate=4M,size=1M'",
        "path = 'emulated:hdd7200'",
    ]);
    const OTHERS: &[&str] = &[
        "depth = 7",
        "queue = 5000",
        "read_only = true",
        "scheduler = 'bfq'",
        "watermark = '90 mode=gate'",
        "iops_size = '16K'",
        "price.flush.ios = 3",
        "price.discard = { bytes = 'length' }",
        "bfq.slice_idle = '1500us'",
        "bfq.stable = 'intent'",
        "bfq.low_latency = false",
        "cache = 'writeback'",
    ];
    (path, some_of(OTHERS)).prop_map(|(path, others)| keys(&format!("{path}\n{others}")))
}

fn cgroup() -> impl Strategy<Value = Table> {
    const OTHERS: &[&str] = &[
        "'io.max' = 'a riops=100 rwbps=4M'",
        "'io.max' = ['* riops=100', 'b rbps=7']",
        "'io.weight' = ['7', 'a 9']",
        "'io.weight' = 300",
        "'io.prio.class' = 'idle'",
        "'io.bfq.low_latency' = 'never'",
        "'io.watermark' = 90",
        "'io.limiter' = 'slice:6.1,hz=100'",
    ];
    some_of(OTHERS).prop_map(|others| {
        // A key that came twice counts once.
        let mut table = Table::new();
        others.lines().for_each(|line| table.extend(keys(line)));
        table
    })
}

fn export() -> impl Strategy<Value = Table> {
    const OTHERS: &[&str] =
        &["read_only = true", "range = '512..1M'", "description = 'x'", "max_connections = 3"];
    let required = (select(DEVICES.to_vec()), select([&CGROUPS[..], &["/"]].concat()));
    (required, some_of(OTHERS)).prop_map(|((device, cgroup), others)| {
        keys(&format!("device = {device:?}\ncgroup = {cgroup:?}\n{others}"))
    })
}

fn server() -> impl Strategy<Value = Table> {
    const KEYS: &[&str] = &[
        "socket = '/tmp/a.sock'",
        "listen = ['127.0.0.1:1', '10.0.0.1:2']\nallow_remote = true",
        "max_connections = 100",
        "drain_time = '1500ms'",
        "exit_last = true",
        "max_cgroups = 77",
    ];
    some_of(KEYS).prop_map(|text| keys(&text))
}

/// Sections by name, some of those in `names`.
fn named(
    names: &'static [&'static str],
    section: impl Strategy<Value = Table>,
) -> impl Strategy<Value = Table> {
    let chosen = proptest::collection::vec(proptest::option::of(section), names.len());
    chosen.prop_map(|sections| {
        let pairs = names.iter().zip(sections);
        pairs.filter_map(|(name, section)| Some(((*name).into(), section?.into()))).collect()
    })
}

/// A configuration as one table. Most are valid: two devices are there, and exports lead to what is.
fn whole() -> impl Strategy<Value = Table> {
    let required = (device(), device());
    let some = (named(&DEVICES, device()), named(&CGROUPS, cgroup()), named(&EXPORTS, export()));
    (server(), required, some).prop_map(|(server, (a, b), (mut devices, cgroups, mut exports))| {
        devices.insert("a".into(), a.into());
        devices.insert("b".into(), b.into());
        exports.retain(|_, export| {
            let (device, cgroup) = (export["device"].as_str(), export["cgroup"].as_str());
            let is_there =
                cgroup == Some("/") || cgroup.is_some_and(|path| cgroups.contains_key(path));
            is_there && device.is_some_and(|device| devices.contains_key(device))
        });
        exports.entry("e").or_insert_with(|| keys("device = 'a'\ncgroup = '/'").into());
        [("server", server), ("device", devices), ("cgroup", cgroups), ("export", exports)]
            .map(|(name, table)| (name.to_owned(), Value::Table(table)))
            .into_iter()
            .collect()
    })
}

fn text(table: &Table) -> String {
    toml::to_string(table).unwrap()
}

/// What a configuration says, whatever the order of its sections and lines.
fn said(config: &Config) -> Table {
    let mut table = keys(&config.to_toml());
    if let Some(Value::Table(cgroups)) = table.get_mut("cgroup") {
        for (_, cgroup) in cgroups.iter_mut() {
            for (_, value) in cgroup.as_table_mut().unwrap().iter_mut() {
                if let Value::Array(lines) = value {
                    lines.sort_by_key(Value::to_string);
                }
            }
        }
    }
    table
}

#[derive(Clone, Debug)]
enum Edit {
    Limit { cgroup: &'static str, device: Option<&'static str>, key: &'static str, words: String },
    Weight { cgroup: &'static str, device: Option<&'static str>, weight: u16 },
    Word { cgroup: &'static str, key: &'static str, value: &'static str },
    OfDevice { device: Option<&'static str>, key: &'static str, value: &'static str },
    Add { kind: &'static str, name: &'static str, keys: Table },
    Key { kind: &'static str, name: &'static str, key: &'static str, value: Option<Value> },
    Remove { kind: &'static str, name: &'static str },
    Move { from: &'static str, parent: &'static str },
    Write,
    Discard,
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = |names: &'static [&'static str]| select(names);
    let device = || proptest::option::weighted(0.7, name(&DEVICES));
    let words = proptest::collection::vec(
        (select(&DIMENSIONS[..]), select(&["9", "200", "max"][..])),
        1..4,
    )
    .prop_map(|words| {
        words.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    });
    let word = select(vec![
        ("io.prio.class", "promote-to-rt"),
        ("io.bfq.low_latency", "inherit"),
        ("io.bfq.low_latency", "interactive"),
        ("io.watermark", "inherit"),
        ("io.watermark", "80"),
        ("io.limiter", "token"),
    ]);
    let of_device = select(vec![
        ("io.depth", "3"),
        ("io.scheduler", "none"),
        ("io.watermark", "50"),
        ("io.bfq", "slice_idle=0 stable=off"),
        ("io.bfq", "low_latency=0 stable=kernel"),
    ]);
    let key = select(vec![
        ("device", "depth", Some(Value::Integer(9))),
        ("device", "depth", None),
        ("device", "read_only", None),
        ("device", "iops_size", None),
        ("device", "bfq", None),
        ("device", "price", Some(Value::Table(keys("flush.ios = 5")))),
        ("export", "read_only", Some(true.into())),
        ("export", "range", None),
        ("export", "max_connections", None),
        ("export", "cgroup", Some("/".into())),
        ("export", "description", Some("y".into())),
    ]);
    let of_kind = |kind| match kind {
        "device" => &DEVICES[..],
        "cgroup" => &CGROUPS[..],
        _ => &EXPORTS[..],
    };
    let kinds = || select(&["device", "cgroup", "export"][..]);
    prop_oneof![
        4 => (name(&CGROUPS), device(), select(&LIMITS[..]), words)
            .prop_map(|(cgroup, device, key, words)| Edit::Limit { cgroup, device, key, words }),
        2 => (name(&CGROUPS), device(), 1..=1000u16)
            .prop_map(|(cgroup, device, weight)| Edit::Weight { cgroup, device, weight }),
        2 => (name(&CGROUPS), word).prop_map(|(cgroup, (key, value))| Edit::Word { cgroup, key, value }),
        2 => (device(), of_device)
            .prop_map(|(device, (key, value))| Edit::OfDevice { device, key, value }),
        1 => (name(&DEVICES), device_keys()).prop_map(|(name, keys)| Edit::Add { kind: "device", name, keys }),
        1 => (name(&CGROUPS), cgroup()).prop_map(|(name, keys)| Edit::Add { kind: "cgroup", name, keys }),
        1 => (name(&EXPORTS), export()).prop_map(|(name, keys)| Edit::Add { kind: "export", name, keys }),
        3 => key.prop_flat_map(move |(kind, key, value)| {
            name(of_kind(kind)).prop_map(move |name| Edit::Key { kind, name, key, value: value.clone() })
        }),
        3 => kinds().prop_flat_map(move |kind| {
            name(of_kind(kind)).prop_map(move |name| Edit::Remove { kind, name })
        }),
        3 => (name(&CGROUPS), select([&CGROUPS[..], &["/", "/new"]].concat()))
            .prop_map(|(from, parent)| Edit::Move { from, parent }),
        3 => Just(Edit::Write),
        1 => Just(Edit::Discard),
    ]
}

fn device_keys() -> impl Strategy<Value = Table> {
    device()
}

/// All that has been said.
#[derive(Clone)]
struct Model(Table);

impl Model {
    fn sections(&mut self, kind: &str) -> &mut Table {
        self.0.entry(kind).or_insert_with(|| Table::new().into()).as_table_mut().unwrap()
    }

    fn section(&mut self, kind: &str, name: &str) -> &mut Table {
        self.sections(kind)
            .entry(name)
            .or_insert_with(|| Table::new().into())
            .as_table_mut()
            .unwrap()
    }

    fn has(&mut self, kind: &str, name: &str) -> bool {
        self.sections(kind).contains_key(name)
    }

    fn line(&mut self, cgroup: &str, key: &str, line: String) {
        let value =
            self.section("cgroup", cgroup).entry(key).or_insert_with(|| Value::Array(Vec::new()));
        if !value.is_array() {
            *value = Value::Array(vec![value.clone()]);
        }
        value.as_array_mut().unwrap().push(line.into());
    }

    fn keep_parent(&mut self, path: &str) {
        let parent = path.rsplit_once('/').unwrap().0.to_owned();
        if !parent.is_empty() && !self.has("cgroup", &parent) {
            self.section("cgroup", &parent);
        }
    }

    /// Whether it can be done; then it is.
    fn apply(&mut self, edit: &Edit) -> bool {
        match edit {
            Edit::Limit { device: Some(device), .. }
            | Edit::Weight { device: Some(device), .. }
            | Edit::OfDevice { device: Some(device), .. }
                if !self.has("device", device) =>
            {
                return false;
            }
            Edit::Limit { cgroup, device, key, words } => {
                // The last word of a dimension counts.
                let value = |dimension: &&str| {
                    let find = |word: &str| {
                        Some(word.strip_prefix(dimension)?.strip_prefix('=')?.to_owned())
                    };
                    let value =
                        words.split(' ').rev().find_map(find).unwrap_or_else(|| "max".into());
                    format!("{dimension}={value}")
                };
                let words: Vec<String> = DIMENSIONS.iter().map(value).collect();
                self.line(cgroup, key, format!("{} {}", device.unwrap_or("*"), words.join(" ")));
            }
            Edit::Weight { cgroup, device: Some(device), weight } => {
                self.line(cgroup, "io.weight", format!("{device} {weight}"));
            }
            Edit::Weight { cgroup, device: None, weight } => {
                self.line(cgroup, "io.weight", "* default".into());
                self.line(cgroup, "io.weight", format!("default {weight}"));
            }
            Edit::Word { cgroup, key, value } => {
                self.section("cgroup", cgroup).insert((*key).into(), (*value).into());
            }
            Edit::OfDevice { device, key, value } => {
                let all: Vec<String> = self.sections("device").keys().cloned().collect();
                let devices = device.map_or(all, |device| vec![device.into()]);
                for device in devices {
                    let section = self.section("device", &device);
                    let value = match *key {
                        "io.bfq" => {
                            let words = value.split(' ').map(|word| word.split_once('=').unwrap());
                            words
                                .map(|(key, value)| (key.to_owned(), value.into()))
                                .collect::<Table>()
                                .into()
                        }
                        "io.depth" => Value::Integer(value.parse().unwrap()),
                        _ => (*value).into(),
                    };
                    section.insert(key.strip_prefix("io.").unwrap().into(), value);
                }
            }
            Edit::Add { kind, name, keys } => {
                if self.has(kind, name) {
                    return false;
                }
                self.sections(kind).insert((*name).into(), keys.clone().into());
            }
            Edit::Key { kind, name, key, value } => {
                if !self.has(kind, name) {
                    return false;
                }
                match value {
                    Some(value) => self.section(kind, name).insert((*key).into(), value.clone()),
                    None => self.section(kind, name).remove(*key),
                };
            }
            Edit::Remove { kind, name } => {
                if self.sections(kind).remove(*name).is_none() {
                    return false;
                }
                if *kind == "device" {
                    self.forget(name);
                } else if *kind == "cgroup" {
                    self.keep_parent(name);
                }
            }
            Edit::Move { from, parent } => return self.move_cgroup(from, parent),
            Edit::Write | Edit::Discard => {}
        }
        true
    }

    /// Takes out the lines of a device.
    fn forget(&mut self, device: &str) {
        for (_, cgroup) in self.sections("cgroup").iter_mut() {
            for key in LISTED {
                let Some(value) = cgroup.as_table_mut().unwrap().get_mut(key) else { continue };
                let is_of = |value: &Value| {
                    value.as_str().is_some_and(|line| line.split(' ').next() == Some(device))
                };
                match value {
                    Value::Array(lines) => lines.retain(|line| !is_of(line)),
                    value if is_of(value) => *value = Value::Array(Vec::new()),
                    _ => {}
                }
            }
        }
    }

    fn move_cgroup(&mut self, from: &str, parent: &str) -> bool {
        let to = format!("{}/{}", parent.trim_end_matches('/'), from.rsplit_once('/').unwrap().1);
        let below =
            |path: &str, above: &str| path == above || path.starts_with(&format!("{above}/"));
        let renamed = |path: &str| format!("{to}{}", &path[from.len()..]);
        if to == from || below(parent, from) {
            return false;
        }
        let moved: Vec<String> =
            self.sections("cgroup").keys().filter(|path| below(path, from)).cloned().collect();
        let exports: Vec<String> = self
            .sections("export")
            .iter()
            .filter(|(_, export)| below(export["cgroup"].as_str().unwrap(), from))
            .map(|(name, _)| name.clone())
            .collect();
        let is_taken = self.sections("cgroup").keys().any(|path| below(path, &to));
        if moved.is_empty() && exports.is_empty() || is_taken {
            return false;
        }
        for path in &moved {
            let section = self.sections("cgroup").remove(path).unwrap();
            self.sections("cgroup").insert(renamed(path), section);
        }
        for name in &exports {
            let cgroup = self.section("export", name)["cgroup"].as_str().unwrap().to_owned();
            self.section("export", name).insert("cgroup".into(), renamed(&cgroup).into());
        }
        if moved.is_empty() {
            self.section("cgroup", &to);
        } else {
            self.keep_parent(from);
        }
        true
    }

    fn config(&self) -> Result<Config, String> {
        Config::from_str("model", &text(&self.0)).map_err(|errors| errors.to_string())
    }
}

fn apply(kept: &mut Kept, edit: &Edit) -> bool {
    let done = match edit {
        Edit::Limit { cgroup, device, key, words } => kept.set(cgroup, *device, key, words),
        Edit::Weight { cgroup, device, weight } => {
            kept.set(cgroup, *device, "io.weight", &weight.to_string())
        }
        Edit::Word { cgroup, key, value } => kept.set(cgroup, None, key, value),
        Edit::OfDevice { device, key, value } => kept.set("/", *device, key, value),
        Edit::Add { kind: "device", name, keys } => kept.add_device(name, keys),
        Edit::Add { kind: "cgroup", name, keys } => kept.add_cgroup(name, keys),
        Edit::Add { name, keys, .. } => kept.add_export(name, keys),
        Edit::Key { kind: "device", name, key, value } => {
            kept.set_device_key(name, key, value.as_ref())
        }
        Edit::Key { name, key, value, .. } => kept.set_export_key(name, key, value.as_ref()),
        Edit::Remove { kind: "device", name } => kept.remove_device(name),
        Edit::Remove { kind: "cgroup", name } => kept.remove_cgroup(name),
        Edit::Remove { name, .. } => kept.remove_export(name),
        Edit::Move { from, parent } => kept.move_cgroup(from, parent),
        Edit::Write | Edit::Discard => Ok(()),
    };
    done.is_ok()
}

/// Whether a line is of the device.
fn is_named(whole: &Table, device: &str) -> bool {
    let is_of =
        |value: &Value| value.as_str().is_some_and(|line| line.split(' ').next() == Some(device));
    let mut values = whole["cgroup"]
        .as_table()
        .unwrap()
        .values()
        .flat_map(|cgroup| cgroup.as_table().unwrap().values());
    values
        .any(|value| value.as_array().map_or_else(|| is_of(value), |lines| lines.iter().any(is_of)))
}

/// A directory of its own, gone at its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("weir-random-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("weir.d")).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `whole` as two files of which one is read over the other: each key of a section is in one of them, by `coins`.
fn split(whole: &Table, coins: u64) -> (String, String) {
    let (mut first, mut second, mut at) = (Table::new(), Table::new(), 0);
    let mut side = |kind: &str, name: Option<&str>, key: Option<(&str, &Value)>| {
        at += 1;
        let table = if coins >> (at % 64) & 1 == 0 { &mut first } else { &mut second };
        let mut table =
            table.entry(kind).or_insert_with(|| Table::new().into()).as_table_mut().unwrap();
        if let Some(name) = name {
            table =
                table.entry(name).or_insert_with(|| Table::new().into()).as_table_mut().unwrap();
        }
        if let Some((key, value)) = key {
            table.insert(key.into(), value.clone());
        }
    };
    for (kind, table) in whole {
        for (name, value) in table.as_table().unwrap() {
            match value {
                Value::Table(section) if kind != "server" => {
                    side(kind, Some(name), None);
                    section
                        .iter()
                        .for_each(|(key, value)| side(kind, Some(name), Some((key, value))));
                }
                value => side(kind, None, Some((name, value))),
            }
        }
    }
    (text(&first), text(&second))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back(one in whole(), other in whole()) {
        let read = |table: &Table| Config::from_str("x", &text(table)).ok();
        if let Some(config) = read(&one) {
            let printed = config.to_toml();
            let commented = config.to_toml_with(|kind, name| Some(format!("{} {name}\n\u{7}", kind.name())));
            for printed in [&printed, &commented] {
                let again = Config::from_str("y", printed);
                prop_assert_eq!(again.as_ref(), Ok(&config), "{}", printed);
            }
            prop_assert_eq!(difference(&config, &config), []);
            if let Some(other) = read(&other) {
                let (there, back) = (difference(&config, &other), difference(&other, &config));
                prop_assert_eq!(there.is_empty(), said(&config) == said(&other), "{:?}", there);
                prop_assert_eq!(there.len(), back.len());
                for difference in there.iter().chain(&back) {
                    prop_assert!(!difference.to_string().contains(char::is_control));
                }
            }
        }
    }

    #[test]
    fn files_over_each_other_say_what_they_would_in_one(whole in whole(), coins in any::<u64>()) {
        let (first, second) = split(&whole, coins);
        let one = Config::from_str("one", &text(&whole));
        match Config::from_texts([("weir.toml", first.as_str()), ("weir.d/1.toml", second.as_str())]) {
            Ok(merged) => {
                let one = one.map_err(|errors| TestCaseError::fail(errors.to_string()))?;
                prop_assert_eq!(difference(&one, &merged), []);
                prop_assert_eq!(said(&one), said(&merged));
            }
            Err(errors) => prop_assert!(one.is_err(), "{errors}"),
        }
    }

    #[test]
    fn edits_say_what_the_model_says(
        base in whole(),
        coins in any::<u64>(),
        edits in proptest::collection::vec(edit(), 1..12),
    ) {
        let directory = Directory::new();
        let main = directory.0.join("weir.toml");
        let (first, second) = split(&base, coins);
        std::fs::write(&main, first).unwrap();
        std::fs::write(directory.0.join("weir.d/10.toml"), second).unwrap();
        let mut model = Model(base.clone());
        let mut written = model.clone();
        let mut kept = Kept::open(&main).unwrap();
        for edit in &edits {
            // A device of an old name has the lines again that the first files say of it, which the model has forgotten.
            if matches!(edit, Edit::Add { kind: "device", name, .. } if is_named(&base, name)) {
                continue;
            }
            let mut changed = model.clone();
            let (before, is_done) = (kept.text(), apply(&mut kept, edit));
            prop_assert_eq!(is_done, changed.apply(edit), "{:?}", edit);
            if !is_done {
                prop_assert_eq!(kept.text(), before, "an edit that is refused changes nothing");
                continue;
            }
            model = changed;
            match (kept.merged(), model.config()) {
                (Ok(merged), Ok(expected)) => {
                    let differences: Vec<String> =
                        difference(&expected, &merged).iter().map(ToString::to_string).collect();
                    prop_assert!(differences.is_empty(), "{edit:?}: {differences:#?}\n{}", kept.text());
                    prop_assert_eq!(said(&expected), said(&merged));
                }
                (Err(errors), Ok(_)) => prop_assert!(false, "{edit:?}: {errors}\n{}", kept.text()),
                (Ok(_), Err(errors)) => prop_assert!(false, "{edit:?}: {errors}\n{}", kept.text()),
                // A line of a device that is not there would be in the model for good.
                (Err(_), Err(_)) if matches!(edit, Edit::Add { .. } | Edit::Limit { .. }) => {
                    kept.discard();
                    model = written.clone();
                }
                // What makes no sense yet may after the next edit.
                (Err(_), Err(_)) => {}
            }
            if matches!(edit, Edit::Discard) {
                kept.discard();
                model = written.clone();
            }
            if matches!(edit, Edit::Write) {
                kept.write().unwrap();
                written = model.clone();
                let (on_disk, merged) = (Config::from_file(&main), kept.merged());
                prop_assert_eq!(on_disk.is_ok(), merged.is_ok());
                if let (Ok(on_disk), Ok(merged)) = (on_disk, merged) {
                    prop_assert_eq!(on_disk, merged);
                }
                kept = Kept::open(&main).unwrap();
            }
        }
        let left = std::fs::read_dir(directory.0.join("weir.d")).unwrap();
        let left: BTreeSet<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        let known = ["10.toml", "50-control.toml", "50-control.toml.previous"];
        prop_assert!(left.iter().all(|name| known.iter().any(|known| name == known)), "{left:?}");
    }
}

/// If few were valid, little would be tested.
#[test]
fn most_configurations_are_valid() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..200).filter(|_| {
        let table = whole().new_tree(&mut runner).unwrap().current();
        Config::from_str("x", &text(&table)).is_ok()
    });
    let count = valid.count();
    assert!(count > 120, "{count} of 200");
}

/// So many that a comparison of each with each would take hours.
#[test]
fn many_cgroups_are_compared() {
    let text = |riops: u32, count: u32| {
        let cgroups: String = (0..count)
            .map(|index| {
                format!("[cgroup.\"/t{index}\"]\n\"io.max\" = \"d riops={}\"\n", riops + index % 2)
            })
            .collect();
        format!(
            "[device.d]\npath = \"memory:1M\"\n[export.x]\ndevice = \"d\"\ncgroup = \"/\"\n{cgroups}"
        )
    };
    let read = |text: &str| Config::from_str("x", text).unwrap();
    let (old, new) = (read(&text(100, 100_000)), read(&text(101, 99_000)));
    let differences = difference(&old, &new);
    assert_eq!(differences.len(), 100_000);
    assert!(differences.windows(2).all(|pair| pair[0].name < pair[1].name));
}
