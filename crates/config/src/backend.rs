//! Backend of a device, `path`.

use std::path::{Path, PathBuf};

use weir_units::Bytes;

use crate::model::{Backend, Direct};
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::value;

/// Whether to look at the files that a configuration names.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// They must be there; relative paths begin in this directory.
    Look(PathBuf),
    /// Likewise, but images need not be there: they are not opened.
    Plan(PathBuf),
    /// Paths are taken as they stand.
    Ignore,
}

impl Files {
    /// A path that was given, from where this process stands.
    pub(crate) fn place(&self, path: PathBuf) -> PathBuf {
        match self {
            Files::Look(base) | Files::Plan(base) => base.join(path),
            Files::Ignore => path,
        }
    }
}

/// Properties of a file or block device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Facts {
    /// Major and minor number of a block device.
    pub(crate) number: Option<(u32, u32)>,
    /// Bytes.
    pub(crate) size: Option<u64>,
}

/// Inspects the file of `backend`, if files are to be inspected; opens nothing.
pub(crate) fn facts(backend: &Backend, files: &Files) -> Facts {
    let (Backend::File { path, .. }, Files::Look(_) | Files::Plan(_)) = (backend, files) else {
        return Facts::default();
    };
    let number = backend.number();
    let size = match number {
        // Its unit is 512 bytes, whatever the device's blocks are.
        Some((major, minor)) => {
            let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
            sectors.ok().and_then(|text| text.trim().parse::<u64>().ok()?.checked_mul(SECTOR))
        }
        None => path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len()),
    };
    Facts { number, size }
}

impl Backend {
    /// Major and minor number, if it is a block device; the file system is asked.
    pub fn number(&self) -> Option<(u32, u32)> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let Backend::File { path, .. } = self else { return None };
        let found = path.metadata().ok().filter(|found| found.file_type().is_block_device())?;
        Some((rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev())))
    }
}

/// Bytes that memory and emulated devices are multiples of.
const SECTOR: u64 = 512;
/// The largest device: offsets are signed in the kernel's calls.
const SIZE_MAX: u64 = i64::MAX as u64;

/// Reads a device's `path`.
pub(crate) fn read(
    path: &Text,
    direct: Option<(Text, Direct)>,
    files: &Files,
    report: &mut Report,
) -> Option<Backend> {
    let backend = if let Some(size) = path.value.strip_prefix("memory:") {
        let size = part(path, size);
        Backend::Memory { size: sectors(&size, report)? }
    } else if let Some(spec) = path.value.strip_prefix("emulated:") {
        emulated(path, spec, report)?
    } else {
        let found = look(path, files, report)?;
        let direct = direct.map(|(_, direct)| direct).unwrap_or_default();
        return Some(Backend::File { path: found, direct });
    };
    if let Some((text, _)) = direct {
        let hint = Some("leave it out, or serve a file or block device".into());
        report.refuse(&text, "only files and block devices can be opened directly", hint);
    }
    Some(backend)
}

/// `part` of `whole` as a text of its own.
fn part(whole: &Text, part: &str) -> Text {
    Text { value: part.into(), span: whole.place_of(part), ..whole.clone() }
}

fn sectors(text: &Text, report: &mut Report) -> Option<u64> {
    let size = value::size(text, SECTOR, SIZE_MAX, report)?;
    if size.is_multiple_of(SECTOR) {
        return Some(size);
    }
    let hint = format!("write \"{}\"", size - size % SECTOR);
    report.refuse(text, format!("{} is no multiple of 512", Bytes(size)), Some(hint));
    None
}

fn emulated(path: &Text, spec: &str, report: &mut Report) -> Option<Backend> {
    match spec.parse() {
        Ok(spec) => Some(Backend::Emulated(spec)),
        Err(weir_disk::SpecError { span, problem }) => {
            let place = path.place_of(&spec[span]);
            let found = Problem::new(place, &path.key, problem.to_string());
            report.add(match problem.hint() {
                Some(hint) => found.hint(hint),
                None => found,
            });
            None
        }
    }
}

/// The file's path; where files are looked at, without symbolic links, so that two names of one file are seen.
fn look(text: &Text, files: &Files, report: &mut Report) -> Option<PathBuf> {
    let path = value::path(text, report)?;
    let path = files.place(path);
    match (examine(&path), files) {
        (_, Files::Ignore) => Some(path),
        (Ok(found), _) => Some(found),
        (Err(_), Files::Plan(_)) => Some(path),
        (Err((message, hint)), Files::Look(_)) => {
            report.refuse(text, message, hint);
            None
        }
    }
}

/// Hint for a missing image.
fn instead_of(path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if path.starts_with("/dev") {
        "block devices are made by the kernel: `lsblk --paths` lists those there are".into()
    } else if !directory.is_dir() {
        format!("its directory {directory:?} does not exist either: write where the image is")
    } else {
        format!("create it, for example with `truncate -s 10G {path:?}`")
    }
}

fn examine(path: &Path) -> Result<PathBuf, (String, Option<String>)> {
    use std::os::unix::fs::FileTypeExt;
    let found = path.canonicalize().and_then(|found| Ok((found.metadata()?.file_type(), found)));
    match found {
        Ok((kind, found)) if kind.is_file() || kind.is_block_device() => Ok(found),
        Ok((kind, _)) => {
            let what = if kind.is_dir() { "a directory" } else { "no file with offsets" };
            let hint = "name an image file or a block device, or memory:1G to try things";
            let message = format!("{path:?} is {what}: only files and block devices can be served");
            Err((message, Some(hint.into())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err((format!("{path:?} does not exist"), Some(instead_of(path))))
        }
        Err(error) => Err((
            format!("{path:?} cannot be looked at: {error}"),
            Some("serve it as a user who may read it, and every directory above it".into()),
        )),
    }
}
