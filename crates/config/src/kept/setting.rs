//! Settings as `weir set` names them, said in the file.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item, Table, Value};
use weir_engine::settings::BfqSettings;
use weir_engine::{Dimension, PerDimension};
use weir_text::{LimitKey, WeightKey, parse_limits, parse_weight, print_bfq};
use weir_units::nearest;

use super::document::{edit_lines, lines_of, put, section};
use super::error::{KeptError, KeptErrorKind};
use super::others::{self, Parsed, parse};
use super::{Kept, all, borrowed};
use crate::cgroup;
use crate::table::REPLACES;

/// Keys of the root, each set on a device.
const OF_DEVICES: [&str; 4] = ["io.depth", "io.scheduler", "io.bfq", "io.watermark"];
/// Keys of cgroups besides limits and weights: they hold on every device.
const OF_CGROUPS: [&str; 4] = ["io.prio.class", "io.bfq.low_latency", "io.limiter", "io.watermark"];

/// Sections by what they are called in files.
pub(super) const DEVICE: &str = "device";
pub(super) const CGROUP: &str = "cgroup";
pub(super) const EXPORT: &str = "export";

impl Kept {
    /// Says that `key` of `cgroup` is `value` on `device`, on every device without one. Keys are those of `weir set`; for
    /// `/`, those of devices: `io.depth`, `io.scheduler`, `io.bfq` and `io.watermark`. The value is all of it, as it reads
    /// back: of limits, what is not named is no limit, whatever other files say; of bfq, what is not named has its default.
    /// A cgroup that no file has is begun.
    ///
    /// # Errors
    ///
    /// A key, value or device that is unknown; a key that files have only for all devices together; another file that is
    /// read later and says otherwise.
    pub fn set(
        &mut self,
        cgroup: &str,
        device: Option<&str>,
        key: &str,
        value: &str,
    ) -> Result<(), KeptError> {
        let path = path_of(cgroup)?;
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        let devices = files.names(DEVICE);
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        if let Some(device) = device
            && !devices.contains(&device)
        {
            return Err(KeptError::missing(DEVICE, device, devices));
        }
        let others = Others::of(&self.before, &self.after);
        let setting = Setting { others: &others, devices: &devices, device, value };
        self.edited.edit(|document| {
            if path == "/" {
                setting.root(document, key)
            } else {
                setting.cgroup(document, &path, key)
            }
        })
    }
}

/// The path that all ways to write `cgroup` share.
pub(super) fn path_of(cgroup: &str) -> Result<String, KeptError> {
    match cgroup::path(cgroup) {
        Ok(path) => Ok(path.as_str().to_owned()),
        Err((message, meant)) => {
            let hint = meant.map(|meant| format!("write {meant:?}"));
            let hint = hint.unwrap_or_else(|| cgroup::A_PATH.into());
            Err(KeptError::new(KeptErrorKind::Invalid, message, hint))
        }
    }
}

/// Files that are read before and after.
pub(super) struct Others<'t> {
    pub(super) before: Parsed<'t>,
    pub(super) after: Parsed<'t>,
}

impl<'t> Others<'t> {
    pub(super) fn of(before: &'t [(String, String)], after: &'t [(String, String)]) -> Others<'t> {
        Others { before: parse(borrowed(before)), after: parse(borrowed(after)) }
    }

    /// Refuses to say what a later file says too.
    pub(super) fn counts(
        &self,
        kind: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<(), KeptError> {
        let Some(file) = self.after.mentions(kind, name, key) else { return Ok(()) };
        let section = crate::table::join(kind, name);
        let what =
            key.map_or_else(|| format!("[{section}]"), |key| format!("{key} of [{section}]"));
        Err(KeptError::overridden(&what, file))
    }
}

struct Setting<'s> {
    others: &'s Others<'s>,
    /// Names of all devices.
    devices: &'s [&'s str],
    device: Option<&'s str>,
    value: &'s str,
}

