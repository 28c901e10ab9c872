//! Start-up traces: `xterm-31657 .015820 8 113248520 Rand -65536 0 RA 4.682409 C`.

use weir_engine::Op;

use super::rwbs::{self, Does};
use super::{Asked, Follows, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text::{self, Words};

/// Columns are relative to the word `Seq` or `Rand`: left of it the time since the last request may be missing, right of it
/// there may be fewer or more marks, and a process's name may have spaces.
pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    let mut left = Words::new(line);
    while let Some(word) = left.next_back() {
        if word == b"Seq" || word == b"Rand" {
            let anchor = left.untaken() + word.len();
            return around(left, Words::new(&line[anchor..]));
        }
    }
    Err(Reason::Missing { column: "Seq or Rand" })
}

fn around<'a>(mut left: Words<'a>, mut right: Words<'a>) -> Parsed<'a> {
    // The head's movement follows from the sectors.
    right.word("distance")?;
    right.word("run")?;
    let kind = right.word("kind")?;
    let op = match rwbs::does(kind) {
        Some(Does::Data(op)) => op,
        Some(Does::FlushWrite) => Op::Write,
        Some(Does::Nothing) => return Ok(None),
        None => return Err(Reason::Operation { column: "kind" }),
    };
    let time = text::seconds(right.word("time")?, "time")?;

    let first =
        text::number(left.next_back().ok_or(Reason::Missing { column: "sector" })?, "sector")?;
    let count = text::number(left.next_back().ok_or(Reason::Missing { column: "size" })?, "size")?;
    // The time since the last request is redundant to `time`: only the name is used.
    let mut without = left.clone();
    let since = without.next_back().ok_or(Reason::Name)?;
    if !without.rest().is_empty() && text::seconds(since, "since").is_ok() {
        left = without;
    }
    let (offset, len) = match op {
        Op::Flush => (0, 0),
        _ => text::extent_of_sectors(first, count)?,
    };
    let who = Who { key: left.rest(), called: Called::AsKeyed };
    let asked = Asked::new(time, op, offset, len, who);
    Ok(Some(Asked { follows: Follows::Always, metadata: rwbs::is_metadata(kind), ..asked }))
}
