//! `[tls]`: certificates of the server and of its clients.

use crate::backend::Files;
use crate::model::TlsConfig;
use crate::report::{Problem, Report};
use crate::table::Section;
use crate::value::path;

pub(crate) const KEYS: [&str; 6] =
    ["certificate", "key", "client_ca", "require_client_certificate", "crl", "threads"];

/// Default of `threads`: one core encrypts some gigabytes a second.
pub(crate) const THREADS: u32 = 2;
pub(crate) const THREADS_MAX: u32 = 64;

/// Reads `[tls]`, if it is there.
pub(crate) fn read(root: &Section<'_>, files: &Files, report: &mut Report) -> Option<TlsConfig> {
    let section = root.section("tls", report)?;
    section.allow(&KEYS, report);
    let file = |name, report: &mut Report| {
        let text = section.text(name, report)?;
        path(&text, report).map(|path| files.place(path))
    };
    let client_ca = file("client_ca", report);
    let crl = file("crl", report);
    section.need("certificate", "\"/etc/weir/tls/server.crt\"", report);
    section.need("key", "\"/etc/weir/tls/server.key\"", report);
    let (certificate, key) = (file("certificate", report), file("key", report));
    let asked = section.switch("require_client_certificate", report);
    for (name, is_set) in
        [("require_client_certificate", asked == Some(true)), ("crl", section.get("crl").is_some())]
    {
        if let (true, None, Some(entry)) = (is_set, section.get("client_ca"), section.get(name)) {
            let message = "without `client_ca` clients are not asked for a certificate";
            let hint = "add `client_ca = \"...\"`, the CAs of clients, or leave this out";
            let problem = Problem::new(entry.span(), &entry.key, message);
            report.add(problem.hint(hint.to_owned()));
        }
    }
    let threads = section.number("threads", 1, THREADS_MAX, report).unwrap_or(THREADS);
    Some(TlsConfig {
        certificate: certificate?,
        key: key?,
        require_client_certificate: asked.unwrap_or(client_ca.is_some()),
        client_ca,
        crl,
        threads,
    })
}
