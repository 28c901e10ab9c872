//! Tencent CBS: `1538323200,12910952,128,0,1063`.

use weir_engine::Op;

use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text;

const HEADER: &[u8] = b"Timestamp,Offset,Size,IOType,VolumeID";

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if line.first() == Some(&b'T') && line == HEADER {
        return Ok(None);
    }
    let [timestamp, offset, size, kind, volume] = text::columns(line)?;
    let op = match kind.trim_ascii() {
        b"0" => Op::Read,
        b"1" => Op::Write,
        _ => return Err(Reason::Operation { column: "IOType" }),
    };
    text::number(volume, "VolumeID")?;
    let (first, count) = (text::number(offset, "Offset")?, text::number(size, "Size")?);
    let (offset, len) = text::extent_of_sectors(first, count)?;
    let time = text::seconds(timestamp, "Timestamp")?;
    let who = Who { key: volume.trim_ascii(), called: Called::AsKeyed };
    Ok(Some(Asked::new(time, op, offset, len, who)))
}
