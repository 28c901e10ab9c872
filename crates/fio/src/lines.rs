//! Lines of job files: from bytes to sections of `key=value` lines, with the place of each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::command::CommandSection;
use super::error::{Collector, Place, Problem};
use super::input::{Input, JobText};
use super::{FILE_BYTES_MAX, INCLUDES_MAX, VALUE_BYTES_MAX};

#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    pub(super) place: Place,
    pub(super) entries: Vec<Entry<'a>>,
    /// The first job of a file after another file.
    pub(super) is_after_file: bool,
}

impl Section<'_> {
    /// Whether it is a `[global]`. fio compares at most the first six letters.
    pub(super) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) key_place: Place,
    /// None for a flag that stands alone.
    pub(super) value: Option<String>,
    pub(super) value_place: Place,
}

/// Words that fio replaces by figures of the machine.
const MACHINE_KEYWORDS: [&str; 3] = ["$ncpus", "$pagesize", "$mb_memory"];

/// Sections of all files of `input`, those of its command line first; lines with errors are left out.
pub(super) fn sections<'a>(input: &'a Input, errors: &mut Collector) -> Vec<Section<'a>> {
    let mut reading = Reading {
        sections: Vec::new(),
        is_lost: false,
        env: &input.env,
        order: 0,
        bytes: 0,
        includes: 0,
        errors,
    };
    for section in &input.command.sections {
        reading.command_section(section);
    }
    for (number, text) in input.files.iter().enumerate() {
        let file = (number > 0).then(|| Arc::from(text.name.as_str()));
        let first = reading.sections.len();
        // Options above a file's first section do not belong to the file before.
        reading.is_lost = false;
        reading.file(text, &file, Start::File { first });
        if number > 0 {
            let jobs = &mut reading.sections[first..];
            if let Some(job) = jobs.iter_mut().find(|section| !section.is_global()) {
                job.is_after_file = true;
            }
        }
    }
    reading.sections
}

pub(super) fn included_paths(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|&byte| byte == b'\n').filter_map(|line| {
        let end = line.iter().position(|byte| matches!(byte, b';' | b'#')).unwrap_or(line.len());
        included_path(str::from_utf8(&line[..end]).ok()?.trim_ascii())
    })
}

fn included_path(line: &str) -> Option<&str> {
    let path = line.strip_prefix("include")?;
    let is_include = path.starts_with(|c: char| c.is_ascii_whitespace() || c == '=');
    is_include.then(|| path.trim_ascii_start().trim_start_matches('=').trim_ascii())
}

/// Section that a file's first lines belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// None, before its first section: sections from `first` on are its own.
    File {
        first: usize,
    },
    Included,
}

struct Reading<'a, 'e> {
    sections: Vec<Section<'a>>,
    /// The header of a section was refused, so its options are no further errors.
    is_lost: bool,
    env: &'a BTreeMap<String, String>,
    /// Lines and arguments so far.
    order: usize,
    /// Bytes of files so far, and files included.
    bytes: usize,
    includes: usize,
    errors: &'e mut Collector,
}

