//! A cgroup that moves below another one, with all that is below it.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item};

use super::document::{own_name, put, put_section, section, take_section};
use super::error::{KeptError, KeptErrorKind};
use super::others::{self, parse, whole};
use super::section::{LISTED, keep_parent, take_away};
use super::setting::{CGROUP, EXPORT, Others, path_of};
use super::{Kept, all};
use crate::table::{REMOVED, REPLACES};

impl Kept {
    /// Moves the cgroup `from` below `parent`: `/a/b` and `/c` make `/c/b`. Cgroups below it follow with all they have, and
    /// exports lead there as before.
    ///
    /// # Errors
    ///
    /// No file has it, or one of the new name is there; `parent` is in `from`; a later file mentions one of them.
    pub fn move_cgroup(&mut self, from: &str, parent: &str) -> Result<(), KeptError> {
        let (from, parent) = (path_of(from)?, path_of(parent)?);
        let name = from.rsplit_once('/').map_or("", |(_, name)| name);
        let to = path_of(&format!("{}/{name}", parent.trim_end_matches('/')))?;
        let invalid = |message: String, hint: &str| {
            Err(KeptError::new(KeptErrorKind::Invalid, message, hint.to_owned()))
        };
        if name.is_empty() {
            return invalid("the root cannot be moved".into(), "move one below it");
        }
        if to == from {
            return invalid(format!("{from} is below {parent} already"), "name another parent");
        }
        if below(&parent, &from).is_some() {
            return invalid(format!("{parent} is in {from}"), "name a parent outside of it");
        }
        let own = self.own();
        let files = parse(all(&self.before, &own, &self.after));
        let (sections, removed) = (files.sections(CGROUP), files.removed_devices());
        let listed: Vec<String> = sections.iter().map(|(path, _)| path.clone()).collect();
        let exports: Vec<(String, String)> = files
            .sections(EXPORT)
            .into_iter()
            .filter_map(|(name, section)| {
                let cgroup = path_of(&others::lines(&section, "cgroup").pop()?).ok()?;
                Some((name, format!("{to}{}", below(&cgroup, &from)?)))
            })
            .collect();
        let moved: Vec<_> = sections
            .iter()
            .filter_map(|(path, section)| {
                Some((path, format!("{to}{}", below(path, &from)?), section))
            })
            .collect();
        if moved.is_empty() && exports.is_empty() {
            return Err(KeptError::missing(CGROUP, &from, listed.iter().map(String::as_str)));
        }
        if let Some(there) = listed.iter().find(|path| below(path, &to).is_some()) {
            let message = format!("there is {there:?} already");
            let hint = "move or remove it first".to_owned();
            return Err(KeptError::new(KeptErrorKind::Exists, message, hint));
        }
        let others = Others::of(&self.before, &self.after);
        for (old, new, _) in &moved {
            others.counts(CGROUP, old, None)?;
            others.counts(CGROUP, new, None)?;
        }
        for (export, _) in &exports {
            others.counts(EXPORT, export, Some("cgroup"))?;
        }
        let before: BTreeSet<String> = others.before.names(CGROUP).into_iter().collect();
        let is_before = |path: &str| before.contains(path);
        self.edited.edit(|document| {
            for (old, new, found) in &moved {
                if own_name(document, CGROUP, new).is_some() || is_before(old) || is_before(new) {
                    let mut table = whole(found, &LISTED, &removed);
                    if is_before(new) {
                        table.insert(REPLACES, Item::Value(true.into()));
                    }
                    put_section(document, CGROUP, new, table)?;
                    take_away(document, CGROUP, old, is_before(old))?;
                } else {
                    rename(document, old, new)?;
                }
            }
            for (export, cgroup) in &exports {
                put(section(document, EXPORT, export)?, "cgroup", cgroup.as_str().into());
            }
            // An export may lead to a cgroup that is only there because of one below it.
            if !moved.is_empty() {
                keep_parent(document, &listed, &from)?;
            } else if !exports.is_empty() {
                section(document, CGROUP, &to)?;
            }
            Ok(())
        })
    }
}

/// What follows `above` in `path`, if it is that cgroup or below it.
fn below<'p>(path: &'p str, above: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(above.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Gives a section that only this file has its new name; its comments stay.
fn rename(document: &mut DocumentMut, old: &str, new: &str) -> Result<(), KeptError> {
    let Some(Item::Table(mut table)) = take_section(document, CGROUP, old) else { return Ok(()) };
    table.remove(REPLACES);
    table.remove(REMOVED);
    let (decor, position) = (table.decor().clone(), table.position());
    put_section(document, CGROUP, new, table)?;
    if let Some(table) =
        document.get_mut(CGROUP).and_then(|names| names.get_mut(new)?.as_table_mut())
    {
        *table.decor_mut() = decor;
        table.set_position(position);
    }
    Ok(())
}
