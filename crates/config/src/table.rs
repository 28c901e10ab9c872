//! Reader of parsed TOML that keeps positions and reports wrong types.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_units::nearest;

use crate::report::{Problem, Report};
use crate::source::{Span, Text};

/// An example of a number, where it is allowed.
const USUAL_NUMBER: u32 = 32;
/// Longest value that a hint repeats, in bytes.
const WRITTEN_MAX: usize = 40;

/// A table and the key it was given to.
pub(crate) struct Section<'t> {
    /// Dotted, as in errors; empty for the whole file.
    pub(crate) key: String,
    /// The key's place.
    pub(crate) span: Span,
    source: &'t str,
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
    source: &'t str,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Section<'t> {
    /// The whole file.
    pub(crate) fn root(source: &'t str, table: &'t DeTable<'t>) -> Section<'t> {
        Section { key: String::new(), span: Span { start: 0, end: 0 }, source, table }
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Entry<'t>> {
        let (key, value) = self.table.get_key_value(name)?;
        Some(self.entry(key, value))
    }

    /// All keys and values, in the order of the file.
    pub(crate) fn entries(&self) -> Vec<Entry<'t>> {
        let mut entries: Vec<Entry<'t>> =
            self.table.iter().map(|(key, value)| self.entry(key, value)).collect();
        entries.sort_by_key(|entry| entry.key_span);
        entries
    }

    fn entry(&self, key: &'t Spanned<Cow<'t, str>>, value: &'t Spanned<DeValue<'t>>) -> Entry<'t> {
        Entry {
            name: key.get_ref(),
            key: join(&self.key, key.get_ref()),
            key_span: key.span().into(),
            source: self.source,
            value,
        }
    }

    /// Reports every key that is not in `allowed`.
    pub(crate) fn allow(&self, allowed: &[&str], report: &mut Report) {
        for entry in self.entries() {
            if allowed.contains(&entry.name) {
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
        let value = entry.value.get_ref().as_bool();
        if value.is_none() {
            let hint = format!("write `{0} = true` or `{0} = false`, without quotes", quoted(name));
            entry.wrong_type("true or false", hint, report);
        }
        value
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
        self.value.span().into()
    }

    pub(crate) fn section(self, report: &mut Report) -> Option<Section<'t>> {
        let Some(table) = self.value.get_ref().as_table() else {
            let hint = format!("begin a section: `[{}]`", self.key);
            self.wrong_type("a table", hint, report);
            return None;
        };
        Some(Section { key: self.key, span: self.key_span, source: self.source, table })
    }

    pub(crate) fn text(&self, report: &mut Report) -> Option<Text> {
        let text = self.as_text();
        if text.is_none() {
            self.wrong_type("a string", self.in_quotes(), report);
        }
        text
    }

    fn as_text(&self) -> Option<Text> {
        let value = self.value.get_ref().as_str()?;
        let span = self.value.span();
        // Between simple quotes and without escapes the value stands in the file byte for byte.
        let verbatim = self.source.get(span.start + 1..span.end.wrapping_sub(1)) == Some(value);
        let span = if verbatim { span.start + 1..span.end - 1 } else { span };
        Some(Text { value: value.into(), key: self.key.clone(), span: span.into(), verbatim })
    }

    pub(crate) fn amount(&self, report: &mut Report) -> Option<Text> {
        if let Some(text) = self.as_text() {
            return Some(text);
        }
        let Some(integer) = self.value.get_ref().as_integer() else {
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
        let Some(value) = self.value.get_ref().as_bool() else { return self.amount(report) };
        let (value, key) = (value.to_string(), self.key.clone());
        Some(Text { value, key, span: self.span(), verbatim: false })
    }

    pub(crate) fn number(&self, least: u32, most: u32, report: &mut Report) -> Option<u32> {
        let Some(integer) = self.value.get_ref().as_integer() else {
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
        let array = self.value.get_ref().as_array()?;
        Some(array.iter().map(|value| Entry {
            name: self.name,
            key: self.key.clone(),
            key_span: self.key_span,
            source: self.source,
            value,
        }))
    }

    fn wrong_type(&self, expected: &str, hint: String, report: &mut Report) {
        let message = format!("expected {expected}, found {}", found(self.value.get_ref()));
        report.add(Problem::new(self.span(), &self.key, message).hint(hint));
    }

    /// How to write this value as a string.
    fn in_quotes(&self) -> String {
        let name = quoted(self.name);
        let value = self.value.get_ref();
        let written = self.source.get(self.value.span()).filter(|text| text.len() <= WRITTEN_MAX);
        match written {
            Some(text) if !(value.is_array() || value.is_table()) => {
                format!("put it in quotes: `{name} = {text:?}`")
            }
            _ => format!("write one string in quotes: `{name} = \"...\"`"),
        }
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
    let mut value = entry.value.get_ref();
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
