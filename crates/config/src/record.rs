//! `[record]`: recordings of what the devices are asked.

use std::time::Duration;

use weir_units::Nanos;

use crate::backend::Files;
use crate::model::RecordConfig;
use crate::report::Report;
use crate::source::Text;
use crate::table::Section;
use crate::value::{path, quantity, size};

pub(crate) const KEYS: [&str; 4] = ["directory", "size", "file_time", "start"];

impl RecordConfig {
    /// Default of `size`: about ten hours of 25,000 requests a second.
    pub const SIZE: u64 = 10 << 30;
    /// Least of `size`: some files of a useful length.
    const SIZE_MIN: u64 = 8 << 20;
    const SIZE_MAX: u64 = 1 << 50;
    /// Default of `file_time`.
    pub const FILE_TIME: Duration = Duration::from_secs(60);
    const FILE_TIME_MIN: Duration = Duration::from_secs(1);
    const FILE_TIME_MAX: Duration = Duration::from_secs(3600);
}

/// Reads `[record]`, if it is there.
pub(crate) fn read(root: &Section<'_>, files: &Files, report: &mut Report) -> Option<RecordConfig> {
    let section = root.section("record", report)?;
    section.allow(&KEYS, report);
    section.need("directory", "\"/var/lib/weir/recording\"", report);
    let directory = section.text("directory", report);
    let directory = directory.and_then(|text| path(&text, report));
    let bytes = section
        .text("size", report)
        .and_then(|text| size(&text, RecordConfig::SIZE_MIN, RecordConfig::SIZE_MAX, report));
    let time = section.text("file_time", report);
    let time = time.and_then(|text| file_time(&text, report));
    Some(RecordConfig {
        directory: files.place(directory?),
        size: bytes.unwrap_or(RecordConfig::SIZE),
        file_time: time.unwrap_or(RecordConfig::FILE_TIME),
        start: section.switch("start", report).unwrap_or(true),
    })
}

fn file_time(text: &Text, report: &mut Report) -> Option<Duration> {
    let time = quantity::<Nanos>(text, report)?.duration();
    let (least, most) = (RecordConfig::FILE_TIME_MIN, RecordConfig::FILE_TIME_MAX);
    if (least..=most).contains(&time) {
        return Some(time);
    }
    let message = format!("{time:?} is not between {least:?} and {most:?}");
    report.refuse(text, message, Some("what is usual: \"60s\"".into()));
    None
}
