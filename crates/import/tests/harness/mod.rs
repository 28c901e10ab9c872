//! Harness for arbitrary texts, with the invariants of every one. Shared by `cargo test` and the fuzz target.

#![allow(unreachable_pub, reason = "also a module of the fuzz targets")]

use weir_config::Config;
use weir_import::{Format, Source, import};

/// Imports any bytes: the first chooses the format.
pub fn any_bytes(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
    any_text(format, &String::from_utf8_lossy(text));
}

/// Imports `text`; returns what is printed.
pub fn any_text(format: Format, text: &str) -> Option<String> {
    let _ = Format::guess(text, None);
    let source = Source { file: Some("/etc/a.service"), cgroup: None };
    match import(format, text, source) {
        Ok(printed) => {
            let config = Config::from_str("imported.toml", &printed);
            assert!(config.is_ok(), "{}\n{printed}", config.unwrap_err());
            Some(printed)
        }
        Err(error) => {
            // For YAML a carriage return ends a line too.
            let lines = text.matches(['\n', '\r']).count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(
                error.to_string().len() < 1_000 && !error.to_string().contains(char::is_control),
                "{error:?}"
            );
            assert!(!error.kind.hint().is_empty());
            None
        }
    }
}
