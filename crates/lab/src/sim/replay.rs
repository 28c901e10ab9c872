//! Replay of a trace: records are read ahead, and issued when they are due.

use std::collections::VecDeque;

use weir_trace::Record;

use super::counted;
use super::trace_source::TraceSource;
use crate::scenario::{ScenarioError, Timing, Trace};

/// Records read ahead, of all streams together: enough for one stream to run far ahead of the others, and independent
/// of the trace's length.
const AHEAD_MAX: usize = 65_536;

/// Granularity at which requests beyond the end of a smaller disk wrap around.
const SECTOR: u64 = 512;

pub(super) struct Replay {
    trace: Trace,
    /// No setting leaves out, moves or scales its requests.
    is_as_it_is: bool,
    source: TraceSource,
    /// Added to each record's time: the start of the replay, and the rounds before.
    base_ns: u64,
    /// The last record's time in this round.
    last_ns: u64,
    has_ended: bool,
    /// Error at which reading stopped.
    broken: Option<ScenarioError>,
    is_over: bool,
    ahead: usize,
    pub(super) streams: Vec<TraceStream>,
    in_flight: u64,
    /// No record is issued from then on.
    pub(super) stop_ns: u64,
    wrapped: u64,
    bytes: u64,
    /// The process whose `read_iolog` it is.
    pub(super) process: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct TraceStream {
    name: String,
    /// Its index among the actors; None before its first record.
    pub(super) actor: Option<u32>,
    waiting: VecDeque<Record>,
    /// Pauses before records that were left out, since the last one that was not.
    skipped_ns: u64,
    in_flight: u32,
    completed_ns: u64,
    /// A wake-up for its next record is in the calendar.
    is_planned: bool,
}

/// What a stream does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Issue(Record),
    At(u64),
    /// Wait for the end of one of its requests, for more of the trace, or for the planned wake-up.
    Wait,
}

impl Replay {
    /// Opens the trace for a disk of `disk_bytes`.
    pub(super) fn new(trace: &Trace, disk_bytes: u64) -> Result<Replay, ScenarioError> {
        let Trace { skip, align, offset_divisor, timing, .. } = trace;
        let keeps_all = !(skip.read || skip.write || skip.trim || skip.sync);
        let keeps_place = align.is_none_or(|align| align == 0) && *offset_divisor <= 1;
        Ok(Replay {
            is_as_it_is: keeps_all && keeps_place && !matches!(timing, Timing::Percent(_)),
            source: TraceSource::new(trace)?,
            trace: trace.clone(),
            base_ns: 0,
            last_ns: 0,
            has_ended: false,
            broken: None,
            is_over: false,
            ahead: 0,
            streams: Vec::new(),
            in_flight: 0,
            stop_ns: u64::MAX,
            wrapped: 0,
            bytes: (disk_bytes / SECTOR * SECTOR).max(SECTOR),
            process: None,
        })
    }

    pub(super) fn begin(&mut self, now_ns: u64, stop_ns: u64) {
        self.base_ns = now_ns;
        self.stop_ns = stop_ns;
    }

    pub(super) fn name(&self, stream: usize) -> &str {
        &self.streams[stream].name
    }

