//! Recording of requests, with the dependencies of each.
//!
//! ```text
//! process sqlite3-1.1 4
//! process jbd2 3
//! 0 Ws 1064 8 31 -
//! 1 Wsm 266240 16 24 1
//! ```
//!
//! First the processes, numbered from 0, with the level of their I/O priority. A request has its process; its operation
//! (`R`, `W`, `F` for a flush; `s` for synchronous, `a` for asynchronous; `m` for metadata); its first sector of 512
//! bytes and its sectors; microseconds of pause; and the requests that must be done before that pause: each as a number
//! of lines further up, with commas between, or `-` for a pause after the beginning. `bench/record_sqlite.py` writes them.

use std::io::Read;

use thiserror::Error;
use weir_engine::Op;
use weir_trace::{Format, Reader};

/// Longest recording, uncompressed; in bytes.
const BYTES_MAX: u64 = 64 << 20;

const AFTER_MAX: usize = 256;

const SECTOR: u64 = 512;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Recording {
    pub(crate) processes: Vec<Recorded>,
    /// In the order in which they came.
    pub(crate) asked: Vec<Asked>,
    /// Dependencies of all requests, one behind the other: [`Asked::after`] is a part of it.
    causes: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// 0 (best) to 7.
    pub(crate) level: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) process: u32,
    /// [`Op::Read`], [`Op::Write`] or [`Op::Flush`].
    pub(crate) op: Op,
    /// A process waits for it.
    pub(crate) sync: bool,
    pub(crate) metadata: bool,
    /// Bytes; both 0 for a flush.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// From the last end among those it waits for, or from the beginning.
    pub(crate) pause_ns: u64,
    causes_from: u32,
    causes_to: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RecordingError {
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: &'static str },
    #[error("cannot be unpacked: {0}")]
    Packed(String),
}

impl Recording {
    /// A recording of `bench/record_sqlite.py`, compressed with gzip.
    pub(crate) fn unpack(packed: &[u8]) -> Result<Recording, RecordingError> {
        let mut text = String::new();
        let unpacked = flate2::read::GzDecoder::new(packed).take(BYTES_MAX);
        let read = { unpacked }.read_to_string(&mut text);
        read.map_err(|error| RecordingError::Packed(error.to_string()))?;
        Recording::parse(&text)
    }

    /// A recording as text. O(text), in a few times its memory.
    pub(crate) fn parse(text: &str) -> Result<Recording, RecordingError> {
        let mut recording = Recording::default();
        for (at, line) in text.lines().enumerate() {
            let said = match line.strip_prefix("process ") {
                _ if line.starts_with('#') || line.is_empty() => Ok(()),
                Some(process) => recording.add_process(process),
                None => recording.add_asked(line),
            };
            said.map_err(|problem| RecordingError::Line { line: at + 1, problem })?;
        }
        Ok(recording)
    }

    /// A start-up trace, in which a request starts when the one before it of its process is done. A process begins
    /// when the request before its first is done, of whichever process: that one has started it.
    pub(crate) fn start_up(packed: &[u8]) -> Result<Recording, RecordingError> {
        let mut recording = Recording::default();
        let mut reader = Reader::new(
            std::io::BufReader::new(flate2::read::GzDecoder::new(packed).take(BYTES_MAX)),
            Format::Startup,
        );
        let mut last: Vec<u32> = Vec::new();
        let mut before_ns = 0;
        for record in reader.by_ref() {
            let record = record.map_err(|error| RecordingError::Packed(error.to_string()))?;
            let index = recording.asked.len() as u32;
            let process = record.stream as usize;
            let (after, pause_ns) = match last.get(process) {
                Some(&own) => (Some(own), record.delay_ns),
                None => (index.checked_sub(1), record.at_ns - before_ns),
            };
            last.resize(last.len().max(process + 1), index);
            last[process] = index;
            before_ns = record.at_ns;
            let causes_from = recording.causes.len() as u32;
            recording.causes.extend(after);
            recording.asked.push(Asked {
                process: record.stream,
                op: record.op,
                sync: true,
                metadata: false,
                offset: record.offset,
                len: record.len,
                pause_ns,
                causes_from,
                causes_to: recording.causes.len() as u32,
            });
        }
        let names = reader.streams().iter();
        recording.processes = names.map(|name| Recorded { name: name.clone(), level: 4 }).collect();
        Ok(recording)
    }

    /// Indices of the earlier requests that one waits for.
    pub(crate) fn after(&self, asked: &Asked) -> &[u32] {
        &self.causes[asked.causes_from as usize..asked.causes_to as usize]
    }

    /// Where the last request ends.
    pub(crate) fn end(&self) -> u64 {
        self.asked.iter().map(|asked| asked.offset + u64::from(asked.len)).max().unwrap_or(0)
    }

