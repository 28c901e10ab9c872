//! `[peer.NAME]`: which clients may use which exports.

use crate::export::Known;
use crate::model::{CgroupConfig, PeerConfig};
use crate::network::Network;
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::table::{Entry, Section};
use crate::value::cut;

pub(crate) const KEYS: [&str; 7] =
    ["uid", "gid", "address", "certificate", "exports", "cgroup", "read_only"];

/// Longest name in a certificate, in bytes, and of an export.
const NAME_MAX: usize = 4096;

/// Reads `[peer]`, in the order of the files.
pub(crate) fn read_all(
    root: &Section<'_>,
    cgroups: &[CgroupConfig],
    report: &mut Report,
) -> Vec<PeerConfig> {
    let Some(section) = root.section("peer", report) else { return Vec::new() };
    let known = Known::new(root, cgroups, report);
    let entries = section.entries().into_iter();
    entries.filter_map(|entry| read(entry, &known, report)).collect()
}

fn read(entry: Entry<'_>, known: &Known<'_>, report: &mut Report) -> Option<PeerConfig> {
    let name = entry.name.to_owned();
    if name.is_empty() || weir_units::hidden_character(&name).is_some() {
        let problem = Problem::new(entry.key_span, &entry.key, "this is no name of a peer");
        report.add(problem.hint("write letters, digits and signs".to_owned()));
    }
    let section = entry.section(report)?;
    section.allow(&KEYS, report);
    check_who(&section, report);
    let texts = |key: &str, report: &mut Report| {
        section.get(key).map(|entry| entry.texts(report)).unwrap_or_default()
    };
    let address = texts("address", report);
    let address = address.iter().filter_map(|text| network(text, report)).collect();
    let certificate = texts("certificate", report);
    let certificate =
        certificate.iter().filter_map(|text| certificate_name(text, report)).collect();
    let exports = section.get("exports").map(|entry| {
        entry.texts(report).into_iter().filter_map(|text| export(text, report)).collect()
    });
    let cgroup = section.text("cgroup", report).and_then(|text| known.find(&text, report));
    Some(PeerConfig {
        name,
        uid: numbers(&section, "uid", report),
        gid: numbers(&section, "gid", report),
        address,
        certificate,
        exports,
        cgroup,
        read_only: section.switch("read_only", report).unwrap_or(false),
    })
}

/// Refuses what no client can be, and an empty list, which would be every client.
fn check_who(section: &Section<'_>, report: &mut Report) {
    for entry in ["uid", "gid", "address", "certificate"].iter().filter_map(|key| section.get(key))
    {
        if entry.is_empty() {
            let problem = Problem::new(entry.span(), &entry.key, "no client is one of none");
            report.add(problem.hint("leave it out to mean every client".to_owned()));
        }
    }
    let user = section.get("uid").or_else(|| section.get("gid"));
    if let (Some(_), Some(entry)) = (user, section.get("address")) {
        let message = "users are those of Unix sockets, which have no addresses";
        let problem = Problem::new(entry.span(), &entry.key, message);
        report.add(problem.hint("make two sections of it".to_owned()));
    }
}

/// Numbers of users or groups.
fn numbers(section: &Section<'_>, key: &str, report: &mut Report) -> Vec<u32> {
    let texts = section.get(key).map(|entry| entry.amounts(report)).unwrap_or_default();
    let number = |text: &Text| {
        let number = text.value.parse().ok();
        if number.is_none() {
            let (what, command) = match key {
                "uid" => ("user", "id -u NAME"),
                _ => ("group", "getent group NAME"),
            };
            let message = format!("{:?} is no number of a {what}", cut(&text.value));
            report.refuse(text, message, Some(format!("`{command}` shows the number of a {what}")));
        }
        number
    };
    texts.iter().filter_map(number).collect()
}

/// An address, or those that begin alike: `10.0.0.0/8`.
fn network(text: &Text, report: &mut Report) -> Option<Network> {
    let hint = match text.value.parse::<Network>() {
        Ok(network) if !network.has_host_bits() => return Some(network),
        Ok(network) => format!("write \"{}\", or one address without a length", network.base()),
        Err(_) => "write an address, \"192.0.2.7\", or how those begin, \"10.0.0.0/8\"".into(),
    };
    report.refuse(text, format!("{:?} is no range of addresses", cut(&text.value)), Some(hint));
    None
}

/// A name in a certificate, `*.` and the end of one, or `*` for any.
fn certificate_name(text: &Text, report: &mut Report) -> Option<String> {
    let rest = text.value.strip_prefix("*.").unwrap_or(&text.value);
    let is_good = text.value == "*"
        || (1..=NAME_MAX).contains(&rest.len())
            && !rest.contains('*')
            && weir_units::hidden_character(rest).is_none();
    if !is_good {
        let message = format!("{:?} is no name of a certificate", cut(&text.value));
        let hint = "write its common name or a DNS name in it, \"*.example\" for all just below, or \"*\" for any";
        report.refuse(text, message, Some(hint.into()));
        return None;
    }
    Some(text.value.clone())
}

/// The name of an export, or how names begin: `vm-*`.
fn export(text: Text, report: &mut Report) -> Option<String> {
    let rest = text.value.strip_suffix('*').unwrap_or(&text.value);
    if rest.contains('*') || rest.len() > NAME_MAX {
        let message = format!("{:?} is no name of exports", cut(&text.value));
        report.refuse(&text, message, Some("`*` may stand at the end only: \"vm-*\"".into()));
        return None;
    }
    Some(text.value)
}

impl PeerConfig {
    /// Whether exports of this name are among `exports`.
    pub fn lets_use(&self, export: &str) -> bool {
        let Some(exports) = &self.exports else { return true };
        exports.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => export.starts_with(beginning),
            None => name == export,
        })
    }

    /// Sentences that tell of names that are no export's.
    pub(crate) fn warnings<'e>(
        &self,
        exports: impl Iterator<Item = &'e str> + Clone,
    ) -> Vec<String> {
        let named = self.exports.iter().flatten().filter(|name| !name.ends_with('*'));
        named
            .filter(|name| !exports.clone().any(|export| export == name.as_str()))
            .map(|name| format!("peer {}: there is no export {name:?}", self.name))
            .collect()
    }
}
