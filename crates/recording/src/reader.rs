//! Reader: a closed file to rows, in bounded memory, whatever its bytes are.

use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::columns::{VERSION, schema};
use crate::directory::{closed_files, newest_files};
use crate::entry::{OPS, op_name};
use crate::header::{HEADER_KEY, Header};
use crate::row::{Event, Row};

/// Rows of a row group that are taken: eight times what a writer makes.
const GROUP_ROWS_MAX: i64 = 1 << 20;
/// Bytes of a row group, uncompressed, that are taken.
const GROUP_BYTES_MAX: i64 = 1 << 30;

/// Files of [`Recording::end_of`]: more than a minute needs in rings of any size.
const FILES_MAX: usize = 64;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no file.
    #[error("{}: no closed file of a recording is there; files are closed after a time, and at the end", .0.display())]
    Nothing(PathBuf),
    /// The system refuses.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no Parquet file, or damaged.
    #[error("{}: no whole Parquet file: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It is not a recording.
    #[error("{}: a Parquet file, and no recording of Weir: {reason}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// It has another version.
    #[error("{}: a recording of version {version}, and this program reads version {VERSION}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Files of several recordings lie together.
    #[error(
        "{}: recordings of several devices or servers: {}; name the files of one of them, or its device",
        .path.display(), .found.join(", ")
    )]
    Several {
        /// The directory.
        path: PathBuf,
        /// Device and first file of each.
        found: Vec<String>,
    },
    /// No file is of that device.
    #[error("{}: nothing of device {device:?}; there is {}", .path.display(), .found.join(", "))]
    NoDevice {
        /// The directory.
        path: PathBuf,
        /// The device asked for.
        device: String,
        /// Those that there are.
        found: Vec<String>,
    },
}

/// A closed file.
pub(crate) struct RecordedFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    pub(crate) header: Header,
}

impl std::fmt::Debug for RecordedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RecordedFile {
    pub(crate) fn open(path: &Path) -> Result<RecordedFile, ReadError> {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let reader = guard(path, || SerializedFileReader::new(file))?;
        let foreign =
            |reason: &str| ReadError::Foreign { path: path.to_owned(), reason: reason.to_owned() };
        let metadata = reader.metadata().file_metadata();
        let values = metadata.key_value_metadata().into_iter().flatten();
        let header =
            values.filter(|pair| pair.key == HEADER_KEY).find_map(|pair| pair.value.as_ref());
        let header = header.ok_or_else(|| foreign("its metadata has no `weir.recording`"))?;
        // Of another version nothing but that need be there.
        let version: serde_json::Value =
            serde_json::from_str(header).map_err(|_| foreign("its header is no JSON"))?;
        let version = version["version"].as_u64().and_then(|version| u32::try_from(version).ok());
        match version {
            Some(VERSION) => {}
            Some(version) => return Err(ReadError::Version { path: path.to_owned(), version }),
            None => return Err(foreign("its header has no version")),
        }
        let header: Header =
            serde_json::from_str(header).map_err(|error| foreign(&error.to_string()))?;
        if metadata.schema() != &*schema() {
            return Err(foreign("its columns are others"));
        }
        for group in reader.metadata().row_groups() {
            let (rows, bytes) = (group.num_rows(), group.total_byte_size());
            if !(0..=GROUP_ROWS_MAX).contains(&rows) || !(0..=GROUP_BYTES_MAX).contains(&bytes) {
                return Err(foreign(&format!("{rows} rows and {bytes} bytes in a row group")));
            }
        }
        Ok(RecordedFile { path: path.to_owned(), reader, header })
    }

    pub(crate) fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// The rows of a row group.
    pub(crate) fn rows(&self, group: usize) -> Result<Vec<Row>, ReadError> {
        guard(&self.path, || {
            let reader = self.reader.get_row_group(group)?;
            read_rows(&*reader, self.header.clock_offset_ns)
        })
    }
}

/// What the library finds out of order is an error; so is what it stumbles over.
fn guard<T>(path: &Path, work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ReadError> {
    let reason = match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its pages contradict each other".to_owned(),
    };
    Err(ReadError::Damaged { path: path.to_owned(), reason })
}

