//! The file's text as a document that can be edited.

use toml_edit::{Array, DocumentMut, Item, RawString, Table, TableLike, Value};

use super::HEAD;
use super::error::{KeptError, KeptErrorKind};
use super::others::elements;
use crate::table::{REMOVED, REPLACES, one_name};

/// The text of the file below [`HEAD`].
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Comments of a file without any section.
    comments: String,
    document: DocumentMut,
}

impl Document {
    /// `text` has been read before and is TOML.
    pub(super) fn of(text: &str) -> Document {
        let below = text.strip_prefix(HEAD).unwrap_or(text);
        let mut document: DocumentMut = below.parse().unwrap_or_default();
        let mut comments = String::new();
        if document.is_empty() {
            // They would come after what is added.
            comments = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(RawString::default());
        }
        Document { comments, document }
    }

    pub(super) fn text(&self) -> String {
        format!("{HEAD}{}{}", self.comments, self.document)
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.document.is_empty()
    }

    /// Applies `edit` to a copy, so that one that is refused in the middle changes nothing.
    pub(super) fn edit(
        &mut self,
        edit: impl FnOnce(&mut DocumentMut) -> Result<(), KeptError>,
    ) -> Result<(), KeptError> {
        let mut document = self.document.clone();
        edit(&mut document)?;
        self.document = document;
        Ok(())
    }
}

/// The sections of `kind`.
fn sections<'d>(
    document: &'d mut DocumentMut,
    kind: &str,
) -> Result<&'d mut dyn TableLike, KeptError> {
    let item = document.entry(kind).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_like_mut().ok_or_else(|| no_table(kind))
}

fn no_table(key: &str) -> KeptError {
    let hint = "put it right by hand".to_owned();
    KeptError::new(KeptErrorKind::Invalid, format!("{key} is no section in {}", super::NAME), hint)
}

/// How the document writes the name of the section `name` of `kind`, if it has it.
pub(super) fn own_name(document: &DocumentMut, kind: &str, name: &str) -> Option<String> {
    let sections = document.get(kind)?.as_table_like()?;
    let found = sections.iter().find(|(key, _)| one_name(kind, key) == name);
    found.map(|(key, _)| key.to_owned())
}

/// The section `name` of `kind`; it is begun where there is none, and begun anew where it was removed.
pub(super) fn section<'d>(
    document: &'d mut DocumentMut,
    kind: &str,
    name: &str,
) -> Result<&'d mut dyn TableLike, KeptError> {
    let own = own_name(document, kind, name).unwrap_or_else(|| name.to_owned());
    let sections = sections(document, kind)?;
    if !sections.contains_key(&own) {
        sections.insert(&own, Item::Table(apart(Table::new())));
    }
    let found = sections.get_mut(&own).and_then(Item::as_table_like_mut);
    let table = found.ok_or_else(|| no_table(&format!("{kind}.{name}")))?;
    if table.remove(REMOVED).is_some() {
        table.insert(REPLACES, Item::Value(true.into()));
    }
    Ok(table)
}

/// Puts `table` in place of the section `name` of `kind`.
pub(super) fn put_section(
    document: &mut DocumentMut,
    kind: &str,
    name: &str,
    table: Table,
) -> Result<(), KeptError> {
    let own = own_name(document, kind, name).unwrap_or_else(|| name.to_owned());
    let sections = sections(document, kind)?;
    let mut table = apart(table);
    match sections.get_mut(&own) {
        Some(item) => {
            if let Some(old) = item.as_table() {
                *table.decor_mut() = old.decor().clone();
                table.set_position(old.position());
            }
            *item = Item::Table(table);
        }
        None => drop(sections.insert(&own, Item::Table(table))),
    }
    Ok(())
}

/// Takes the section `name` of `kind` out, if it is there, and returns it.
pub(super) fn take_section(document: &mut DocumentMut, kind: &str, name: &str) -> Option<Item> {
    let own = own_name(document, kind, name)?;
    let sections = document.get_mut(kind)?.as_table_like_mut()?;
    let item = sections.remove(&own);
    if sections.is_empty() {
        document.remove(kind);
    }
    item
}

/// A new section, with an empty line before it.
fn apart(mut table: Table) -> Table {
    table.decor_mut().set_prefix("\n");
    table
}

/// Sets `key`, and keeps the comments around it.
pub(super) fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(item) => {
            if let Some(old) = item.as_value() {
                *value.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Lines of `key`: those that `keep` takes stay, `add` come after them.
pub(super) fn edit_lines(
    table: &mut dyn TableLike,
    key: &str,
    keep: impl Fn(&str) -> bool,
    add: Vec<Value>,
) {
    let keep = |value: &Value| keep(&text_of(value));
    if let Some(array) = table.get_mut(key).and_then(Item::as_array_mut) {
        array.retain(keep);
        add.into_iter().for_each(|line| array.push(line));
        if array.is_empty() {
            table.remove(key);
        }
        return;
    }
    let old = table.get(key).and_then(Item::as_value).cloned();
    let kept = old.into_iter().flat_map(elements).filter(keep);
    let mut lines: Vec<Value> = kept.chain(add).collect();
    match lines.len() {
        0 => drop(table.remove(key)),
        1 => put(table, key, lines.remove(0)),
        _ => put(table, key, Value::Array(lines.into_iter().collect::<Array>())),
    }
}

/// Lines of `key`.
pub(super) fn lines_of(table: &dyn TableLike, key: &str) -> Vec<String> {
    let value = table.get(key).and_then(Item::as_value).cloned();
    value.into_iter().flat_map(elements).map(|value| text_of(&value)).collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string().trim().to_owned(), str::to_owned)
}
