//! `govern.toml`: devices that `weir govern` governs, and limits of cgroups that have none.

use std::io;
use std::path::{Path, PathBuf};

use weir_engine::settings::{Headroom, WatermarkMode};
use weir_engine::{Dimension, PerDimension};
use weir_govern::host::{Selector, SelectorKind};
use weir_govern::kernel::DeviceNumber;
use weir_govern::{IoMax, Mode, Settings};
use weir_text::{DeviceRef, LimitKey, parse_limits, parse_watermark, split_device};

use crate::error::ConfigErrors;
use crate::load;
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::table::{Entry, Section};
use crate::value;

/// Most devices: each is sampled twenty times a second, by one thread.
const DEVICES_MAX: usize = 64;
/// Most selectors: each new cgroup is compared with all of them.
const RULES_MAX: usize = 1_000;

const KEYS: [&str; 2] = ["io.max", "io.watermark"];
const DEVICE_KEYS: [&str; 2] = ["watermark", "model"];

/// What `weir govern` is told by its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GovernConfig {
    /// Settings of devices that have none of their own.
    pub settings: Option<Settings>,
    /// Devices, in the order of the file.
    pub devices: Vec<GovernDevice>,
    /// Rules, in the order of the file: the first that selects a cgroup counts.
    pub rules: Vec<GovernRule>,
}

/// `[device."/dev/sdb"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernDevice {
    /// A device, partition, mount point or path, as on the command line.
    pub path: String,
    /// Its own settings.
    pub settings: Option<Settings>,
    /// A model that `weir calibrate` has written.
    pub model: Option<PathBuf>,
}

/// `[cgroup."/PATH"]`, `[unit.NAME]`, `[container.ID]`, `[pod.UID]` or `[user.UID]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernRule {
    /// Which cgroups.
    pub selector: Selector,
    /// The section, as in the file.
    pub name: String,
    /// Settings of those, and of what is below them.
    pub settings: Option<Settings>,
    lines: Vec<Line>,
}

/// A line of `io.max`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    device: RuleDevice,
    /// Its words, checked.
    words: String,
}

/// The device of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleDevice {
    Any,
    Number(DeviceNumber),
    Name(String),
}

impl GovernConfig {
    /// Reads the file at `path`. Paths of models that do not begin with `/` are beside it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn from_file(path: &Path) -> Result<GovernConfig, ConfigErrors> {
        let mut config = load::file_with(path, hint, read)?;
        let directory = load::beside(path);
        for model in config.devices.iter_mut().filter_map(|device| device.model.as_mut()) {
            *model = directory.join(&*model);
        }
        Ok(config)
    }

    /// Reads `text`; errors call it `name`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str(name: &str, text: &str) -> Result<GovernConfig, ConfigErrors> {
        load::load(name, text, read)
    }
}

impl GovernRule {
    /// Limits on the device with this number and this name in `/sys/block`.
    pub fn limits(&self, number: DeviceNumber, name: &str) -> IoMax {
        let is_meant = |line: &&Line| match &line.device {
            RuleDevice::Any => true,
            RuleDevice::Number(other) => *other == number,
            RuleDevice::Name(other) => other == name,
        };
        let limits = self.lines.iter().filter(is_meant).fold(PerDimension::NONE, |limits, line| {
            // Checked when the file was read.
            parse_limits(LimitKey::Max, &line.words, limits).unwrap_or(limits)
        });
        let of = |dimension| limits.get(dimension).map(|value| value.get());
        IoMax {
            rbps: of(Dimension::Rbps),
            wbps: of(Dimension::Wbps),
            riops: of(Dimension::Riops),
            wiops: of(Dimension::Wiops),
        }
    }
}

/// Reads `PERCENT [mode=proportional|gate]`.
///
/// # Errors
/// What is wrong with it, and a hint.
pub fn govern_settings(text: &str) -> Result<Settings, (String, Option<String>)> {
    let watermark = parse_watermark(text).map_err(|error| (error.to_string(), error.hint()))?;
    let refuse = |message: &str, hint: &str| Err((message.to_owned(), Some(hint.to_owned())));
    if watermark.percent() == 0 {
        return refuse(
            "a watermark of 0 never raises a limit",
            "allowed are 1 to 100; the limits alone do that without `weir govern`",
        );
    }
    let mode = match watermark.mode() {
        WatermarkMode::Proportional { headroom: Headroom::Strict } => {
            return refuse("`reserve` is a setting of `weir serve` alone", "leave it out");
        }
        mode @ WatermarkMode::Gate { .. } if mode != WatermarkMode::GATE => {
            return refuse("`period` is a setting of `weir serve` alone", "leave it out");
        }
        WatermarkMode::Proportional { .. } => Mode::Proportional,
        WatermarkMode::Gate { .. } => Mode::Gate,
    };
    Ok(Settings { watermark_permille: u16::from(watermark.percent()) * 10, mode })
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "none is needed: `weir govern DEVICE`; docs/govern.md shows one",
        _ => "it must be a file that this user may read",
    }
}

