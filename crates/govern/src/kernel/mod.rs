//! Texts of the kernel: limits and counters of cgroups, statistics of devices, and pressure.
//!
//! Each parser takes the whole text of a file, finds one device in it, and passes over what it does not know. What is
//! printed is a line that the file takes. Sources: cgroup-v2.rst, blkio-controller.rst, block/stat.rst and psi.rst of the
//! kernel's documentation.

mod blkio;
mod device_number;
mod disk_stat;
mod interface;
mod io_max;
mod io_stat;
mod pressure;

pub use device_number::{DeviceNumber, NotADeviceNumber};
pub use disk_stat::{DiskStat, parse_disk_stat};
pub(crate) use interface::kernel_limits;
pub use interface::{Interface, LimitWrite};
pub use io_max::{parse_limits, print_limits};
pub use pressure::parse_pressure;

/// Why a text of the kernel is not understood. Texts are cut to 60 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A value that is no number of 64 bits.
    #[error("{word:?} is no number")]
    NotANumber {
        /// The word.
        word: String,
    },
    /// A text that ends before the value that is asked for.
    #[error("{text:?} has no {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// The text.
        text: String,
    },
}

/// Most characters of a text that an error repeats.
const SHOWN_MAX: usize = 60;

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// `word` as a whole number without a sign.
fn number(word: &str) -> Result<u64, TextError> {
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_plain { word.parse().ok() } else { None };
    value.ok_or_else(|| TextError::NotANumber { word: shown(word) })
}
