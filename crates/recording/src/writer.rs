//! Writer: takes entries from the devices' threads and writes them to the files of a ring.

use std::io;
use std::path::Path;
use std::sync::mpsc::TryRecvError;

use serde::Serialize;

use crate::columns::{Columns, VERSION};
use crate::directory::{Directory, DirectoryError};
use crate::engine::Recorded;
use crate::entry::Entry;
use crate::file::OpenFile;
use crate::header::Header;
use crate::transcript::Transcript;

/// Rows in a row group: what is in memory until it is written, about 12 MiB.
const GROUP_ROWS: usize = 128 << 10;
/// Largest file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A ring has at least so many files of full size.
const FILES_MIN: u64 = 8;
/// Blocks taken from one device before the next has its turn.
const BLOCKS_A_TURN: usize = 64;

/// What a recording is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Longest time that a file is open, in nanoseconds.
    pub file_ns: u64,
    /// From the engine's clock to nanoseconds since 1970.
    pub clock_offset_ns: i64,
}

/// A device whose entries are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The model that is emulated.
    pub disk: Option<String>,
    /// Whether its engine is new.
    pub from_start: bool,
}

/// A recording as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Status {
    /// Closed files.
    pub files: u64,
    /// Bytes of closed files.
    pub bytes: u64,
    /// Bytes they may have.
    pub bytes_max: u64,
    /// Requests written since the recording began.
    pub requests: u64,
    /// Entries that found no room in memory since then.
    pub dropped: u64,
    /// Entries that were lost since then because a file could not be written.
    pub lost: u64,
    /// The last failure to write.
    pub error: Option<String>,
}

/// Writes what is recorded. It has no clock and no thread: the caller says when to look, and what time it is.
#[derive(Debug)]
pub struct Writer {
    directory: Directory,
    settings: Settings,
    streams: Vec<Stream>,
    /// Of streams that have ended.
    ended: (u64, u64),
    lost: u64,
    closed: (usize, u64),
    error: Option<String>,
}

/// The entries of one device.
#[derive(Debug)]
struct Stream {
    device: Device,
    recorded: Recorded,
    transcript: Transcript,
    columns: Columns,
    began_ns: u64,
    files: u64,
    file: Option<Opened>,
    /// After a failure nothing is written until then.
    retry_ns: u64,
}

#[derive(Debug)]
struct Opened {
    file: OpenFile,
    due_ns: u64,
    steps_before: u64,
    requests_before: u64,
}

impl Writer {
    /// Records into `directory`, which is made if its parent is there.
    ///
    /// # Errors
    /// Another server records there, or the system refuses.
    pub fn new(directory: &Path, settings: Settings) -> Result<Writer, DirectoryError> {
        let directory = Directory::open(directory, settings.bytes_max)?;
        let closed = directory.make_room(0).unwrap_or_default();
        Ok(Writer {
            directory,
            settings,
            streams: Vec::new(),
            ended: (0, 0),
            lost: 0,
            closed,
            error: None,
        })
    }

    /// Where it records.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Takes the entries of a device, too.
    pub fn add(&mut self, now_ns: u64, device: Device, recorded: Recorded) {
        let clock_offset_ns = self.settings.clock_offset_ns;
        self.streams.push(Stream {
            device,
            recorded,
            transcript: Transcript::default(),
            columns: Columns::new(clock_offset_ns),
            began_ns: now_ns.wrapping_add_signed(clock_offset_ns),
            files: 0,
            file: None,
            retry_ns: 0,
        });
    }