fn read(root: &Section<'_>, report: &mut Report) -> Option<GovernConfig> {
    let mut allowed = vec!["watermark", "device"];
    allowed.extend(SelectorKind::ALL.map(SelectorKind::name));
    root.allow(&allowed, report);
    let settings = settings(root, "watermark", report);
    let devices = devices(root, report);
    let mut entries: Vec<(SelectorKind, Entry<'_>)> = Vec::new();
    for kind in SelectorKind::ALL {
        let section = root.section(kind.name(), report);
        let of_kind = section.map(|section| section.entries()).unwrap_or_default();
        entries.extend(of_kind.into_iter().map(|entry| (kind, entry)));
    }
    entries.sort_by_key(|(_, entry)| entry.key_span);
    if let Some((_, entry)) = entries.get(RULES_MAX) {
        let message = format!("more than {RULES_MAX} selectors");
        let hint = "patterns select many: `[cgroup.\"/tenants.slice/*\"]`".to_owned();
        report.add(Problem::new(entry.key_span, &entry.key, message).hint(hint));
        return None;
    }
    let rules = entries.into_iter().filter_map(|(kind, entry)| rule(kind, entry, report)).collect();
    Some(GovernConfig { settings, devices, rules })
}

fn devices(root: &Section<'_>, report: &mut Report) -> Vec<GovernDevice> {
    let section = root.section("device", report);
    let entries = section.map(|section| section.entries()).unwrap_or_default();
    if let Some(entry) = entries.get(DEVICES_MAX) {
        let message = format!("more than {DEVICES_MAX} devices");
        let hint = "a second `weir govern` takes the others".to_owned();
        report.add(Problem::new(entry.key_span, &entry.key, message).hint(hint));
        return Vec::new();
    }
    let device = |entry: Entry<'_>| {
        let path = entry.name.to_owned();
        let section = entry.section(report)?;
        section.allow(&DEVICE_KEYS, report);
        let settings = settings(&section, "watermark", report);
        let model = section.text("model", report).and_then(|text| value::path(&text, report));
        Some(GovernDevice { path, settings, model })
    };
    entries.into_iter().filter_map(device).collect()
}

fn rule(kind: SelectorKind, entry: Entry<'_>, report: &mut Report) -> Option<GovernRule> {
    let selector = Selector::parse(kind, entry.name);
    if let Err(error) = selector {
        let problem = Problem::new(entry.key_span, &entry.key, error.to_string());
        report.add(problem.hint(error.hint().to_owned()));
    }
    let (name, span) = (entry.key.clone(), entry.key_span);
    let section = entry.section(report)?;
    section.allow(&KEYS, report);
    let settings = settings(&section, "io.watermark", report);
    let texts = section.get("io.max").map(|entry| entry.texts(report)).unwrap_or_default();
    let lines: Vec<Line> = texts.iter().filter_map(|text| line(text, report)).collect();
    if KEYS.iter().all(|key| section.get(key).is_none()) {
        let message = "the section has neither `io.max` nor `io.watermark`";
        let hint = "for example `\"io.max\" = \"rbps=20M wbps=20M\"`".to_owned();
        report.add(Problem::new(span, &name, message).hint(hint));
    }
    Some(GovernRule { selector: selector.ok()?, name, settings, lines })
}

/// Reads `[DEVICE] KEY=VALUE...`.
fn line(text: &Text, report: &mut Report) -> Option<Line> {
    let first = text.value.split_ascii_whitespace().next().unwrap_or_default();
    let (device, words) = if first.contains('=') {
        (RuleDevice::Any, text.value.as_str())
    } else {
        let split = split_device(&text.value);
        let (device, words) =
            split.map_err(|error| report.refuse(text, error.to_string(), error.hint())).ok()?;
        let device = match device {
            DeviceRef::Any => RuleDevice::Any,
            DeviceRef::Number { major, minor } => RuleDevice::Number(DeviceNumber { major, minor }),
            DeviceRef::Name(name) => RuleDevice::Name(name.to_owned()),
        };
        (device, words)
    };
    let mut is_good = true;
    for word in words.split_ascii_whitespace() {
        let problem = match parse_limits(LimitKey::Max, word, PerDimension::NONE) {
            Err(error) => Some((error.to_string(), error.hint())),
            Ok(_) if word.starts_with("rwbps") || word.starts_with("rwiops") => {
                let hint = "write one of reads and one of writes, such as \"rbps=20M wbps=20M\"";
                Some(("the kernel has no limit on both directions".into(), Some(hint.into())))
            }
            Ok(_) => None,
        };
        if let Some((message, hint)) = problem {
            is_good = false;
            report.add(Problem::new(text.place_of(word), &text.key, message).hint(hint));
        }
    }
    is_good.then(|| Line { device, words: words.to_owned() })
}

