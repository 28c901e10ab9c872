//! Settings of a model as `KEY=VALUE`: a table for each model, one reader and one printer.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::ops::Range;

use weir_units::nearest;
use weir_units::{Bytes, BytesPerSec, Ios, IosPerSec, Nanos, UnitError};

use crate::spec::{SpecError, SpecProblem};

/// A second in nanoseconds, and 10^9 of anything.
pub(crate) const BILLION: u64 = 1_000_000_000;

/// Disks are made of these.
const SECTOR: u64 = 512;

/// The largest disk: offsets are signed in the kernel's calls.
const SIZE_MAX: u64 = i64::MAX as u64;

/// One setting of a model whose settings are `S`. Words are indices into their list.
pub(crate) struct Setting<S> {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) get: fn(&S) -> u64,
    pub(crate) set: fn(&mut S, u64),
}

/// Type of a setting.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Bytes on a disk.
    Disk,
    /// Bytes.
    Size,
    /// Bytes a second.
    Rate,
    /// Bytes a second, or 0 for bytes that take no time.
    RateOrNone,
    /// Operations a second.
    Iops,
    /// A time.
    Time,
    /// A number.
    Count,
    /// One of these.
    Words(&'static [&'static str]),
}

/// A setting that is a field of numbers.
macro_rules! setting {
    ($name:literal, $kind:ident, $range:expr, $field:ident) => {
        $crate::settings::Setting {
            name: $name,
            kind: $crate::settings::Kind::$kind,
            min: *$range.start(),
            max: *$range.end(),
            get: |spec| spec.$field,
            set: |spec, value| spec.$field = value,
        }
    };
}
pub(crate) use setting;

/// The names in a table.
pub(crate) const fn names<S, const N: usize>(table: &[Setting<S>; N]) -> [&'static str; N] {
    let (mut names, mut at) = ([""; N], 0);
    while at < N {
        names[at] = table[at].name;
        at += 1;
    }
    names
}

/// Applies the settings at the end of `line` to `spec`.
pub(crate) fn read<S>(
    line: &str,
    settings: &str,
    model: &'static str,
    table: &'static [Setting<S>],
    known: &'static [&'static str],
    spec: &mut S,
) -> Result<(), SpecError> {
    for_each(line, settings, model, known, |key, value| {
        let Some(setting) = table.iter().find(|setting| setting.name == key) else { return Ok(()) };
        (setting.set)(spec, setting.value(value)?);
        Ok(())
    })
}

/// Prints the model's name and the settings that differ from its defaults.
pub(crate) fn print<S>(
    model: &str,
    own: &S,
    spec: &S,
    table: &[Setting<S>],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str(model)?;
    for Setting { name, kind, get, .. } in table {
        let value = get(spec);
        if value != get(own) {
            match kind {
                Kind::Time => write!(f, ",{name}={value}ns")?,
                Kind::Words(words) => write!(f, ",{name}={}", words[value as usize])?,
                _ => write!(f, ",{name}={value}")?,
            }
        }
    }
    Ok(())
}

impl<S> Setting<S> {
    fn value(&self, text: &str) -> Result<u64, Refusal> {
        let number = match self.kind {
            Kind::Disk => size(text)?,
            Kind::Size => text.parse::<Bytes>().map_err(unit)?.0,
            Kind::Rate | Kind::RateOrNone => text.parse::<BytesPerSec>().map_err(unit)?.0,
            Kind::Iops => text.parse::<IosPerSec>().map_err(unit)?.0,
            Kind::Time => text.parse::<Nanos>().map_err(unit)?.0,
            Kind::Count => text.parse::<Ios>().map_err(unit)?.0,
            Kind::Words(words) => {
                let index = words.iter().position(|word| *word == text);
                return index.map(|index| index as u64).ok_or_else(|| {
                    let hint = format!("write one of: {}", words.join(", "));
                    (format!("{text:?} is none of its values"), Some(hint))
                });
            }
        };
        let takes_zero = matches!(self.kind, Kind::RateOrNone);
        let is_free = number == 0 && takes_zero;
        if !is_free && !(self.min..=self.max).contains(&number) {
            let [number, min, max] =
                [number, self.min, self.max].map(|number| self.kind.print(number));
            let zero = if takes_zero { "0, nor " } else { "" };
            return Err(refuse(format!("{number} is not {zero}between {min} and {max}")));
        }
        Ok(number)
    }
}

impl Kind {
    fn print(self, value: u64) -> String {
        match self {
            Kind::Disk | Kind::Size => format!("{}", Bytes(value)),
            Kind::Rate | Kind::RateOrNone => format!("{}", BytesPerSec(value)),
            Kind::Time => format!("{}", Nanos(value)),
            Kind::Iops | Kind::Count | Kind::Words(_) => format!("{value}"),
        }
    }
}

/// Reason why a value is refused, and allowed ones.
pub(crate) type Refusal = (String, Option<String>);

pub(crate) fn refuse(reason: impl Into<String>) -> Refusal {
    (reason.into(), None)
}

pub(crate) fn unit(error: UnitError) -> Refusal {
    (error.to_string(), Some(error.hint()))
}

/// Bytes that a disk can have.
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

/// Calls `set` with each key, one of `known` (at most 32), and its value.
pub(crate) fn for_each(
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
