//! Client of `weir serve --single`: the connection that is standard input, as nbdkit's `--single` has it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{SocketType, getpeername, sockopt};

use crate::failure::Failure;

/// Takes the connection from standard input. Standard output is as a rule the same connection: neither is one afterwards, so
/// that it ends with its client, and nothing but NBD is said on it.
///
/// # Errors
/// Standard input is no connection.
pub(super) fn take() -> Result<OwnedFd, Failure> {
    let stdin = std::io::stdin();
    let wrong = |what: &str| {
        let hint = "it is for programs that start a server on a socket pair, as libnbd's connect_command; \
                    for `nbdinfo [ weir serve ... ]` leave it out";
        Failure::wrong(format!("--single: standard input {what}")).hint(hint.to_owned())
    };
    match sockopt::socket_type(&stdin) {
        Ok(SocketType::STREAM) => {}
        Ok(_) => return Err(wrong("is no stream socket")),
        Err(_) => return Err(wrong("is no socket, and a pipe goes one way only")),
    }
    if getpeername(&stdin).is_err() {
        return Err(wrong("is a socket without a client: it listens, or was only made"));
    }
    let fail = |error: std::io::Error| Failure::failed(format!("--single: {error}"));
    let client = stdin.as_fd().try_clone_to_owned().map_err(fail)?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    rustix::stdio::dup2_stdin(&null).map_err(|error| fail(error.into()))?;
    rustix::stdio::dup2_stdout(&null).map_err(|error| fail(error.into()))?;
    Ok(client)
}
