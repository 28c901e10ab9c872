//! The control API: HTTP and JSON over a Unix socket.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/status` | | [`crate::status::Status`] |
//! | `POST /v1/set` | [`SetRequest`] | [`SetReply`] |
//! | `POST /v1/remove` | [`RemoveRequest`] | [`DoneReply`] |
//! | `POST /v1/move` | [`MoveRequest`] | [`DoneReply`] |
//! | `GET /metrics` | | OpenMetrics text |
//! | `GET /` | | a short help, as text |
//!
//! Every refusal is an [`ErrorReply`]: 400 where the request makes no sense, 404 where what it names is not there,
//! 405 for a wrong method, 409 where something is in the way, 413 for a body of more than 64 KiB, 503 where a device thread has ended or does not answer
//! within 2 s. A refused request changes nothing; with several devices, the message names those that had changed
//! before one refused.
//!
//! ```sh
//! curl --unix-socket control.sock http://weir/v1/status
//! curl --unix-socket control.sock http://weir/v1/set \
//!     --data '{"cgroup": "/vm1", "key": "io.max", "value": "disk0 riops=100"}'
//! ```
//!
//! A process that may connect may do everything: the socket is its owner's alone ([`ControlSocket`]).
//!
//! [`serve`] is the server's side, [`Client`] the other.

mod api;
mod bounded;
mod client;
mod http;
mod metrics;
mod operations;
mod refuse;
mod setting;
mod socket;
#[cfg(test)]
mod tests;

pub use api::{
    DoneReply, ErrorReply, MoveRequest, ReadBack, Refusal, RemoveRequest, SetReply, SetRequest,
};
pub use client::{Client, ClientError};
pub use http::serve;
pub use operations::Target;
pub use socket::ControlSocket;
