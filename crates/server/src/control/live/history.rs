//! Kept samples: the events of the last hour, as they are sent.

use std::collections::VecDeque;

use axum::body::Bytes;

use super::sample::LiveSample;

/// Events that are kept: an hour of one every five seconds.
pub(super) const EVENTS_MAX: usize = 720;
/// Bytes of all of them; where that is less than [`EVENTS_MAX`] events, the time that is kept is shorter.
pub(super) const BYTES_MAX: usize = 16 << 20;
/// Longest event, in bytes; a sample that would be longer leaves cgroups out.
pub(super) const EVENT_MAX: usize = 64 << 10;

/// The last events.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Bytes>,
    bytes: usize,
    /// Number of the first of `events`.
    first: u64,
}

/// Place of an event among all of all runs of the server: the header `Last-Event-ID`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// Tells runs of the server apart.
    pub(super) run: u64,
    pub(super) number: u64,
}

impl Position {
    /// Reads `RUN-NUMBER`, in hexadecimal.
    pub(super) fn parse(text: &str) -> Option<Position> {
        let (run, number) = text.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Position { run: hex(run)?, number: hex(number)? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.run, self.number)
    }
}

impl History {
    /// Number of the next event to come.
    pub(super) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    pub(super) fn push(&mut self, event: Bytes) {
        self.bytes += event.len();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// The first event that is there with at least this number, and its number.
    pub(super) fn from(&self, number: u64) -> Option<(u64, Bytes)> {
        let number = number.max(self.first);
        let at = usize::try_from(number - self.first).ok()?;
        self.events.get(at).map(|event| (number, event.clone()))
    }
}

/// A sample as an event named `name`. Cgroups at the end of the longest lists are left out until it has
/// [`EVENT_MAX`] bytes.
pub(super) fn event(name: &str, id: Option<Position>, mut sample: LiveSample) -> Bytes {
    loop {
        let data = serde_json::to_string(&sample).unwrap_or_default();
        let longest = sample.devices.iter_mut().max_by_key(|device| device.cgroups.len());
        match longest {
            Some(longest) if data.len() > EVENT_MAX && !longest.cgroups.is_empty() => {
                let left = longest.cgroups.len() / 2;
                longest.cgroups_omitted += (longest.cgroups.len() - left) as u64;
                longest.cgroups.truncate(left);
            }
            _ => {
                let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
                return format!("{id}event: {name}\ndata: {data}\n\n").into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{LiveCgroup, LiveDevice};
    use super::*;

    #[test]
    fn the_oldest_events_go() {
        let mut history = History::default();
        assert_eq!(history.from(0), None);
        (0..EVENTS_MAX + 5).for_each(|number| history.push(number.to_string().into()));
        assert_eq!(history.from(0), Some((5, "5".into())));
        assert_eq!(history.from(700), Some((700, "700".into())));
        assert_eq!(history.from(history.end()), None);
        assert_eq!(history.from(u64::MAX), None);

        let long = Bytes::from(vec![b'x'; BYTES_MAX / 4]);
        (0..5).for_each(|_| history.push(long.clone()));
        assert_eq!(history.events.len(), 4, "they have no more bytes than they may");
        assert_eq!(history.bytes, BYTES_MAX);
    }

    #[test]
    fn an_event_is_framed_and_bounded() {
        let cgroup = |number: usize| LiveCgroup {
            cgroup: format!("/{number}\n{}", "x".repeat(5000)),
            ..LiveCgroup::default()
        };
        let device = |cgroups: usize| LiveDevice {
            device: "disk0".into(),
            cgroups: (0..cgroups).map(cgroup).collect(),
            ..LiveDevice::default()
        };
        let sample = LiveSample {
            at_ms: 1,
            span_ms: 2,
            started_at_ms: 0,
            version: "1",
            devices: vec![device(30), device(1)],
        };
        let text = event("sample", Some(Position { run: 0xab, number: 16 }), sample);
        let text = std::str::from_utf8(&text).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        let [id, name, data, "", ""] = lines[..] else { panic!("{lines:?}") };
        assert_eq!((id, name), ("id: ab-10", "event: sample"));
        assert!(data.len() < EVENT_MAX + 100);
        let json: serde_json::Value = serde_json::from_str(&data[6..]).unwrap();
        assert_eq!(json["devices"][0]["cgroups"].as_array().unwrap().len(), 7);
        assert_eq!(json["devices"][0]["cgroups_omitted"], 23);
        assert_eq!(json["devices"][0]["cgroups"][0]["cgroup"].as_str().unwrap()[..3], *"/0\n");
        assert_eq!(json["devices"][1]["cgroups"].as_array().unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn a_position_is_read_back(run: u64, number: u64) {
            let position = Position { run, number };
            prop_assert_eq!(Position::parse(&position.to_string()), Some(position));
        }

        #[test]
        fn any_text_is_a_position_or_none(text in "\\PC*|[0-9a-f-]{0,40}") {
            if let Some(position) = Position::parse(&text) {
                prop_assert_eq!(Position::parse(&position.to_string()), Some(position));
            }
        }
    }
}
