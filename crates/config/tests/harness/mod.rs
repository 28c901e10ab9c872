//! Any texts as files that are read over each other: what must hold of the answer. Also the harness of a fuzz target.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "also a module of the fuzz targets; each test takes what it needs"
)]

use weir_config::{Config, difference};

/// Reads `data`, cut at NULs into files.
///
/// # Panics
///
/// If an error is not inside its file, or a configuration is not what is printed of it.
pub fn any_bytes(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    any_texts(&text.split('\0').take(8).collect::<Vec<_>>());
}

/// Reads `texts`, each over those before it.
///
/// # Panics
///
/// As of [`any_bytes`].
pub fn any_texts(texts: &[&str]) {
    let names: Vec<String> = (0..texts.len()).map(|index| format!("{index}.toml")).collect();
    let files = names.iter().map(String::as_str).zip(texts.iter().copied());
    match Config::from_texts(files) {
        Ok(config) => {
            let printed = config.to_toml();
            let again = Config::from_str("printed", &printed)
                .unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
            // Sections keep their order, and models of devices are not read.
            assert_eq!(again, config, "{printed}");
            assert_eq!(difference(&config, &again), []);
        }
        Err(errors) => {
            assert!(!errors.errors().is_empty());
            for error in errors.errors() {
                let index = names.iter().position(|name| *name == error.file);
                let text = texts.get(index.unwrap_or(0)).copied().unwrap_or_default();
                let lines = text.lines().count() + 1;
                assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
                let hint = error.hint.as_deref().unwrap_or_default();
                assert!(!hint.is_empty(), "nothing is suggested for {error}");
            }
            let plain = errors.render(false);
            assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");
        }
    }
}
