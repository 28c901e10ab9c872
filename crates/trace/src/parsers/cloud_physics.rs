//! CloudPhysics: `1,5633898,2a,512,42932745`.

use weir_engine::Op;

use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text;

const HEADER: &[u8] = b"version,time,op,size,lbn";

/// A trace is of one virtual disk.
const DISK: Who<'static> = Who { key: b"disk", called: Called::AsKeyed };

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if line.first() == Some(&b'v') && line == HEADER {
        return Ok(None);
    }
    let [version, time, op, size, lbn] = text::columns(line)?;
    // The recorder has had two versions; another number is another format with five columns.
    if !matches!(text::digits(version), Some(1 | 2)) {
        return Err(Reason::Number { column: "version" });
    }
    let time = text::seconds(time, "time")?;
    let size = text::number(size, "size")?;
    let lbn = text::number(lbn, "lbn")?;
    let op = match operation(op.trim_ascii()) {
        Some(Scsi::Does(op)) => op,
        Some(Scsi::Other) => return Ok(None),
        None => return Err(Reason::Operation { column: "op" }),
    };
    let (offset, len) = match op {
        Op::Flush => (0, 0),
        _ => text::extent(text::offset_of_sector(lbn)?, size)?,
    };
    Ok(Some(Asked::new(time, op, offset, len, DISK)))
}

enum Scsi {
    Does(Op),
    /// A query, or a command whose extents are in its data, which the trace does not have (UNMAP).
    Other,
}

/// A SCSI operation code: one byte in hexadecimal. Source: SCSI Block Commands, SBC-3, table "Commands".
fn operation(code: &[u8]) -> Option<Scsi> {
    let code = match code {
        [digit] => hex(*digit)?,
        [high, low] | [b'0', b'x' | b'X', high, low] => hex(*high)? * 16 + hex(*low)?,
        _ => return None,
    };
    Some(match code {
        // READ of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Scsi::Does(Op::Read),
        // WRITE likewise; WRITE AND VERIFY (10, 12, 16); WRITE SAME (10, 16).
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Scsi::Does(Op::Write),
        // SYNCHRONIZE CACHE (10, 16).
        0x35 | 0x91 => Scsi::Does(Op::Flush),
        _ => Scsi::Other,
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
