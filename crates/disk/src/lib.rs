//! Disk models without I/O: the time at which each request completes.
//!
//! A [`DiskModel`] takes requests with their times, and says when each completes. It has no clock, data or thread, and
//! counts in integers, so the same calls give the same times on every machine. The lab runs it in virtual time, the server
//! in real time. Models are named by a line of text ([`Spec`]):
//!
//! ```
//! use weir_disk::{DiskModel, DiskOp, Spec};
//!
//! let spec: Spec = "null,rate=4M,latency=10us,size=4G".parse()?;
//! let mut disk = spec.build();
//! disk.submit(0, 1, DiskOp::Read, 0, 4096);
//! // 4,096 bytes at 4 MiB/s take 976,562.5 ns, and are there 10 us later.
//! assert_eq!(disk.next_event(), Some(986_563));
//! assert_eq!(disk.poll_complete(986_562), None);
//! assert_eq!(disk.poll_complete(986_563), Some(1));
//! # Ok::<(), weir_disk::SpecError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod hdd;
mod linear;
mod mix;
mod model;
mod null;
mod pipe;
mod presets;
mod settings;
mod spec;
mod ssd;

pub use hdd::{Hdd, HddSpec};
pub use linear::{Linear, LinearSpec};
pub use model::{DiskModel, DiskOp};
pub use null::{Null, NullSpec};
pub use presets::{Preset, presets};
pub use spec::{Spec, SpecError, SpecProblem};
pub use ssd::{Ssd, SsdCounts, SsdSpec, SsdState};
