//! Schedule of a replay: the next request of the trace and its time; no clock, no device.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::str::FromStr;

use weir_trace::Record;

/// Pace of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// All times and pauses, scaled by millionths.
    Millionths(u64),
    /// No times and no pauses: only the order of dependent requests.
    Asap,
}

impl Pace {
    const ORIGINAL: Pace = Pace::Millionths(1_000_000);

    /// A span of the trace's time, here. Rounds down.
    fn scale(self, ns: u64) -> u64 {
        match self {
            Pace::Millionths(millionths) => {
                let scaled = u128::from(ns) * u128::from(millionths) / 1_000_000;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            Pace::Asap => 0,
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let wrong = || {
            format!(
                "`{text}` is neither original, asap nor scaled:F with F from 0.000001 to 1000000, such as scaled:0.5"
            )
        };
        match text {
            "original" => Ok(Pace::ORIGINAL),
            "asap" => Ok(Pace::Asap),
            _ => {
                let factor = text.strip_prefix("scaled:").ok_or_else(wrong)?;
                let (whole, fraction) = factor.split_once('.').unwrap_or((factor, ""));
                let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
                    return Err(wrong());
                }
                let millionths: u64 =
                    format!("{whole}{fraction:0<6}").parse().map_err(|_| wrong())?;
                match millionths {
                    1..=1_000_000_000_000 => Ok(Pace::Millionths(millionths)),
                    _ => Err(wrong()),
                }
            }
        }
    }
}

/// A request that goes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Issue {
    pub(super) record: Record,
    /// Its number within its stream, to be given back when it is complete.
    pub(super) turn: u64,
    /// When it should have gone; `None` if it had no time to keep.
    pub(super) due_ns: Option<u64>,
}

/// Requests that have been read and not issued, by stream.
pub(super) struct Schedule {
    pace: Pace,
    depth: u32,
    start_ns: u64,
    streams: Vec<Stream>,
    /// Head of each stream without a dependency: time, order of reading, stream.
    ready: BinaryHeap<Reverse<(u64, u64, u32)>>,
    waiting: usize,
    read: u64,
}

#[derive(Default)]
struct Stream {
    /// With the place of each in the order of reading.
    waiting: VecDeque<(u64, Record)>,
    in_flight: u32,
    issued: u64,
    last: Last,
    is_ready: bool,
}

/// The stream's record that was issued last.
#[derive(Clone, Copy, Default)]
enum Last {
    #[default]
    None,
    InFlight,
    Done(u64),
}

impl Schedule {
    /// `depth` requests of a stream may be under way at once, and the trace's time 0 is `start_ns`.
    pub(super) fn new(pace: Pace, depth: u32, start_ns: u64) -> Schedule {
        Schedule {
            pace,
            depth,
            start_ns,
            streams: Vec::new(),
            ready: BinaryHeap::new(),
            waiting: 0,
            read: 0,
        }
    }

    /// Requests that are held.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The next record of the trace.
    pub(super) fn push(&mut self, record: Record) {
        let stream = record.stream as usize;
        if self.streams.len() <= stream {
            self.streams.resize_with(stream + 1, Stream::default);
        }
        self.streams[stream].waiting.push_back((self.read, record));
        self.read += 1;
        self.waiting += 1;
        self.make_ready(record.stream);
    }

