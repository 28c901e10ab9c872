//! Device threads, exports, and the control API.
//!
//! [`Running::start`] makes a server of a configuration: one thread for each device, which serves its connections and
//! its disk on one io_uring and asks one engine what may go. The control thread, whichever the caller's is, talks to
//! them through [`DeviceHandle`]s; [`control`] does that for `weir status` and `weir set`.

#![forbid(unsafe_code)]

mod access;
mod change;
mod command;
pub mod control;
mod device;
mod exports;
mod front;
mod log_limit;
mod presence;
mod recording;
mod registry;
mod sandbox;
mod seats;
mod serve;
pub mod status;
pub mod tenants;
pub mod tls;
mod unix_socket;
mod view;
mod vsock;

pub use change::{ApplyError, Changes, Grown};
pub use command::{Applied, Command, SetError, Setting};
pub use device::{
    Arrived, Cut, DeviceError, DeviceHandle, DeviceReport, Gone, Greeting, Heartbeat, Peer,
};
pub use exports::ExportPlace;
pub use front::Listener;
pub use sandbox::{Allowed, SandboxError};
pub use serve::{EndError, Running, StartError};
pub use unix_socket::{BindError, BoundSocket, SocketFile, bind_unix, group_id};
