//! Sections that are added, changed and removed.

use toml_edit::{DocumentMut, Item, Table};

use super::document::{edit_lines, lines_of, own_name, put, put_section, section, take_section};
use super::error::{KeptError, KeptErrorKind};
use super::others::{self, item, parse, whole};
use super::setting::{CGROUP, DEVICE, EXPORT, Others, path_of};
use super::{Kept, all};
use crate::table::{REMOVED, REPLACES};

/// Keys of cgroups that have lines.
pub(super) const LISTED: [&str; 5] =
    ["io.max", "io.burst", "io.peak", "io.weight", "io.bfq.weight"];

impl Kept {
    /// Adds `[device.NAME]` with `keys`, as a file has them; tables in them become sections below it.
    ///
    /// # Errors
    ///
    /// There is one of that name, or a later file mentions it. What is wrong with the keys [`Kept::merged`] tells.
    pub fn add_device(&mut self, name: &str, keys: &toml::Table) -> Result<(), KeptError> {
        self.add(DEVICE, name, keys)
    }

    /// Adds `[export.NAME]` with `keys`.
    ///
    /// # Errors
    ///
    /// As of [`Kept::add_device`].
    pub fn add_export(&mut self, name: &str, keys: &toml::Table) -> Result<(), KeptError> {
        self.add(EXPORT, name, keys)
    }

    /// Adds `[cgroup."/PATH"]` with `keys`; none are needed.
    ///
    /// # Errors
    ///
    /// As of [`Kept::add_device`], and a path that cannot be read.
    pub fn add_cgroup(&mut self, path: &str, keys: &toml::Table) -> Result<(), KeptError> {
        self.add(CGROUP, &path_of(path)?, keys)
    }

    /// Sets a key of `[device.NAME]`; without a value it has its default again. Tables stand in place of what was there.
    ///
    /// # Errors
    ///
    /// There is no such device, or a later file has the key. What is wrong with the value [`Kept::merged`] tells.
    pub fn set_device_key(
        &mut self,
        name: &str,
        key: &str,
        value: Option<&toml::Value>,
    ) -> Result<(), KeptError> {
        self.set_key(DEVICE, name, key, value)
    }

    /// Likewise of `[export.NAME]`.
    ///
    /// # Errors
    ///
    /// As of [`Kept::set_device_key`].
    pub fn set_export_key(
        &mut self,
        name: &str,
        key: &str,
        value: Option<&toml::Value>,
    ) -> Result<(), KeptError> {
        self.set_key(EXPORT, name, key, value)
    }

    /// Another size for a device in memory, also an emulated one.
    ///
    /// # Errors
    ///
    /// There is no such device, it is a file, which has its own size, or a later file has its `path`.
    pub fn resize(&mut self, name: &str, bytes: u64) -> Result<(), KeptError> {
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        let path = match files.section(DEVICE, name) {
            Some(section) => others::lines(&section, "path").pop().unwrap_or_default(),
            None => return Err(missing(&files.names(DEVICE), DEVICE, name)),
        };
        let path = if path.starts_with("memory:") {
            format!("memory:{bytes}")
        } else if path.starts_with("emulated:") {
            let others = path.split(',').filter(|word| !word.starts_with("size="));
            let size = format!("size={bytes}");
            others.chain([size.as_str()]).collect::<Vec<_>>().join(",")
        } else {
            let message = format!("device {name:?} is a file, which has its own size");
            let hint = format!("`truncate -s {bytes} {path:?}`, then `weir device resize {name}`");
            return Err(KeptError::new(KeptErrorKind::NotInAFile, message, hint));
        };
        self.set_device_key(name, "path", Some(&path.into()))
    }

    /// Takes `[device.NAME]` away, and with it the lines that name it. Exports of it are an error of [`Kept::merged`].
    ///
    /// # Errors
    ///
    /// There is no such device, or a later file mentions it.
    pub fn remove_device(&mut self, name: &str) -> Result<(), KeptError> {
        self.remove(DEVICE, name)
    }

    /// Takes `[export.NAME]` away.
    ///
    /// # Errors
    ///
    /// As of [`Kept::remove_device`].
    pub fn remove_export(&mut self, name: &str) -> Result<(), KeptError> {
        self.remove(EXPORT, name)
    }

    /// Takes `[cgroup."/PATH"]` away; those below it stay. Exports that lead there are an error of [`Kept::merged`].
    ///
    /// # Errors
    ///
    /// As of [`Kept::remove_device`].
    pub fn remove_cgroup(&mut self, path: &str) -> Result<(), KeptError> {
        self.remove(CGROUP, &path_of(path)?)
    }

