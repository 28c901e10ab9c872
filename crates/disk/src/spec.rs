//! The line of text that names a model and its settings.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;
use core::str::FromStr;

use thiserror::Error;

use crate::model::DiskModel;
use crate::nearest::nearest;
use crate::null::{Null, NullSpec};
use crate::quantity;

/// A model with its settings, parsed from `MODEL[,KEY=VALUE]…`:
///
/// | model | key | value | if left out |
/// | --- | --- | --- | --- |
/// | `null` | `rate` | bytes a second, `4M` | unlimited |
/// | | `latency` | time, `10us` | 0 |
/// | | `size` | bytes, a multiple of 512, `4G` | 4G |
///
/// K, M, G and T (or KiB, …) are powers of 1024; times take ns, us, ms or s. Printing one gives a line that parses to
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Spec {
    /// Fixed rate and latency: [`Null`].
    Null(NullSpec),
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
    #[error("unknown disk model `{name}`; known: {}", MODELS.join(", "))]
    UnknownModel {
        /// As written.
        name: String,
    },
    /// The model has no such setting.
    #[error("unknown key `{key}` of disk model `{model}`; {}", hint(*.near, .known))]
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
    #[error("`{text}` has no value; write `{text}=VALUE`")]
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
        /// Why not, and what would be right.
        reason: String,
    },
}

const MODELS: &[&str] = &["null"];
const NULL_KEYS: &[&str] = &["rate", "latency", "size"];

/// Bytes on a disk that is not told its size.
const SIZE: u64 = 4 << 30;

/// Disks are made of these.
const SECTOR: u64 = 512;

impl Spec {
    /// An idle disk.
    pub fn build(&self) -> Box<dyn DiskModel> {
        match *self {
            Spec::Null(spec) => Box::new(Null::new(spec)),
        }
    }

    /// Bytes on the disk.
    pub fn size(&self) -> u64 {
        match self {
            Spec::Null(spec) => spec.size,
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(line: &str) -> Result<Spec, SpecError> {
        let (model, settings) = line.split_once(',').unwrap_or((line, ""));
        match model {
            "null" => null(line, settings).map(Spec::Null),
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
        }
    }
}

fn null(line: &str, settings: &str) -> Result<NullSpec, SpecError> {
    let mut spec = NullSpec { rate: None, latency_ns: 0, size: SIZE };
    for_each(line, settings, "null", NULL_KEYS, |key, value| {
        match key {
            "rate" => {
                let rate = NonZeroU64::new(quantity::rate(value)?);
                spec.rate =
                    Some(rate.ok_or("0 would complete nothing; leave it out for no limit")?);
            }
            "latency" => spec.latency_ns = quantity::nanoseconds(value)?,
            _ => spec.size = size(value)?,
        }
        Ok(())
    })?;
    Ok(spec)
}

fn size(value: &str) -> Result<u64, String> {
    match quantity::bytes(value)? {
        0 => Err("0 bytes are no disk".into()),
        size if !size.is_multiple_of(SECTOR) => {
            Err(format!("{size} bytes are not a multiple of {SECTOR}"))
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
    mut set: impl FnMut(&'static str, &str) -> Result<(), String>,
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
            let (key, near) = (key.to_string(), nearest(key, known));
            return fail(key_span, SpecProblem::UnknownKey { key, model, near, known });
        };
        if seen & 1 << index != 0 {
            return fail(key_span, SpecProblem::Twice { key: key.to_string() });
        }
        seen |= 1 << index;
        if let Err(reason) = set(known[index], value) {
            let span = key_span.end + 1..start + text.len();
            return fail(span, SpecProblem::Value { key: known[index], reason });
        }
    }
    Ok(())
}

fn hint(near: Option<&str>, known: &[&str]) -> String {
    match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    }
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
            ("null", spec(0, 0, SIZE)),
            ("null,rate=4M,latency=10us,size=4G", spec(4 << 20, 10_000, 4 << 30)),
            ("null,size=1MiB,rate=1000/s", spec(1000, 0, 1 << 20)),
            ("null,latency=0", spec(0, 0, SIZE)),
        ] {
            assert_eq!(line.parse(), Ok(wanted), "{line}");
            assert_eq!(wanted.to_string().parse(), Ok(wanted), "{wanted}");
            assert_eq!(wanted.build().capacity(), wanted.size());
        }
    }

    #[test]
    fn mistakes_are_pointed_at_and_explained() {
        for (line, part, message) in [
            ("hdd7200", "hdd7200", "unknown disk model `hdd7200`; known: null"),
            ("", "", "unknown disk model ``; known: null"),
            (
                "null,latncy=10us",
                "latncy",
                "unknown key `latncy` of disk model `null`; did you mean `latency`?",
            ),
            (
                "null,size=1G,heads=4",
                "heads",
                "unknown key `heads` of disk model `null`; known: rate, latency, size",
            ),
            ("null,rate", "rate", "`rate` has no value; write `rate=VALUE`"),
            ("null,rate=1,rate=2", "rate", "`rate` is given twice"),
            ("null,rate=0", "0", "`rate`: 0 would complete nothing; leave it out for no limit"),
            ("null,latency=10", "10", "`latency`: 10 has no unit; write 10ns, 10us, 10ms or 10s"),
            (
                "null,size=10ms",
                "10ms",
                "`size`: ms is a unit of time; sizes take K, M, G and T (powers of 1024)",
            ),
            ("null,size=0", "0", "`size`: 0 bytes are no disk"),
            ("null,size=1000", "1000", "`size`: 1000 bytes are not a multiple of 512"),
        ] {
            let error = line.parse::<Spec>().unwrap_err();
            assert_eq!(error.to_string(), message, "{line}");
            assert_eq!(&line[error.span], part, "{line}");
        }
        // The second one is pointed at.
        assert_eq!("null,rate=1,rate=2".parse::<Spec>().unwrap_err().span, 12..16);
    }
}
