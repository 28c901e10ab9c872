//! Sockets that the starter of this process has bound: `LISTEN_FDS`, as in sd_listen_fds(3).
//!
//! Such a socket serves NBD, unless its name in `LISTEN_FDNAMES` says otherwise. What cannot be served is refused: to leave it
//! out would let its clients wait for ever.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;
use rustix::net::{AddressFamily, SocketType, sockopt};
use weir_server::Listener;

use crate::failure::Failure;

/// Names of sockets that serve NBD, besides those of socket units: given, as systemd and libnbd call one without a name, and
/// none.
const NBD: [&str; 3] = ["nbd", "unknown", ""];
const CONTROL: &str = "control";
const CONTROL_READ: &str = "control-read";
const METRICS: &str = "metrics";

/// The sockets, by what they are to serve.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    pub(super) nbd: Vec<Listener>,
    pub(super) control: Option<UnixListener>,
    pub(super) control_read: Option<UnixListener>,
    pub(super) metrics: Option<UnixListener>,
    pub(super) metrics_listen: Vec<TcpListener>,
}

impl Inherited {
    /// Takes them; none where this process was started without, or `LISTEN_PID` names another one. To be called once, before
    /// there are other threads.
    ///
    /// # Errors
    /// One of them cannot be served.
    pub(super) fn take() -> Result<Inherited, Failure> {
        let mut inherited = Inherited::default();
        let given = sd_notify::listen_fds_with_names().map_err(wrong)?;
        let names: Vec<String> = given.map(|(_, name)| name).collect();
        let mut given = ListenFd::from_env();
        for (index, name) in names.into_iter().enumerate() {
            let fail = |message: String| {
                let message = format!("LISTEN_FDS: socket {}, `{name}`: {message}", index + 1);
                Failure::wrong(message)
            };
            let listener =
                listener(&mut given, index).map_err(|(message, hint)| fail(message).hint(hint))?;
            let is_nbd = NBD.contains(&&*name) || name.ends_with(".socket");
            match (&*name, listener) {
                (_, listener) if is_nbd => inherited.nbd.push(listener),
                (CONTROL, Listener::Unix(socket)) if inherited.control.is_none() => {
                    inherited.control = Some(socket);
                }
                (CONTROL_READ, Listener::Unix(socket)) if inherited.control_read.is_none() => {
                    inherited.control_read = Some(socket);
                }
                (METRICS, Listener::Unix(socket)) if inherited.metrics.is_none() => {
                    inherited.metrics = Some(socket);
                }
                (METRICS, Listener::Tcp(socket)) => inherited.metrics_listen.push(socket),
                (CONTROL | CONTROL_READ | METRICS, Listener::Unix(_)) => {
                    return Err(fail("there is one already".to_owned())
                        .hint("give one socket of this name".to_owned()));
                }
                (CONTROL | CONTROL_READ, _) => {
                    let hint = "give a Unix socket, or let it serve NBD: FileDescriptorName=nbd"
                        .to_owned();
                    return Err(fail("the control API is served on Unix sockets here".to_owned())
                        .hint(hint));
                }
                (METRICS, _) => {
                    let hint = "give a Unix or TCP socket".to_owned();
                    return Err(fail("metrics are not served on vsock".to_owned()).hint(hint));
                }
                _ => {
                    let hint = format!(
                        "known are nbd, {CONTROL}, {CONTROL_READ} and {METRICS}: FileDescriptorName= of a socket unit, --fdname= of systemd-socket-activate"
                    );
                    return Err(fail("it is not known what it is to serve".to_owned()).hint(hint));
                }
            }
        }
        Ok(inherited)
    }
}

/// The socket of this index, or why it cannot be served, and what could.
fn listener(given: &mut ListenFd, index: usize) -> Result<Listener, (String, String)> {
    let families =
        [AddressFamily::UNIX, AddressFamily::INET, AddressFamily::INET6, AddressFamily::VSOCK]
            .map(|family| i32::from(family.as_raw()));
    let kind = SocketType::STREAM.as_raw() as i32;
    let taken = families.into_iter().find_map(|family| {
        given.take_custom::<OwnedFd>(index, family, kind, "stream socket").ok().flatten()
    });
    let hint =
        "give a Unix, TCP or vsock socket that listens: ListenStream= of a socket unit".to_owned();
    let Some(socket) = taken else {
        return Err(("it is not a stream socket of a family that is served".to_owned(), hint));
    };
    if !sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens) {
        let hint = "set Accept=no in its unit: one server serves all connections".to_owned();
        return Err(("it does not listen: it is a connection, or was only bound".to_owned(), hint));
    }
    match sockopt::socket_domain(&socket) {
        Ok(AddressFamily::UNIX) => Ok(Listener::Unix(socket.into())),
        Ok(AddressFamily::INET | AddressFamily::INET6) => Ok(Listener::Tcp(socket.into())),
        Ok(AddressFamily::VSOCK) => Ok(Listener::Vsock(socket.into())),
        _ => Err(("it is of a family that is not served".to_owned(), hint)),
    }
}

fn wrong(error: std::io::Error) -> Failure {
    let hint = "file descriptors from 3 on must be open, LISTEN_FDNAMES must have as many names, divided by colons".to_owned();
    Failure::wrong(format!("LISTEN_FDS: {error}")).hint(hint)
}
