//! fio's I/O log: `/dev/sda read 4096 8192` (version 2), `217 /dev/sda read 4096 8192` (version 3).

use weir_engine::Op;

use super::{Asked, Follows, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text::{self, Words};

const MICROSECOND_NS: u64 = 1000;

/// fio ignores shorter waits. Source: fio(1), "Trace file format v2".
const WAIT_MIN_NS: u64 = 100 * MICROSECOND_NS;

/// State from earlier lines.
#[derive(Default)]
pub(crate) struct State {
    version: Option<Version>,
    /// Sum of the waits of version 2, in nanoseconds: its only time.
    waited: u64,
}

#[derive(Clone, Copy)]
enum Version {
    Two,
    Three,
}

impl State {
    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        match line.trim_ascii() {
            b"fio version 2 iolog" => self.version = Some(Version::Two),
            b"fio version 3 iolog" => self.version = Some(Version::Three),
            _ => return self.parse_action(line),
        }
        Ok(None)
    }

    fn parse_action<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let version = self.version.ok_or(Reason::NoVersion)?;
        let mut words = Words::new(line);
        let time = match version {
            Version::Two => None,
            Version::Three => {
                Some(text::ticks(words.word("timestamp")?, MICROSECOND_NS, "timestamp")?)
            }
        };
        let file = words.word("filename")?;
        let op = match (words.word("action")?, version) {
            (b"read", _) => Op::Read,
            (b"write", _) => Op::Write,
            (b"trim", _) => Op::Discard,
            (b"sync" | b"datasync" | b"syncfs", _) => Op::Flush,
            // Files come and go; `sync_file_range` starts writing back and makes nothing durable.
            (b"add" | b"open" | b"close" | b"sync_file_range", _) => return Ok(None),
            (b"wait", Version::Two) => {
                let wait = text::ticks(words.word("offset")?, MICROSECOND_NS, "offset")?;
                if wait >= WAIT_MIN_NS {
                    self.waited =
                        self.waited.checked_add(wait).ok_or(Reason::Time { column: "offset" })?;
                }
                return Ok(None);
            }
            _ => return Err(Reason::Operation { column: "action" }),
        };
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => {
                let offset = text::number(words.word("offset")?, "offset")?;
                text::extent(offset, text::number(words.word("length")?, "length")?)?
            }
        };
        let who = Who { key: file, called: Called::AsKeyed };
        let follows = if time.is_some() { Follows::Never } else { Follows::AfterGap };
        let asked = Asked::new(time.unwrap_or(self.waited), op, offset, len, who);
        Ok(Some(Asked { follows, ..asked }))
    }
}