fn read_rows(group: &dyn RowGroupReader, clock_offset_ns: i64) -> Result<Vec<Row>, ParquetError> {
    let count = group.metadata().num_rows() as usize;
    let damaged = |what: &str| ParquetError::General(what.to_owned());
    let mut at = 0;
    let mut next = || {
        at += 1;
        group.get_column_reader(at - 1)
    };
    let time = numbers(next()?, count)?;
    let step = numbers(next()?, count)?;
    let event = texts(next()?, count)?;
    let cgroup = texts(next()?, count)?;
    let op = texts(next()?, count)?;
    let offset = numbers(next()?, count)?;
    let length = numbers(next()?, count)?;
    let latency_ns = numbers(next()?, count)?;
    let wait_ns = numbers(next()?, count)?;
    let submitted = numbers(next()?, count)?;
    let dispatched = numbers(next()?, count)?;
    let client = numbers(next()?, count)?;
    let task = numbers(next()?, count)?;
    let detail = texts(next()?, count)?;
    let number = |value: Option<i64>| value.map(|value| value as u64);
    let mut rows = Vec::with_capacity(count);
    let mut cgroup = cgroup.into_iter();
    let mut detail = detail.into_iter();
    for at in 0..count {
        let event = event[at].as_ref().and_then(|name| Event::from_name(name.data()));
        let event = event.ok_or_else(|| damaged("an event of another kind"))?;
        let op = match &op[at] {
            None => None,
            Some(name) => {
                let op = OPS.into_iter().find(|op| op_name(*op).as_bytes() == name.data());
                Some(op.ok_or_else(|| damaged("an operation of another kind"))?)
            }
        };
        let time = time[at].ok_or_else(|| damaged("a row without a time"))?;
        let texts = [cgroup.next().flatten(), detail.next().flatten()];
        for text in texts.iter().flatten() {
            text.as_utf8()?;
        }
        let [cgroup, detail] = texts;
        rows.push(Row {
            time_ns: time.wrapping_sub(clock_offset_ns) as u64,
            step: number(step[at]),
            event,
            cgroup,
            op,
            offset: number(offset[at]),
            length: number(length[at]),
            latency_ns: number(latency_ns[at]),
            wait_ns: number(wait_ns[at]),
            submitted: number(submitted[at]),
            dispatched: number(dispatched[at]),
            client: number(client[at]),
            task: number(task[at]),
            detail,
        });
    }
    Ok(rows)
}

fn numbers(reader: ColumnReader, count: usize) -> Result<Vec<Option<i64>>, ParquetError> {
    column::<Int64Type>(reader, count)
}

fn texts(reader: ColumnReader, count: usize) -> Result<Vec<Option<ByteArray>>, ParquetError> {
    column::<ByteArrayType>(reader, count)
}

/// A column of `count` values, of which some may be missing.
fn column<T: DataType>(
    reader: ColumnReader,
    count: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut records = 0;
    while records < count {
        let (read, ..) =
            reader.read_records(count - records, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General("a column is too short".to_owned()));
        }
        records += read;
    }
    // A column that is required has no levels.
    if levels.is_empty() {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    let value = |level: &i16| if *level > 0 { values.next() } else { None };
    Ok(levels.iter().map(value).collect())
}

/// The files of one recording, oldest first.
#[derive(Debug)]
pub struct Recording {
    files: Vec<PathBuf>,
    first: Header,
    dropped: u64,
}

