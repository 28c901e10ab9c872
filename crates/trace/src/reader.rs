//! Records out of a trace.

use std::fmt;
use std::io::{self, BufRead};

use crate::bad::{BadLines, Reason};
use crate::format::Format;
use crate::lines::{Line, Lines};
use crate::parsers::{Asked, Follows, Parser};
use crate::record::Record;
use crate::streams::Streams;

/// Reads a trace of one format, as an iterator of [`Record`]s in the order of the file.
///
/// Every line becomes a record, or is one of [`bad_lines`](Reader::bad_lines), or of [`skipped`](Reader::skipped).
/// Holds 128 KiB and the names of the streams; allocates for a new stream and for the first bad lines only.
/// A line takes from 55 ns (CloudPhysics) to 120 ns (MSR), and 190 ns where columns are padded (blkparse, start-up
/// traces), so that a simulator has most of its time for itself (`cargo bench -p weir-trace`, one core of a Xeon).
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    streams: Streams,
    bad: BadLines,
    clock: Clock,
    read: u64,
    skipped: u64,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, which is uncompressed, as `format`, without looking whether it is.
    ///
    /// Reads ahead, by up to 128 KiB.
    pub fn new(input: R, format: Format) -> Reader<R> {
        Reader {
            lines: Lines::new(input),
            parser: Parser::new(format),
            streams: Streams::new(),
            bad: BadLines::default(),
            clock: Clock::default(),
            read: 0,
            skipped: 0,
            failed: false,
        }
    }
}

impl<R> Reader<R> {
    /// The format being read: told, or detected.
    pub fn format(&self) -> Format {
        self.parser.format()
    }

    /// Lines read so far, whatever became of them.
    pub fn lines(&self) -> u64 {
        self.read
    }

    /// The lines so far that made no sense.
    pub fn bad_lines(&self) -> &BadLines {
        &self.bad
    }

    /// The lines so far that made sense and asked for nothing: empty ones, headers, and what the format says besides
    /// requests (other actions of blkparse and its summary, files opened and closed, SCSI commands without data).
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Who has asked so far; [`Record::stream`] is an index into this.
    pub fn streams(&self) -> &[String] {
        self.streams.names()
    }

    /// Records so far whose time was before that of a record above them. They were given the latest time so far
    /// instead: the order of the file counts.
    ///
    /// A few are a recorder with several CPUs. If it is most of the trace, look for one line with a time far ahead.
    pub fn reordered(&self) -> u64 {
        self.clock.reordered
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Result<Record, ReadError>> {
        if self.failed {
            return None;
        }
        loop {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(source) => {
                    self.failed = true;
                    return Some(Err(ReadError { line: self.read + 1, source }));
                }
            };
            self.read += 1;
            let (line, parsed) = match line {
                Line::Whole(line) => (line, self.parser.parse(line)),
                Line::TooLong(line) => (line, Err(Reason::LineTooLong)),
            };
            let record = match parsed {
                Ok(Some(asked)) => place(&mut self.streams, &mut self.clock, asked),
                Ok(None) => {
                    self.skipped += 1;
                    continue;
                }
                Err(reason) => Err(reason),
            };
            match record {
                Ok(record) => return Some(Ok(record)),
                Err(reason) => self.bad.add(self.read, line, reason),
            }
        }
    }
}

/// Gives a request its time within the trace and its place within its stream.
///
/// A line that fails here leaves the clock as it was: a bad line has no say in when the others come.
fn place(streams: &mut Streams, clock: &mut Clock, asked: Asked<'_>) -> Result<Record, Reason> {
    let Asked { time, op, offset, len, who, follows } = asked;
    let at_ns = clock.would_be(time);
    let (stream, before) = streams.visit(who, at_ns)?;
    clock.advance(time, at_ns);
    let gap = before.map(|before| at_ns - before);
    let delay = match follows {
        Follows::Never => None,
        Follows::AfterGap => gap.filter(|&gap| gap > 0),
        Follows::Always => gap,
    };
    let (dependent, delay_ns) = (delay.is_some(), delay.unwrap_or(0));
    Ok(Record { at_ns, op, offset, len, stream, dependent, delay_ns })
}

/// Time since the first record, which never runs back.
#[derive(Default)]
struct Clock {
    first: Option<u64>,
    latest: u64,
    reordered: u64,
}

impl Clock {
    /// What a record of this time gets.
    fn would_be(&self, time: u64) -> u64 {
        let since = time.saturating_sub(self.first.unwrap_or(time));
        since.max(self.latest)
    }

    /// A record of this time got `at`.
    fn advance(&mut self, time: u64, at: u64) {
        let first = *self.first.get_or_insert(time);
        self.reordered += u64::from(time < first || time - first < at);
        self.latest = at;
    }
}

/// The trace could not be read to its end.
#[derive(Debug)]
pub struct ReadError {
    /// The line at which it failed, counted from 1.
    pub line: u64,
    /// Why. A compressed file that ends early is [`io::ErrorKind::UnexpectedEof`].
    pub source: io::Error,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reading line {} failed: {}", self.line, self.source)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
