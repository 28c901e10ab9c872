//! Replay loop: one thread reads the trace, schedules and issues requests, and receives completions.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use weir_engine::Op;

use super::Message;
use super::figures::{Figures, Times};
use super::fit::Room;
use super::progress::Progress;
use super::schedule::{Issue, Pace, Schedule};
use super::source::Source;
use super::target::{Done, IN_FLIGHT_MAX, Job, Target};
use crate::clock;
use crate::failure::Failure;

/// Records of read-ahead, which bounds how far slow streams may fall behind. About 5 MB.
const AHEAD_MAX: usize = 65_536;

/// Without this the kernel is free to end each sleep 50 us late.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

/// The operations of a trace, in the order in which reports list them.
pub(super) const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Discard, Op::Flush];

/// Changed extents, and requests that were left out.
#[derive(Default)]
pub(super) struct Adjusted {
    pub(super) wrapped: u64,
    pub(super) clipped: u64,
    pub(super) widened: u64,
    pub(super) unsupported: u64,
}

/// A replay under way.
pub(super) struct Run {
    source: Source,
    target: Target,
    room: Room,
    inbox: Receiver<Message>,
    schedule: Schedule,
    progress: Progress,
    under_way: BTreeMap<u64, UnderWay>,
    exhausted: bool,
    /// Error of the trace, reported after the replay of its readable part.
    unreadable: Option<Failure>,
    stop_ns: u64,
    outcome: Measured,
}

struct UnderWay {
    issue: Issue,
    len: u32,
    offset: u64,
    issued_ns: u64,
}

/// Measurements so far.
pub(super) struct Measured {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) issued: u64,
    /// By place in [`OPS`].
    pub(super) figures: [Figures; 4],
    pub(super) late: Times,
    pub(super) adjusted: Adjusted,
    pub(super) first_error: Option<String>,
    pub(super) ended: Ended,
}

/// Why a replay is over.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was all of the trace.
    Whole,
    /// `--seconds` were over.
    Seconds,
    Signal(u8),
    /// The trace or the target failed.
    Failed(Failure),
}

/// A replay that is over.
pub(super) struct Outcome {
    pub(super) source: Source,
    pub(super) room: Room,
    pub(super) measured: Measured,
}

impl Run {
    /// Reads ahead before the clock starts, so that decompression delays no request.
    pub(super) fn new(
        source: Source,
        target: Target,
        inbox: Receiver<Message>,
        pace: Pace,
        depth: u32,
        seconds: Option<u64>,
    ) -> Result<Run, Failure> {
        // Refused at worst, and then sleeps end 50 us later.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let mut source = source;
        let (mut first, mut exhausted, mut unreadable) = (Vec::new(), false, None);
        while first.len() < AHEAD_MAX && !exhausted {
            match source.next() {
                Ok(Some(record)) => first.push(record),
                Ok(None) => exhausted = true,
                // Better now than after half a minute.
                Err(failure @ Failure::Wrong(_)) => return Err(failure),
                Err(failure) => (exhausted, unreadable) = (true, Some(failure)),
            }
        }
        let start_ns = clock::now_ns();
        let mut schedule = Schedule::new(pace, depth, start_ns);
        first.into_iter().for_each(|record| schedule.push(record));
        let outcome = Measured {
            start_ns,
            end_ns: start_ns,
            issued: 0,
            figures: [(); 4].map(|()| Figures::new()),
            late: Times::new(),
            adjusted: Adjusted::default(),
            first_error: None,
            ended: Ended::Whole,
        };
        Ok(Run {
            source,
            room: target.room(),
            target,
            inbox,
            schedule,
            progress: Progress::new(start_ns),
            under_way: BTreeMap::new(),
            exhausted,
            unreadable,
            stop_ns: seconds
                .map_or(u64::MAX, |seconds| start_ns.saturating_add(seconds * 1_000_000_000)),
            outcome,
        })
    }

    /// Replays until the end of the trace, of the time, or a signal; then waits for requests in flight.
    pub(super) fn finish(mut self) -> Outcome {
        let ended = self.issue_all().and_then(|ended| self.drain().map(|()| ended));
        self.outcome.ended = match (ended, self.unreadable.take()) {
            (Ok(Ended::Whole), Some(failure)) | (Err(failure), _) => Ended::Failed(failure),
            (Ok(ended), _) => ended,
        };
        self.outcome.end_ns = clock::now_ns();
        self.progress.end();
        Outcome { source: self.source, room: self.room, measured: self.outcome }
    }

    fn issue_all(&mut self) -> Result<Ended, Failure> {
        loop {
            self.read_ahead();
            let mut now = clock::now_ns();
            while self.under_way.len() < IN_FLIGHT_MAX
                && now < self.stop_ns
                && let Some(issue) = self.schedule.poll_issue(now)
            {
                self.issue(issue, now)?;
                now = clock::now_ns();
            }
            if self.exhausted && self.schedule.waiting() == 0 {
                return Ok(Ended::Whole);
            }
            if now >= self.stop_ns {
                return Ok(Ended::Seconds);
            }
            let done = self.outcome.issued - self.under_way.len() as u64;
            self.progress.show(now, done, self.source.latest_ns());
            if let Some(number) = self.hear(now)? {
                return Ok(Ended::Signal(number));
            }
        }
    }

