//! Reader of records.

use std::fmt;
use std::io::{self, BufRead};

use crate::bad::{BadLines, Reason};
use crate::devices::{Devices, NAMES_MAX};
use crate::format::{DevicesAre, Format};
use crate::lines::{Line, Lines};
use crate::parsers::{Asked, Follows, Parser};
use crate::record::Record;
use crate::spread::Spread;
use crate::streams::{Called, Streams};

/// Reads a trace of one format, as an iterator of [`Record`]s in the order of the file.
///
/// Every line is a record, or counts in [`bad_lines`](Reader::bad_lines) or [`skipped`](Reader::skipped). Holds 128 KiB and
/// the names of the streams; allocates only for a new stream and for the first bad lines.
/// A line takes from 55 ns (CloudPhysics) to 120 ns (MSR), and 190 ns where columns are padded (blkparse, start-up traces)
/// (`cargo bench -p weir-trace`, one core of a Xeon).
pub struct Reader<R> {
    lines: Lines<R>,
    parser: Parser,
    streams: Streams,
    bad: BadLines,
    clock: Clock,
    devices: Devices,
    devices_are: DevicesAre,
    /// Present where times may be whole seconds, until one is not.
    spread: Option<Spread>,
    read: u64,
    skipped: u64,
    completions: u64,
    /// Line of the last returned record.
    line: u64,
    /// The error, until it is returned.
    failure: Option<ReadError>,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the uncompressed `input` as `format`, without detection.
    ///
    /// Reads ahead, by up to 128 KiB.
    pub fn new(input: R, format: Format) -> Reader<R> {
        Reader {
            devices: Devices::default(),
            devices_are: format.devices(),
            spread: format.counts_seconds().then(Spread::default),
            line: 0,
            completions: 0,
            failure: None,
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
    /// The format, given or detected.
    pub fn format(&self) -> Format {
        self.parser.format()
    }

    /// Selects the requests of the device, volume or file of this name, from the next line on; lines of others count in
    /// [`passed_over`](Reader::passed_over).
    ///
    /// # Errors
    /// The format has no device of a request.
    pub fn only_device(&mut self, name: &str) -> Result<(), NoDevices> {
        if self.devices_are == DevicesAre::One {
            return Err(NoDevices { format: self.format() });
        }
        self.devices.want(name);
        Ok(())
    }

    pub(crate) fn wanted_device(&self) -> Option<String> {
        self.devices.wanted()
    }

    /// All devices, volumes or files so far: at most 64 names, and whether there are more. Empty for a format without
    /// devices.
    pub fn devices(&self) -> (Vec<String>, bool) {
        match self.devices_are {
            DevicesAre::Streams if !self.devices.is_choosy() => {
                let names = self.streams();
                (names.iter().take(NAMES_MAX).cloned().collect(), names.len() > NAMES_MAX)
            }
            _ => self.devices.seen(),
        }
    }

    /// Requests so far of devices that are not selected; [`skipped`](Reader::skipped) counts their lines.
    pub fn passed_over(&self) -> u64 {
        self.devices.passed_over()
    }

    /// Records so far whose whole-second times were spread over their second.
    pub fn spread(&self) -> u64 {
        self.spread.as_ref().map_or(0, Spread::moved)
    }

    /// Records so far that are completions without an earlier event. Their time is that of the completion, their stream the
    /// device.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Line of the last returned record, from 1. More lines may have been read: up to 65,536 records of a second are held
    /// where times are whole seconds.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Lines read so far.
    pub fn lines(&self) -> u64 {
        self.read
    }

    /// Bad lines so far.
    pub fn bad_lines(&self) -> &BadLines {
        &self.bad
    }

    /// Good lines so far without a request: empty ones, headers, and other events of the format (other actions of blkparse and
    /// its summary, files opened and closed, SCSI commands without data).
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Names of the streams so far; [`Record::stream`] is an index into this.
    pub fn streams(&self) -> &[String] {
        self.streams.names()
    }

    /// Records so far whose time was before that of an earlier line. They get the latest time so far: the order of the file
    /// counts.
    ///
    /// A few come from a recorder with several CPUs. If it is most of the trace, look for one line with a time far ahead.
    pub fn reordered(&self) -> u64 {
        self.clock.reordered
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record, ReadError>> {
        if self.spread.is_some() {
            return self.next_spread();
        }
        let (read, _) = self.read_on()?;
        if read.is_ok() {
            self.line = self.read;
        }
        Some(read)
    }
}

impl<R: BufRead> Reader<R> {
    /// The next record where times may be whole seconds.
    fn next_spread(&mut self) -> Option<Result<Record, ReadError>> {
        loop {
            let spread = self.spread.as_mut()?;
            if let Some((record, line)) = spread.pop() {
                self.line = line;
                return Some(Ok(record));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(failure));
            }
            match self.read_on() {
                None => {
                    let spread = self.spread.as_mut()?;
                    spread.finish();
                    let (record, line) = spread.pop()?;
                    self.line = line;
                    return Some(Ok(record));
                }
                Some((Err(failure), _)) => {
                    // Held records go first.
                    self.spread.as_mut()?.finish();
                    self.failure = Some(failure);
                }
                Some((Ok(record), time)) => {
                    let (line, spread) = (self.read, self.spread.as_mut()?);
                    if time.is_multiple_of(1_000_000_000) {
                        spread.push((record, line));
                    } else {
                        spread.give_up((record, line));
                    }
                }
            }
        }
    }

    /// The next record with the trace's own time; an error once.
    fn read_on(&mut self) -> Option<(Result<Record, ReadError>, u64)> {
        if self.failed {
            return None;
        }
        loop {
            let line = match self.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(source) => {
                    self.failed = true;
                    return Some((Err(ReadError { line: self.read + 1, source }), 0));
                }
            };
            self.read += 1;
            let (line, parsed) = match line {
                Line::Whole(line) => (line, self.parser.parse(line)),
                Line::TooLong(line) => (line, Err(Reason::LineTooLong)),
            };
            let record = match parsed {
                Ok(Some(asked)) => {
                    let (key, called) = match self.devices_are {
                        DevicesAre::Apart => (asked.device, Called::AsKeyed),
                        DevicesAre::Streams | DevicesAre::One => (asked.who.key, asked.who.called),
                    };
                    let looks = self.devices_are == DevicesAre::Apart || self.devices.is_choosy();
                    if looks && !self.devices.takes(key, called) {
                        self.skipped += 1;
                        continue;
                    }
                    let (time, completed) = (asked.time, asked.completed);
                    let record = place(&mut self.streams, &mut self.clock, asked);
                    self.completions += u64::from(completed && record.is_ok());
                    record.map(|record| (record, time))
                }
                Ok(None) => {
                    self.skipped += 1;
                    continue;
                }
                Err(reason) => Err(reason),
            };
            match record {
                Ok((record, time)) => return Some((Ok(record), time)),
                Err(reason) => self.bad.add(self.read, line, reason),
            }
        }
    }
}

/// Sets a request's time within the trace and its place in its stream.
///
/// A bad line leaves the clock as it was.
fn place(streams: &mut Streams, clock: &mut Clock, asked: Asked<'_>) -> Result<Record, Reason> {
    let Asked { time, op, offset, len, who, follows, metadata, .. } = asked;
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
    Ok(Record { at_ns, op, offset, len, stream, dependent, delay_ns, metadata })
}

/// Time since the first record, which never runs back.
#[derive(Default)]
struct Clock {
    first: Option<u64>,
    latest: u64,
    reordered: u64,
}

impl Clock {
    /// Adjusted time of a record.
    fn would_be(&self, time: u64) -> u64 {
        let since = time.saturating_sub(self.first.unwrap_or(time));
        since.max(self.latest)
    }

    /// Notes that a record of this time got `at`.
    fn advance(&mut self, time: u64, at: u64) {
        let first = *self.first.get_or_insert(time);
        self.reordered += u64::from(time < first || time - first < at);
        self.latest = at;
    }
}

/// A device was selected in a format without devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoDevices {
    /// The format.
    pub format: Format,
}

impl fmt::Display for NoDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the format {} does not say of which device requests are", self.format)
    }
}

impl std::error::Error for NoDevices {}

/// Error while reading a trace.
#[derive(Debug)]
pub struct ReadError {
    /// The line at which it failed, from 1.
    pub line: u64,
    /// The cause. A compressed file that ends early is [`io::ErrorKind::UnexpectedEof`].
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
