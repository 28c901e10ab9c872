//! Traces by columns: the meaning of each column, as a text such as `csv:time_us=6,op=4,lba512=5,bytes=2`.

use std::fmt;
use std::num::NonZeroI16;
use std::str::FromStr;

use weir_engine::Op;

/// The farthest column, from either end of a line.
const COLUMN_MAX: i16 = 256;

/// Largest unit of offsets and lengths, in bytes.
const BLOCK_MAX: u32 = 1 << 20;

/// Longest word of a specification, in bytes.
const WORD_MAX: usize = 255;

/// Most words for one operation.
const WORDS_MAX: usize = 16;

/// Columns of a trace without a format of its own.
///
/// Columns count from 1, or from the end: -1 is the last. Parsed from and printed as `csv:KEY=VALUE,...`, or
/// `words:KEY=VALUE,...` for columns between spaces and tabs. `docs/traces.md` lists the keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Columns {
    pub(crate) separator: Separator,
    /// Lines to skip at the beginning.
    pub(crate) skip: u32,
    pub(crate) time: Counted<TimeUnit>,
    pub(crate) op: Column,
    /// Additional words for operations.
    pub(crate) named: Vec<(Op, Vec<u8>)>,
    pub(crate) place: Counted<u32>,
    pub(crate) length: Counted<u32>,
    pub(crate) device: Option<Column>,
    pub(crate) stream: Option<Column>,
    /// Only lines with this text in this column.
    pub(crate) only: Option<(Column, Vec<u8>)>,
}

/// A column, counted from 1, or from -1 backwards.
pub(crate) type Column = NonZeroI16;

/// A column of numbers, and their unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Counted<U> {
    pub(crate) column: Column,
    pub(crate) unit: U,
}

/// Separator of columns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Separator {
    /// This byte, each time.
    Byte(u8),
    /// Spaces and tabs, any number.
    Blanks,
}

/// The unit of a column of times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum TimeUnit {
    Second,
    Millisecond,
    Microsecond,
    /// A tick of a Windows file time: 100 ns.
    FileTime,
    Nanosecond,
}

impl TimeUnit {
    const ALL: [TimeUnit; 5] = [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::FileTime,
        TimeUnit::Nanosecond,
    ];

    pub(crate) const fn nanos(self) -> u64 {
        match self {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::FileTime => 100,
            TimeUnit::Nanosecond => 1,
        }
    }

    const fn key(self) -> &'static str {
        match self {
            TimeUnit::Second => "time_s",
            TimeUnit::Millisecond => "time_ms",
            TimeUnit::Microsecond => "time_us",
            TimeUnit::FileTime => "time_100ns",
            TimeUnit::Nanosecond => "time_ns",
        }
    }
}

/// Operations with additional words: key and operation.
const NAMED: [(&str, Op); 4] =
    [("read", Op::Read), ("write", Op::Write), ("discard", Op::Discard), ("flush", Op::Flush)];

/// All keys, for messages.
const KEYS: &str = "time_s, time_ms, time_us, time_100ns, time_ns, op, offset, lba512, lba4096 (any block), bytes, \
                    blocks512, blocks4096 (any block), device, stream, only, read, write, discard, flush, sep, skip";

/// Reason why a text is no description of columns.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ColumnsError {
    /// It does not begin with `csv:` or `words:`.
    #[error("columns begin with `csv:` or `words:`")]
    Kind,
    /// A part is not `KEY=VALUE`.
    #[error("{part:?} is not KEY=VALUE")]
    NoPair {
        /// The part.
        part: String,
    },
    /// An unknown key.
    #[error("there is no key {key:?}; known: {KEYS}")]
    Key {
        /// The key.
        key: String,
    },
    /// A bad value.
    #[error("{key}={value}: {allowed}")]
    Value {
        /// Its key.
        key: String,
        /// The value.
        value: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// Two keys for one thing.
    #[error("{what} is given twice")]
    Twice {
        /// That thing.
        what: &'static str,
    },
    /// A missing key that every trace needs.
    #[error("{what} is missing: {example}")]
    Missing {
        /// Its meaning.
        what: &'static str,
        /// A key for it.
        example: &'static str,
    },
}

const A_COLUMN: &str = "a column is 1 to 256 from the left, or -1 to -256 from the end";