fn settings(section: &Section<'_>, key: &str, report: &mut Report) -> Option<Settings> {
    let text = section.amount(key, report)?;
    govern_settings(&text.value).map_err(|(message, hint)| report.refuse(&text, message, hint)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

    #[test]
    fn rules_are_in_the_order_of_the_file() {
        let text = r#"
            watermark = "85 mode=gate"
            [device."/srv/data"]
            model = "sdb.model.toml"
            watermark = 90
            [unit.backup]
            "io.max" = ["rbps=20M", "sdb wbps=10M", "8:0 wbps=1M"]
            [cgroup."/tenants.slice/*"]
            "io.watermark" = "70"
            [unit."db@*.service"]
            "io.max" = "riops=500"
        "#;
        let config = GovernConfig::from_str("govern.toml", text).expect("it is good");
        let gate = Settings { watermark_permille: 850, mode: Mode::Gate };
        assert_eq!(config.settings, Some(gate));
        let device = &config.devices[0];
        assert_eq!(
            (device.path.as_str(), device.model.as_deref()),
            ("/srv/data", Some(Path::new("sdb.model.toml")))
        );
        assert_eq!(device.settings.map(|settings| settings.watermark_permille), Some(900));
        let names: Vec<&str> = config.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["unit.backup", "cgroup.\"/tenants.slice/*\"", "unit.\"db@*.service\""]);
        let on = |number: DeviceNumber, name: &str| config.rules[0].limits(number, name);
        let reads = IoMax { rbps: Some(20 << 20), ..IoMax::default() };
        assert_eq!(on(SDB, "sdb"), IoMax { wbps: Some(10 << 20), ..reads });
        assert_eq!(
            on(DeviceNumber { major: 8, minor: 0 }, "sda"),
            IoMax { wbps: Some(1 << 20), ..reads }
        );
        assert_eq!(on(DeviceNumber { major: 7, minor: 0 }, "loop0"), reads);
        assert!(config.rules[1].limits(SDB, "sdb").is_max());
    }

    #[test]
    fn all_mistakes_are_reported_with_their_places() {
        let text = "watermark = 0\n[cgroup.\"a\"]\n\"io.max\" = \"rbps=20M rwbps=1M wbps=x\"\n[user.alice]\n\"io.watermark\" = \"90 reserve=kept\"\n[unit.x]\n[conta.y]\n";
        let errors = GovernConfig::from_str("govern.toml", text).expect_err("it is wrong");
        let errors: Vec<String> = errors.errors().iter().map(ToString::to_string).collect();
        let wanted = [
            "govern.toml:1:13: watermark: a watermark of 0 never raises a limit",
            "govern.toml:2:9: cgroup.a: a cgroup's path begins with a slash",
            "govern.toml:3:22: cgroup.a.\"io.max\": the kernel has no limit on both directions",
            "govern.toml:3:31: cgroup.a.\"io.max\": wbps: ",
            "govern.toml:4:7: user.alice: a user is selected by number",
            "govern.toml:5:19: user.alice.\"io.watermark\": `reserve` is a setting of `weir serve` alone",
            "govern.toml:6:7: unit.x: the section has neither",
            "govern.toml:7:2: conta: unknown key",
        ];
        assert_eq!(errors.len(), wanted.len(), "{errors:#?}");
        for (error, wanted) in errors.iter().zip(wanted) {
            assert!(error.starts_with(wanted), "{error}\n{wanted}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_a_configuration_or_refused(
            text in "\\PC*|(\\[(cgroup|unit|device)\\.\"?[/a-z*]{1,4}\"?\\]\n(\"io.max\" = \"[a-z]{0,3} ?[rw]?(bps|iops)=[0-9Mmax]{1,4}\"\n)?){0,4}",
        ) {
            if let Ok(config) = GovernConfig::from_str("x", &text) {
                for rule in config.rules {
                    let _ = rule.limits(SDB, "sdb");
                }
            }
        }
    }
}
