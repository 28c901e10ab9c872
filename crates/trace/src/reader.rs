//! Records out of a trace.

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
    devices: Devices,
    devices_are: DevicesAre,
    /// Where times may be whole seconds, and until one is not.
    spread: Option<Spread>,
    read: u64,
    skipped: u64,
    completions: u64,
    /// The line of the record that was given out last.
    line: u64,
    /// Why it failed, until that is told.
    failure: Option<ReadError>,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, which is uncompressed, as `format`, without looking whether it is.
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
    /// The format being read: told, or detected.
    pub fn format(&self) -> Format {
        self.parser.format()
    }

    /// Takes only requests of the device, volume or file of this name, from the next line on; lines of others are
    /// [`passed_over`](Reader::passed_over).
    ///
    /// # Errors
    /// The format does not say of which device requests are.
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

    /// The devices, volumes or files so far, those that were not wanted too: at most 64 names, and whether there are
    /// more. Empty where a trace is of one.
    pub fn devices(&self) -> (Vec<String>, bool) {
        match self.devices_are {
            DevicesAre::Streams if !self.devices.is_choosy() => {
                let names = self.streams();
                (names.iter().take(NAMES_MAX).cloned().collect(), names.len() > NAMES_MAX)
            }
            _ => self.devices.seen(),
        }
    }

    /// Requests so far of other devices than the one that is wanted; [`skipped`](Reader::skipped) counts their lines.
    pub fn passed_over(&self) -> u64 {
        self.devices.passed_over()
    }

    /// Records so far whose times were whole seconds, and that were spread evenly over their second.
    pub fn spread(&self) -> u64 {
        self.spread.as_ref().map_or(0, Spread::moved)
    }

    /// Records so far that a trace of the block layer has only where they completed. Their time is that of their
    /// completion, their stream the device.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// The line of the record that was given out last, counted from 1. More lines than that may have been read: up to
    /// 65,536 records of a second are held where times are whole seconds.
    pub fn line(&self) -> u64 {
        self.line
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

    /// Askers so far; [`Record::stream`] is an index into this.
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
                    // What was read before it goes first.
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

    /// The next record as the trace has it, with its own time; an error once.
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

/// Gives a request its time within the trace and its place within its stream.
///
/// A line that fails here leaves the clock as it was: a bad line has no say in when the others come.
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

/// A device was asked for where the format has none.
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
