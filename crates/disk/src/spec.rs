//! Specification of a disk: a line of text with a model and its settings.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;
use core::str::FromStr;

use thiserror::Error;
use weir_units::nearest;
use weir_units::{Bytes, BytesPerSec, Nanos};

use crate::hdd::{self, Hdd, HddSpec};
use crate::linear::{self, DRIVES, Linear, LinearSpec};
use crate::model::DiskModel;
use crate::null::{Null, NullSpec};
use crate::presets::{HDDS, Preset, SSDS, find, presets};
use crate::settings::{Refusal, for_each, print, read, refuse, size, unit};
use crate::ssd::{self, Ssd, SsdSpec};

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
/// | | `segments` | stretches of read data that are kept, 1 to 64 | |
/// | | `ncq` | commands to choose among, 1 to 1024 | |
/// | | `age` | time after which a request goes first | |
/// | `ssd-sata`, `ssd-nvme` | `size` | bytes, a multiple of 512 | the model's own, see [`SsdSpec`] |
/// | | `channels`, `dies`, `planes` | counts; dies of a channel, planes of a die | |
/// | | `page`, `pages` | bytes; pages of a block | |
/// | | `read`, `program`, `erase` | times of the flash | |
/// | | `bus`, `interface` | bytes a second of a channel, and to the host | |
/// | | `duplex` | `half` or `full` | |
/// | | `overhead`, `latency` | times that commands do, and do not, wait for one another | |
/// | | `buffer` | bytes | |
/// | | `age` | time after which a program goes before reads | |
/// | | `gc`, `op` | `on` or `off`; percent of over-provisioning | |
/// | | `state` | `fresh`, `full` or `aged` | |
/// | the linear profiles of [`presets`] | `size` | bytes, a multiple of 512 | the profile's, see [`LinearSpec`] |
/// | | `rbps`, `wbps` | bytes a second; 0, here and below, takes no time | |
/// | | `rseqiops`, `wseqiops` | operations of 4 KiB a second, in order | |
/// | | `rrandiops`, `wrandiops` | the same at random places | |
/// | | `latency` | time on top that others do not wait for | 0 |
/// | | `streams` | places near which a request is sequential | 1 |
///
/// Sizes, rates and times are those of [`weir_units`]. Printing one gives a line that parses to the same.
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
    /// Flash: [`Ssd`].
    Ssd {
        /// The model that the settings change.
        model: &'static str,
        /// All settings.
        spec: SsdSpec,
    },
    /// The linear model: [`Linear`].
    Linear {
        /// The model that the settings change.
        model: &'static str,
        /// All settings.
        spec: LinearSpec,
    },
}

/// Error in a line, with its position.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{problem}")]
pub struct SpecError {
    /// The wrong bytes of the line.
    pub span: Range<usize>,
    /// The error.
    pub problem: SpecProblem,
}

/// Kind of an error in a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpecProblem {
    /// No such model.
    #[error("there is no disk model {name:?}")]
    UnknownModel {
        /// As written.
        name: String,
        /// The model that was probably meant.
        near: Option<&'static str>,
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
    /// A bad value.
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
            SpecProblem::UnknownModel { near: Some(near), .. } => {
                Some(format!("did you mean `{near}`?"))
            }
            SpecProblem::UnknownModel { .. } => {
                // The measured drives are too many for a line.
                let is_drive =
                    |name: &str| find(DRIVES, name).is_some() && !name.starts_with("linear-");
                let (drives, own): (Vec<&str>, Vec<&str>) =
                    presets().map(|preset| preset.name).partition(|name| is_drive(name));
                let (own, count, last) = (own.join(", "), drives.len(), drives[drives.len() - 1]);
                Some(format!("available: {own}, and {count} measured drives such as {last}"))
            }
            SpecProblem::UnknownKey { near: Some(near), .. } => {
                Some(format!("did you mean `{near}`?"))
            }
            SpecProblem::UnknownKey { known, .. } => {
                Some(format!("known keys: {}", known.join(", ")))
            }
            SpecProblem::NoValue { text } => Some(format!("write `{text}=VALUE`")),
            SpecProblem::Twice { .. } => Some("say it once".into()),
            SpecProblem::Value { key, hint, .. } => {
                let usual = || format!("leave `{key}` out for what this disk has");
                Some(hint.clone().unwrap_or_else(usual))
            }
        }
    }
}

const NULL_KEYS: &[&str] = &["rate", "latency", "size"];

/// Default size of a disk.
const SIZE: u64 = 4 << 30;

/// Default completion time of the kernel's null_blk.
const LATENCY_NS: u64 = 10_000;

/// Longer latencies are mistakes in the unit.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

impl Spec {
    /// An idle disk.
    pub fn build(&self) -> Box<dyn DiskModel> {
        match *self {
            Spec::Null(spec) => Box::new(Null::new(spec)),
            Spec::Hdd { spec, .. } => Box::new(Hdd::new(spec)),
            Spec::Ssd { spec, .. } => Box::new(Ssd::new(spec)),
            Spec::Linear { spec, .. } => Box::new(Linear::new(spec)),
        }
    }