impl Recording {
    /// Finds the recording at `path`: one file, or all in a directory; of `device`, if it is named. Of several recordings
    /// of a device the last one is taken.
    ///
    /// # Errors
    /// Nothing is there, not all is of one device, or it cannot be read.
    pub fn open(path: &Path, device: Option<&str>) -> Result<Recording, ReadError> {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let mut files = Vec::new();
        for file in closed_files(path).map_err(io)? {
            let header = match RecordedFile::open(&file) {
                Ok(file) => file.header,
                // Of a directory the ring may have taken it away meanwhile.
                Err(ReadError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && path.is_dir() =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            files.push((file, header));
        }
        let mut found: Vec<String> =
            files.iter().map(|(_, header)| header.device.clone()).collect();
        found.sort();
        found.dedup();
        if found.is_empty() {
            return Err(ReadError::Nothing(path.to_owned()));
        }
        if let Some(device) = device {
            if !found.iter().any(|found| found == device) {
                let (path, device) = (path.to_owned(), device.to_owned());
                return Err(ReadError::NoDevice { path, device, found });
            }
            files.retain(|(_, header)| header.device == device);
        } else if found.len() > 1 {
            return Err(ReadError::Several { path: path.to_owned(), found });
        }
        let last = files.iter().map(|(_, header)| header.began_ns).max().unwrap_or_default();
        files.retain(|(_, header)| header.began_ns == last);
        files.sort_by_key(|(_, header)| header.file);
        let dropped = files.iter().map(|(_, header)| header.dropped).max().unwrap_or_default();
        let first = files[0].1.clone();
        let files = files.into_iter().map(|(file, _)| file).collect();
        Ok(Recording { files, first, dropped })
    }

    /// The end of the last recording of `device` in `directory`: the files that have its last `last_ns`, as far as they are
    /// needed for `requests` requests, at most 64 files. Others are not opened.
    ///
    /// # Errors
    /// Nothing of it is there, or it cannot be read.
    pub fn end_of(
        directory: &Path,
        device: &str,
        last_ns: u64,
        requests: u64,
    ) -> Result<Recording, ReadError> {
        let io = |source| ReadError::Io { path: directory.to_owned(), source };
        let mut files: Vec<(PathBuf, Header)> = Vec::new();
        let mut next_began_ns = u64::MAX;
        let (mut from_ns, mut found) = (0, 0);
        for (began_ns, path) in newest_files(directory, device).map_err(io)? {
            // Its end is the beginning of the next one.
            if next_began_ns < from_ns || found >= requests || files.len() == FILES_MAX {
                break;
            }
            let header = match RecordedFile::open(&path) {
                Ok(file) => file.header,
                // The ring has taken it away meanwhile, and all before it.
                Err(ReadError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    break;
                }
                Err(error) => return Err(error),
            };
            if header.device != device {
                continue;
            }
            match files.last() {
                None => from_ns = began_ns.saturating_sub(last_ns),
                Some((_, newest)) if newest.began_ns != header.began_ns => break,
                Some(_) => {}
            }
            next_began_ns = began_ns;
            found += header.requests;
            files.push((path, header));
        }
        files.reverse();
        let Some((_, first)) = files.first().cloned() else {
            return Err(ReadError::Nothing(directory.to_owned()));
        };
        let dropped = files.iter().map(|(_, header)| header.dropped).max().unwrap_or_default();
        let files = files.into_iter().map(|(file, _)| file).collect();
        Ok(Recording { files, first, dropped })
    }

    /// The header of its first file.
    pub fn header(&self) -> &Header {
        &self.first
    }

    /// How many files it has.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Entries that found no room in memory.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether it has everything from the engine's beginning.
    pub fn is_from_start(&self) -> bool {
        self.first.from_start && self.first.file == 1 && self.dropped == 0
    }

    /// Its rows, in the order of the files; after an error there are no more.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Result<Row, ReadError>> + '_ {
        let mut files = self.files.iter();
        let mut open: Option<(RecordedFile, usize)> = None;
        let mut rows = Vec::new().into_iter();
        let mut has_failed = false;
        std::iter::from_fn(move || {
            loop {
                if has_failed {
                    return None;
                }
                if let Some(row) = rows.next() {
                    return Some(Ok(row));
                }
                let next = match &mut open {
                    Some((file, group)) if *group < file.groups() => {
                        *group += 1;
                        file.rows(*group - 1).map(|read| rows = read.into_iter())
                    }
                    _ => RecordedFile::open(files.next()?).map(|file| open = Some((file, 0))),
                };
                if let Err(error) = next {
                    has_failed = true;
                    return Some(Err(error));
                }
            }
        })
    }
}
