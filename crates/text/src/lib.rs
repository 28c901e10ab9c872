//! Settings of the engine as text: `io.max` and its like, `io.weight`, `io.watermark` and `bfq`.
//!
//! The grammars are those of cgroup v2 and of the kernel's files where these exist. Each parser has an error with the
//! offending text, and a hint with a correction. The engine knows values only; see `docs/decisions/046`.

#![forbid(unsafe_code)]

mod bfq;
mod io_max;
mod limits;
mod watermark;
mod weight;

pub use bfq::{BfqEdit, BfqError, BfqKey, parse_bfq, print_bfq};
pub use io_max::{
    DeviceRef, Errno, IoMaxError, LimitKey, TOKEN_MAX, parse_io_max, parse_limits, split_device,
};
pub use limits::limits_hint;
pub use watermark::{WatermarkError, parse_watermark, print_watermark};
pub use weight::{WeightKey, WeightLine, WeightTextError, parse_weight};