    /// Whether seeks take time: platters, and linear drives whose random reads are at most a tenth as fast as sequential ones.
    pub fn is_rotational(&self) -> bool {
        match self {
            Spec::Null(_) | Spec::Ssd { .. } => false,
            Spec::Hdd { .. } => true,
            Spec::Linear { spec, .. } => {
                // A figure of 0 takes no time: bytes are what is left to compare with, or nothing.
                let sequential = match spec.read_seq_iops {
                    0 => spec.read_bps / 4096,
                    iops => iops,
                };
                spec.read_rand_iops > 0 && spec.read_rand_iops <= sequential / 10
            }
        }
    }

    /// Bytes on the disk.
    pub fn size(&self) -> u64 {
        match self {
            Spec::Null(spec) => spec.size,
            Spec::Hdd { spec, .. } => spec.size,
            Spec::Ssd { spec, .. } => spec.size,
            Spec::Linear { spec, .. } => spec.size,
        }
    }
}

/// A value without the blank before its unit: a line is one word for a shell.
fn compact(value: impl fmt::Display) -> String {
    value.to_string().replace(' ', "")
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(line: &str) -> Result<Spec, SpecError> {
        let (name, settings) = line.split_once(',').unwrap_or((line, ""));
        if name == "null" {
            return null(line, settings).map(Spec::Null);
        }
        if let Some((model, mut spec)) = find(HDDS, name) {
            read(line, settings, model, hdd::TABLE, hdd::KEYS, &mut spec)?;
            return whole(line, hdd::check(&spec), Spec::Hdd { model, spec });
        }
        if let Some((model, mut spec)) = find(SSDS, name) {
            read(line, settings, model, ssd::TABLE, ssd::KEYS, &mut spec)?;
            return whole(line, ssd::check(&spec), Spec::Ssd { model, spec });
        }
        if let Some((model, mut spec)) = find(DRIVES, name) {
            read(line, settings, model, linear::TABLE, linear::KEYS, &mut spec)?;
            return Ok(Spec::Linear { model, spec });
        }
        let near = nearest(name, presets().map(|preset| preset.name));
        let near = presets().map(|preset| preset.name).find(|&preset| Some(preset) == near);
        let problem = SpecProblem::UnknownModel { name: name.to_string(), near };
        Err(SpecError { span: 0..name.len(), problem })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Null(spec) => {
                f.write_str("null")?;
                if let Some(rate) = spec.rate {
                    write!(f, ",rate={}", compact(Bytes(rate.get())))?;
                }
                let (latency, size) = (compact(Nanos(spec.latency_ns)), compact(Bytes(spec.size)));
                write!(f, ",latency={latency},size={size}")
            }
            Spec::Hdd { model, spec } => print(model, &own(HDDS, model), spec, hdd::TABLE, f),
            Spec::Ssd { model, spec } => print(model, &own(SSDS, model), spec, ssd::TABLE, f),
            Spec::Linear { model, spec } => {
                print(model, &own(DRIVES, model), spec, linear::TABLE, f)
            }
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

/// A line whose settings may contradict one another.
fn whole(
    line: &str,
    checked: Result<(), (&'static str, String)>,
    spec: Spec,
) -> Result<Spec, SpecError> {
    checked.map(|()| spec).map_err(|(key, reason)| SpecError {
        span: 0..line.len(),
        problem: SpecProblem::Value { key, reason, hint: None },
    })
}

/// The model with its defaults; for an unknown name, the first model.
fn own<S: Copy>(table: &[(Preset, S)], model: &str) -> S {
    find(table, model).map_or(table[0].1, |(_, own)| own)
}

fn latency(value: &str) -> Result<u64, Refusal> {
    let Nanos(latency) = value.parse().map_err(unit)?;
    if latency > LATENCY_NS_MAX {
        return Err(refuse("a latency is at most 60 s"));
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_specs_parse_and_print() {
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
    fn models_print_what_differs() {
        for line in [
            "hdd7200",
            "hdd4200",
            "disk2009,cache=0,ncq=32",
            "hdd7200,size=1073741824,average=9000000ns",
            "ssd-sata",
            "linear-hdd,rrandiops=120,latency=100000ns",
            "linear-hdd,rbps=0,wseqiops=0,wrandiops=0",
            "samsung-ssd-970-pro-512gb",
            "ssd-nvme,channels=4,read=30000ns,duplex=half,gc=off,state=aged",
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
            ("hdd7200,ncq=many", "many", "`ncq`: \"many\" is not a number"),
            ("ssd-nvme,gc=maybe", "maybe", "`gc`: \"maybe\" is none of its values"),
            (
                "ssd-sata,buffer=16K",
                "ssd-sata,buffer=16K",
                "`buffer`: 16 KiB do not hold a page of each of 2 planes, 32 KiB",
            ),
            ("linear-ssd", "linear-ssd", "there is no disk model \"linear-ssd\""),
            ("linear-hdd,rbps=1", "1", "`rbps`: 1 B/s is not 0, nor between 4 KiB/s and 1 TiB/s"),
            ("ssd-sata,op=0", "0", "`op`: 0 is not between 1 and 400"),
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