    fn read_ahead(&mut self) {
        while !self.exhausted && self.schedule.waiting() < AHEAD_MAX {
            match self.source.next() {
                Ok(Some(record)) => self.schedule.push(record),
                Ok(None) => self.exhausted = true,
                Err(failure) => (self.exhausted, self.unreadable) = (true, Some(failure)),
            }
        }
    }

    fn issue(&mut self, issue: Issue, now: u64) -> Result<(), Failure> {
        let record = issue.record;
        if !self.target.can(record.op) {
            self.outcome.adjusted.unsupported += 1;
            self.schedule.handle_complete(record.stream, issue.turn, now);
            return Ok(());
        }
        let (mut offset, mut len) = (0, 0);
        if record.op != Op::Flush {
            let fitted = self.room.fit(record.offset, record.len);
            (offset, len) = (fitted.offset, fitted.len);
            let adjusted = &mut self.outcome.adjusted;
            adjusted.wrapped += u64::from(fitted.wrapped);
            adjusted.clipped += u64::from(fitted.clipped);
            adjusted.widened += u64::from(fitted.widened);
        }
        if let Some(due) = issue.due_ns {
            self.outcome.late.note(now - due);
        }
        let number = self.outcome.issued;
        self.outcome.issued += 1;
        self.under_way.insert(number, UnderWay { issue, len, offset, issued_ns: now });
        let job = Job { number, op: record.op, offset, len };
        self.target
            .start(job)
            .map_err(|error| Failure::failed(format!("the target broke: {error}")))
    }

    /// Waits for the next deadline or event, and handles all events. Returns the number of a signal.
    fn hear(&mut self, now: u64) -> Result<Option<u8>, Failure> {
        let full = self.under_way.len() >= IN_FLIGHT_MAX;
        let due = self.schedule.next_due().filter(|_| !full).unwrap_or(u64::MAX).min(self.stop_ns);
        let wait = Duration::from_nanos(due.saturating_sub(now));
        let wait = self.progress.patience(now).map_or(wait, |patience| patience.min(wait));
        let mut message = match self.inbox.recv_timeout(wait) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed("the target is gone"));
            }
        };
        while let Some(heard) = message {
            match heard {
                Message::Done(done) => self.handle_done(done),
                Message::Signal(number) => return Ok(Some(number)),
                Message::Broken(error) => {
                    return Err(Failure::failed(format!("the target broke: {error}")));
                }
            }
            message = self.inbox.try_recv().ok();
        }
        Ok(None)
    }

    /// Waits for all that is under way. Signals have ended the issuing already; another ends the program.
    fn drain(&mut self) -> Result<(), Failure> {
        while !self.under_way.is_empty() {
            match self.inbox.recv() {
                Ok(Message::Done(done)) => self.handle_done(done),
                Ok(Message::Signal(_)) => {}
                Ok(Message::Broken(error)) => {
                    return Err(Failure::failed(format!("the target broke: {error}")));
                }
                Err(_) => return Err(Failure::failed("the target is gone")),
            }
        }
        Ok(())
    }

    fn handle_done(&mut self, done: Done) {
        let Done { number, at_ns, result } = done;
        let under_way = self.under_way.remove(&number).expect("each request is done once");
        let UnderWay { issue, len, offset, issued_ns } = under_way;
        let record = issue.record;
        let kind = OPS.iter().position(|&op| op == record.op).expect("no other is in a trace");
        let figures = &mut self.outcome.figures[kind];
        match result {
            Ok(()) => figures.note(len, at_ns.saturating_sub(issued_ns)),
            Err(error) => {
                figures.errors += 1;
                let op = format!("{:?}", record.op).to_lowercase();
                let said = || format!("{op} of {len} bytes at {offset}: {error}");
                self.outcome.first_error.get_or_insert_with(said);
            }
        }
        // A failed request completes too: dependent ones continue, like a program's next attempt.
        self.schedule.handle_complete(record.stream, issue.turn, at_ns);
    }
}

impl Outcome {
    /// Exit status after the report.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        let Measured { figures, first_error, ended, .. } = self.measured;
        match ended {
            Ended::Signal(number) => return Err(Failure::Signal(number)),
            Ended::Failed(failure) => return Err(failure),
            Ended::Whole | Ended::Seconds => {}
        }
        let errors: u64 = figures.iter().map(|figures| figures.errors).sum();
        match first_error {
            Some(first) => {
                Err(Failure::failed(format!("{errors} requests failed; the first: {first}")))
            }
            None => Ok(()),
        }
    }
}
