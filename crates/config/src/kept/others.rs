//! Texts of files, as far as edits look at them: which sections and keys they have.

use toml::Spanned;
use toml::de::DeTable;
use toml_edit::{InlineTable, Item, Table, Value};

use crate::report::Report;
use crate::source::Layer;
use crate::table::{Entry, REMOVED, REPLACES, Section, one_name};

/// Parsed texts of files, in their order.
pub(crate) struct Parsed<'t> {
    files: Vec<(Layer<'t>, Spanned<DeTable<'t>>)>,
}

/// The parsed `texts` with their names; what is no TOML is left out.
pub(crate) fn parse<'t>(texts: impl IntoIterator<Item = (&'t str, &'t str)>) -> Parsed<'t> {
    let mut start = 0;
    let mut files = Vec::new();
    for (name, text) in texts {
        if let Ok(table) = DeTable::parse(text) {
            files.push((Layer { name, text, start }, table));
        }
        start += text.len() + 1;
    }
    Parsed { files }
}

impl<'t> Parsed<'t> {
    fn root(&self) -> Section<'_> {
        Section::merged(self.files.iter().map(|(layer, table)| (*layer, table.get_ref())))
    }

    /// All sections of `kind`, each by the name that all ways to write it share.
    pub(crate) fn sections(&self, kind: &str) -> Vec<(String, Section<'_>)> {
        let mut unread = Report::default();
        let Some(section) = self.root().section(kind, &mut unread) else { return Vec::new() };
        let named = section.entries().into_iter().filter_map(|entry| {
            let name = one_name(kind, entry.name).into_owned();
            Some((name, entry.section(&mut unread)?))
        });
        named.collect()
    }

    /// `[server]`, or what else stands alone at the top of a file.
    pub(crate) fn alone(&self, name: &str) -> Option<Section<'_>> {
        self.root().section(name, &mut Report::default())
    }

    /// Names of all sections of `kind`.
    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        self.sections(kind).into_iter().map(|(name, _)| name).collect()
    }

    /// Names of devices that a file takes away.
    pub(super) fn removed_devices(&self) -> Vec<String> {
        let section = self.root().section("device", &mut Report::default());
        let removed = section.map(|section| section.removed()).unwrap_or_default();
        removed.into_keys().map(std::borrow::Cow::into_owned).collect()
    }

    /// The section `name` of `kind`.
    pub(super) fn section(&self, kind: &str, name: &str) -> Option<Section<'_>> {
        self.sections(kind)
            .into_iter()
            .find_map(|(found, section)| (found == name).then_some(section))
    }

    /// The file that says something of `key` in the section `name` of `kind`, or takes the section away; without a key:
    /// that mentions it.
    pub(super) fn mentions(&self, kind: &str, name: &str, key: Option<&str>) -> Option<&'t str> {
        self.files.iter().find_map(|(layer, table)| {
            let sections = table.get_ref().get(kind)?.get_ref().as_table()?;
            let (_, found) =
                sections.iter().find(|(key, _)| one_name(kind, key.get_ref()) == name)?;
            let has = |key| found.get_ref().as_table().is_none_or(|table| table.contains_key(key));
            let is_said = key.is_none_or(|key| has(key) || has(REMOVED) || has(REPLACES));
            is_said.then_some(layer.name)
        })
    }
}

/// The texts that a key's lines have, over all files.
pub(super) fn lines(section: &Section<'_>, key: &str) -> Vec<String> {
    let mut unread = Report::default();
    let entries: Vec<Entry<'_>> = section.files().filter_map(|file| file.get(key)).collect();
    entries
        .into_iter()
        .flat_map(|entry| entry.amounts(&mut unread))
        .map(|text| text.value)
        .collect()
}

/// All that counts in `section`, to be written into one file. Lines of `listed` keys are put together, those of `removed`
/// devices left out.
pub(super) fn whole(section: &Section<'_>, listed: &[&str], removed: &[String]) -> Table {
    let mut table = Table::new();
    for entry in section.entries() {
        let name = entry.name;
        if [REMOVED, REPLACES].contains(&name) {
            continue;
        }
        if listed.contains(&name) {
            let values = section.files().filter_map(|file| file.get(name)?.raw()?.parse().ok());
            let mut lines: Vec<Value> =
                values.flat_map(elements).filter(|line| !is_of_any(line, removed)).collect();
            let value = match lines.len() {
                0 => continue,
                1 => lines.remove(0),
                _ => lines.into_iter().collect::<toml_edit::Array>().into(),
            };
            table.insert(name, Item::Value(value));
        } else if let Some(value) = entry.raw().and_then(|raw| raw.parse::<Value>().ok()) {
            table.insert(name, Item::Value(plain(value)));
        } else if let Some(below) = entry.section(&mut Report::default()) {
            table.insert(name, Item::Table(whole(&below, &[], removed)));
        }
    }
    table
}

/// Whether a line names one of `devices`.
fn is_of_any(line: &Value, devices: &[String]) -> bool {
    let first = line.as_str().unwrap_or_default().split_ascii_whitespace().next();
    first.is_some_and(|first| devices.iter().any(|device| device == first))
}

/// The elements of an array, or a value alone.
pub(super) fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(array) => array.into_iter().map(plain).collect(),
        value => vec![plain(value)],
    }
}

/// `value` without what stands around it.
fn plain(mut value: Value) -> Value {
    value.decor_mut().clear();
    value
}

/// A value as an item of a document: tables become sections.
pub(super) fn item(value: &toml::Value) -> Item {
    match value {
        toml::Value::Table(keys) => Item::Table(table(keys)),
        value => Item::Value(leaf(value)),
    }
}

/// A section with these keys.
pub(super) fn table(keys: &toml::Table) -> Table {
    let mut table = Table::new();
    // Keys first: what follows the head of a section below belongs to that.
    let (below, own): (Vec<_>, Vec<_>) = keys.iter().partition(|(_, value)| value.is_table());
    for (key, value) in own.into_iter().chain(below) {
        table.insert(key, item(value));
    }
    table
}

fn leaf(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(is_on) => (*is_on).into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => Value::Array(values.iter().map(leaf).collect()),
        toml::Value::Table(keys) => {
            let pairs = keys.iter().map(|(key, value)| (key.as_str(), leaf(value)));
            Value::InlineTable(pairs.collect::<InlineTable>())
        }
    }
}