impl Columns {
    /// Whether a text is meant as columns.
    pub(crate) fn is_meant(text: &str) -> bool {
        ["csv", "words"]
            .iter()
            .any(|kind| text.strip_prefix(kind).is_some_and(|rest| rest.starts_with(':')))
    }
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let (kind, parts) = text.split_once(':').ok_or(ColumnsError::Kind)?;
        let mut separator = match kind {
            "csv" => Separator::Byte(b','),
            "words" => Separator::Blanks,
            _ => return Err(ColumnsError::Kind),
        };
        let (mut time, mut op, mut place, mut length) = (None, None, None, None);
        let (mut device, mut stream, mut only, mut skip) = (None, None, None, None);
        let mut has_separator = false;
        let mut named: Vec<(Op, Vec<u8>)> = Vec::new();
        for part in parts.split(',') {
            let no_pair = || ColumnsError::NoPair { part: part.into() };
            let (key, value) = part.split_once('=').ok_or_else(no_pair)?;
            let wrong =
                |allowed| ColumnsError::Value { key: key.into(), value: value.into(), allowed };
            let column = || column(value).ok_or_else(|| wrong(A_COLUMN));
            if let Some(unit) = TimeUnit::ALL.into_iter().find(|unit| unit.key() == key) {
                once(&mut time, Counted { column: column()?, unit }, "the time")?;
                continue;
            }
            if let Some((_, op)) = NAMED.into_iter().find(|(name, _)| *name == key) {
                for word in value.split('+') {
                    if word.is_empty()
                        || word.len() > WORD_MAX
                        || named.len() == NAMED.len() * WORDS_MAX
                    {
                        return Err(wrong("words for an operation stand between `+`: read=28+88"));
                    }
                    if named.iter().any(|(_, known)| known == word.as_bytes()) {
                        return Err(ColumnsError::Twice { what: "a word for an operation" });
                    }
                    named.push((op, word.into()));
                }
                continue;
            }
            match key {
                "op" => once(&mut op, column()?, "the operation")?,
                "device" => once(&mut device, column()?, "the device")?,
                "stream" => once(&mut stream, column()?, "the stream")?,
                "offset" => once(&mut place, Counted { column: column()?, unit: 1 }, "the place")?,
                "bytes" => once(&mut length, Counted { column: column()?, unit: 1 }, "the length")?,
                "skip" => {
                    let lines = value.parse().map_err(|_| wrong("a number of lines"))?;
                    once(&mut skip, lines, "skip")?;
                }
                "sep" => {
                    if std::mem::replace(&mut has_separator, true) {
                        return Err(ColumnsError::Twice { what: "sep" });
                    }
                    separator = match (kind, value) {
                        ("csv", "tab") => Separator::Byte(b'\t'),
                        ("csv", ";") => Separator::Byte(b';'),
                        ("csv", "|") => Separator::Byte(b'|'),
                        ("csv", ":") => Separator::Byte(b':'),
                        ("csv", "space") => Separator::Byte(b' '),
                        ("csv", _) => return Err(wrong("it is `tab`, `space`, `;`, `|` or `:`")),
                        _ => return Err(wrong("only csv has one: words stand between blanks")),
                    };
                }
                "only" => {
                    let (at, text) =
                        value.split_once(':').ok_or_else(|| wrong("it is COLUMN:TEXT"))?;
                    let at = self::column(at).ok_or_else(|| wrong(A_COLUMN))?;
                    if text.is_empty() || text.len() > WORD_MAX {
                        return Err(wrong("the text has 1 to 255 bytes"));
                    }
                    once(&mut only, (at, text.as_bytes().to_vec()), "only")?;
                }
                _ => {
                    let block = |prefix| key.strip_prefix(prefix).and_then(block);
                    match (block("lba"), block("blocks")) {
                        (Some(unit), _) => {
                            once(&mut place, Counted { column: column()?, unit }, "the place")?;
                        }
                        (_, Some(unit)) => {
                            once(&mut length, Counted { column: column()?, unit }, "the length")?;
                        }
                        _ => return Err(ColumnsError::Key { key: key.into() }),
                    }
                }
            }
        }
        let missing = |what, example| ColumnsError::Missing { what, example };
        // A word stands for one operation, so their order means nothing; it is that in which they are printed.
        named.sort_by_key(|(of, _)| NAMED.iter().position(|(_, op)| op == of));
        Ok(Columns {
            separator,
            skip: skip.unwrap_or(0),
            time: time.ok_or_else(|| {
                missing("the time", "time_us=6, or time_s, time_ms, time_100ns, time_ns")
            })?,
            op: op.ok_or_else(|| missing("the operation", "op=4"))?,
            named,
            place: place.ok_or_else(|| missing("the place", "lba512=5, or offset=5 for bytes"))?,
            length: length.ok_or_else(|| missing("the length", "bytes=2, or blocks512=2"))?,
            device,
            stream,
            only,
        })
    }
}

fn once<T>(at: &mut Option<T>, value: T, what: &'static str) -> Result<(), ColumnsError> {
    match at.replace(value) {
        None => Ok(()),
        Some(_) => Err(ColumnsError::Twice { what }),
    }
}

