//! Support of the end-to-end tests: a `weir serve` of their own, clients, and places that clean up after themselves.
//!
//! ```text
//!   Place ──► Server ──► uri ──► peer("nbdcopy"), python("commands.py", ..)   programs of others
//!   (files)   (weir)      └────► nbd::Client                                  our own, for what others never send
//! ```
//!
//! Nothing here sleeps to let something happen: every wait is for an event, and ends after [`PATIENCE`] with a panic
//! that says what did not happen. No test asserts how long something took.

mod authority;
mod background;
mod binary;
mod browser;
mod debian;
mod frozen_file_system;
mod guest;
mod guest_cgroups;
mod loop_device;
pub mod nbd;
mod patience;
mod peer;
mod place;
mod process;
mod random;
mod run;
mod screen;
mod server;
mod service_manager;
mod small_file_system;
mod status;
pub mod tls_client;

pub use authority::{Authority, Certified};
pub use background::Background;
pub use binary::weir;
pub use browser::Browser;
pub use frozen_file_system::FrozenFileSystem;
pub use guest::{Ended, Guest};
pub use guest_cgroups::CGROUPS;
pub use loop_device::LoopDevice;
pub use patience::{PATIENCE, eventually};
pub use peer::{Peer, crates_io, peer, pypi, pypi_file, python, skip};
pub use place::Place;
pub use process::raise_open_files;
pub use random::{Random, pattern};
pub use run::{Ran, run, wait};
pub use screen::Screen;
pub use server::{Refused, Server};
pub use service_manager::ServiceManager;
pub use small_file_system::SmallFileSystem;
pub use status::{Cgroup, Device};
