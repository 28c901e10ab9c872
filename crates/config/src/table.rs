//! Reader of parsed TOML that keeps positions and reports wrong types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_units::nearest;

use crate::report::{Problem, Report};
use crate::source::{Layer, Span, Text};
use crate::value::cut;

/// An example of a number, where it is allowed.
const USUAL_NUMBER: u32 = 32;
/// Longest value that a hint repeats, in bytes.
const WRITTEN_MAX: usize = 40;

/// `true` in a section of a later file: what earlier files say in that section is taken away.
pub(crate) const REMOVED: &str = "removed";
/// `true` in a section of a later file: it stands in place of that section in earlier files.
pub(crate) const REPLACES: &str = "replaces";

/// What a table is, as far as files that are read over each other are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// A whole file.
    Top,
    /// `[device]`, `[cgroup]`, `[export]` or `[peer]`: sections by their names.
    Names,
    /// One of those sections. Later files can extend, replace or remove it.
    Named,
    /// `[server]`, `[tls]`, or a table in a section. Later files can extend or replace it.
    Settings,
}

impl Level {
    /// The level of the table `name` in this one.
    pub(crate) fn below(self, name: &str) -> Level {
        match self {
            Level::Top if ["server", "tls", "record"].contains(&name) => Level::Settings,
            Level::Top => Level::Names,
            Level::Names => Level::Named,
            Level::Named | Level::Settings => Level::Settings,
        }
    }

    /// Keys that say how a table of this level stands to those of earlier files.
    pub(crate) fn marks(self) -> &'static [&'static str] {
        match self {
            Level::Top | Level::Names => &[],
            Level::Named => &[REMOVED, REPLACES],
            Level::Settings => &[REPLACES],
        }
    }
}

/// A table and the key it was given to; in the order of the files, where several have it.
pub(crate) struct Section<'t> {
    /// Dotted, as in errors; empty for the whole file.
    pub(crate) key: String,
    /// The key's place.
    pub(crate) span: Span,
    level: Level,
    parts: Vec<Part<'t>>,
}

/// What one file has of a section.
#[derive(Clone, Copy)]
struct Part<'t> {
    file: Layer<'t>,
    table: &'t DeTable<'t>,
}

/// A value and the key it was given to.
pub(crate) struct Entry<'t> {
    /// The last part of the key.
    pub(crate) name: &'t str,
    /// Dotted, as in errors.
    pub(crate) key: String,
    /// The key's place.
    pub(crate) key_span: Span,
    /// The first place of the key, in whatever file: sections keep their order.
    first: Span,
    level: Level,
    /// What counts; never empty. The last is the value, those before are tables that it extends.
    said: Vec<Said<'t>>,
}

/// What one file says of a key.
#[derive(Clone, Copy)]
struct Said<'t> {
    file: Layer<'t>,
    key: &'t Spanned<Cow<'t, str>>,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Said<'t> {
    fn key_span(&self) -> Span {
        self.file.place(self.key.span())
    }

    /// Whether it is a table with `mark = true`.
    fn is_marked(&self, mark: &str) -> bool {
        let value = self.value.get_ref().as_table().and_then(|table| table.get(mark));
        value.is_some_and(|value| value.get_ref().as_bool() == Some(true))
    }

    /// Adds it to what earlier files say.
    fn extend(self, level: Level, said: &mut Vec<Said<'t>>) {
        let is_table = |said: &Said<'_>| said.value.get_ref().is_table();
        let marked = |mark| level.marks().contains(&mark) && self.is_marked(mark);
        if marked(REMOVED) {
            return said.clear();
        }
        let extends = is_table(&self) && said.last().is_some_and(is_table);
        if !extends || marked(REPLACES) {
            said.clear();
        }
        said.push(self);
    }
}

impl<'t> Section<'t> {
    /// All of several files, of which the later say what counts.
    pub(crate) fn merged(
        files: impl IntoIterator<Item = (Layer<'t>, &'t DeTable<'t>)>,
    ) -> Section<'t> {
        let parts = files.into_iter().map(|(file, table)| Part { file, table }).collect();
        let span = Span { start: 0, end: 0 };
        Section { key: String::new(), span, level: Level::Top, parts }
    }

