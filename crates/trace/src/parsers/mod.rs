//! One parser a format: a line in, what it asks for out.

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

/// What one line asks for, in the trace's own time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Nanoseconds since whatever the trace counts from.
    pub(crate) time: u64,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) who: Who<'a>,
    pub(crate) follows: Follows,
    /// The device, where it is not the asker; empty where the format has none.
    pub(crate) device: &'a [u8],
    /// File-system metadata.
    pub(crate) metadata: bool,
    /// The time is that of its completion, for want of anything before that.
    pub(crate) completed: bool,
}

impl<'a> Asked<'a> {
    /// Data, on the device that is asked.
    pub(crate) fn new(time: u64, op: Op, offset: u64, len: u32, who: Who<'a>) -> Asked<'a> {
        let (follows, device) = (Follows::Never, &b""[..]);
        Asked { time, op, offset, len, who, follows, device, metadata: false, completed: false }
    }
}

/// Whether a request waits for the one before it in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// No: it comes at its time.
    Never,
    /// If time has passed between the two, in a trace where only waits make time pass.
    AfterGap,
    /// Always.
    Always,
}

/// `Ok(None)` is a line that makes sense and asks for nothing.
pub(crate) type Parsed<'a> = Result<Option<Asked<'a>>, Reason>;

/// The format, and what its parser keeps from line to line.
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
