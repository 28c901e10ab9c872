//! Alibaba: `419,W,8792731648,16384,1577808144360767`.

use weir_engine::Op;

use super::{Asked, Parsed};
use crate::bad::Reason;
use crate::streams::{Called, Who};
use crate::text;

/// Time is microseconds since 1970.
const TICK_NS: u64 = 1000;

const HEADER: &[u8] = b"device_id,opcode,offset,length,timestamp";

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    if line.first() == Some(&b'd') && line == HEADER {
        return Ok(None);
    }
    let [device, opcode, offset, length, timestamp] = text::columns(line)?;
    let op = match opcode.trim_ascii() {
        b"R" => Op::Read,
        b"W" => Op::Write,
        _ => return Err(Reason::Operation { column: "opcode" }),
    };
    text::number(device, "device_id")?;
    let (offset, len) =
        text::extent(text::number(offset, "offset")?, text::number(length, "length")?)?;
    let time = text::ticks(timestamp, TICK_NS, "timestamp")?;
    let who = Who { key: device.trim_ascii(), called: Called::AsKeyed };
    Ok(Some(Asked::new(time, op, offset, len, who)))
}