    /// Writes what there is, and closes files that are due. Returns whether there may be more now.
    pub fn poll(&mut self, now_ns: u64) -> bool {
        let mut is_more = false;
        for at in (0..self.streams.len()).rev() {
            let mut is_over = false;
            for round in 0.. {
                let stream = &mut self.streams[at];
                match stream.recorded.receiving.poll() {
                    Ok(block) => self.take(at, now_ns, block),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        is_over = true;
                        break;
                    }
                }
                if round == BLOCKS_A_TURN {
                    is_more = true;
                    break;
                }
            }
            let stream = &self.streams[at];
            if is_over {
                self.end(at, now_ns);
            } else if stream.file.as_ref().is_some_and(|opened| now_ns >= opened.due_ns) {
                self.close(at, now_ns);
            }
        }
        is_more
    }

    /// Whether no device is left whose entries could come.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        let requests = self.streams.iter().map(|stream| stream.transcript.requests).sum::<u64>();
        let dropped = self.streams.iter().map(|stream| stream.recorded.receiving.dropped());
        Status {
            files: self.closed.0 as u64,
            bytes: self.closed.1,
            bytes_max: self.directory.bytes_max(),
            requests: self.ended.0 + requests,
            dropped: self.ended.1 + dropped.sum::<u64>(),
            lost: self.lost,
            error: self.error.clone(),
        }
    }

    fn take(&mut self, at: usize, now_ns: u64, mut block: Vec<Entry>) {
        let mut entries = block.drain(..);
        let stream = &mut self.streams[at];
        // A file begins with what the engine is made of, which the first entry tells.
        if !stream.transcript.has_begun()
            && let Some(first) = entries.next()
        {
            stream.transcript.apply(first, &mut stream.columns);
        }
        let opened = self.open_if_needed(at, now_ns);
        let stream = &mut self.streams[at];
        entries.for_each(|entry| stream.transcript.apply(entry, &mut stream.columns));
        stream.recorded.receiving.give_back(block);
        let written = opened.and_then(|()| match self.streams[at].columns.len() {
            rows if rows >= GROUP_ROWS => self.write_group(at),
            _ => Ok(()),
        });
        if let Err(error) = written {
            return self.fail(at, now_ns, &error);
        }
        let stream = &mut self.streams[at];
        let Some(opened) = &stream.file else {
            self.lost += stream.columns.len() as u64;
            return stream.columns.clear();
        };
        if opened.file.bytes() >= FILE_BYTES_MAX.min(self.settings.bytes_max / FILES_MIN) {
            self.close(at, now_ns);
        }
    }

    fn open_if_needed(&mut self, at: usize, now_ns: u64) -> io::Result<()> {
        let stream = &mut self.streams[at];
        if stream.file.is_some() || !stream.transcript.has_begun() || now_ns < stream.retry_ns {
            return Ok(());
        }
        let file_ns = now_ns.wrapping_add_signed(self.settings.clock_offset_ns);
        let path = self.directory.path_for(file_ns, &stream.device.name, stream.files + 1);
        stream.file = Some(Opened {
            file: OpenFile::create(path)?,
            due_ns: now_ns.saturating_add(self.settings.file_ns),
            steps_before: stream.transcript.step,
            requests_before: stream.transcript.requests,
        });
        stream.files += 1;
        stream.transcript.restate(&mut stream.columns);
        Ok(())
    }

    fn write_group(&mut self, at: usize) -> io::Result<()> {
        let stream = &mut self.streams[at];
        let Some(opened) = &mut stream.file else { return Ok(()) };
        opened.file.write(&mut stream.columns)?;
        let open_bytes = self.streams.iter().flat_map(|stream| &stream.file);
        let open_bytes = open_bytes.map(|opened| opened.file.bytes()).sum();
        self.closed = self.directory.make_room(open_bytes)?;
        Ok(())
    }

    /// Closes the file of a device, if it has one.
    fn close(&mut self, at: usize, now_ns: u64) {
        if let Err(error) = self.try_close(at) {
            self.fail(at, now_ns, &error);
        }
    }

    fn try_close(&mut self, at: usize) -> io::Result<()> {
        let stream = &mut self.streams[at];
        if stream.file.is_some() {
            stream.transcript.list_inside(&mut stream.columns);
        }
        self.write_group(at)?;
        let stream = &mut self.streams[at];
        let Some(Opened { file, steps_before, requests_before, .. }) = stream.file.take() else {
            return Ok(());
        };
        file.finish(&Header {
            version: VERSION,
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            device: stream.device.name.clone(),
            device_bytes: stream.device.bytes,
            disk: stream.device.disk.clone(),
            began_ns: stream.began_ns,
            file: stream.files,
            from_start: stream.device.from_start,
            clock_offset_ns: self.settings.clock_offset_ns,
            steps_before,
            steps: stream.transcript.step,
            requests: stream.transcript.requests - requests_before,
            dropped: stream.recorded.receiving.dropped(),
        })?;
        self.error = None;
        self.closed = self.directory.make_room(0)?;
        Ok(())
    }

    /// A file cannot be written: what it had is lost, and another is tried when this one would have been closed.
    fn fail(&mut self, at: usize, now_ns: u64, error: &io::Error) {
        let stream = &mut self.streams[at];
        let before = match stream.file.take() {
            Some(opened) => {
                opened.file.abandon();
                opened.steps_before
            }
            None => stream.transcript.step,
        };
        self.lost += stream.transcript.step - before + stream.columns.len() as u64;
        stream.columns.clear();
        stream.retry_ns = now_ns.saturating_add(self.settings.file_ns);
        self.error = Some(error.to_string());
    }

    /// No more comes from a device.
    fn end(&mut self, at: usize, now_ns: u64) {
        let stream = &mut self.streams[at];
        stream.transcript.end(&mut stream.columns);
        self.close(at, now_ns);
        let stream = self.streams.remove(at);
        self.ended.0 += stream.transcript.requests;
        self.ended.1 += stream.recorded.receiving.dropped();
    }
}