impl Setting<'_> {
    fn root(&self, document: &mut DocumentMut, key: &str) -> Result<(), KeptError> {
        if !OF_DEVICES.contains(&key) {
            return Err(unknown(key, &OF_DEVICES, "devices, which is set on the root"));
        }
        let targets = self.device.map_or_else(|| self.devices.to_vec(), |device| vec![device]);
        for device in targets {
            let name = key.strip_prefix("io.").unwrap_or(key);
            self.others.counts(DEVICE, device, Some(name))?;
            if key == "io.bfq" {
                self.bfq(document, device)?;
            } else {
                put(section(document, DEVICE, device)?, name, word(self.value));
            }
        }
        Ok(())
    }

    /// All settings that are not at their defaults.
    fn bfq(&self, document: &mut DocumentMut, device: &str) -> Result<(), KeptError> {
        let settings = weir_text::parse_bfq(self.value, BfqSettings::DEFAULT)
            .map_err(|error| KeptError::invalid("io.bfq", &error, error.hint()))?;
        let mut table = bfq_table(&settings);
        let before = self.others.before.section(DEVICE, device);
        if before.is_some_and(|section| section.get("bfq").is_some()) {
            table.insert(REPLACES, Item::Value(true.into()));
        }
        let device = section(document, DEVICE, device)?;
        match device.get_mut("bfq") {
            // The head of the section keeps its comments and its place.
            Some(Item::Table(old)) => {
                *table.decor_mut() = old.decor().clone();
                table.set_position(old.position());
                *old = table;
            }
            _ => drop(device.insert("bfq", Item::Table(table))),
        }
        Ok(())
    }

    fn cgroup(&self, document: &mut DocumentMut, path: &str, key: &str) -> Result<(), KeptError> {
        let limit = LimitKey::ALL.into_iter().find(|limit| limit.key() == key);
        let weight = WeightKey::ALL.into_iter().find(|weight| weight.key() == key);
        match (limit, weight) {
            (Some(limit), _) => self.limit(document, path, limit),
            (_, Some(weight)) => self.weight(document, path, weight),
            _ if OF_CGROUPS.contains(&key) => {
                if let (Some(device), 2..) = (self.device, self.devices.len()) {
                    let message = format!(
                        "in files {key} is the same on every device, not only on {device:?}"
                    );
                    let hint = "set it on every device".to_owned();
                    return Err(KeptError::new(KeptErrorKind::NotInAFile, message, hint));
                }
                self.others.counts(CGROUP, path, Some(key))?;
                put(section(document, CGROUP, path)?, key, word(self.value));
                Ok(())
            }
            _ => {
                let limits = LimitKey::ALL.map(LimitKey::key);
                let weights = WeightKey::ALL.map(WeightKey::key);
                let known: Vec<&str> =
                    limits.into_iter().chain(weights).chain(OF_CGROUPS).collect();
                Err(unknown(key, &known, "cgroups"))
            }
        }
    }

    fn limit(
        &self,
        document: &mut DocumentMut,
        path: &str,
        limit: LimitKey,
    ) -> Result<(), KeptError> {
        let key = limit.key();
        self.others.counts(CGROUP, path, Some(key))?;
        let values = parse_limits(limit, self.value, PerDimension::NONE)
            .map_err(|error| KeptError::invalid(key, &error, error.hint()))?;
        let table = section(document, CGROUP, path)?;
        // What other lines give to the device has to be taken back.
        let own = lines_of(table, key).into_iter().filter(|line| self.is_kept(line));
        let lines: Vec<String> = own.chain(self.before(path, key)).collect();
        let said: BTreeSet<&str> = lines
            .iter()
            .flat_map(|line| line.split_ascii_whitespace())
            .filter_map(|word| Some(word.split_once('=')?.0))
            .collect();
        let words: Vec<String> = Dimension::ALL
            .into_iter()
            .filter_map(|dimension| match values.get(dimension) {
                Some(value) => Some(format!("{}={value}", dimension.key())),
                None if said.contains(dimension.key()) => Some(format!("{}=max", dimension.key())),
                None => None,
            })
            .collect();
        let line = format!("{} {}", self.device.unwrap_or("*"), words.join(" "));
        let add = if words.is_empty() { Vec::new() } else { vec![line.into()] };
        edit_lines(table, key, |line| self.is_kept(line), add);
        Ok(())
    }

    fn weight(
        &self,
        document: &mut DocumentMut,
        path: &str,
        key: WeightKey,
    ) -> Result<(), KeptError> {
        for key in WeightKey::ALL {
            self.others.counts(CGROUP, path, Some(key.key()))?;
        }
        let line = parse_weight(key, self.value)
            .map_err(|error| KeptError::invalid(key.key(), &error, Some(error.hint().into())))?;
        let (None, Some(weight)) = (line.device, line.weight) else {
            let hint = "write the number alone".to_owned();
            return Err(KeptError::invalid(
                key.key(),
                format!("{:?} names a device", self.value),
                Some(hint),
            ));
        };
        let weight = i64::from(weight.get());
        let table = section(document, CGROUP, path)?;
        let [plain, alias] = WeightKey::ALL.map(WeightKey::key);
        // Both names in one section are an error.
        for line in lines_of(table, alias) {
            edit_lines(table, plain, |_| true, vec![word(&line)]);
        }
        table.remove(alias);
        let add = match self.device {
            Some(device) => vec![format!("{device} {weight}").into()],
            None if WeightKey::ALL.iter().all(|key| self.before(path, key.key()).is_empty()) => {
                vec![weight.into()]
            }
            // Devices with a weight of their own have it no more.
            None => vec!["* default".into(), format!("default {weight}").into()],
        };
        edit_lines(table, plain, |line| self.is_kept(line), add);
        Ok(())
    }

    /// Whether a line stays beside a new one: it is of another device. What is for every device stays where the new line
    /// is for one.
    fn is_kept(&self, line: &str) -> bool {
        let device = self.device;
        device.is_some() && line.split_ascii_whitespace().next() != device
    }

    /// Lines of files that are read before.
    fn before(&self, path: &str, key: &str) -> Vec<String> {
        let section = self.others.before.section(CGROUP, path);
        section.map(|section| others::lines(&section, key)).unwrap_or_default()
    }
}

/// The settings that are not at their defaults.
pub(crate) fn bfq_table(settings: &BfqSettings) -> Table {
    let defaults = print_bfq(&BfqSettings::DEFAULT);
    let defaults: BTreeSet<&str> = defaults.split(' ').collect();
    let mut table = Table::new();
    for said in print_bfq(settings).split(' ').filter(|word| !defaults.contains(word)) {
        if let Some((key, value)) = said.split_once('=') {
            table.insert(key, Item::Value(word(value)));
        }
    }
    table
}

/// A number where it is one.
pub(super) fn word(text: &str) -> Value {
    let text = text.trim();
    let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    number.map_or_else(|| text.into(), Value::from)
}

fn unknown(key: &str, known: &[&str], of: &str) -> KeptError {
    let hint = match nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", crate::table::list(known)),
    };
    let message = format!("{:?} is no key of {of}", crate::value::cut(key));
    KeptError::new(KeptErrorKind::Invalid, message, hint)
}