    /// What each file has of it.
    pub(crate) fn files(&self) -> impl Iterator<Item = Section<'t>> {
        self.parts.iter().map(|part| Section {
            key: self.key.clone(),
            span: self.span,
            level: self.level,
            parts: vec![*part],
        })
    }

    /// Names of the files whose say counts.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = &'t str> {
        self.parts.iter().map(|part| part.file.name)
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Entry<'t>> {
        let said = self.parts.iter().filter_map(|part| {
            let (key, value) = part.table.get_key_value(name)?;
            Some(Said { file: part.file, key, value })
        });
        self.entry(said)
    }

    /// All keys and values, in the order of the files.
    pub(crate) fn entries(&self) -> Vec<Entry<'t>> {
        let said = self.parts.iter().flat_map(|part| {
            part.table.iter().map(|(key, value)| Said { file: part.file, key, value })
        });
        let mut entries: Vec<Entry<'t>> = if self.parts.len() == 1 {
            said.filter_map(|said| self.entry([said])).collect()
        } else {
            let mut by_name: BTreeMap<Cow<'t, str>, Vec<Said<'t>>> = BTreeMap::new();
            for said in said {
                by_name.entry(self.one_name(said.key.get_ref())).or_default().push(said);
            }
            by_name.into_values().filter_map(|said| self.entry(said)).collect()
        };
        entries.sort_by_key(|entry| entry.first);
        entries
    }

    /// Names of tables that a file removes, and none after it has, each with that file.
    pub(crate) fn removed(&self) -> BTreeMap<Cow<'t, str>, Layer<'t>> {
        let mut removed = BTreeMap::new();
        // The first file removes nothing.
        for part in self.parts.iter().skip(1) {
            for (key, value) in part.table {
                let name = self.one_name(key.get_ref());
                match (Said { file: part.file, key, value }).is_marked(REMOVED) {
                    true => removed.insert(name, part.file),
                    false => removed.remove(&name),
                };
            }
        }
        removed
    }

    /// The name that all ways to write `name` in this section share.
    fn one_name(&self, name: &'t str) -> Cow<'t, str> {
        if self.level == Level::Names { one_name(&self.key, name) } else { name.into() }
    }

    /// What counts of what the files say, one after another, of one key; `None` where that is nothing.
    fn entry(&self, files: impl IntoIterator<Item = Said<'t>>) -> Option<Entry<'t>> {
        let mut files = files.into_iter().peekable();
        let first = files.peek()?;
        let (first, level) = (first.key_span(), self.level.below(first.key.get_ref()));
        let mut said = Vec::with_capacity(1);
        files.for_each(|file| file.extend(level, &mut said));
        let oldest: &Said<'t> = said.first()?;
        let (name, key_span) = (oldest.key.get_ref(), oldest.key_span());
        Some(Entry { name, key: join(&self.key, name), key_span, first, level, said })
    }

    /// Reports every key that is not in `allowed`.
    pub(crate) fn allow(&self, allowed: &[&str], report: &mut Report) {
        for entry in self.files().flat_map(|file| file.entries()) {
            if allowed.contains(&entry.name) || self.level.marks().contains(&entry.name) {
                continue;
            }
            let hint = match nearest(entry.name, allowed.iter().copied()) {
                Some(near) => format!("did you mean `{}`?", quoted(near)),
                // `io.max = ...` without quotes is a table `io` to TOML.
                None => match nearest(&whole_key(&entry), allowed.iter().copied()) {
                    Some(near) => format!("quote the whole key: `\"{near}\"`"),
                    None => format!("known keys: {}", list(allowed)),
                },
            };
            let problem = Problem::new(entry.key_span, &entry.key, "unknown key").hint(hint);
            report.add(problem);
        }
    }

    /// The value of a key that must be there.
    pub(crate) fn need(&self, name: &str, example: &str, report: &mut Report) -> Option<Entry<'t>> {
        let entry = self.get(name);
        if entry.is_none() {
            let message = format!("the key `{name}` is missing");
            let hint = format!("for example `{name} = {example}`");
            report.add(Problem::new(self.span, &self.key, message).hint(hint));
        }
        entry
    }

    /// The value of `name` if it is a table.
    pub(crate) fn section(&self, name: &str, report: &mut Report) -> Option<Section<'t>> {
        self.get(name)?.section(report)
    }

    /// The value of `name` if it is a string.
    pub(crate) fn text(&self, name: &str, report: &mut Report) -> Option<Text> {
        self.get(name)?.text(report)
    }

    /// The value of `name` as a string; an integer gives its digits.
    pub(crate) fn amount(&self, name: &str, report: &mut Report) -> Option<Text> {
        self.get(name)?.amount(report)
    }

    /// The value of `name` if it is `true` or `false`.
    pub(crate) fn switch(&self, name: &str, report: &mut Report) -> Option<bool> {
        let entry = self.get(name)?;
        let value = entry.value().as_bool();
        if value.is_none() {
            let hint = format!("write `{0} = true` or `{0} = false`, without quotes", quoted(name));
            entry.wrong_type("true or false", hint, report);
        }
        value
    }

    /// The value of `name` if it is true or false; `None` where it is `word`, too.
    pub(crate) fn switch_or(&self, name: &str, word: &str, report: &mut Report) -> Option<bool> {
        let entry = self.get(name)?;
        let value = entry.value();
        if value.as_bool().is_none() && value.as_str() != Some(word) {
            let key = quoted(name);
            let hint = format!("write `{key} = true`, `{key} = false` or `{key} = {word:?}`");
            match value.as_str() {
                Some(other) => {
                    let message = format!("{:?} is not true, false or {word:?}", cut(other));
                    report.add(Problem::new(entry.span(), &entry.key, message).hint(hint));
                }
                None => entry.wrong_type(&format!("true, false or {word:?}"), hint, report),
            }
        }
        value.as_bool()
    }

    /// The value of `name` if it is an integer from `least` to `most`.
    pub(crate) fn number(
        &self,
        name: &str,
        least: u32,
        most: u32,
        report: &mut Report,
    ) -> Option<u32> {
        self.get(name)?.number(least, most, report)
    }
}

