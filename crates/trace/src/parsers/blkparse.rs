//! blkparse text: `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]`.

use weir_engine::Op;

use super::rwbs::{self, Does};
use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text::{self, Words};

/// State from earlier lines.
#[derive(Default)]
pub(crate) struct State {
    /// A `Q` was seen: later `D` are of requests already taken.
    queues: bool,
    /// A `Q` or `D` was seen: later `C` are of requests already taken.
    sends: bool,
    /// The events have ended; blkparse's summary follows.
    summary: bool,
}

impl State {
    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let mut words = Words::new(line);
        let device = words.next().unwrap_or_default();
        if !is_device(device) {
            self.summary |= starts_summary(device);
            return if self.summary { Ok(None) } else { Err(Reason::Number { column: "device" }) };
        }
        text::number(words.word("cpu")?, "cpu")?;
        text::number(words.word("sequence")?, "sequence")?;
        let time = text::seconds(words.word("time")?, "time")?;
        let process = words.word("pid")?;
        text::number(process, "pid")?;
        let mut completes = false;
        match words.word("action")? {
            b"Q" => (self.queues, self.sends) = (true, true),
            b"D" if !self.queues => self.sends = true,
            b"C" if !self.sends => completes = true,
            // Source: blkparse(1), "Action identifiers". `m` is a message and may hold anything.
            b"A" | b"B" | b"C" | b"D" | b"F" | b"G" | b"I" | b"M" | b"P" | b"R" | b"S" | b"T"
            | b"U" | b"UT" | b"X" | b"m" => return Ok(None),
            _ => return Err(Reason::Operation { column: "action" }),
        }
        let letters = words.word("rwbs")?;
        let does = rwbs::does(letters);
        let rest = words.rest();
        let (op, place) = match does {
            None => return Err(Reason::Operation { column: "rwbs" }),
            Some(Does::Nothing) => return Ok(None),
            Some(Does::Data(Op::Flush)) => (Op::Flush, None),
            Some(Does::FlushWrite) => match place(rest)? {
                None | Some((_, 0)) => (Op::Flush, None),
                place => (Op::Write, place),
            },
            Some(Does::Data(op)) => {
                (op, Some(place(rest)?.ok_or(Reason::Missing { column: "sector" })?))
            }
        };
        let (offset, len) = match place {
            Some((sector, count)) => text::extent_of_sectors(sector, count)?,
            None => (0, 0),
        };
        let who = match completes {
            // The process that ran at the completion, and in brackets its error: neither is the source.
            true => Who { key: device, called: Called::AsKeyed },
            false => {
                let called = command(rest).map_or(Called::AsKeyed, Called::Command);
                Who { key: process, called }
            }
        };
        let asked = Asked::new(time, op, offset, len, who);
        let metadata = rwbs::is_metadata(letters);
        Ok(Some(Asked { device, metadata, completed: completes, ..asked }))
    }
}

/// `8,0`: major and minor number.
fn is_device(word: &[u8]) -> bool {
    let mut numbers = word.split(|&byte| byte == b',');
    let mut number = || numbers.next().and_then(text::digits).is_some();
    number() && number() && numbers.next().is_none()
}

/// `CPU0 (sda):` comes once for each CPU; an empty trace has only `Total` or `Throughput`.
fn starts_summary(word: &[u8]) -> bool {
    word.starts_with(b"CPU") || word == b"Total" || word == b"Throughput"
}

/// First sector and number of sectors: `223490 + 8 [kjournald]`; `None` where only the command is given.
fn place(rest: &[u8]) -> Result<Option<(u64, u64)>, Reason> {
    if rest.is_empty() || rest.starts_with(b"[") {
        return Ok(None);
    }
    let mut words = Words::new(rest);
    let sector = text::number(words.word("sector")?, "sector")?;
    if words.word("sectors")? != b"+" {
        return Err(Reason::Missing { column: "sectors" });
    }
    Ok(Some((sector, text::number(words.word("sectors")?, "sectors")?)))
}

/// The text in brackets at the end, which may contain spaces and brackets.
fn command(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.strip_suffix(b"]")?;
    let start = rest.iter().position(|&byte| byte == b'[')?;
    let command = &rest[start + 1..];
    (!command.is_empty()).then_some(command)
}
