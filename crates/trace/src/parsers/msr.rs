//! MSR Cambridge: `128166372003061629,usr,0,Read,7014609920,24576,41286`.

use weir_engine::Op;

use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text;

/// Time is a Windows file time.
const TICK_NS: u64 = 100;

const HEADER: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    // The published files have no header; collections of them have one in each part.
    if line.first() == Some(&b'T') && line == HEADER {
        return Ok(None);
    }
    let [timestamp, host, disk, kind, offset, size, response] = text::columns(line)?;
    let op = match kind.trim_ascii() {
        b"Read" => Op::Read,
        b"Write" => Op::Write,
        other if other.eq_ignore_ascii_case(b"read") => Op::Read,
        other if other.eq_ignore_ascii_case(b"write") => Op::Write,
        _ => return Err(Reason::Operation { column: "Type" }),
    };
    // Checked and ignored: the response time of the old disk.
    text::number(response, "ResponseTime")?;
    if host.is_empty() || disk.is_empty() {
        return Err(Reason::Name);
    }
    let (offset, len) = text::extent(text::number(offset, "Offset")?, text::number(size, "Size")?)?;
    // Both columns and the comma between them.
    let key = &line[timestamp.len() + 1..][..host.len() + 1 + disk.len()];
    let time = text::ticks(timestamp, TICK_NS, "Timestamp")?;
    Ok(Some(Asked::new(time, op, offset, len, Who { key, called: Called::HostDisk })))
}
