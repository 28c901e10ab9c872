//! The control API: HTTP and JSON over Unix sockets.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `GET /v1/status` | | [`crate::status::Status`] |
//! | `POST /v1/set` | [`SetRequest`] | [`SetReply`] |
//! | `POST /v1/remove` | [`RemoveRequest`] | [`DoneReply`] |
//! | `POST /v1/move` | [`MoveRequest`] | [`DoneReply`] |
//! | `GET /v1/devices`, `GET /v1/exports` | | [`DevicesReply`], [`ExportsReply`] |
//! | `POST /v1/change` | [`ChangeRequest`] | [`ChangeReply`] |
//! | `POST /v1/reload` | [`ReloadRequest`] | [`ChangeReply`] |
//! | `POST /v1/resize` | [`ResizeRequest`] | [`ResizeReply`] |
//! | `GET /v1/record` | | [`RecordReply`] |
//! | `POST /v1/record` | [`RecordRequest`] | [`RecordReply`] |
//! | `GET /v1/differences` | | [`DifferencesReply`] |
//! | `GET /healthz`, `GET /readyz` | | [`HealthReply`] |
//! | `GET /metrics` | | text for Prometheus |
//! | `GET /v1/live` | | samples as server-sent events |
//! | `GET /page` | | the live page, HTML |
//! | `GET /v1/openapi.json` | | OpenAPI 3.1 ([`openapi`]) |
//! | `GET /` | | a short help, as text |
//!
//! One table, `routes`, makes the router, the help and the description. Every refusal is an [`ErrorReply`]; the
//! description says which statuses each request may get, and what they mean. A refused request changes nothing; the
//! message of a `remove` or `move` over several devices names those that had changed before one refused.
//!
//! ```sh
//! curl --unix-socket control.sock http://weir/v1/status
//! curl --unix-socket control.sock http://weir/v1/set -H 'Content-Type: application/json' \
//!     --data '{"cgroup": "/vm1", "key": "io.max", "value": "disk0 riops=100"}'
//! ```
//!
//! Metrics have sockets of their own, which answer `GET /metrics` and `GET /healthz` alone: [`ControlSocket::of_metrics`] and
//! TCP without a token.
//!
//! A [`ControlSocket`] has an [`Access`]: one takes changes and is its owner's alone by default, another only reads. The
//! process at the other end is known by its credentials ([`Caller`]). Each change is a line in the log, and makes a new
//! generation, which `If-Match` can be compared with. [`Guard`] refuses what a page of another site asks for.
//!
//! [`serve`] is the server's side over [`Control`], which has the operations without HTTP; [`Client`] is the other.

mod api;
mod ask;
mod bounded;
mod caller;
mod change_rate;
mod client;
mod generation;
mod guard;
mod host;
mod http;
mod live;
mod look;
pub(crate) mod metrics;
mod openapi;
mod operations;
mod page;
mod page_proxy;
mod plain_listener;
mod record;
mod refuse;
mod remote;
mod route;
mod routes;
mod setting;
mod socket;
mod tenants;
#[cfg(test)]
mod tests;
mod tls_listener;
mod token;

pub use api::{
    ChangeReply, ChangeRequest, DeviceEntry, DevicesReply, DifferencesReply, ExportEntry,
    ExportsReply, ReloadRequest, ResizeReply, ResizeRequest,
};
pub use api::{
    DoneReply, ErrorReply, HealthReply, MoveRequest, ReadBack, RecordReply, RecordRequest, Refusal,
    RemoveRequest, SetReply, SetRequest,
};
pub use caller::{Caller, Change, Identity};
pub use client::{Client, ClientError};
pub use generation::IfMatch;
pub use guard::Guard;
pub use host::{Host, Target};
pub use http::serve;
pub use metrics::{DeviceMetrics, ExportMetrics};
pub use openapi::document as openapi;
pub use operations::Control;
pub use page_proxy::PageProxy;
pub use remote::{Remote, RemoteError};
pub use route::Call;
pub use socket::ControlSocket;
pub use tls_listener::RemoteSocket;
pub use token::{Tokens, new_token, sha256};
pub use weir_config::Access;
