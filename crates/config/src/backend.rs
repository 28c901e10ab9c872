//! `path`: what a device is.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_engine::io_max::nearest;
use weir_engine::units::{Bytes, BytesPerSec, Nanos};

use crate::model::{Backend, Direct};
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::value::{self, cut};

/// Whether to look at the files that a configuration names.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    /// They must be there; relative paths begin in this directory.
    Look(PathBuf),
    /// Paths are taken as they stand.
    Ignore,
}

/// Bytes that memory and emulated devices are multiples of.
const SECTOR: u64 = 512;
/// The largest device: offsets are signed in the kernel's calls.
const SIZE_MAX: u64 = i64::MAX as u64;
/// What an emulated device pretends to have if nothing is said.
const EMULATED_SIZE: u64 = 4 << 30;
/// The kernel's null_blk completes a request after 10 us if nothing is said.
const EMULATED_LATENCY: Duration = Duration::from_micros(10);
/// Slower than any device: more is a mistake in the unit.
const LATENCY_MAX: Duration = Duration::from_secs(60);

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
    let mut words = spec.split(',');
    let kind = words.next().unwrap_or_default();
    if kind != "null" {
        let hint = "available: null, as in \"emulated:null,rate=4M,latency=10us,size=4G\"";
        let message = format!("there is no emulated device {:?}", cut(kind));
        report.add(Problem::new(path.place_of(kind), &path.key, message).hint(hint.to_owned()));
        return None;
    }
    let (mut size, mut rate, mut latency) = (Some(EMULATED_SIZE), None, EMULATED_LATENCY);
    let mut complete = true;
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let value = part(path, value);
        let understood = match key {
            "size" => {
                size = sectors(&value, report);
                size.is_some()
            }
            "rate" => {
                rate = value::quantity(&value, report)
                    .and_then(|BytesPerSec(rate)| NonZeroU64::new(rate));
                if value.value.parse() == Ok(BytesPerSec(0)) {
                    report.refuse(&value, "a device with rate 0 never answers", None);
                }
                rate.is_some()
            }
            "latency" => match latency_of(&value, report) {
                Some(time) => {
                    latency = time;
                    true
                }
                None => false,
            },
            _ => {
                let hint = match nearest(key, ["rate", "latency", "size"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "known keys: rate, latency and size".into(),
                };
                let message = format!("unknown key {:?} of an emulated device", cut(key));
                report.add(Problem::new(path.place_of(word), &path.key, message).hint(hint));
                false
            }
        };
        complete &= understood;
    }
    if !complete {
        return None;
    }
    Some(Backend::EmulatedNull { size: size?, rate, latency })
}

fn latency_of(text: &Text, report: &mut Report) -> Option<Duration> {
    let latency = value::quantity::<Nanos>(text, report)?.duration();
    if latency <= LATENCY_MAX {
        return Some(latency);
    }
    report.refuse(text, "a latency is at most 60 s", None);
    None
}

/// The file's path; where files are looked at, without symbolic links, so that two names of one file are seen.
fn look(text: &Text, files: &Files, report: &mut Report) -> Option<PathBuf> {
    let path = value::path(text, report)?;
    let Files::Look(base) = files else { return Some(path) };
    let path = base.join(path);
    match examine(&path) {
        Ok(found) => Some(found),
        Err((message, hint)) => {
            report.refuse(text, message, hint);
            None
        }
    }
}

fn examine(path: &Path) -> Result<PathBuf, (String, Option<String>)> {
    use std::os::unix::fs::FileTypeExt;
    let found = path.canonicalize().and_then(|found| Ok((found.metadata()?.file_type(), found)));
    match found {
        Ok((kind, found)) if kind.is_file() || kind.is_block_device() => Ok(found),
        Ok((kind, _)) => {
            let what = if kind.is_dir() { "a directory" } else { "no file with offsets" };
            Err((format!("{path:?} is {what}: only files and block devices can be served"), None))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err((
            format!("{path:?} does not exist"),
            Some(format!("create it, for example with `truncate -s 10G {path:?}`")),
        )),
        Err(error) => Err((format!("{path:?} cannot be looked at: {error}"), None)),
    }
}