    fn add(&mut self, kind: &str, name: &str, keys: &toml::Table) -> Result<(), KeptError> {
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        if files.section(kind, name).is_some() {
            let message = format!("there is {kind} {name:?} already");
            let hint = "choose another name, or remove it first".to_owned();
            return Err(KeptError::new(KeptErrorKind::Exists, message, hint));
        }
        let others = Others::of(&self.before, &self.after);
        others.counts(kind, name, None)?;
        let mut table = Table::new();
        if others.before.section(kind, name).is_some() {
            table.insert(REPLACES, Item::Value(true.into()));
        }
        let keys = others::table(keys);
        keys.into_iter().for_each(|(key, item)| drop(table.insert(&key, item)));
        self.edited.edit(|document| put_section(document, kind, name, table))
    }

    fn set_key(
        &mut self,
        kind: &str,
        name: &str,
        key: &str,
        value: Option<&toml::Value>,
    ) -> Result<(), KeptError> {
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        let Some(found) = files.section(kind, name) else {
            return Err(missing(&files.names(kind), kind, name));
        };
        let others = Others::of(&self.before, &self.after);
        others.counts(kind, name, Some(key))?;
        let before = others.before.section(kind, name);
        let is_before = before.is_some_and(|section| section.get(key).is_some());
        self.edited.edit(|document| match value {
            Some(toml::Value::Table(keys)) => {
                let mut table = others::table(keys);
                if is_before {
                    table.insert(REPLACES, Item::Value(true.into()));
                }
                section(document, kind, name)?.insert(key, Item::Table(table));
                Ok(())
            }
            Some(value) => {
                let table = section(document, kind, name)?;
                match item(value) {
                    Item::Value(value) => put(table, key, value),
                    item => drop(table.insert(key, item)),
                }
                Ok(())
            }
            None if is_before => {
                // No file can take back a single key of an earlier one.
                let mut table = whole(&found, &[], &[]);
                table.remove(key);
                table.insert(REPLACES, Item::Value(true.into()));
                put_section(document, kind, name, table)
            }
            None => {
                if own_name(document, kind, name).is_some() {
                    section(document, kind, name)?.remove(key);
                }
                Ok(())
            }
        })
    }

    fn remove(&mut self, kind: &str, name: &str) -> Result<(), KeptError> {
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        if files.section(kind, name).is_none() {
            return Err(missing(&files.names(kind), kind, name));
        }
        let others = Others::of(&self.before, &self.after);
        others.counts(kind, name, None)?;
        let listed = files.names(CGROUP);
        self.edited.edit(|document| {
            if kind == DEVICE {
                forget_device(document, name);
            }
            let is_before = others.before.section(kind, name).is_some();
            let is_told = is_before || kind == DEVICE && names_device(&others.before, name);
            take_away(document, kind, name, is_told)?;
            if kind == CGROUP {
                keep_parent(document, &listed, name)?;
            }
            Ok(())
        })
    }
}

/// Takes a section out; `is_told` says so to earlier files.
pub(super) fn take_away(
    document: &mut DocumentMut,
    kind: &str,
    name: &str,
    is_told: bool,
) -> Result<(), KeptError> {
    if !is_told {
        take_section(document, kind, name);
        return Ok(());
    }
    let mut table = Table::new();
    table.insert(REMOVED, Item::Value(true.into()));
    put_section(document, kind, name, table)
}

/// The cgroup above `path` was there because of it, and stays.
pub(super) fn keep_parent(
    document: &mut DocumentMut,
    listed: &[String],
    path: &str,
) -> Result<(), KeptError> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if !parent.is_empty() && !listed.iter().any(|path| path == parent) {
        section(document, CGROUP, parent)?;
    }
    Ok(())
}

/// Takes out the lines of the file that name the device.
fn forget_device(document: &mut DocumentMut, device: &str) {
    let sections = document.get_mut(CGROUP).and_then(Item::as_table_like_mut);
    for (_, section) in sections.into_iter().flat_map(|sections| sections.iter_mut()) {
        let Some(table) = section.as_table_like_mut() else { continue };
        for key in LISTED {
            if lines_of(table, key).iter().any(|line| is_of(line, device)) {
                edit_lines(table, key, |line| !is_of(line, device), Vec::new());
            }
        }
    }
}

fn is_of(line: &str, device: &str) -> bool {
    line.split_ascii_whitespace().next() == Some(device)
}

/// Whether a line of these files names the device.
fn names_device(files: &others::Parsed<'_>, device: &str) -> bool {
    let sections = files.sections(CGROUP);
    let lines = |(_, section): &(String, _)| {
        LISTED.iter().any(|key| others::lines(section, key).iter().any(|line| is_of(line, device)))
    };
    sections.iter().any(lines)
}

fn missing(names: &[String], kind: &str, name: &str) -> KeptError {
    KeptError::missing(kind, name, names.iter().map(String::as_str))
}
