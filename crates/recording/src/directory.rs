//! The ring: a directory of closed files, of which the oldest go when there are too many bytes.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::file::PARTIAL;

/// What names of files begin with.
const PREFIX: &str = "weir-";
/// How closed files end.
pub(crate) const EXTENSION: &str = "parquet";
/// Held by the server that records here.
const LOCK: &str = ".lock";

/// A directory that one server records into.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    bytes_max: u64,
    _lock: File,
}

/// Why a directory cannot be recorded into.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another server does.
    #[error("another server records into {}: give each its own directory", .0.display())]
    InUse(PathBuf),
    /// The system refuses.
    #[error("cannot record into {}: {source}", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Directory {
    /// Takes the directory, which is made if its parent is there. Files that a crash has left unfinished are removed.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> Result<Directory, DirectoryError> {
        let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let lock = File::options().create(true).append(true).open(path.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(DirectoryError::InUse(path.to_owned()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let directory = Directory { path: path.to_owned(), bytes_max, _lock: lock };
        for (partial, _) in directory.files(PARTIAL).map_err(failed)? {
            fs::remove_file(partial).map_err(failed)?;
        }
        Ok(directory)
    }

    /// Where a file goes that begins at this time: names are in the order of time.
    pub(crate) fn path_for(&self, began_ns: u64, device: &str, number: u64) -> PathBuf {
        let device = device_in_name(device);
        let name = format!("{PREFIX}{}-{device}-{number:06}.{EXTENSION}", date(began_ns));
        self.path.join(name)
    }

    /// Removes the oldest files until all, with `open_bytes` in files that are not closed, are within the bound; the bytes
    /// of the closed ones that are left.
    pub(crate) fn make_room(&self, open_bytes: u64) -> io::Result<(usize, u64)> {
        let mut files = self.files(EXTENSION)?;
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, len)| len).sum();
        let mut left = files.len();
        for (path, len) in &files {
            if bytes.saturating_add(open_bytes) <= self.bytes_max {
                break;
            }
            fs::remove_file(path)?;
            bytes -= len;
            left -= 1;
        }
        Ok((left, bytes))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The files of recordings that end like this, with their sizes.
    fn files(&self, extension: &str) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            if is_of_recording(&path, extension) {
                files.push((path, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }
}

/// Whether a file in a ring is of a recording, and ends like this.
fn is_of_recording(path: &Path, extension: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX))
        && path.extension().is_some_and(|end| end == extension)
}

/// The closed files at `path`, oldest first: itself, or those of recordings in a directory.
pub(crate) fn closed_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if is_of_recording(&path, EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A device as names of files have it.
fn device_in_name(device: &str) -> String {
    let letters = device.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' }
    });
    letters.take(64).collect()
}

/// The closed files in `directory` that may be of `device`, the newest first, with when each began; names alone are looked
/// at.
pub(crate) fn newest_files(directory: &Path, device: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let device = device_in_name(device);
    let mut files = closed_files(directory)?;
    files.reverse();
    let began = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.strip_prefix(PREFIX)?;
        let (date, rest) = name.split_at_checked(DATE_BYTES)?;
        let (of, _) = rest.strip_prefix('-')?.rsplit_once('-')?;
        (of == device).then_some((unix_ns(date)?, path))
    };
    Ok(files.into_iter().filter_map(began).collect())
}

const DATE_BYTES: usize = "20261126T203000.123Z".len();

/// What [`date`] has printed, from 1970 to 2261.
fn unix_ns(date: &str) -> Option<u64> {
    let number = |at: usize, len: usize| date.get(at..at + len)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 2)?, number(6, 2)?);
    let time = [number(9, 2)?, number(11, 2)?, number(13, 2)?];
    if !(1970..=2261).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 of the first of March that is not after this day, by years that begin there.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 719_469;
    let [hour, minute, second] = time;
    Some(
        (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000
            + number(16, 3)? * 1_000_000,
    )
}

/// Date and time of day of nanoseconds since 1970: `20261126T203000.123Z`.
fn date(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let mut days = seconds / 86_400;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let milli = unix_ns / 1_000_000 % 1000;
    format!("{year}{month:02}{:02}T{hour:02}{minute:02}{second:02}.{milli:03}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        for (seconds, text) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_704_067_199, "20231231T235959.000Z"),
            (1_709_164_800, "20240229T000000.000Z"),
            (4_107_542_400, "21000301T000000.000Z"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
            assert_eq!(unix_ns(text), Some(seconds * 1_000_000_000));
        }
        for seconds in (0..9_200_000_000).step_by(7_654_321) {
            let ns = seconds * 1_000_000_000 + 987_000_000;
            assert_eq!(unix_ns(&date(ns)), Some(ns), "{}", date(ns));
        }
        for text in
            ["", "20261326T203000.123Z", "2026112\u{e9}T203000.123Z", "+9261126T203000.123Z"]
        {
            assert_eq!(unix_ns(text), None, "{text}");
        }
    }

    #[test]
    fn the_oldest_files_make_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let ring = Directory::open(&path, 250).expect("it is free");
        assert!(matches!(Directory::open(&path, 250), Err(DirectoryError::InUse(_))));
        for second in 0..4 {
            let file = ring.path_for(second * 1_000_000_000, "disk/1", second);
            fs::write(file, [0; 100]).expect("written");
        }
        fs::write(path.join("notes.parquet"), [0; 1000]).expect("written");
        assert_eq!(ring.make_room(0).expect("room"), (2, 200));
        assert_eq!(ring.make_room(60).expect("room"), (1, 100));
        let left = closed_files(&path).expect("listed");
        assert!(path.join("notes.parquet").exists());
        let names: Vec<_> =
            left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["weir-19700101T000003.000Z-disk_1-000003.parquet"]);
        let newest = newest_files(&path, "disk/1").expect("listed");
        assert_eq!(newest, [(3_000_000_000, left[0].clone())]);
        assert_eq!(newest_files(&path, "disk").expect("listed"), []);
    }
}
