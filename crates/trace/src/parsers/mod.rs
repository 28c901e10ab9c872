//! Parsers, one for each format: from a line to a request.

mod alibaba;
mod blkparse;
mod cloud_physics;
pub(crate) mod columns;
mod iolog;
mod msr;
mod rwbs;
mod startup;
mod tencent;

use weir_engine::Op;

use crate::bad::Reason;
use crate::format::Format;
use crate::streams::Who;

/// The request of a line, in the trace's own time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Nanoseconds since the trace's own origin.
    pub(crate) time: u64,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) who: Who<'a>,
    pub(crate) follows: Follows,
    /// The device, where it is not the stream; empty where the format has none.
    pub(crate) device: &'a [u8],
    /// File-system metadata.
    pub(crate) metadata: bool,
    /// The time is that of its completion, since the trace has no earlier event.
    pub(crate) completed: bool,
}

impl<'a> Asked<'a> {
    /// Data, on the device of the stream.
    pub(crate) fn new(time: u64, op: Op, offset: u64, len: u32, who: Who<'a>) -> Asked<'a> {
        let (follows, device) = (Follows::Never, &b""[..]);
        Asked { time, op, offset, len, who, follows, device, metadata: false, completed: false }
    }
}

/// Dependence of a request on the previous one of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// Independent: it comes at its time.
    Never,
    /// Dependent if time has passed since the previous one, in a trace where only waits advance time.
    AfterGap,
    /// Dependent.
    Always,
}

/// `Ok(None)` is a good line without a request.
pub(crate) type Parsed<'a> = Result<Option<Asked<'a>>, Reason>;

/// The format, and its parser's state.
pub(crate) enum Parser {
    Msr,
    Alibaba,
    Tencent,
    CloudPhysics,
    Blkparse(blkparse::State),
    FioIolog(iolog::State),
    Startup,
    Columns(Box<columns::State>),
}

impl Parser {
    pub(crate) fn new(format: Format) -> Parser {
        match format {
            Format::Msr => Parser::Msr,
            Format::Alibaba => Parser::Alibaba,
            Format::Tencent => Parser::Tencent,
            Format::CloudPhysics => Parser::CloudPhysics,
            Format::Blkparse => Parser::Blkparse(blkparse::State::default()),
            Format::FioIolog => Parser::FioIolog(iolog::State::default()),
            Format::Startup => Parser::Startup,
            Format::Columns(columns) => Parser::Columns(Box::new(columns::State::new(*columns))),
        }
    }

    pub(crate) fn format(&self) -> Format {
        match self {
            Parser::Msr => Format::Msr,
            Parser::Alibaba => Format::Alibaba,
            Parser::Tencent => Format::Tencent,
            Parser::CloudPhysics => Format::CloudPhysics,
            Parser::Blkparse(_) => Format::Blkparse,
            Parser::FioIolog(_) => Format::FioIolog,
            Parser::Startup => Format::Startup,
            Parser::Columns(state) => Format::Columns(Box::new(state.columns().clone())),
        }
    }

    pub(crate) fn parse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        match self {
            Parser::Msr => msr::parse(line),
            Parser::Alibaba => alibaba::parse(line),
            Parser::Tencent => tencent::parse(line),
            Parser::CloudPhysics => cloud_physics::parse(line),
            Parser::Blkparse(state) => state.parse(line),
            Parser::FioIolog(state) => state.parse(line),
            Parser::Startup => startup::parse(line),
            Parser::Columns(state) => state.parse(line),
        }
    }
}
