//! Record of a trace, which every format becomes.

use weir_engine::Op;

/// One request of a trace.
///
/// # When it is due
///
/// Records of one stream are issued in the order of the trace. One that is not [`dependent`](Record::dependent) is due
/// at `at_ns`. One that is, is due `delay_ns` after the record before it in its stream has completed, whenever that is;
/// its `at_ns` still says when the trace had it. So a faster disk shortens the second kind of trace, as it would have
/// shortened the work that was traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Nanoseconds since the trace's first record, which has 0. Never runs back: see
    /// [`Reader::reordered`](crate::Reader::reordered).
    pub at_ns: u64,
    /// [`Op::Read`], [`Op::Write`], [`Op::Discard`] or [`Op::Flush`]; never another.
    pub op: Op,
    /// First byte on its volume, disk or file; 0 for a flush. `offset + len` is at most `i64::MAX`.
    pub offset: u64,
    /// Bytes; 0 for a flush and never 0 for anything else.
    pub len: u32,
    /// The asker, as an index into [`Reader::streams`](crate::Reader::streams): a volume, disk, process or file,
    /// numbered from 0 as they appear.
    pub stream: u32,
    /// Waits for the record before it in its stream. Never true for the first record of a stream.
    pub dependent: bool,
    /// For dependent records the pause, in nanoseconds, after that completion; 0 for others.
    pub delay_ns: u64,
    /// The file system asked for it on its own account, as traces of the block layer tell with an `M`; false where a
    /// format does not tell.
    pub metadata: bool,
}
