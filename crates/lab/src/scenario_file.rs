//! Scenario files: a job and its surroundings in one text, and those that come with Weir.
//!
//! ```toml
//! about = "One line that says what it shows."
//! disk = "hdd7200"                  # any setting of the lab, by its name
//! max = ["/a riops=100", "/b riops=200"]
//! job = """
//! [a]
//! cgroup=a
//! rw=randread
//! size=1g
//! """
//! ```

use std::collections::BTreeMap;

use thiserror::Error;
use toml::Value;

use crate::builder::{ScenarioBuilder, SettingError, Source};

/// The scenarios that come with Weir: name and text.
pub const SCENARIOS: &[(&str, &str)] = &[
    ("noisy-neighbour", include_str!("../../../scenarios/noisy-neighbour.toml")),
    ("one-reader-limited", include_str!("../../../scenarios/one-reader-limited.toml")),
    ("weights", include_str!("../../../scenarios/weights.toml")),
    ("nested-limits", include_str!("../../../scenarios/nested-limits.toml")),
    ("database-and-backup", include_str!("../../../scenarios/database-and-backup.toml")),
    ("buffered-writers", include_str!("../../../scenarios/buffered-writers.toml")),
];

/// Longest scenario file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A scenario file.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    /// Its subject, in a line.
    pub about: String,
    /// Its settings and its job.
    pub builder: ScenarioBuilder,
}

/// What is wrong with a scenario file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScenarioFileError {
    /// Not TOML. The text names line and column.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The parser's message.
        message: String,
    },
    /// A key that is missing, or is no text, number or list of them.
    #[error("{file}: `{key}` {problem}")]
    Key {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// An invalid setting.
    #[error("{file}: {error}")]
    Setting {
        /// The file.
        file: String,
        /// What is wrong.
        error: SettingError,
    },
}

/// Reads a scenario file. `env` has the `${VARIABLE}`s of its job.
///
/// # Errors
/// The first mistake.
pub fn read(
    file: &str,
    text: &str,
    env: &BTreeMap<String, String>,
) -> Result<ScenarioFile, ScenarioFileError> {
    let syntax = |message: String| ScenarioFileError::Syntax { file: file.into(), message };
    if text.len() > FILE_BYTES_MAX {
        return Err(syntax(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| syntax(error.to_string().trim_end().into()))?;
    let key_error =
        |key: &str, problem| ScenarioFileError::Key { file: file.into(), key: key.into(), problem };
    let words = |key: &str| match table.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(key_error(key, "is not a text")),
        None => Err(key_error(key, "is missing")),
    };
    let (about, job) = (words("about")?, words("job")?);
    let title = match table.contains_key("title") {
        true => words("title")?,
        false => file.rsplit('/').next().unwrap_or(file).trim_end_matches(".toml").into(),
    };
    let source =
        Source::Jobs { name: format!("{file}: job"), text: job.into_bytes(), env: env.clone() };
    let mut builder = ScenarioBuilder::new(title, source);
    // `home` first: limits without a path are of that cgroup.
    let (home, others): (Vec<_>, Vec<_>) = table
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "about" | "title" | "job"))
        .partition(|(key, _)| *key == "home");
    for (key, value) in home.into_iter().chain(others) {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                _ => return Err(key_error(key, "is no text, number or list of them")),
            };
            builder
                .set(key, &value)
                .map_err(|error| ScenarioFileError::Setting { file: file.into(), error })?;
        }
    }
    Ok(ScenarioFile { about, builder })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<ScenarioFile, ScenarioFileError> {
        read("x.toml", text, &BTreeMap::new())
    }

    #[test]
    fn the_scenarios_that_come_with_weir_are_valid() {
        for (name, text) in SCENARIOS {
            let file = read(name, text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"));
            assert!(!file.about.is_empty() && file.about.len() <= 100, "{name}: {}", file.about);
            file.builder.build().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn a_mistake_in_a_scenario_file_is_named() {
        for (text, message) in [
            ("about = 'a'", "x.toml: `job` is missing"),
            ("about = 1\njob = ''", "x.toml: `about` is not a text"),
            ("about = 'a'\njob = ''\ndepht = 3", "x.toml: depht: there is no such setting"),
            (
                "about = 'a'\njob = ''\ndepth = true",
                "x.toml: `depth` is no text, number or list of them",
            ),
            (
                "about = 'a'\njob = ''\ndepth = 0",
                "x.toml: depth: \"0\" is no number from 1 to 4096",
            ),
        ] {
            assert_eq!(read_text(text).unwrap_err().to_string(), message, "{text}");
        }
        let error = read_text("about = 'a'\njob = ").unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn limits_without_a_path_are_those_of_home() {
        let text = "about = 'a'\nmax = 'riops=7'\nhome = '/vm'\njob = '[j]\\nsize=1m'";
        let text = text.replace("'[j]\\nsize=1m'", "\"[j]\\nsize=1m\"");
        let scenario = read_text(&text).unwrap().builder.build().unwrap();
        assert_eq!(scenario.cgroups[0].path.to_string(), "/vm");
    }
}
