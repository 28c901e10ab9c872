//! Streams of a trace: from names to dense numbers.

use std::collections::HashMap;

use crate::bad::Reason;

/// Most streams of a trace; a line of one more is bad. With names of ten bytes, a million streams take about 120 MB.
pub const STREAMS_MAX: usize = 1_000_000;

/// Longest name of a stream, in bytes: that of a file name on Linux.
pub const STREAM_NAME_MAX: usize = 255;

/// Identity of the stream of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    /// Lines with equal keys are of one stream.
    pub(crate) key: &'a [u8],
    pub(crate) called: Called<'a>,
}

/// Naming of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called<'a> {
    /// The key itself.
    AsKeyed,
    /// The key is two columns, `host,disk`.
    HostDisk,
    /// The key is a process id; this is the process's command.
    Command(&'a [u8]),
}

/// Numbers from 0, in the order of appearance.
pub(crate) struct Streams {
    max: usize,
    /// For look-ups only; never iterated, so its order decides nothing.
    numbers: HashMap<Box<[u8]>, u32>,
    names: Vec<String>,
    /// Time of each stream's latest record, in `at_ns`.
    latest: Vec<u64>,
    /// Key and number of the last line's stream: the next line usually has it too.
    last: (Vec<u8>, u32),
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams::of_at_most(STREAMS_MAX)
    }

    fn of_at_most(max: usize) -> Streams {
        let (numbers, names, latest) = Default::default();
        Streams { max, numbers, names, latest, last: (Vec::new(), 0) }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The stream's number, and the time of its previous record; `None` if this is the first.
    ///
    /// Allocates only for a new name.
    pub(crate) fn visit(&mut self, who: Who<'_>, at: u64) -> Result<(u32, Option<u64>), Reason> {
        let number = if !who.key.is_empty() && self.last.0 == who.key {
            self.last.1
        } else if let Some(&number) = self.numbers.get(who.key) {
            self.remember(who.key, number);
            number
        } else {
            let number = self.admit(who, at)?;
            self.remember(who.key, number);
            return Ok((number, None));
        };
        let before = std::mem::replace(&mut self.latest[number as usize], at);
        Ok((number, Some(before)))
    }

    fn remember(&mut self, key: &[u8], number: u32) {
        self.last.0.clear();
        self.last.0.extend_from_slice(key);
        self.last.1 = number;
    }

    fn admit(&mut self, who: Who<'_>, at: u64) -> Result<u32, Reason> {
        if who.key.is_empty() || who.key.len() > STREAM_NAME_MAX {
            return Err(Reason::Name);
        }
        if self.names.len() == self.max {
            return Err(Reason::TooManyStreams);
        }
        let number = u32::try_from(self.names.len()).expect("STREAMS_MAX is below 2^32");
        self.numbers.insert(who.key.into(), number);
        self.names.push(name(who));
        self.latest.push(at);
        Ok(number)
    }
}

/// A name as printable text.
fn name(who: Who<'_>) -> String {
    let key = String::from_utf8_lossy(who.key);
    let name = match who.called {
        Called::AsKeyed => key.into_owned(),
        Called::HostDisk => key.replace(',', "_"),
        Called::Command(command) => {
            let command = &command[..command.len().min(STREAM_NAME_MAX)];
            format!("{}-{key}", String::from_utf8_lossy(command))
        }
    };
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(key: &[u8]) -> Who<'_> {
        Who { key, called: Called::AsKeyed }
    }

    #[test]
    fn stream_numbers_are_dense_and_stable() {
        let mut streams = Streams::new();
        assert_eq!(streams.visit(file(b"a"), 5), Ok((0, None)));
        assert_eq!(streams.visit(file(b"a"), 6), Ok((0, Some(5))));
        assert_eq!(streams.visit(file(b"b"), 7), Ok((1, None)));
        assert_eq!(streams.visit(file(b"a"), 9), Ok((0, Some(6))));
        assert_eq!(streams.names(), ["a", "b"]);
    }

    #[test]
    fn stream_names_are_printable() {
        let mut streams = Streams::new();
        let visits = [
            Who { key: b"usr,0", called: Called::HostDisk },
            Who { key: b"697", called: Called::Command(b"kjournald") },
            Who { key: b"/a,b", called: Called::AsKeyed },
            Who { key: b"x\x1b\xff", called: Called::AsKeyed },
        ];
        for who in visits {
            streams.visit(who, 0).unwrap();
        }
        assert_eq!(streams.names(), ["usr_0", "kjournald-697", "/a,b", "x?\u{fffd}"]);
    }

    #[test]
    fn names_have_a_length() {
        let mut streams = Streams::new();
        assert_eq!(streams.visit(file(b""), 0), Err(Reason::Name));
        assert_eq!(streams.visit(file(&[b'x'; STREAM_NAME_MAX + 1]), 0), Err(Reason::Name));
        assert_eq!(streams.visit(file(&[b'x'; STREAM_NAME_MAX]), 0), Ok((0, None)));
    }

    #[test]
    fn the_number_of_streams_is_bounded() {
        let mut streams = Streams::of_at_most(1000);
        for number in 0..1000 {
            streams.visit(file(number.to_string().as_bytes()), 0).unwrap();
        }
        assert_eq!(streams.visit(file(b"one more"), 0), Err(Reason::TooManyStreams));
        assert_eq!(streams.visit(file(b"17"), 1), Ok((17, Some(0))), "those there are go on");
    }
}