    /// Whether nothing is left to be issued or to end; true once.
    #[inline]
    pub(super) fn ends(&mut self, now_ns: u64) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let exhausted = self.has_ended && self.ahead == 0;
        let ends = !self.is_over && (exhausted || now_ns >= self.stop_ns);
        self.is_over |= ends;
        ends
    }

    pub(super) fn is_hungry(&self) -> bool {
        !self.has_ended && self.ahead < AHEAD_MAX / 2
    }

    /// Reads ahead. Streams that were without records and have one now are put into `fresh`. A trace that breaks off
    /// is over there.
    ///
    /// # Errors
    /// Nothing of it can be read, or it has no request: a report of nothing would look like a run.
    pub(super) fn read_ahead(&mut self, fresh: &mut Vec<u32>) -> Result<(), ScenarioError> {
        while self.ahead < AHEAD_MAX {
            let mut record = match self.read() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.has_ended = true;
                    let is_empty = self.streams.is_empty() && self.process.is_none();
                    return if is_empty {
                        Err(self.error(self.source.reader().without_requests()))
                    } else {
                        Ok(())
                    };
                }
                Err(error) if self.streams.is_empty() => return Err(error),
                Err(error) => {
                    (self.has_ended, self.broken) = (true, Some(error));
                    return Ok(());
                }
            };
            self.last_ns = record.at_ns;
            if self.process.is_some() {
                // One process replays all files of its log, in its order.
                record.stream = 0;
            }
            let stream = record.stream as usize;
            while self.streams.len() <= stream {
                // Copied here, for a reader that begins again does not know it yet.
                let name = self.source.reader().streams().get(self.streams.len()).cloned();
                self.streams
                    .push(TraceStream { name: name.unwrap_or_default(), ..TraceStream::default() });
            }
            if self.is_as_it_is {
                record.at_ns = self.base_ns.saturating_add(record.at_ns);
            } else if !self.alter(&mut record) {
                continue;
            }
            self.fit(&mut record);
            let state = &mut self.streams[stream];
            if state.waiting.is_empty() && !state.is_planned {
                fresh.push(record.stream);
            }
            state.waiting.push_back(record);
            self.ahead += 1;
        }
        Ok(())
    }

    /// The next record, of the next round if this one is over; None at the end of the last.
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, ScenarioError> {
        loop {
            let next = self.source.next().map_err(|error| self.error(error.to_string()))?;
            if next.is_some() || !self.source.begin_next(&self.trace)? {
                return Ok(next);
            }
            // The rounds are a microsecond apart.
            self.base_ns = self.base_ns.saturating_add(self.scaled(self.last_ns) + 1000);
            self.last_ns = 0;
        }
    }

    /// Applies the trace's settings to time and place of a record; false if it is left out.
    fn alter(&mut self, record: &mut Record) -> bool {
        use weir_engine::Op;
        let skip = self.trace.skip;
        let is_skipped = match record.op {
            Op::Read => skip.read,
            Op::Write => skip.write,
            Op::Discard => skip.trim,
            _ => skip.sync,
        };
        let state = &mut self.streams[record.stream as usize];
        if is_skipped {
            state.skipped_ns = state.skipped_ns.saturating_add(record.delay_ns);
            return false;
        }
        // The pause before a record that is left out still counts.
        record.delay_ns = record.delay_ns.saturating_add(std::mem::take(&mut state.skipped_ns));
        record.at_ns = self.base_ns.saturating_add(self.scaled(record.at_ns));
        record.delay_ns = self.scaled(record.delay_ns);
        record.offset /= u64::from(self.trace.offset_divisor.max(1));
        if let Some(align) = self.trace.align.filter(|&align| align > 0) {
            record.offset -= record.offset % align;
        }
        true
    }

    /// Wraps a record around that lies beyond the end of the disk.
    #[inline]
    fn fit(&mut self, record: &mut Record) {
        if record.offset.saturating_add(u64::from(record.len)) > self.bytes {
            self.wrapped += 1;
            record.offset %= self.bytes;
            let room = self.bytes - record.offset;
            record.len = record.len.min(u32::try_from(room).unwrap_or(u32::MAX));
        }
    }

    fn scaled(&self, time_ns: u64) -> u64 {
        match self.trace.timing {
            Timing::Original | Timing::Asap => time_ns,
            Timing::Percent(percent) => {
                let scaled = u128::from(time_ns) * 100 / u128::from(percent.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        }
    }

    #[inline]
    pub(super) fn next(&mut self, stream: u32, now_ns: u64) -> Next {
        let depth = self.trace.depth;
        let state = &mut self.streams[stream as usize];
        let Some(&record) = state.waiting.front() else { return Next::Wait };
        if now_ns >= self.stop_ns || state.is_planned {
            return Next::Wait;
        }
        let due_ns = match self.trace.timing {
            // A dependent record waits for the one before, but without its pause.
            Timing::Asap if record.dependent && state.in_flight > 0 => return Next::Wait,
            Timing::Asap if state.in_flight >= depth => return Next::Wait,
            Timing::Asap => now_ns,
            // A process has its depth, whatever the times in its log.
            _ if self.process.is_some() && state.in_flight >= depth => return Next::Wait,
            _ if record.dependent && state.in_flight > 0 => return Next::Wait,
            _ if record.dependent => state.completed_ns.saturating_add(record.delay_ns),
            _ => record.at_ns,
        };
        if due_ns > now_ns {
            state.is_planned = true;
            return Next::At(due_ns);
        }
        state.waiting.pop_front();
        state.in_flight += 1;
        self.ahead -= 1;
        self.in_flight += 1;
        Next::Issue(record)
    }

    pub(super) fn woken(&mut self, stream: u32) {
        self.streams[stream as usize].is_planned = false;
    }

    pub(super) fn completed(&mut self, stream: u32, now_ns: u64) {
        let state = &mut self.streams[stream as usize];
        state.in_flight -= 1;
        state.completed_ns = now_ns;
        self.in_flight -= 1;
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.broken.as_ref().map(ScenarioError::to_string)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let reader = self.source.reader();
        let bad = reader.bad_lines();
        if bad.count > 0 {
            let lines = "line makes no sense and was left out";
            let lines = counted(bad.count, lines, "lines make no sense and were left out");
            notes.push(format!("{}: {lines}", self.name_of()));
            notes.extend(bad.first.iter().map(|(line, text, reason)| {
                format!("{}, line {line}: {reason}: {text}", self.name_of())
            }));
        }
        if self.wrapped > 0 {
            let requests = counted(self.wrapped, "request lies", "requests lie");
            notes.push(format!(
                "{}: {requests} beyond the end of the disk, wrapped around",
                self.name_of()
            ));
        }
        if reader.reordered() > 0 {
            let lines = counted(reader.reordered(), "line goes", "lines go");
            notes.push(format!(
                "{}: {lines} back in time, taken for no later than the one before",
                self.name_of()
            ));
        }
        notes.extend(self.readings());
        notes
    }

    /// How times and places were interpreted, unless literally.
    fn readings(&self) -> Vec<String> {
        let (reader, name) = (self.source.reader(), self.name_of());
        let mut notes: Vec<String> =
            reader.notes().into_iter().map(|note| format!("{name}: {note}")).collect();
        // A job's log has no such setting.
        let is_several = reader.devices().0.len() > 1 && self.trace.device.is_none();
        if is_several && self.process.is_none() {
            let advice = format!(
                "{name}: `--set trace.device=NAME` takes the requests of one device, volume or file"
            );
            notes.push(advice);
        }
        notes
    }

    fn name_of(&self) -> String {
        self.trace.path.display().to_string()
    }

    fn error(&self, reason: String) -> ScenarioError {
        ScenarioError::Trace { file: self.name_of(), reason }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn reading_ahead_is_bounded() {
        let mut text = String::new();
        for at in 0..3 * AHEAD_MAX as u64 {
            let ticks = 128_166_372_000_000_000 + at * 10;
            writeln!(text, "{ticks},srv,{},Read,{},512,1", at % 3, at * 512).unwrap();
        }
        let path = std::env::temp_dir().join(format!("weir-lab-ahead-{}.csv", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let trace = Trace { timing: Timing::Asap, depth: 1, repeat: 2, ..Trace::new(&path) };
        let mut replay = Replay::new(&trace, 1 << 40).unwrap();
        std::fs::remove_file(&path).unwrap();
        replay.begin(0, u64::MAX);
        let held = |replay: &Replay| replay.streams.iter().map(|state| state.waiting.len()).sum();
        let (mut fresh, mut made, mut most) = (Vec::new(), 0u64, 0usize);
        // The first stream goes at once, the others never: their records fill the room, and reading stops.
        while replay.is_hungry() {
            replay.read_ahead(&mut fresh).unwrap();
            most = most.max(held(&replay));
            assert!(!replay.has_ended);
            while let Next::Issue(_) = replay.next(0, 0) {
                replay.completed(0, 0);
                made += 1;
            }
        }
        assert_eq!(most, AHEAD_MAX);
        assert!(made < AHEAD_MAX as u64 && !replay.ends(0), "{made}");
    }
}
