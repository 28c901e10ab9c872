//! A service manager: the socket that it names in `NOTIFY_SOCKET`.

use std::ffi::OsString;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use crate::{PATIENCE, Place};

/// What systemd is to a service, as far as that talks to it.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl ServiceManager {
    /// Listens.
    ///
    /// # Panics
    /// When its socket cannot be made.
    pub fn new(place: &Place) -> ServiceManager {
        let path = place.socket("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time can be set");
        ServiceManager { socket, path }
    }

    /// Environment of a service with a watchdog of so many milliseconds.
    pub fn environment(&self, watchdog_ms: u64) -> Vec<(&'static str, OsString)> {
        vec![
            ("NOTIFY_SOCKET", self.path.clone().into()),
            ("WATCHDOG_USEC", (watchdog_ms * 1000).to_string().into()),
        ]
    }

    /// Waits for the next message that has `line`, and returns it.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn hears(&self, line: &str) -> String {
        loop {
            let mut buffer = [0; 4096];
            let length = self.socket.recv(&mut buffer);
            let length = length.unwrap_or_else(|error| panic!("{line} does not come: {error}"));
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.lines().any(|other| other == line) {
                return message;
            }
        }
    }

    /// All that has come since.
    ///
    /// # Panics
    /// When the socket breaks.
    pub fn heard(&self) -> String {
        self.socket.set_nonblocking(true).expect("a flag can be set");
        let mut heard = String::new();
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            heard += &String::from_utf8_lossy(&buffer[..length]);
        }
        self.socket.set_nonblocking(false).expect("a flag can be set");
        heard
    }
}
