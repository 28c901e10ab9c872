//! Record of a trace, the same for all formats.

use weir_engine::Op;

/// One request of a trace.
///
/// # When it is due
///
/// Records of one stream are issued in the order of the trace. A [`dependent`](Record::dependent) record is due `delay_ns`
/// after the completion of the previous one of its stream; its `at_ns` is still the trace's time. All others are due at
/// `at_ns`. So a faster disk shortens a trace of dependent records, as it would have shortened the traced work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Nanoseconds since the trace's first record, which has 0. Never runs back: see
    /// [`Reader::reordered`](crate::Reader::reordered).
    pub at_ns: u64,
    /// [`Op::Read`], [`Op::Write`], [`Op::Discard`] or [`Op::Flush`].
    pub op: Op,
    /// First byte on its volume, disk or file; 0 for a flush. `offset + len` is at most `i64::MAX`.
    pub offset: u64,
    /// Bytes; 0 for a flush only.
    pub len: u32,
    /// The stream, an index into [`Reader::streams`](crate::Reader::streams): a volume, disk, process or file, numbered from 0
    /// in order of appearance.
    pub stream: u32,
    /// Waits for the previous record of its stream. False for the first record of a stream.
    pub dependent: bool,
    /// For dependent records the pause after that completion, in nanoseconds; 0 for others.
    pub delay_ns: u64,
    /// Metadata of the file system, marked with an `M` in traces of the block layer; false in formats without such a mark.
    pub metadata: bool,
}
