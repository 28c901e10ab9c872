//! Devices of a trace, and the selected one.

use crate::streams::Called;

/// Most devices that are listed by name.
pub(crate) const NAMES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Devices {
    /// The selected device.
    wanted: Option<Box<[u8]>>,
    seen: Vec<Box<[u8]>>,
    /// Index of the last line's device in `seen`: the next line usually has it too.
    last: usize,
    more: bool,
    /// Lines of other devices than the selected one.
    passed_over: u64,
}

impl Devices {
    pub(crate) fn want(&mut self, name: &str) {
        self.wanted = Some(name.as_bytes().into());
    }

    /// Selects a device.
    pub(crate) fn wanted(&self) -> Option<String> {
        self.wanted.as_ref().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn is_choosy(&self) -> bool {
        self.wanted.is_some()
    }

    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// At most [`NAMES_MAX`] names, in order of appearance, and whether there are more.
    pub(crate) fn seen(&self) -> (Vec<String>, bool) {
        let name = |key: &[u8]| String::from_utf8_lossy(key).replace(char::is_control, "?");
        (self.seen.iter().map(|key| name(key)).collect(), self.more)
    }

    /// Whether to take a request of this device. O([`NAMES_MAX`]).
    pub(crate) fn takes(&mut self, key: &[u8], called: Called<'_>) -> bool {
        if self.seen.get(self.last).is_none_or(|last| !is_same(last, key, called)) {
            self.remember(key, called);
        }
        let takes = self.wanted.as_ref().is_none_or(|wanted| is_same(wanted, key, called));
        self.passed_over += u64::from(!takes);
        takes
    }

    fn remember(&mut self, key: &[u8], called: Called<'_>) {
        match self.seen.iter().position(|known| is_same(known, key, called)) {
            Some(at) => self.last = at,
            None if self.seen.len() < NAMES_MAX => {
                self.last = self.seen.len();
                self.seen.push(key.iter().map(|&byte| shown(byte, called)).collect());
            }
            None => self.more = true,
        }
    }
}

fn is_same(name: &[u8], key: &[u8], called: Called<'_>) -> bool {
    name.len() == key.len() && name.iter().zip(key).all(|(&name, &key)| name == shown(key, called))
}

/// As in the names of streams.
fn shown(byte: u8, called: Called<'_>) -> u8 {
    match called {
        Called::HostDisk if byte == b',' => b'_',
        _ => byte,
    }
}
