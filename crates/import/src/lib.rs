//! Limits that others keep, as a configuration of Weir: libvirt, systemd, Docker, Compose, and files of cgroup v2.
//!
//! ```
//! use weir_import::{Format, Source, import};
//!
//! let unit = "[Service]\nIOReadBandwidthMax=/dev/sdb 10M\nIODeviceLatencyTargetSec=/dev/sdb 25ms\n";
//! let source = Source { file: Some("/etc/systemd/system/backup.service"), cgroup: None };
//! let text = import(Format::Systemd, unit, source).unwrap();
//! assert!(text.contains("\n\"io.max\" = \"sdb rbps=10000000\"\n"));
//! assert!(text.contains("\n# line 3: IODeviceLatencyTargetSec=/dev/sdb 25ms"));
//! ```
//!
//! Units are those of the program that wrote the text. What has no equivalent, or another meaning, is told in a comment; a value
//! that the program itself would refuse is an error with its place. What is printed is a valid configuration.
//!
//! All formats are bounded: [`TEXT_MAX`] bytes of text, as many devices and cgroups as a server has, and 100,000 limits,
//! weights and notes.

#![forbid(unsafe_code)]

mod amounts;
mod cgroup_files;
mod compose;
mod docker;
mod error;
mod fit;
mod format;
mod libvirt;
mod names;
mod plan;
mod print;
mod systemd;
mod unit;
mod yaml;

pub use error::{ImportError, ImportErrorKind};
pub use format::Format;

use error::At;
use plan::Plan;

/// Longest text, in bytes.
pub const TEXT_MAX: usize = 1 << 20;

/// What is known of a text besides its words.
#[derive(Clone, Copy, Default, Debug)]
pub struct Source<'s> {
    /// The path of its file, which names a unit of systemd.
    pub file: Option<&'s str>,
    /// The path of the cgroup, where the text names none.
    pub cgroup: Option<&'s str>,
}

/// The configuration that says the same as `text`.
///
/// # Errors
/// [`ImportError`] at the first place that is wrong, and where there is nothing to import.
pub fn import(format: Format, text: &str, source: Source<'_>) -> Result<String, ImportError> {
    if text.len() > TEXT_MAX {
        return Err(At::START.error(ImportErrorKind::TooLong { bytes: text.len() }));
    }
    let mut plan = Plan::default();
    let read = match format {
        Format::Libvirt => libvirt::read,
        Format::Systemd => systemd::read,
        Format::Docker => docker::read,
        Format::Compose => compose::read,
        Format::Cgroup => cgroup_files::read,
    };
    read(text, source, &mut plan)?;
    if plan.cgroups.is_empty() {
        return Err(At::START.error(ImportErrorKind::Nothing { expected: format.expected() }));
    }
    Ok(print::print(plan, format))
}

/// Names of a cgroup's path.
fn split_path(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

/// Names of the cgroup of a text that names none, or `other`.
fn default_cgroup<'s>(source: Source<'s>, other: &'s str) -> Vec<&'s str> {
    let names = source.cgroup.map(split_path).unwrap_or_default();
    if names.is_empty() { vec![other] } else { names }
}
