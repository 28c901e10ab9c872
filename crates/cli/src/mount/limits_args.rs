//! Flags of `weir mount` and `weir run` that say what may be read and written.

use std::path::PathBuf;

use weir_engine::{Limits, Weight};
use weir_mount::{Pattern, Rule, TreeSettings};
use weir_text::parse_watermark;

use crate::failure::Failure;

/// The flags.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// Limits, of everything or of a cgroup; "rbps=50M", "/a: wiops=100"
    #[arg(long, value_name = "[PATH:] LIMITS")]
    max: Vec<String>,
    /// A cgroup's share among its siblings under a common limit; "/a: 300"
    #[arg(long, value_name = "PATH: WEIGHT")]
    weight: Vec<String>,
    /// Use of the source from which on limits bind, in percent; "90"
    #[arg(long)]
    watermark: Option<String>,
    /// Write what was read, written and waited for to a file at the end (JSON)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl LimitsArgs {
    /// The tree that they describe.
    pub(crate) fn tree(&self) -> Result<TreeSettings, Failure> {
        let mut tree = TreeSettings::default();
        for text in &self.max {
            let (pattern, limits) = split("--max", text)?;
            let limits = Limits::parse(limits)
                .map_err(|error| Failure::wrong(format!("--max {text:?}: {error}")))?;
            tree.limits.push((pattern, limits));
        }
        for text in &self.weight {
            let (pattern, weight) = split("--weight", text)?;
            let wrong = |error: &dyn ToString| {
                Failure::wrong(format!("--weight {text:?}: {}", error.to_string()))
            };
            let number = weight.parse::<u64>().map_err(|error| wrong(&error))?;
            let weight = Weight::new(number).map_err(|error| wrong(&error))?;
            tree.weights.push((pattern, weight));
        }
        if let Some(text) = &self.watermark {
            let watermark = parse_watermark(text).map_err(|error| {
                Failure::wrong(format!("--watermark: {error}")).hint(error.hint())
            })?;
            tree.watermark = Some(watermark);
        }
        Ok(tree)
    }
}

/// The cgroups that a setting is for, and the setting.
fn split<'a>(flag: &str, text: &'a str) -> Result<(Pattern, &'a str), Failure> {
    let Some((path, value)) = text.rsplit_once(':') else { return Ok((Pattern::root(), text)) };
    let pattern =
        path.trim().parse().map_err(|error| Failure::wrong(format!("{flag} {text:?}: {error}")))?;
    Ok((pattern, value.trim()))
}

/// Rules, and one for all processes that none of them is for.
pub(crate) fn rules(texts: &[String], rest: &str) -> Result<Vec<Rule>, Failure> {
    let rules = texts.iter().map(String::as_str).chain([rest]).map(|text| {
        text.parse().map_err(|error| Failure::wrong(format!("--map {text:?}: {error}")))
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(max: &[&str], weight: &[&str]) -> LimitsArgs {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        LimitsArgs { max: texts(max), weight: texts(weight), watermark: None, report: None }
    }

    #[test]
    fn a_setting_is_for_everything_or_for_a_path() {
        let tree = args(&["rbps=5M", "/users/*: wbps=1M"], &["/users/a:300"]).tree().unwrap();
        let paths: Vec<_> = tree.limits.iter().map(|(pattern, _)| pattern.to_string()).collect();
        assert_eq!(paths, ["/", "/users/*"]);
        assert_eq!(tree.weights[0].0.to_string(), "/users/a");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (max, weight) in
            [(&["users: rbps=1M"][..], &[][..]), (&["rbps=fast"], &[]), (&[], &["/a: heavy"])]
        {
            assert!(args(max, weight).tree().is_err(), "{max:?} {weight:?}");
        }
    }
}
