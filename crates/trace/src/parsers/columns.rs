//! Parser of lines by columns that the user names: `csv:time_us=6,op=4,lba512=5,bytes=2`.

use weir_engine::Op;

use super::rwbs::{self, Does};
use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::columns::{Column, Columns, Separator};
use crate::streams::{Called, Who};
use crate::text::{self, Words};

/// Stream of requests without a column for it.
const TRACE: Who<'static> = Who { key: b"trace", called: Called::AsKeyed };

pub(crate) struct State {
    columns: Columns,
    /// Lines read.
    lines: u64,
}

impl State {
    pub(crate) fn new(columns: Columns) -> State {
        State { columns, lines: 0 }
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        self.lines += 1;
        if self.lines <= u64::from(self.columns.skip) || line.trim_ascii_start().starts_with(b"#") {
            return Ok(None);
        }
        let parsed = self.request(line);
        // Probably the names of the columns; where they are numbers, use `skip`.
        if self.lines == 1 && matches!(parsed, Err(Reason::Time { .. })) {
            return Ok(None);
        }
        parsed
    }

    fn request<'a>(&self, line: &'a [u8]) -> Parsed<'a> {
        let Columns { separator, time, op, place, length, device, stream, only, .. } =
            &self.columns;
        let column =
            |at: Column, name| field(line, *separator, at).ok_or(Reason::Missing { column: name });
        if let Some((at, text)) = only
            && column(*at, "only")? != text
        {
            return Ok(None);
        }
        // As in `12345.678901:`.
        let stamp = column(time.column, "time")?;
        let stamp = stamp.strip_suffix(b":").unwrap_or(stamp);
        let time = text::decimal(stamp, time.unit.nanos(), "time")?;
        let word = column(*op, "op")?;
        let Some((op, metadata)) = self.operation(word)? else { return Ok(None) };
        let name = |at: &Option<Column>, name| match at {
            Some(at) => column(*at, name).map(Some),
            None => Ok(None),
        };
        let (device, stream) = (name(device, "device")?, name(stream, "stream")?);
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => {
                let first = text::number(column(place.column, "place")?, "place")?;
                let count = text::number(column(length.column, "length")?, "length")?;
                let offset = first.checked_mul(place.unit.into()).ok_or(Reason::BeyondEnd)?;
                text::extent(
                    offset,
                    count.checked_mul(length.unit.into()).ok_or(Reason::LengthTooLong)?,
                )?
            }
        };
        let who = stream.or(device).map_or(TRACE, |key| Who { key, called: Called::AsKeyed });
        let asked = Asked::new(time, op, offset, len, who);
        Ok(Some(Asked { device: device.unwrap_or_default(), metadata, ..asked }))
    }

    /// Operation by the user's words, else by common words, else by the letters of the block layer; and whether it is
    /// metadata.
    fn operation(&self, word: &[u8]) -> Result<Option<(Op, bool)>, Reason> {
        if let Some((op, _)) = self.columns.named.iter().find(|(_, known)| known == word) {
            return Ok(Some((*op, false)));
        }
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        let any = |known: &[&str]| known.iter().any(|&known| is(known));
        let op = match word {
            _ if any(&["r", "read", "0"]) => Op::Read,
            _ if any(&["w", "write", "1"]) => Op::Write,
            _ if any(&["d", "discard", "trim", "unmap"]) => Op::Discard,
            _ if any(&["f", "flush", "sync", "fsync"]) => Op::Flush,
            _ => match rwbs::does(word) {
                Some(Does::Data(op)) => op,
                Some(Does::FlushWrite) => Op::Write,
                Some(Does::Nothing) => return Ok(None),
                None => return Err(Reason::Operation { column: "op" }),
            },
        };
        // Words have no mark for metadata, and letters are capitals.
        let metadata = rwbs::does(word).is_some() && rwbs::is_metadata(word);
        Ok(Some((op, metadata)))
    }
}

/// A column without surrounding spaces and quotes.
fn field(line: &[u8], separator: Separator, at: Column) -> Option<&[u8]> {
    let nth = usize::from(at.get().unsigned_abs()) - 1;
    let from_left = at.get() > 0;
    let field = match separator {
        Separator::Byte(byte) => {
            let mut fields = line.split(|&other| other == byte);
            if from_left { fields.nth(nth) } else { fields.nth_back(nth) }
        }
        Separator::Blanks => {
            let mut words = Words::new(line);
            if from_left { words.nth(nth) } else { words.nth_back(nth) }
        }
    }?;
    let field = field.trim_ascii();
    let unquoted = field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\""));
    Some(unquoted.unwrap_or(field))
}
