//! A configuration as the text of a file.

use toml_edit::{Array, DocumentMut, Item, Table, Value as Edited};

use crate::difference::SectionKind;
use crate::model::{Config, DeviceConfig};
use crate::statement::{Described, Statement, Value};

impl Config {
    /// The text of a file that says the same, without what is so by default. Read on its own it gives an equal
    /// configuration, if it stands where relative paths in it mean the same: those that were read from a file are absolute.
    pub fn to_toml(&self) -> String {
        self.to_toml_with(|_, _| None)
    }

    /// Likewise, with a comment before each section for which `comment` has one: its kind and name are given.
    pub fn to_toml_with(
        &self,
        mut comment: impl FnMut(SectionKind, &str) -> Option<String>,
    ) -> String {
        let Config { server, tls, record, devices, cgroups, exports, peers, tokens } = self;
        let mut document = DocumentMut::new();
        let mut printer = Printer { config: self, is_first: true, comment: &mut comment };
        let server = printer.section(SectionKind::Server, "", Described::Server(server));
        if !server.is_empty() {
            document.insert(SectionKind::Server.name(), Item::Table(server));
        }
        if let Some(tls) = tls {
            let tls = printer.section(SectionKind::Tls, "", Described::Tls(tls));
            document.insert(SectionKind::Tls.name(), Item::Table(tls));
        }
        if let Some(record) = record {
            let record = printer.section(SectionKind::Record, "", Described::Record(record));
            document.insert(SectionKind::Record.name(), Item::Table(record));
        }
        let devices = devices
            .iter()
            .map(|device| (device.name.as_str(), Described::Device(device)))
            .collect::<Vec<_>>();
        printer.sections(&mut document, SectionKind::Device, devices);
        let cgroups = cgroups
            .iter()
            .map(|cgroup| (cgroup.path.as_str(), Described::Cgroup(cgroup)))
            .collect::<Vec<_>>();
        printer.sections(&mut document, SectionKind::Cgroup, cgroups);
        let exports = exports
            .iter()
            .map(|export| (export.name.as_str(), Described::Export(export)))
            .collect::<Vec<_>>();
        printer.sections(&mut document, SectionKind::Export, exports);
        let peers = peers
            .iter()
            .map(|peer| (peer.name.as_str(), Described::Peer(peer, None)))
            .collect::<Vec<_>>();
        printer.sections(&mut document, SectionKind::Peer, peers);
        let tokens = tokens
            .iter()
            .map(|token| (token.name.as_str(), Described::Token(token)))
            .collect::<Vec<_>>();
        printer.sections(&mut document, SectionKind::Token, tokens);
        document.to_string()
    }
}

struct Printer<'p> {
    config: &'p Config,
    is_first: bool,
    comment: &'p mut dyn FnMut(SectionKind, &str) -> Option<String>,
}

impl Printer<'_> {
    fn sections(
        &mut self,
        document: &mut DocumentMut,
        kind: SectionKind,
        sections: Vec<(&str, Described<'_>)>,
    ) {
        let mut names = Table::new();
        names.set_implicit(true);
        for (name, section) in sections {
            names.insert(name, Item::Table(self.section(kind, name, section)));
        }
        if !names.is_empty() {
            document.insert(kind.name(), Item::Table(names));
        }
    }

    fn section(&mut self, kind: SectionKind, name: &str, section: Described<'_>) -> Table {
        let mut table = Table::new();
        for statement in section.statements(self.config) {
            if let (false, Some(value)) = (statement.is_default, &statement.value) {
                put(&mut table, &statement, value, &self.config.devices);
            }
        }
        if kind == SectionKind::Server && table.is_empty() {
            return table;
        }
        let mut prefix = if self.is_first { String::new() } else { "\n".into() };
        self.is_first = false;
        for line in (self.comment)(kind, name).iter().flat_map(|comment| comment.lines()) {
            // Control characters have no place in a comment.
            let line: String = line.chars().filter(|c| !c.is_control()).collect();
            prefix += &format!("# {line}\n");
        }
        table.decor_mut().set_prefix(prefix);
        table
    }
}

/// Adds what `statement` says; a line of one device comes after those of the same key.
fn put(table: &mut Table, statement: &Statement, value: &Value, devices: &[DeviceConfig]) {
    let Some((last, above)) = statement.key.split_last() else { return };
    let mut table = table;
    for name in above {
        let below = table.entry(name).or_insert_with(|| {
            let mut below = Table::new();
            below.set_implicit(true);
            Item::Table(below)
        });
        let Some(below) = below.as_table_mut() else { return };
        table = below;
    }
    let value = match statement.device {
        Some(device) => format!("{} {}", devices[device].name, value.text()).into(),
        None => edited(value),
    };
    match table.get_mut(last).and_then(Item::as_value_mut) {
        None => drop(table.insert(last, Item::Value(value))),
        Some(Edited::Array(lines)) => lines.push(value),
        Some(first) => *first = [first.clone(), value].into_iter().collect::<Array>().into(),
    }
}

fn edited(value: &Value) -> Edited {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Number(number) => match i64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => number.to_string().into(),
        },
        Value::Switch(is_on) => (*is_on).into(),
        Value::List(texts) => match texts.as_slice() {
            [text] => text.as_str().into(),
            texts => texts.iter().map(String::as_str).collect::<Array>().into(),
        },
    }
}