impl<'a> Reading<'a, '_> {
    fn command_section(&mut self, section: &'a CommandSection) {
        let place = self.argument(&section.argument);
        let entries = section.options.iter().map(|option| {
            let place = self.argument(&option.argument);
            Entry {
                key: &option.key,
                key_place: place.clone(),
                // As in fio, variables are for the shell.
                value: option.value.clone(),
                value_place: place,
            }
        });
        let entries = entries.collect();
        self.sections.push(Section { name: &section.name, place, entries, is_after_file: false });
    }

    fn argument(&mut self, argument: &str) -> Place {
        self.order += 1;
        Place { file: Some(argument.into()), line: 0, column: 0, order: self.order }
    }

    fn file(&mut self, text: &'a JobText, file: &Option<Arc<str>>, from: Start) {
        let bytes = text.bytes.as_slice();
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > FILE_BYTES_MAX {
            let bytes = self.bytes;
            let place = Place { file: file.clone(), order: self.order, ..Place::top() };
            self.errors.add(&place, || Problem::FileTooLong { bytes });
            return;
        }
        let bom = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut start = 0;
        for (number, raw) in bytes.split(|&byte| byte == b'\n').enumerate() {
            self.order += 1;
            let line = Line { bytes, number: number + 1, start, order: self.order, file };
            start += raw.len() + 1;
            let first = if number == 0 { line.start + bom } else { line.start };
            let range = line.trimmed(first..line.start + raw.len());
            match bytes.get(range.start).filter(|_| !range.is_empty()) {
                None | Some(b';' | b'#') => {}
                Some(b'[') if from == Start::Included => {
                    self.errors.add(&line.place(range), || Problem::SectionIncluded);
                }
                Some(b'[') => match line.header(range, self.errors) {
                    Some(section) => {
                        self.is_lost = false;
                        self.sections.push(section);
                    }
                    None => self.is_lost = true,
                },
                Some(_) => self.entry(&line, range, text, from),
            }
        }
    }

    fn entry(&mut self, line: &Line<'a, '_>, range: Range<usize>, text: &'a JobText, from: Start) {
        let Some((range, option)) = line.uncommented(range, self.errors) else { return };
        let is_outside = match from {
            Start::File { first } => !self.is_lost && self.sections.len() == first,
            Start::Included => false,
        };
        if is_outside {
            let place = line.place(range);
            let key = option.split('=').next().unwrap_or(option).trim_ascii();
            self.errors.add(&place, || Problem::OutsideSection { option: key.into() });
            return;
        }
        let Some(path) = included_path(option) else {
            let Some(entry) = line.entry(range, option, self.env, self.errors) else { return };
            match self.sections.last_mut() {
                Some(section) if !self.is_lost => section.entries.push(entry),
                _ => {}
            }
            return;
        };
        let refused = match text.included.get(path) {
            Some(Ok(included)) if self.includes < INCLUDES_MAX => {
                self.includes += 1;
                let name = Some(Arc::from(included.name.as_str()));
                return self.file(included, &name, Start::Included);
            }
            Some(Ok(_)) => Problem::ManyIncludes,
            Some(Err(reason)) => Problem::Include { path: path.into(), reason: reason.clone() },
            None => Problem::Include {
                path: path.into(),
                reason: "no files are included here; write its options in its place".into(),
            },
        };
        self.errors.add(&line.place(range), || refused);
    }
}

/// One line of the file; ranges are of the whole file.
struct Line<'a, 'f> {
    bytes: &'a [u8],
    number: usize,
    start: usize,
    order: usize,
    file: &'f Option<Arc<str>>,
}

impl<'a> Line<'a, '_> {
    fn place(&self, span: Range<usize>) -> Place {
        let (file, order) = (self.file.clone(), self.order);
        Place { file, line: self.number, column: span.start - self.start + 1, order }
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
        Some(Section { name, place, entries: Vec::new(), is_after_file: false })
    }

    /// The line before its comment. As in fio, the first `;` or `#` ends the line, even inside a value.
    fn uncommented(
        &self,
        range: Range<usize>,
        errors: &mut Collector,
    ) -> Option<(Range<usize>, &'a str)> {
        let comment = self.bytes[range.clone()].iter().position(|byte| matches!(byte, b';' | b'#'));
        let range = self.trimmed(range.start..comment.map_or(range.end, |at| range.start + at));
        let text = self.text(range.clone(), errors)?;
        Some((range, text))
    }

    /// `key` or `key=value`: `text`, at `range`.
    fn entry(
        &self,
        range: Range<usize>,
        text: &'a str,
        env: &BTreeMap<String, String>,
        errors: &mut Collector,
    ) -> Option<Entry<'a>> {
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

/// `value` with its `${NAME}`s replaced, once: values are not searched again.
fn expand(value: &str, env: &BTreeMap<String, String>) -> Result<String, Problem> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let (name, tail) = after.split_once('}').ok_or(Problem::UnclosedVariable)?;
        let brought = env.get(name).ok_or_else(|| Problem::UnsetVariable { name: name.into() })?;
        // Checked before it grows: many long variables could fill the memory.
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