fn column(text: &str) -> Option<Column> {
    text.parse()
        .ok()
        .filter(|column: &Column| column.get().unsigned_abs() <= COLUMN_MAX.unsigned_abs())
}

/// The size of a block: a power of two from 512 bytes to 1 MiB.
fn block(text: &str) -> Option<u32> {
    text.parse()
        .ok()
        .filter(|&bytes: &u32| bytes.is_power_of_two() && (512..=BLOCK_MAX).contains(&bytes))
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Columns { time, op, named, place, length, device, stream, only, .. } = self;
        f.write_str(if self.separator == Separator::Blanks { "words:" } else { "csv:" })?;
        write!(f, "{}={},op={op}", time.unit.key(), time.column)?;
        match place.unit {
            1 => write!(f, ",offset={}", place.column)?,
            unit => write!(f, ",lba{unit}={}", place.column)?,
        }
        match length.unit {
            1 => write!(f, ",bytes={}", length.column)?,
            unit => write!(f, ",blocks{unit}={}", length.column)?,
        }
        if let Some(device) = device {
            write!(f, ",device={device}")?;
        }
        if let Some(stream) = stream {
            write!(f, ",stream={stream}")?;
        }
        if let Some((column, text)) = only {
            write!(f, ",only={column}:{}", String::from_utf8_lossy(text))?;
        }
        for (key, op) in NAMED {
            let words = named.iter().filter(|(of, _)| *of == op).map(|(_, word)| word);
            for (index, word) in words.enumerate() {
                let before = if index == 0 { format!(",{key}=") } else { "+".into() };
                write!(f, "{before}{}", String::from_utf8_lossy(word))?;
            }
        }
        match self.separator {
            Separator::Byte(b'\t') => f.write_str(",sep=tab")?,
            Separator::Byte(b' ') => f.write_str(",sep=space")?,
            Separator::Byte(b',') | Separator::Blanks => {}
            Separator::Byte(byte) => write!(f, ",sep={}", char::from(byte))?,
        }
        if self.skip > 0 {
            write!(f, ",skip={}", self.skip)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_printed_as_they_are_read() {
        for text in [
            "csv:time_us=6,op=4,lba512=5,bytes=2",
            "csv:time_s=5,op=4,lba512=2,bytes=3,device=1",
            "csv:time_100ns=1,op=3,offset=5,blocks4096=6,device=-1,stream=2,sep=;,skip=1",
            "words:time_ns=1,op=6,lba4096=4,blocks512=5,only=5:a:b,read=28+88,write=2a,skip=12",
            "csv:time_ms=-256,op=256,offset=1,bytes=1,discard=T,flush=F,sep=tab",
        ] {
            let columns: Columns = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(columns.to_string(), text);
        }
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        let whole = "csv:time_s=1,op=2,offset=3,bytes=4";
        for (text, message) in [
            ("tsv:time_s=1", "columns begin with `csv:` or `words:`"),
            ("csv:", "\"\" is not KEY=VALUE"),
            (
                "csv:op=4,offset=1,bytes=2",
                "the time is missing: time_us=6, or time_s, time_ms, time_100ns, time_ns",
            ),
            ("csv:time_s=1,op=2,offset=3", "the length is missing: bytes=2, or blocks512=2"),
            ("csv:time_s=1,time_us=2", "the time is given twice"),
            (
                "csv:time_s=0",
                "time_s=0: a column is 1 to 256 from the left, or -1 to -256 from the end",
            ),
            (
                "csv:time_s=257",
                "time_s=257: a column is 1 to 256 from the left, or -1 to -256 from the end",
            ),
            (&format!("{whole},lba512=3"), "the place is given twice"),
            (
                &format!("{whole},read="),
                "read=: words for an operation stand between `+`: read=28+88",
            ),
            (&format!("{whole},read=1,write=1"), "a word for an operation is given twice"),
            (&format!("{whole},sep=x"), "sep=x: it is `tab`, `space`, `;`, `|` or `:`"),
            (&format!("{whole},only=4"), "only=4: it is COLUMN:TEXT"),
            ("words:sep=;", "sep=;: only csv has one: words stand between blanks"),
        ] {
            assert_eq!(text.parse::<Columns>().unwrap_err().to_string(), message, "{text}");
        }
        for text in ["csv:lba1000=3", "csv:lba256=3", "csv:blocks2097152=1", "csv:tme=1"] {
            let error = text.parse::<Columns>().unwrap_err().to_string();
            assert!(error.starts_with("there is no key ") && error.contains("lba512"), "{error}");
        }
    }
}
