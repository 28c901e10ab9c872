//! From bytes to sections of `key=value` lines, with the place of each.

use std::collections::BTreeMap;
use std::ops::Range;

use super::VALUE_BYTES_MAX;
use super::error::{Collector, Place, Problem};

/// A `[name]` and the lines under it.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) place: Place,
    pub(super) entries: Vec<Entry<'a>>,
}

impl Section<'_> {
    /// Whether it speaks to the jobs below it. fio compares no more than the first six letters.
    pub(super) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// One option.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) key_place: Place,
    /// None for a flag that stands alone.
    pub(super) value: Option<String>,
    pub(super) value_place: Place,
}

/// Words that fio replaces by what it finds on the machine.
const MACHINE_KEYWORDS: [&str; 3] = ["$ncpus", "$pagesize", "$mb_memory"];

/// Splits `bytes` into sections; lines in error are left out and noted.
pub(super) fn sections<'a>(
    bytes: &'a [u8],
    env: &BTreeMap<String, String>,
    errors: &mut Collector,
) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    // The header of a section whose name was refused; its options are then no strangers.
    let mut lost = false;
    let mut start = 0;
    let bom = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    for (number, raw) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = Line { bytes, number: number + 1, start };
        start += raw.len() + 1;
        let from = if number == 0 { line.start + bom } else { line.start };
        let range = line.trimmed(from..line.start + raw.len());
        match bytes.get(range.start).filter(|_| !range.is_empty()) {
            None | Some(b';' | b'#') => {}
            Some(b'[') => match line.header(range, errors) {
                Some(section) => {
                    lost = false;
                    sections.push(section);
                }
                None => lost = true,
            },
            Some(_) => {
                let Some(entry) = line.entry(range, env, errors) else { continue };
                match sections.last_mut() {
                    _ if lost => {}
                    Some(section) => section.entries.push(entry),
                    None => errors.add(&entry.key_place, || Problem::OutsideSection {
                        option: entry.key.into(),
                    }),
                }
            }
        }
    }
    sections
}

/// One line of the file; ranges are of the whole file.
struct Line<'a> {
    bytes: &'a [u8],
    number: usize,
    start: usize,
}

impl<'a> Line<'a> {
    fn place(&self, span: Range<usize>) -> Place {
        Place { line: self.number, column: span.start - self.start + 1, span }
    }

    fn trimmed(&self, mut range: Range<usize>) -> Range<usize> {
        while !range.is_empty() && self.bytes[range.start].is_ascii_whitespace() {
            range.start += 1;
        }
        while !range.is_empty() && self.bytes[range.end - 1].is_ascii_whitespace() {
            range.end -= 1;
        }
        range
    }

    fn text(&self, range: Range<usize>, errors: &mut Collector) -> Option<&'a str> {
        let text = str::from_utf8(&self.bytes[range.clone()]).ok();
        if text.is_none() {
            errors.add(&self.place(range), || Problem::NotUtf8);
        }
        text
    }

    /// `[name]`, and at most a comment after it. A name may contain what would begin a comment elsewhere.
    fn header(&self, range: Range<usize>, errors: &mut Collector) -> Option<Section<'a>> {
        let place = self.place(range.clone());
        let Some(len) = self.bytes[range.clone()].iter().position(|&byte| byte == b']') else {
            errors.add(&place, || Problem::SectionUnclosed);
            return None;
        };
        let after = self.trimmed(range.start + len + 1..range.end);
        if !after.is_empty() && !matches!(self.bytes[after.start], b';' | b'#') {
            let text = self.text(after.clone(), errors)?;
            errors.add(&self.place(after), || Problem::AfterSection { text: text.into() });
            return None;
        }
        let name = self.text(self.trimmed(range.start + 1..range.start + len), errors)?;
        if name.is_empty() {
            errors.add(&place, || Problem::SectionUnnamed);
            return None;
        }
        Some(Section { name, place, entries: Vec::new() })
    }

    /// `key`, `key=value` or `include FILE`. As in fio, the first `;` or `#` ends the line, even inside a value.
    fn entry(
        &self,
        range: Range<usize>,
        env: &BTreeMap<String, String>,
        errors: &mut Collector,
    ) -> Option<Entry<'a>> {
        let comment = self.bytes[range.clone()].iter().position(|byte| matches!(byte, b';' | b'#'));
        let range = self.trimmed(range.start..comment.map_or(range.end, |at| range.start + at));
        let text = self.text(range.clone(), errors)?;
        if let Some(path) = text.strip_prefix("include")
            && path.starts_with(|c: char| c.is_ascii_whitespace())
        {
            let path = path.trim_ascii();
            if !path.starts_with('=') {
                errors.add(&self.place(range), || Problem::Include { path: path.into() });
                return None;
            }
        }
        let Some(equals) = text.find('=') else {
            let place = self.place(range);
            return Some(Entry {
                key: text,
                key_place: place.clone(),
                value: None,
                value_place: place,
            });
        };
        let key_range = self.trimmed(range.start..range.start + equals);
        let value_range = self.trimmed(range.start + equals + 1..range.end);
        let key = text[..equals].trim_ascii();
        let value = text[equals + 1..].trim_ascii();
        let value_place = self.place(value_range);
        match expand(value, env) {
            Ok(value) => Some(Entry {
                key,
                key_place: self.place(key_range),
                value: Some(value),
                value_place,
            }),
            Err(problem) => {
                errors.add(&value_place, || problem);
                None
            }
        }
    }
}

/// `value` with its `${NAME}`s filled in, once: what a variable brings is not looked through again.
fn expand(value: &str, env: &BTreeMap<String, String>) -> Result<String, Problem> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let (name, tail) = after.split_once('}').ok_or(Problem::UnclosedVariable)?;
        let brought = env.get(name).ok_or_else(|| Problem::UnsetVariable { name: name.into() })?;
        // Looked at before it grows: variables in number times their length could fill the memory.
        if expanded.len() + brought.len() > VALUE_BYTES_MAX {
            return Err(Problem::ValueTooLong);
        }
        expanded.push_str(brought);
        rest = tail;
    }
    expanded.push_str(rest);
    if expanded.len() > VALUE_BYTES_MAX {
        return Err(Problem::ValueTooLong);
    }
    if let Some(keyword) = MACHINE_KEYWORDS.into_iter().find(|keyword| expanded.contains(keyword)) {
        return Err(Problem::MachineKeyword { keyword });
    }
    Ok(expanded)
}
