//! The line of text that names a model and its settings.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;
use core::str::FromStr;

use thiserror::Error;
use weir_engine::io_max::nearest;
use weir_engine::units::{Bytes, BytesPerSec, Nanos, UnitError};

use crate::hdd::{Hdd, HddSpec};
use crate::hdd_line;
use crate::model::DiskModel;
use crate::null::{Null, NullSpec};

/// A model with its settings, parsed from `MODEL[,KEY=VALUE]…`:
///
/// | model | key | value | if left out |
/// | --- | --- | --- | --- |
/// | `null` | `rate` | bytes a second, `4M` | unlimited |
/// | | `latency` | time, `10us`, at most 60 s | 10us |
/// | | `size` | bytes, a multiple of 512, `4G` | 4G |
/// | `hdd7200`, `hdd4200`, `disk2009` | `size` | bytes, a multiple of 512 | the model's own, see [`HddSpec`] |
/// | | `rpm`, `heads`, `zones` | counts | |
/// | | `outer`, `inner` | bytes a second at either edge | |
/// | | `track`, `average`, `full` | times of seeks | |
/// | | `switch` | time to the next head | |
/// | | `interface` | bytes a second | |
/// | | `overhead` | time to take in a command | |
/// | | `readahead`, `cache` | bytes; 0 for none | |
/// | | `ncq` | commands to choose among, 1 to 1024 | |
/// | | `age` | time after which a request goes first | |
///
/// Sizes, rates and times are those of [`weir_engine::units`]. Printing one gives a line that parses to the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Spec {
    /// Fixed rate and latency: [`Null`].
    Null(NullSpec),
    /// Platters: [`Hdd`].
    Hdd {
        /// The model that the settings change.
        model: &'static str,
        /// All settings.
        spec: HddSpec,
    },
}

/// What is wrong with a line, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{problem}")]
pub struct SpecError {
    /// The bytes of the line that are wrong, for pointing at them.
    pub span: Range<usize>,
    /// What is wrong with them.
    pub problem: SpecProblem,
}

/// What can be wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpecProblem {
    /// No such model.
    #[error("there is no disk model {name:?}")]
    UnknownModel {
        /// As written.
        name: String,
    },
    /// The model has no such setting.
    #[error("unknown key {key:?} of disk model `{model}`")]
    UnknownKey {
        /// As written.
        key: String,
        /// The model.
        model: &'static str,
        /// The key that was probably meant.
        near: Option<&'static str>,
        /// All keys of the model.
        known: &'static [&'static str],
    },
    /// A setting without `=`.
    #[error("{text:?} has no value")]
    NoValue {
        /// As written.
        text: String,
    },
    /// A setting given twice.
    #[error("`{key}` is given twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// A value that cannot be.
    #[error("`{key}`: {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// Why not.
        reason: String,
        /// What would be right.
        hint: Option<String>,
    },
}

impl SpecProblem {
    /// What would be right.
    pub fn hint(&self) -> Option<String> {
        match self {
            SpecProblem::UnknownModel { .. } => {
                Some("available: null, hdd7200, hdd4200, disk2009, as in \"null,rate=4M,latency=10us,size=4G\"".into())
            }
            SpecProblem::UnknownKey { near: Some(near), .. } => {
                Some(format!("did you mean `{near}`?"))
            }
            SpecProblem::UnknownKey { known, .. } => {
                Some(format!("known keys: {}", known.join(", ")))
            }
            SpecProblem::NoValue { text } => Some(format!("write `{text}=VALUE`")),
            SpecProblem::Twice { .. } => None,
            SpecProblem::Value { hint, .. } => hint.clone(),
        }
    }
}

const NULL_KEYS: &[&str] = &["rate", "latency", "size"];

/// Bytes on a disk that is not told its size.
const SIZE: u64 = 4 << 30;

/// Disks are made of these.
const SECTOR: u64 = 512;

/// The largest disk: offsets are signed in the kernel's calls.
const SIZE_MAX: u64 = i64::MAX as u64;

/// What the kernel's null_blk takes to complete a request if nothing is said.
const LATENCY_NS: u64 = 10_000;

