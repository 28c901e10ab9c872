//! The trace's records, pass after pass.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use weir_engine::Op;
use weir_trace::{BadLines, Format, OpenError, Reader, Record};

use crate::failure::Failure;

/// Treatment of requests that change data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writes {
    CarryOut,
    LeaveOut,
    /// Not told; the first of them ends the replay.
    Refuse,
}

/// A trace that is read once for each pass.
pub(super) struct Source {
    path: PathBuf,
    reader: Reader<Box<dyn BufRead + Send>>,
    /// The selected device.
    device: Option<String>,
    writes: Writes,
    passes_left: u64,
    /// Where this pass begins in the time of all, and the latest record's time there.
    base_ns: u64,
    latest_ns: u64,
    left_out: u64,
    /// By stream, the pauses of requests left out since its last record; the next dependent one waits for them.
    pauses: Vec<u64>,
    /// Whether this pass has a request.
    has_any: bool,
    passes: u64,
}

impl Source {
    pub(super) fn open(
        path: &Path,
        format: Option<Format>,
        device: Option<&str>,
        passes: u64,
        writes: Writes,
    ) -> Result<Source, Failure> {
        Ok(Source {
            path: path.to_owned(),
            reader: opened(path, format, device)?,
            device: device.map(str::to_owned),
            writes,
            passes_left: passes - 1,
            base_ns: 0,
            latest_ns: 0,
            left_out: 0,
            pauses: Vec::new(),
            has_any: false,
            passes: 1,
        })
    }

    /// The next record to be issued, with time going on from pass to pass; `None` after the last.
    ///
    /// A pass begins where the one before has its last record.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Failure> {
        loop {
            match self.reader.next() {
                Some(Ok(record)) => {
                    self.latest_ns = self.base_ns.saturating_add(record.at_ns);
                    if !matches!(record.op, Op::Write | Op::Discard)
                        || self.writes == Writes::CarryOut
                    {
                        self.has_any = true;
                        let skipped_ns = self.pause(record.stream);
                        let skipped_ns = std::mem::take(skipped_ns);
                        let delay_ns = match record.dependent {
                            true => record.delay_ns.saturating_add(skipped_ns),
                            false => record.delay_ns,
                        };
                        return Ok(Some(Record { at_ns: self.latest_ns, delay_ns, ..record }));
                    }
                    if self.writes == Writes::Refuse {
                        let what = if record.op == Op::Write { "write" } else { "discard" };
                        let (path, line) = (self.path.display(), self.reader.line());
                        return Err(Failure::wrong(format!(
                            "{path}:{line}: this is a {what}, and --write is not given"
                        ))
                        .hint(
                            "--read-only leaves such requests out; --write carries them out"
                                .to_owned(),
                        ));
                    }
                    self.left_out += 1;
                    let skipped_ns = self.pause(record.stream);
                    *skipped_ns = skipped_ns.saturating_add(record.delay_ns);
                }
                Some(Err(error)) => {
                    return Err(Failure::failed(format!("{}: {error}", self.path.display())));
                }
                // A pass without a request would be followed by another for ever.
                None if self.passes == 1 && self.reader.streams().is_empty() => {
                    let reason = self.reader.without_requests();
                    return Err(Failure::failed(format!("{}: {reason}", self.path.display())));
                }
                None if self.passes_left == 0 || !self.has_any => {
                    return Ok(None);
                }
                None => {
                    self.passes_left -= 1;
                    self.passes += 1;
                    self.base_ns = self.latest_ns;
                    self.pauses.clear();
                    self.has_any = false;
                    let format = Some(self.reader.format());
                    // Streams get the same numbers again: they are given in order of appearance.
                    self.reader = opened(&self.path, format, self.device.as_deref())?;
                }
            }
        }
    }

    fn pause(&mut self, stream: u32) -> &mut u64 {
        let stream = stream as usize;
        if self.pauses.len() <= stream {
            self.pauses.resize(stream + 1, 0);
        }
        &mut self.pauses[stream]
    }

    pub(super) fn format(&self) -> Format {
        self.reader.format()
    }

    /// Lines of the last pass: read, skipped, and bad ones.
    pub(super) fn lines(&self) -> (u64, u64, &BadLines) {
        (self.reader.lines(), self.reader.skipped(), self.reader.bad_lines())
    }

    /// Notes on how the last pass was read.
    pub(super) fn notes(&self) -> Vec<String> {
        self.reader.notes()
    }

    /// Records of the last pass with a time that ran back.
    pub(super) fn reordered(&self) -> u64 {
        self.reader.reordered()
    }

    pub(super) fn streams(&self) -> usize {
        self.reader.streams().len()
    }

    /// Passes that were begun.
    pub(super) fn passes(&self) -> u64 {
        self.passes
    }

    /// Writes and discards that were left out, over all passes.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The time of the last record that was read, over all passes.
    pub(super) fn latest_ns(&self) -> u64 {
        self.latest_ns
    }
}

fn opened(
    path: &Path,
    format: Option<Format>,
    device: Option<&str>,
) -> Result<Reader<Box<dyn BufRead + Send>>, Failure> {
    let mut reader = Reader::open(path, format).map_err(|error| refused(&error))?;
    if let Some(device) = device {
        reader
            .only_device(device)
            .map_err(|error| Failure::wrong(format!("--trace-device {device}: {error}")))?;
    }
    Ok(reader)
}

fn refused(error: &OpenError) -> Failure {
    let failure = Failure::wrong(error);
    match error {
        OpenError::UnknownFormat { .. } => {
            let columns = "csv:time_us=6,op=4,lba512=5,bytes=2";
            failure.hint(format!(
                "--trace-format says it: {}; or by columns: {columns}",
                Format::names()
            ))
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a log, pass after pass, without its writes.
    fn reads_of(name: &str, text: &str, passes: u64) -> (Vec<Record>, u64) {
        let path = std::env::temp_dir().join(format!("weir-source-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let mut source = Source::open(&path, None, None, passes, Writes::LeaveOut).unwrap();
        let records = std::iter::from_fn(|| source.next().unwrap()).collect();
        std::fs::remove_file(&path).unwrap();
        (records, source.passes)
    }

    #[test]
    fn the_pauses_of_what_is_left_out_are_made() {
        let log = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 500000 0\nf write 4096 4096\n\
                   f wait 500000 0\nf write 4096 4096\nf wait 500000 0\nf read 8192 4096\nf wait 1000 0\nf read 0 4096\n";
        let (records, passes) = reads_of("pauses.iolog", log, 2);
        let delays: Vec<u64> = records.iter().map(|record| record.delay_ns).collect();
        assert_eq!(delays, [0, 1_500_000_000, 1_000_000, 0, 1_500_000_000, 1_000_000]);
        assert_eq!(passes, 2);
    }

    #[test]
    fn a_pass_in_which_all_is_left_out_is_the_last() {
        let line = "128166372003061629,usr,0,Write,0,4096,1\n";
        assert_eq!(reads_of("writes.csv", line, u64::MAX), (vec![], 1));
    }
}
