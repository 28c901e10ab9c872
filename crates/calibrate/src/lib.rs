//! Measures what a device can do: the figures of the [linear model](weir_engine::utilisation::CostModel), without I/O or clock.
//!
//! ```text
//!              poll_request: what to send
//!  Calibration ─────────────────────────► caller ─► a disk on a ring, or a model in virtual time
//!              ◄───────────────────────── caller
//!              handle_completion: what came back, and when
//! ```
//!
//! [`Calibration`] is a state machine: it chooses requests and learns from the times of their completion. Real devices and
//! models are measured by the same code; the caller brings the clock and the disk.
//!
//! ```
//! use weir_calibrate::{Calibration, Room, Settings, virtual_time};
//! use weir_disk::Spec;
//!
//! let spec: Spec = "linear-hdd".parse()?;
//! let room = Room::new(spec.size(), 512)?;
//! let calibration = Calibration::new(room, Settings { writes: true, ..Settings::default() });
//! let outcome = virtual_time::run(calibration, &mut *spec.build());
//! let reads = outcome.model.reads;
//! assert!(reads.random_iops.get().abs_diff(370) <= 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod calibration;
mod fit;
mod load;
mod meter;
mod places;
mod plan;
pub mod virtual_time;

pub use calibration::{Ask, Calibration, Progress};
pub use fit::{Check, Model, Outcome};
pub use load::{Load, Order, Step};
pub use places::{Room, RoomError};
pub use plan::Settings;