/// Slower than any disk: more is a mistake in the unit.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Why a value cannot be, and what would be right.
pub(crate) type Refusal = (String, Option<String>);

pub(crate) fn refuse(reason: impl Into<String>) -> Refusal {
    (reason.into(), None)
}

pub(crate) fn unit(error: UnitError) -> Refusal {
    (error.to_string(), Some(error.hint()))
}

impl Spec {
    /// An idle disk.
    pub fn build(&self) -> Box<dyn DiskModel> {
        match *self {
            Spec::Null(spec) => Box::new(Null::new(spec)),
            Spec::Hdd { spec, .. } => Box::new(Hdd::new(spec)),
        }
    }

    /// Bytes on the disk.
    pub fn size(&self) -> u64 {
        match self {
            Spec::Null(spec) => spec.size,
            Spec::Hdd { spec, .. } => spec.size,
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(line: &str) -> Result<Spec, SpecError> {
        let (model, settings) = line.split_once(',').unwrap_or((line, ""));
        match model {
            "null" => null(line, settings).map(Spec::Null),
            name if hdd_line::preset(name).is_some() => hdd(line, name, settings),
            name => Err(SpecError {
                span: 0..name.len(),
                problem: SpecProblem::UnknownModel { name: name.to_string() },
            }),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Null(spec) => {
                f.write_str("null")?;
                if let Some(rate) = spec.rate {
                    write!(f, ",rate={rate}")?;
                }
                write!(f, ",latency={}ns,size={}", spec.latency_ns, spec.size)
            }
            Spec::Hdd { model, spec } => hdd_line::print(model, *spec, f),
        }
    }
}

fn null(line: &str, settings: &str) -> Result<NullSpec, SpecError> {
    let mut spec = NullSpec { rate: None, latency_ns: LATENCY_NS, size: SIZE };
    for_each(line, settings, "null", NULL_KEYS, |key, value| {
        match key {
            "rate" => {
                let BytesPerSec(rate) = value.parse().map_err(unit)?;
                let rate = NonZeroU64::new(rate);
                spec.rate = Some(rate.ok_or_else(|| refuse("a disk with rate 0 never answers"))?);
            }
            "latency" => spec.latency_ns = latency(value)?,
            _ => spec.size = size(value)?,
        }
        Ok(())
    })?;
    Ok(spec)
}

fn hdd(line: &str, name: &str, settings: &str) -> Result<Spec, SpecError> {
    let (model, mut spec) = hdd_line::preset(name).unwrap_or(("hdd7200", HddSpec::HDD7200));
    for_each(line, settings, model, hdd_line::KEYS, |key, value| {
        hdd_line::set(&mut spec, key, value)
    })?;
    match hdd_line::check(&spec) {
        Ok(()) => Ok(Spec::Hdd { model, spec }),
        Err((key, reason)) => Err(SpecError {
            span: 0..line.len(),
            problem: SpecProblem::Value { key, reason, hint: None },
        }),
    }
}

fn latency(value: &str) -> Result<u64, Refusal> {
    let Nanos(latency) = value.parse().map_err(unit)?;
    if latency > LATENCY_NS_MAX {
        return Err(refuse("a latency is at most 60 s"));
    }
    Ok(latency)
}

pub(crate) fn size(value: &str) -> Result<u64, Refusal> {
    let Bytes(size) = value.parse().map_err(unit)?;
    match size {
        0 => Err(refuse("0 bytes are no disk")),
        size if size > SIZE_MAX => Err(refuse(format!("at most {SIZE_MAX} bytes are possible"))),
        size if !size.is_multiple_of(SECTOR) => {
            let hint = format!("write \"{}\"", size - size % SECTOR);
            Err((format!("{} is no multiple of {SECTOR}", Bytes(size)), Some(hint)))
        }
        size => Ok(size),
    }
}

/// Calls `set` with each key, one of `known`, and its value.
fn for_each(
    line: &str,
    settings: &str,
    model: &'static str,
    known: &'static [&'static str],
    mut set: impl FnMut(&'static str, &str) -> Result<(), Refusal>,
) -> Result<(), SpecError> {
    let mut seen = 0u32;
    let mut at = line.len() - settings.len();
    for text in settings.split(',').filter(|_| !settings.is_empty()) {
        let start = at;
        at += text.len() + 1;
        let fail = |span: Range<usize>, problem| Err(SpecError { span, problem });
        let Some((key, value)) = text.split_once('=') else {
            let problem = SpecProblem::NoValue { text: text.to_string() };
            return fail(start..start + text.len(), problem);
        };
        let key_span = start..start + key.len();
        let Some(index) = known.iter().position(|name| *name == key) else {
            let near = nearest(key, known.iter().copied());
            let near = known.iter().copied().find(|&name| Some(name) == near);
            let key = key.to_string();
            return fail(key_span, SpecProblem::UnknownKey { key, model, near, known });
        };
        if seen & 1 << index != 0 {
            return fail(key_span, SpecProblem::Twice { key: key.to_string() });
        }
        seen |= 1 << index;
        if let Err((reason, hint)) = set(known[index], value) {
            let span = key_span.end + 1..start + text.len();
            return fail(span, SpecProblem::Value { key: known[index], reason, hint });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_parse_and_print() {
        let spec = |rate, latency_ns, size| {
            Spec::Null(NullSpec { rate: NonZeroU64::new(rate), latency_ns, size })
        };
        for (line, wanted) in [
            ("null", spec(0, 10_000, SIZE)),
            ("null,rate=4M,latency=10us,size=4G", spec(4 << 20, 10_000, 4 << 30)),
            ("null,size=1MiB,rate=1000/s", spec(1000, 10_000, 1 << 20)),
            ("null,latency=0ns", spec(0, 0, SIZE)),
        ] {
            assert_eq!(line.parse(), Ok(wanted), "{line}");
            assert_eq!(wanted.to_string().parse(), Ok(wanted), "{wanted}");
            assert_eq!(wanted.build().capacity(), wanted.size());
        }
    }

    #[test]
    fn disks_with_platters_parse_and_print() {
        for line in [
            "hdd7200",
            "hdd4200",
            "disk2009,cache=0,ncq=32",
            "hdd7200,size=1073741824,average=9000000ns",
        ] {
            let spec: Spec = line.parse().unwrap();
            assert_eq!(spec.to_string(), line);
            assert_eq!(spec.build().capacity(), spec.size());
        }
        let Ok(Spec::Hdd { spec, .. }) = "hdd7200,rpm=10000,outer=200M".parse() else { panic!() };
        assert_eq!(spec, HddSpec { rpm: 10_000, outer: 200 << 20, ..HddSpec::HDD7200 });
    }

    #[test]
    fn mistakes_are_pointed_at_and_explained() {
        for (line, part, message) in [
            ("hdd7201", "hdd7201", "there is no disk model \"hdd7201\""),
            ("", "", "there is no disk model \"\""),
            ("null,latncy=10us", "latncy", "unknown key \"latncy\" of disk model `null`"),
            ("null,size=1G,heads=4", "heads", "unknown key \"heads\" of disk model `null`"),
            ("null,rate", "rate", "\"rate\" has no value"),
            ("null,rate=1,rate=2", "rate", "`rate` is given twice"),
            ("null,rate=0", "0", "`rate`: a disk with rate 0 never answers"),
            ("null,latency=10", "10", "`latency`: \"10\" has no unit"),
            ("null,latency=10min", "10min", "`latency`: a latency is at most 60 s"),
            ("null,size=10ms", "10ms", "`size`: \"10ms\" has the unknown unit \"ms\""),
            ("hdd7200,ncq=0", "0", "`ncq`: 0 is not between 1 and 1024"),
            (
                "hdd7200,full=2ms",
                "hdd7200,full=2ms",
                "`average`: no seeks from 1 ms to 2 ms take 8500 us in the mean",
            ),
            ("null,size=0", "0", "`size`: 0 bytes are no disk"),
            ("null,size=1000", "1000", "`size`: 1000 B is no multiple of 512"),
        ] {
            let error = line.parse::<Spec>().unwrap_err();
            assert_eq!(error.to_string(), message, "{line}");
            assert_eq!(&line[error.span], part, "{line}");
        }
        // The second one is pointed at.
        assert_eq!("null,rate=1,rate=2".parse::<Spec>().unwrap_err().span, 12..16);
    }
}
