//! Reproductions: published results that Weir's ideas come from, run again.
//!
//! A [`Reproduction`] has what was published, and runs the same setting in virtual time: before the change, after it,
//! as in today's kernels, and with Weir's own default.

mod blk_throttle;
mod io_throttle;
pub mod merge_cost;
mod spread;
mod spurious_merges;
mod stable_merge;

use serde::Serialize;

pub use spread::Progress;

use crate::builder::BuildError;
use crate::scenario::ScenarioError;

/// One published result.
#[derive(Debug, Clone, Copy)]
pub struct Reproduction {
    /// Name in `weir lab reproduce`.
    pub name: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Its subject, in a line.
    pub about: &'static str,
    /// Figures that are shown once more for each case: the published one beside each way of running it. Settings of
    /// runs are `CASE, WAY` then, or `CASE` if it is run in one way only.
    beside: &'static [&'static str],
    run: fn(Progress<'_>) -> Result<Vec<Run>, ReproduceError>,
    published: fn() -> Vec<Run>,
}

/// All reproductions.
pub const ALL: &[Reproduction] = &[
    blk_throttle::REPRODUCTION,
    io_throttle::REPRODUCTION,
    spurious_merges::REPRODUCTION,
    merge_cost::REPRODUCTION,
    stable_merge::REPRODUCTION,
];

/// Published results, and those of the runs. Serialises as the JSON of `weir lab reproduce`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// As [`Reproduction::name`].
    pub name: &'static str,
    /// As [`Reproduction::source`].
    pub source: &'static str,
    /// As [`Reproduction::about`].
    pub about: &'static str,
    /// Published.
    pub published: Vec<Run>,
    /// Reproduced.
    pub runs: Vec<Run>,
    /// As in [`Reproduction`].
    #[serde(skip)]
    pub beside: &'static [&'static str],
}

impl Outcome {
    /// The ways in which cases were run, in order: `gate` of `5 buffered, watermark 90, gate`.
    pub fn ways(&self) -> Vec<&str> {
        let ways = self.published.iter().flat_map(|case| {
            let way = |run| Run::way(run, &case.setting).filter(|way| !way.is_empty());
            self.runs.iter().filter_map(way)
        });
        ways.fold(Vec::new(), |mut ways, way| {
            if !ways.contains(&way) {
                ways.push(way);
            }
            ways
        })
    }

    /// The run of a case in one way, or the only one if it knows no ways.
    pub fn run_of(&self, case: &str, way: &str) -> Option<&Run> {
        let is_of = |wanted| move |run: &&Run| run.way(case) == Some(wanted);
        self.runs.iter().find(is_of(way)).or_else(|| self.runs.iter().find(is_of("")))
    }
}

/// One setting and its figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Its name.
    pub setting: String,
    /// Name, with its unit, and value; in the order in which they are shown.
    #[serde(serialize_with = "as_map")]
    pub figures: Vec<(&'static str, f64)>,
}

impl Run {
    /// The way of this run of `case`; empty where there is one only, None if it is a run of another case.
    fn way(&self, case: &str) -> Option<&str> {
        let rest = self.setting.strip_prefix(case)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(", ") }
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }
}

fn as_map<S: serde::Serializer>(
    figures: &[(&'static str, f64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().copied())
}

/// Why a reproduction could not be run: a mistake of ours.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReproduceError {
    /// In its settings.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// In its scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// In its recording.
    #[error("the recording {name}: {reason}")]
    Recording {
        /// Name of the recording.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<crate::builder::SettingError> for ReproduceError {
    fn from(error: crate::builder::SettingError) -> ReproduceError {
        ReproduceError::Build(error.into())
    }
}

impl Reproduction {
    /// Runs it, on all cores: up to a minute of real time. `progress` gets the numbers of finished runs and of all;
    /// the outcome depends neither on it nor on the machine.
    ///
    /// # Errors
    /// See [`ReproduceError`].
    pub fn run(&self, progress: Progress<'_>) -> Result<Outcome, ReproduceError> {
        Ok(Outcome {
            name: self.name,
            source: self.source,
            about: self.about,
            published: (self.published)(),
            runs: (self.run)(progress)?,
            beside: self.beside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_a_run_for_each_way() {
        let run = |setting: &str| Run { setting: setting.into(), figures: vec![] };
        let outcome = Outcome {
            name: "",
            source: "",
            about: "",
            published: ["1 plain", "2 watermark 9", "2 watermark 90"].map(run).into(),
            runs: ["1 plain", "2 watermark 90, gate", "2 watermark 90, at once"].map(run).into(),
            beside: &[],
        };
        assert_eq!(outcome.ways(), ["gate", "at once"]);
        let of = |case, way| outcome.run_of(case, way).map(|run| run.setting.as_str());
        assert_eq!(of("1 plain", "gate"), Some("1 plain"));
        assert_eq!(of("2 watermark 90", "at once"), Some("2 watermark 90, at once"));
        assert_eq!(of("2 watermark 9", "gate"), None);
    }
}