    /// When the next request should go, unless a completion comes first; in the past if it should have gone.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.ready.peek().map(|&Reverse((due, ..))| due)
    }

    /// A due request: the most overdue one, and then the one read first.
    pub(super) fn poll_issue(&mut self, now_ns: u64) -> Option<Issue> {
        let &Reverse((due, _, number)) = self.ready.peek()?;
        if due > now_ns {
            return None;
        }
        self.ready.pop();
        let stream = &mut self.streams[number as usize];
        let (_, record) = stream.waiting.pop_front().expect("what is ready is waiting");
        stream.is_ready = false;
        stream.in_flight += 1;
        stream.issued += 1;
        stream.last = Last::InFlight;
        let turn = stream.issued;
        self.waiting -= 1;
        self.make_ready(number);
        Some(Issue { record, turn, due_ns: (self.pace != Pace::Asap).then_some(due) })
    }

    /// The request of this `stream` and `turn` was complete at `at_ns`.
    pub(super) fn handle_complete(&mut self, number: u32, turn: u64, at_ns: u64) {
        let stream = &mut self.streams[number as usize];
        stream.in_flight -= 1;
        if turn == stream.issued {
            stream.last = Last::Done(at_ns);
        }
        self.make_ready(number);
    }

    /// Gives the stream's first request its time, if it waits for nothing else.
    fn make_ready(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let Some(&(place, record)) = stream.waiting.front() else { return };
        if stream.is_ready || stream.in_flight >= self.depth {
            return;
        }
        let due = match (record.dependent, stream.last) {
            (true, Last::InFlight) => return,
            (true, Last::Done(at)) => at.saturating_add(self.pace.scale(record.delay_ns)),
            // The record it would wait for was left out before anything was issued.
            (true, Last::None) | (false, _) => {
                self.start_ns.saturating_add(self.pace.scale(record.at_ns))
            }
        };
        let due = if self.pace == Pace::Asap { 0 } else { due };
        stream.is_ready = true;
        self.ready.push(Reverse((due, place, number)));
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::Op;

    use super::*;

    fn at(at_ns: u64, stream: u32) -> Record {
        Record {
            at_ns,
            op: Op::Read,
            offset: 0,
            len: 512,
            stream,
            dependent: false,
            delay_ns: 0,
            metadata: false,
        }
    }

    fn after(at_ns: u64, stream: u32, delay_ns: u64) -> Record {
        Record { dependent: true, delay_ns, ..at(at_ns, stream) }
    }

    /// `(trace time, due)` of all that goes at `now`.
    fn issues(schedule: &mut Schedule, now: u64) -> Vec<(u64, Option<u64>)> {
        std::iter::from_fn(|| schedule.poll_issue(now))
            .map(|issue| (issue.record.at_ns, issue.due_ns))
            .collect()
    }

    #[test]
    fn the_times_of_a_trace_are_kept() {
        let mut schedule = Schedule::new(Pace::ORIGINAL, 10, 1000);
        [at(0, 0), at(50, 1), at(70, 0)].into_iter().for_each(|record| schedule.push(record));
        assert_eq!(schedule.next_due(), Some(1000));
        assert_eq!(issues(&mut schedule, 1000), [(0, Some(1000))]);
        assert_eq!(schedule.next_due(), Some(1050));
        assert_eq!(issues(&mut schedule, 1200), [(50, Some(1050)), (70, Some(1070))]);
        assert_eq!((schedule.next_due(), schedule.waiting()), (None, 0));
    }

    #[test]
    fn times_are_scaled() {
        let mut schedule = Schedule::new("scaled:2.5".parse().unwrap(), 10, 0);
        [at(0, 0), after(50, 0, 50), at(100, 0)]
            .into_iter()
            .for_each(|record| schedule.push(record));
        assert_eq!(issues(&mut schedule, 0), [(0, Some(0))]);
        schedule.handle_complete(0, 1, 1000);
        assert_eq!(issues(&mut schedule, 2000), [(50, Some(1125)), (100, Some(250))]);
    }

    #[test]
    fn a_dependent_request_waits_for_its_predecessor_only() {
        let mut schedule = Schedule::new(Pace::ORIGINAL, 10, 0);
        [at(0, 0), at(0, 0), after(10, 0, 10), at(20, 0), at(5, 1)]
            .into_iter()
            .for_each(|record| schedule.push(record));
        assert_eq!(issues(&mut schedule, 100), [(0, Some(0)), (0, Some(0)), (5, Some(5))]);
        schedule.handle_complete(0, 1, 110);
        assert_eq!(schedule.next_due(), None, "the second is the one before");
        schedule.handle_complete(0, 2, 120);
        assert_eq!(schedule.next_due(), Some(130));
        assert_eq!(issues(&mut schedule, 129), []);
        // Later ones of the stream follow it, even if overdue.
        assert_eq!(issues(&mut schedule, 130), [(10, Some(130)), (20, Some(20))]);
    }

    #[test]
    fn a_stream_has_a_depth() {
        let mut schedule = Schedule::new(Pace::ORIGINAL, 2, 0);
        [at(0, 0), at(1, 0), at(2, 0), at(3, 1)]
            .into_iter()
            .for_each(|record| schedule.push(record));
        assert_eq!(issues(&mut schedule, 9), [(0, Some(0)), (1, Some(1)), (3, Some(3))]);
        // Out of order, as disks answer.
        schedule.handle_complete(0, 2, 10);
        assert_eq!(issues(&mut schedule, 10), [(2, Some(2))]);
    }

    #[test]
    fn asap_keeps_the_order_and_dependencies() {
        let mut schedule = Schedule::new(Pace::Asap, 10, 7);
        [at(0, 1), at(1 << 60, 0), after(1 << 61, 1, 1 << 50), at(1 << 62, 0)]
            .into_iter()
            .for_each(|record| schedule.push(record));
        assert_eq!(issues(&mut schedule, 7), [(0, None), (1 << 60, None), (1 << 62, None)]);
        schedule.handle_complete(1, 1, 8);
        assert_eq!(issues(&mut schedule, 8), [(1 << 61, None)]);
    }

    #[test]
    fn paces_are_read() {
        let cases = [
            ("original", Some(Pace::ORIGINAL)),
            ("scaled:1", Some(Pace::ORIGINAL)),
            ("scaled:0.1", Some(Pace::Millionths(100_000))),
            ("scaled:.5", Some(Pace::Millionths(500_000))),
            ("scaled:12.000001", Some(Pace::Millionths(12_000_001))),
            ("scaled:1000000", Some(Pace::Millionths(1_000_000_000_000))),
            ("asap", Some(Pace::Asap)),
            ("scaled:1000000.1", None),
            ("scaled:0", None),
            ("scaled:", None),
            ("scaled:-1", None),
            ("scaled:0.0000001", None),
            ("scaled:1e3", None),
            ("fast", None),
        ];
        for (text, pace) in cases {
            assert_eq!(text.parse::<Pace>().ok(), pace, "{text}");
        }
    }
}