    fn add_process(&mut self, said: &str) -> Result<(), &'static str> {
        let (name, level) = said.rsplit_once(' ').ok_or("a process has a name and a level")?;
        let level = level.parse().ok().filter(|level| *level < 8).ok_or("a level is 0 to 7")?;
        self.processes.push(Recorded { name: name.into(), level });
        Ok(())
    }

    fn add_asked(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("a request has six words");
        let (process, does, sector, sectors, pause, after) =
            (word()?, word()?, word()?, word()?, word()?, word()?);
        if words.next().is_some() {
            return Err("a request has six words");
        }
        let number = |word: &str| word.parse::<u64>().map_err(|_| "this is no number");
        let process = u32::try_from(number(process)?)
            .ok()
            .filter(|process| (*process as usize) < self.processes.len())
            .ok_or("there is no such process")?;
        let (op, how) = match does.as_bytes() {
            [b'R', how @ ..] => (Op::Read, how),
            [b'W', how @ ..] => (Op::Write, how),
            [b'F', how @ ..] => (Op::Flush, how),
            _ => return Err("a request does R, W or F"),
        };
        let (sync, metadata) = match how {
            b"s" => (true, false),
            b"a" => (false, false),
            b"sm" => (true, true),
            b"am" => (false, true),
            _ => return Err("s or a is missing"),
        };
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR).filter(|bytes| *bytes < 1 << 62);
        let offset = bytes(number(sector)?).ok_or("no disk is so large")?;
        let len = bytes(number(sectors)?).and_then(|len| u32::try_from(len).ok());
        let len = len.ok_or("no request is so long")?;
        if (len == 0) != (op == Op::Flush) {
            return Err("a flush has no sectors, and everything else has some");
        }
        let pause_ns = number(pause)?.checked_mul(1000).filter(|pause| *pause < 1 << 62);
        let pause_ns = pause_ns.ok_or("nobody waits for so long")?;
        let causes_from = self.causes.len() as u32;
        if after != "-" {
            for up in after.split(',') {
                let up = usize::try_from(number(up)?).unwrap_or(usize::MAX);
                let index = self.asked.len().checked_sub(up).filter(|_| up > 0);
                self.causes.push(index.ok_or("it waits for what is not above it")? as u32);
            }
        }
        if self.causes.len() - causes_from as usize > AFTER_MAX {
            return Err("it waits for too many");
        }
        let causes_to = self.causes.len() as u32;
        self.asked.push(Asked {
            process,
            op,
            sync,
            metadata,
            offset,
            len,
            pause_ns,
            causes_from,
            causes_to,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str =
        "# what for\nprocess a b 4\nprocess j 3\n0 Ra 0 8 5 -\n0 Ws 8 16 0 1\n1 Fsm 0 0 7 1,2\n";

    #[test]
    fn a_recording_has_its_dependencies() {
        let recording = Recording::parse(TEXT).unwrap();
        let names: Vec<_> =
            recording.processes.iter().map(|one| (one.name.as_str(), one.level)).collect();
        assert_eq!(names, [("a b", 4), ("j", 3)]);
        let said: Vec<_> = recording
            .asked
            .iter()
            .map(|one| (one.process, one.op, one.sync, one.metadata, one.offset, one.len))
            .collect();
        assert_eq!(
            said,
            [
                (0, Op::Read, false, false, 0, 4096),
                (0, Op::Write, true, false, 4096, 8192),
                (1, Op::Flush, true, true, 0, 0),
            ]
        );
        let after: Vec<_> = recording.asked.iter().map(|one| recording.after(one)).collect();
        assert_eq!(after, [&[][..], &[0], &[1, 0]]);
        assert_eq!(recording.asked[2].pause_ns, 7_000);
        assert_eq!(recording.end(), 4096 + 8192);
    }

    #[test]
    fn an_error_in_a_recording_has_its_line() {
        for (line, problem) in [
            ("0 Rs 0 8 0", "a request has six words"),
            ("0 Rs 0 8 0 - -", "a request has six words"),
            ("1 Rs 0 8 0 -", "there is no such process"),
            ("0 Xs 0 8 0 -", "a request does R, W or F"),
            ("0 R 0 8 0 -", "s or a is missing"),
            ("0 Rs 0 0 0 -", "a flush has no sectors, and everything else has some"),
            ("0 Fs 0 8 0 -", "a flush has no sectors, and everything else has some"),
            ("0 Rs 0 8 0 1", "it waits for what is not above it"),
            ("0 Rs 0 8 0 0", "it waits for what is not above it"),
            ("0 Rs 18446744073709551615 8 0 -", "no disk is so large"),
            ("0 Rs 0 99999999 0 -", "no request is so long"),
            ("0 Rs 0 8 18446744073709551615 -", "nobody waits for so long"),
            ("0 Rs -1 8 0 -", "this is no number"),
            ("process x", "a process has a name and a level"),
            ("process x 8", "a level is 0 to 7"),
        ] {
            let error = Recording::parse(&format!("process p 4\n{line}\n")).unwrap_err();
            assert_eq!(error, RecordingError::Line { line: 2, problem }, "{line}");
        }
        assert!(matches!(Recording::unpack(b"plain"), Err(RecordingError::Packed(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_a_recording_or_an_error(text in "(process [a-z]{0,2} [0-9]{1,2}\n){0,3}([0-3] [RWFX][sa]m? [0-9]{1,4} [0-9]{1,3} [0-9]{1,3} (-|[0-9](,[0-9]){0,3})\n){0,8}\\PC{0,20}") {
            if let Ok(recording) = Recording::parse(&text) {
                for (index, asked) in recording.asked.iter().enumerate() {
                    prop_assert!((asked.process as usize) < recording.processes.len());
                    prop_assert!(recording.after(asked).iter().all(|&cause| (cause as usize) < index));
                }
            }
        }
    }
}