impl<'t> Entry<'t> {
    /// The place of the value.
    pub(crate) fn span(&self) -> Span {
        self.last().file.place(self.local_span())
    }

    /// The place of the value in its file.
    fn local_span(&self) -> Range<usize> {
        self.last().value.span()
    }

    fn last(&self) -> &Said<'t> {
        self.said.last().expect("an entry has a value")
    }

    fn value(&self) -> &'t DeValue<'t> {
        self.last().value.get_ref()
    }

    pub(crate) fn section(self, report: &mut Report) -> Option<Section<'t>> {
        if !self.value().is_table() {
            let hint = format!("begin a section: `[{}]`", self.key);
            self.wrong_type("a table", hint, report);
            return None;
        }
        let table = |said: &Said<'t>| {
            Some(Part { file: said.file, table: said.value.get_ref().as_table()? })
        };
        let parts = self.said.iter().filter_map(table).collect();
        Some(Section { key: self.key, span: self.key_span, level: self.level, parts })
    }

    pub(crate) fn text(&self, report: &mut Report) -> Option<Text> {
        let text = self.as_text();
        if text.is_none() {
            self.wrong_type("a string", self.in_quotes(), report);
        }
        text
    }

    fn as_text(&self) -> Option<Text> {
        let value = self.value().as_str()?;
        let (file, span) = (self.last().file, self.local_span());
        // Between simple quotes and without escapes the value stands in the file byte for byte.
        let verbatim = file.text.get(span.start + 1..span.end.wrapping_sub(1)) == Some(value);
        let span = if verbatim { span.start + 1..span.end - 1 } else { span };
        Some(Text { value: value.into(), key: self.key.clone(), span: file.place(span), verbatim })
    }

    pub(crate) fn amount(&self, report: &mut Report) -> Option<Text> {
        if let Some(text) = self.as_text() {
            return Some(text);
        }
        let Some(integer) = self.value().as_integer() else {
            let hint = "write a whole number, or text in quotes".to_owned();
            self.wrong_type("a string or a whole number", hint, report);
            return None;
        };
        let value = match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => number.to_string(),
            Err(_) => integer.as_str().into(),
        };
        Some(Text { value, key: self.key.clone(), span: self.span(), verbatim: false })
    }

    /// The value as a word: a string, a whole number, or `true` or `false`.
    pub(crate) fn word(&self, report: &mut Report) -> Option<Text> {
        let Some(value) = self.value().as_bool() else { return self.amount(report) };
        let (value, key) = (value.to_string(), self.key.clone());
        Some(Text { value, key, span: self.span(), verbatim: false })
    }

    pub(crate) fn number(&self, least: u32, most: u32, report: &mut Report) -> Option<u32> {
        let Some(integer) = self.value().as_integer() else {
            let expected = format!("a whole number from {least} to {most}");
            let example = USUAL_NUMBER.clamp(least, most);
            let hint = format!("without quotes, such as `{} = {example}`", quoted(self.name));
            self.wrong_type(&expected, hint, report);
            return None;
        };
        let written = i128::from_str_radix(integer.as_str(), integer.radix());
        let number = written
            .clone()
            .ok()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let message = format!("{} is not between {least} and {most}", integer.as_str());
            let is_small = written.is_ok_and(|number| number < i128::from(least));
            let nearest = if is_small { least } else { most };
            let hint = format!("write `{} = {nearest}`", quoted(self.name));
            report.add(Problem::new(self.span(), &self.key, message).hint(hint));
        }
        number
    }

    /// The value as it stands in its file; `None` where it is a table.
    pub(crate) fn raw(&self) -> Option<&'t str> {
        if self.value().is_table() {
            return None;
        }
        self.last().file.text.get(self.local_span())
    }

    /// Whether it is an array of nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.value().as_array().is_some_and(|array| array.is_empty())
    }

    /// A string, or each string of an array.
    pub(crate) fn texts(&self, report: &mut Report) -> Vec<Text> {
        let Some(elements) = self.elements() else {
            if self.as_text().is_none() {
                self.wrong_type("a string or an array of strings", self.in_quotes(), report);
            }
            return self.as_text().into_iter().collect();
        };
        elements.filter_map(|element| element.text(report)).collect()
    }

    /// A string or an integer, or each of an array.
    pub(crate) fn amounts(&self, report: &mut Report) -> Vec<Text> {
        match self.elements() {
            Some(elements) => elements.filter_map(|element| element.amount(report)).collect(),
            None => self.amount(report).into_iter().collect(),
        }
    }

    /// The values of an array, as if each had been given to the key alone.
    fn elements(&self) -> Option<impl Iterator<Item = Entry<'t>>> {
        let array = self.value().as_array()?;
        Some(array.iter().map(|value| Entry {
            name: self.name,
            key: self.key.clone(),
            key_span: self.key_span,
            first: self.first,
            level: self.level,
            said: vec![Said { value, ..*self.last() }],
        }))
    }

    fn wrong_type(&self, expected: &str, hint: String, report: &mut Report) {
        let message = format!("expected {expected}, found {}", found(self.value()));
        report.add(Problem::new(self.span(), &self.key, message).hint(hint));
    }

    /// How to write this value as a string.
    fn in_quotes(&self) -> String {
        let name = quoted(self.name);
        let value = self.value();
        let written =
            self.last().file.text.get(self.local_span()).filter(|text| text.len() <= WRITTEN_MAX);
        match written {
            Some(text) if !(value.is_array() || value.is_table()) => {
                format!("put it in quotes: `{name} = {text:?}`")
            }
            _ => format!("write one string in quotes: `{name} = \"...\"`"),
        }
    }
}

/// The name that all ways to write `name` share, where it is that of a section of `kind`.
pub(crate) fn one_name<'n>(kind: &str, name: &'n str) -> Cow<'n, str> {
    match weir_engine::Path::parse(name) {
        Ok(path) if kind == "cgroup" => path.as_str().to_owned().into(),
        _ => name.into(),
    }
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// `parent.name`, quoted as TOML needs it.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { quoted(name) } else { format!("{parent}.{}", quoted(name)) }
}

/// The dotted name of `entry` as in the file.
fn whole_key(entry: &Entry<'_>) -> String {
    let mut whole = entry.name.to_owned();
    let mut value = entry.value();
    while let Some((key, inner)) = value.as_table().and_then(|table| table.iter().next()) {
        whole = format!("{whole}.{}", key.get_ref());
        value = inner.get_ref();
    }
    whole
}

/// `name` as a TOML key.
fn quoted(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.into() } else { format!("{name:?}") }
}

/// `a, b and c`.
pub(crate) fn list<T: AsRef<str>>(words: &[T]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        text.push_str(match index {
            0 => "",
            _ if index + 1 == words.len() => " and ",
            _ => ", ",
        });
        text.push_str(word.as_ref());
    }
    text
}
