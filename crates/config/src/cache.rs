//! `cache` and `cache_size` of a device.

use std::num::NonZeroU32;

use weir_cache::writeback::{BLOCK_BYTES, Settings};

use crate::report::Report;
use crate::source::Text;
use crate::value;

/// Less holds no two writes of a usual size; more than a machine has is asked for by mistake.
const SIZE_MIN: u64 = 1 << 20;
const SIZE_MAX: u64 = 1 << 40;

/// The cache that is asked for.
pub(crate) fn read(
    kind: Option<&Text>,
    size: Option<&Text>,
    report: &mut Report,
) -> Option<Settings> {
    let index = kind.and_then(|kind| value::word(kind, &["none", "writeback"], report));
    let is_wanted = index == Some(1);
    let settings = Settings::default();
    let Some(size) = size else { return is_wanted.then_some(settings) };
    if !is_wanted && (kind.is_none() || index.is_some()) {
        let message = "there is no cache that could have a size";
        let is_flag = size.key.starts_with("--");
        let wanted = if is_flag { "--cache writeback" } else { "cache = \"writeback\"" };
        report.refuse(size, message, Some(format!("ask for one: {wanted}")));
        return None;
    }
    let bytes = value::size(size, SIZE_MIN, SIZE_MAX, report)?;
    let blocks_max = NonZeroU32::new(u32::try_from(bytes / BLOCK_BYTES).ok()?)?;
    is_wanted.then_some(Settings { blocks_max, ..settings })
}
