//! FUSE file system: an emulated disk as a file, in real time.
//!
//! ```text
//!   kernel ──► fuser ──► file_system ──► timing ──► pending ──► weir_disk::DiskModel
//!                 ▲           │             │
//!                 │         store           │ when the model says so
//!                 └───────── reply ◄────────┘
//! ```
//!
//! [`MountedDisk::mount`] shows one file in an empty directory. Its bytes are in memory; each request on it takes the
//! time that the disk's model says. A loop device over the file is a block device with such a disk behind it, below the
//! kernel's own schedulers and limits.
//!
//! The kernel's page cache is bypassed (`FOPEN_DIRECT_IO`), since it would answer in place of the disk. The loop device and
//! FUSE add 25 us a request with awake processors (`make bench-fidelity`, 4 KiB at depth 1), and more where one must be
//! woken.

#![forbid(unsafe_code)]

mod clock;
mod error;
mod file_system;
mod mounted;
mod pending_replies;
mod store;
mod timing;

pub use error::MountError;
pub use mounted::{MountOptions, MountedDisk, Unmounter};
