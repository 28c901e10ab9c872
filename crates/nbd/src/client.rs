//! The client's side, as far as this project's own tools and tests need it.
//!
//! Like the server's side it does no I/O: feed [`Connecting`] what the server sends until it gives
//! [`Connected`], then put requests together and take replies apart with [`Client`].

mod connecting;
mod replies;

pub use connecting::{ConnectError, ConnectProgress, Connected, Connecting, Wishes};
pub use replies::{Client, ParsedReply, Reply, ReplyError};
