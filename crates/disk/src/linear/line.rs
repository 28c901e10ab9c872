//! Settings of a disk of the linear model, as a line of text.

use super::LinearSpec;
use crate::settings::{BILLION, Setting, names, setting};

/// The keys, in the order of printing; the six figures have io.cost's names, and 0 means that the part takes no time.
pub(crate) const TABLE: &[Setting<LinearSpec>; 9] = &[
    setting!("size", Disk, 1 << 20..=1 << 50, size),
    setting!("rbps", RateOrNone, 4096..=1 << 40, read_bps),
    setting!("rseqiops", Iops, 0..=BILLION, read_seq_iops),
    setting!("rrandiops", Iops, 0..=BILLION, read_rand_iops),
    setting!("wbps", RateOrNone, 4096..=1 << 40, write_bps),
    setting!("wseqiops", Iops, 0..=BILLION, write_seq_iops),
    setting!("wrandiops", Iops, 0..=BILLION, write_rand_iops),
    setting!("latency", Time, 0..=60 * BILLION, latency_ns),
    setting!("streams", Count, 1..=64, streams),
];

pub(crate) const KEYS: &[&str] = &names(TABLE);
