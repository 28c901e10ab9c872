//! Trace source: the records of a trace, round after round.

use std::io::BufRead;

use weir_trace::{NoDevices, OpenError, ReadError, Reader, Record};

use crate::scenario::{ScenarioError, Trace};

/// Records of the first round that are kept for later ones: 10 MB. A longer trace is read again in each round.
const KEPT_MAX: usize = 1 << 18;

pub(super) struct TraceSource {
    reader: Reader<Box<dyn BufRead + Send>>,
    /// Rounds after this one.
    left: u32,
    /// The records so far, while they may be all that later rounds need.
    kept: Vec<Record>,
    from: From,
}

enum From {
    File {
        keeps: bool,
    },
    /// The kept records; `next` is an index.
    Memory {
        next: usize,
    },
}

impl TraceSource {
    pub(super) fn new(trace: &Trace) -> Result<TraceSource, ScenarioError> {
        let left = trace.repeat.max(1) - 1;
        let from = From::File { keeps: left > 0 };
        Ok(TraceSource { reader: open(trace)?, left, kept: Vec::new(), from })
    }

    /// The next record of this round; None at its end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Record>, ReadError> {
        match &mut self.from {
            From::Memory { next } => {
                let record = self.kept.get(*next).copied();
                *next += 1;
                Ok(record)
            }
            From::File { .. } => self.read(),
        }
    }

    #[inline(never)]
    fn read(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.next().transpose()?;
        if let (From::File { keeps }, Some(record)) = (&mut self.from, record)
            && *keeps
        {
            if self.kept.len() == KEPT_MAX {
                (*keeps, self.kept) = (false, Vec::new());
            } else {
                self.kept.push(record);
            }
        }
        Ok(record)
    }

    /// Begins another round of `trace`; false after the last one, or if it had no record: an empty trace would repeat
    /// forever.
    pub(super) fn begin_next(&mut self, trace: &Trace) -> Result<bool, ScenarioError> {
        if self.left == 0 || !self.has_records() {
            return Ok(false);
        }
        self.left -= 1;
        match self.from {
            From::File { keeps: false } => self.reader = open(trace)?,
            From::File { keeps: true } | From::Memory { .. } => {
                self.from = From::Memory { next: 0 };
            }
        }
        Ok(true)
    }

    fn has_records(&self) -> bool {
        self.reader.lines() > self.reader.bad_lines().count + self.reader.skipped()
    }

    /// The reader of the last round, for its notes.
    pub(super) fn reader(&self) -> &Reader<Box<dyn BufRead + Send>> {
        &self.reader
    }
}

fn open(trace: &Trace) -> Result<Reader<Box<dyn BufRead + Send>>, ScenarioError> {
    let file = trace.path.display().to_string();
    let mut reader = opened(trace)?;
    if let Some(device) = &trace.device {
        let none = |error: NoDevices| ScenarioError::Trace { file, reason: error.to_string() };
        reader.only_device(device).map_err(none)?;
    }
    Ok(reader)
}

fn opened(trace: &Trace) -> Result<Reader<Box<dyn BufRead + Send>>, ScenarioError> {
    Reader::open(&trace.path, trace.format.clone()).map_err(|error| {
        let file = trace.path.display().to_string();
        // The path is already in the error.
        let reason = match error {
            OpenError::Io { source, .. } => format!("cannot be read: {source}"),
            OpenError::Foreign { what, .. } => format!("this is {what}"),
            OpenError::UnknownFormat { first_line, .. } if first_line.is_empty() => {
                "begins with an empty line, or is empty: its format cannot be told".into()
            }
            OpenError::UnknownFormat { first_line, .. } => {
                return ScenarioError::TraceFormat { file, first_line };
            }
        };
        ScenarioError::Trace { file, reason }
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn every_round_is_the_same() {
        for lines in [1, 1000, KEPT_MAX, KEPT_MAX + 1] {
            let mut text = String::new();
            for at in 0..lines {
                let ticks = 128_166_372_000_000_000 + at * 10;
                writeln!(text, "{ticks},srv,{},Read,{},512,1", at % 3, at * 512).unwrap();
            }
            let name = format!("weir-lab-trace-source-{lines}-{}.csv", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            let trace = Trace { repeat: 3, ..Trace::new(&path) };
            let mut source = TraceSource::new(&trace).unwrap();
            let mut first = Vec::new();
            for round in 0..3 {
                for at in 0..lines {
                    let record = source.next().unwrap().expect("as many as there are lines");
                    if round == 0 {
                        first.push(record);
                    }
                    assert_eq!(record, first[at], "{at} of round {round} of {lines}");
                }
                assert_eq!(source.next().unwrap(), None);
                assert_eq!(source.reader().streams().len(), lines.min(3));
                assert_eq!(source.begin_next(&trace).unwrap(), round < 2);
            }
            let is_kept = lines <= KEPT_MAX;
            assert_eq!(source.kept.len(), if is_kept { lines } else { 0 });
            std::fs::remove_file(&path).unwrap();
        }
    }
}
