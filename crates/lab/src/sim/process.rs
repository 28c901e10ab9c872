//! Process of a job: its state, and what it does next.

mod batch;

use std::mem::offset_of;
use std::sync::Arc;

pub(super) use self::batch::Done;
use weir_fio::random::Random;
use weir_fio::stream::{Access, Run, Step, Stream};
use weir_fio::{Mix, Submission};

use super::layout::FileAt;
use super::nanos;
use super::pacing::{Rates, Thinking};
use super::plan::Plan;
use super::search::{Search, Verdict};
use crate::results::LatencyTargetResult;
use crate::scenario::Machine;

/// One process.
///
/// Fields are in the order in which a step needs them, for with many processes the time goes into fetching them: the
/// state is one cache line, the next requests another, and a plain process needs no more.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Process {
    pub(super) plan: Arc<Plan>,
    state: State,
    ends_ns: u64,
    /// End of `ramp_time`.
    pub(super) counts_from_ns: u64,
    /// Where its first file begins on the disk.
    pub(super) begin: u64,
    in_flight: u32,
    /// Most requests in flight, from its plan.
    depth: u32,
    /// Only the depth and its end hold a request back, and only its row has to know of the end ([`Plan::is_plain`]).
    pub(super) is_plain: bool,
    /// Cleared when the queue is full, set when it has drained to `low`.
    is_filling: bool,
    /// Its time is up: only the fsync at its end is left.
    is_stopping: bool,
    /// Its flow lets it make one request.
    may_go: bool,
    /// No request in flight overlaps its next one (`serialize_overlap`).
    is_clear: bool,
    /// In a call that returns when the request that it made has ended ([`Plan::is_call`]).
    is_in_call: bool,
    /// It has failed, by `rate_min`, `max_latency` or the like.
    pub(super) has_failed: bool,
    /// Next requests, lent by its stream.
    run: Run,
    pub(super) row: u32,
    rates: Option<Box<Rates>>,
    thinking: Option<Box<Thinking>>,
    search: Option<Box<Search>>,
    /// In `ramp_time`, after which `number_ios` counts anew: requests that have ended.
    ended_in_ramp: Option<u64>,
    pub(super) files: Arc<[FileAt]>,
    /// Made, and held back by its rate or flow.
    held: Option<Step>,
    /// None with `read_iolog`.
    stream: Option<Stream>,
    /// Ended requests that wait for their batch.
    aside: Vec<Done>,
    /// While it waits for its flow: when the calendar wakes it.
    pub(super) is_planned_until: u64,
    /// When its copies from and to the page cache are done.
    pub(super) free_ns: u64,
    loops_left: u32,
    begun_ns: u64,
    /// When the present verification began, and the time of those before.
    rereads_from_ns: Option<u64>,
    reread_ns: u64,
    random: Random,
}

const _: () = assert!(offset_of!(Process, run) == 64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    /// Until a time that is in the calendar.
    Sleeping {
        until_ns: u64,
        thinks: bool,
    },
    /// In fsync, or in the replay of its trace.
    Blocked,
    /// Until all its requests have ended.
    Draining(Then),
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Think,
    Do,
    Restart,
    End,
}

/// What a process asks of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Do this step, then ask again.
    Do(Step),
    Sleep(u64),
    /// Ask its flow whether it may make a request: [`Process::may_go`] or [`Process::must_wait`].
    Ask,
    /// Ask whether a request in flight overlaps this step: [`Process::cleared`] if not. The process asks again when
    /// one of its requests, or one of another process, has ended.
    Clear(Step),
    /// Take the batch, then ask again.
    Take,
    /// Continue as a new child, then ask again.
    Fork,
    /// Replay its trace; then [`Process::replayed`].
    Replay,
    /// Wait for the end of one of its requests.
    Wait,
    /// It is over. Returned once.
    End,
}

impl Process {
    pub(super) fn new(
        plan: Arc<Plan>,
        files: Arc<[FileAt]>,
        stream: Option<Stream>,
        row: u32,
        random: Random,
    ) -> Process {
        let loops_left = plan.loops;
        Process {
            begin: files.first().map_or(0, |file| file.start),
            depth: plan.depth,
            is_plain: false,
            run: Run::empty(),
            plan,
            files,
            row,
            stream,
            state: State::Waiting,
            in_flight: 0,
            aside: Vec::new(),
            is_filling: true,
            held: None,
            is_planned_until: u64::MAX,
            free_ns: 0,
            may_go: false,
            is_clear: false,
            is_in_call: false,
            has_failed: false,
            rates: None,
            thinking: None,
            search: None,
            loops_left,
            is_stopping: false,
            begun_ns: 0,
            rereads_from_ns: None,
            reread_ns: 0,
            counts_from_ns: 0,
            ended_in_ramp: None,
            ends_ns: u64::MAX,
            random,
        }
    }

    /// It may start. Returns when it does: after its `startdelay`.
    pub(super) fn start(&mut self, now_ns: u64) -> u64 {
        let (least, most) = self.plan.options.start_delay;
        let (least, most) = (nanos(least), nanos(most).max(nanos(least)));
        let delay = match most - least {
            0 => least,
            width => least + self.random.below(width.saturating_add(1)),
        };
        self.begun_ns = now_ns.saturating_add(delay);
        self.counts_from_ns = self.begun_ns.saturating_add(self.plan.ramp_ns);
        self.ends_ns = match self.plan.runtime_ns {
            Some(runtime) => self.counts_from_ns.saturating_add(runtime),
            None => u64::MAX,
        };
        let options = &self.plan.options;
        if Rates::are_any(options) {
            // Not the numbers of the delays.
            let random = Random::new(self.random.clone().word());
            self.rates = Some(Box::new(Rates::new(options, self.begun_ns, random)));
        }
        let thinking = Thinking::new(options, self.plan.thinks_every, self.begun_ns);
        self.thinking = thinking.map(Box::new);
        if self.stream.is_some() {
            self.search = Search::of(options.latency_target, self.plan.depth, self.begun_ns);
        }
        if let Some(search) = &self.search {
            self.depth = search.depth();
            if !options.latency_target.runs_on {
                self.counts_from_ns = u64::MAX;
            }
        }
        let is_recounted = self.plan.ramp_ns > 0 && options.number_ios.is_some();
        self.ended_in_ramp = is_recounted.then_some(0);
        self.is_plain = self.plan.is_plain
            && self.rates.is_none()
            && self.thinking.is_none()
            && self.search.is_none()
            && self.ended_in_ramp.is_none();
        self.state = State::Sleeping { until_ns: self.begun_ns, thinks: false };
        self.begun_ns
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// It makes no further request, and ends when those in flight have ended. True if it is over at once, because it
    /// had not started.
    pub(super) fn stop(&mut self, now_ns: u64) -> bool {
        match self.state {
            State::Done => false,
            State::Waiting => {
                self.state = State::Done;
                true
            }
            _ => {
                self.ends_ns = self.ends_ns.min(now_ns);
                false
            }
        }
    }

    /// Its next action at `now_ns`. To be called after each [`Act::Do`], at the end of each of its requests, and at
    /// the time of [`Act::Sleep`].
    pub(super) fn act(&mut self, now_ns: u64) -> Act {
        loop {
            match self.state {
                State::Waiting | State::Done | State::Blocked => return Act::Wait,
                State::Sleeping { until_ns, thinks } => {
                    if now_ns < until_ns && now_ns < self.ends_ns {
                        return self.first_take(Act::Wait);
                    }
                    if self.plan.creates_only {
                        self.state = State::Draining(Then::End);
                        continue;
                    }
                    if thinks && let Some(thinking) = &mut self.thinking {
                        thinking.over(now_ns);
                    }
                    self.state = State::Running;
                }
                // At the end each request is taken by itself.
                State::Draining(_) if !self.aside.is_empty() => return Act::Take,
                State::Draining(_) if self.in_flight > 0 => return Act::Wait,
                State::Draining(Then::End) => {
                    self.has_reread(now_ns);
                    self.state = State::Done;
                    return Act::End;
                }
                State::Draining(Then::Do) => {
                    self.is_filling = true;
                    self.state = State::Running;
                }
                State::Draining(Then::Restart) => {
                    self.has_reread(now_ns);
                    if let Some(stream) = &mut self.stream {
                        stream.take_back(&mut self.run);
                        stream.restart();
                    }
                    self.is_filling = true;
                    self.state = State::Running;
                    if self.plan.forks {
                        return Act::Fork;
                    }
                }
                State::Draining(Then::Think) => {
                    let pause_ns = self.thinking.as_ref().map_or(0, |thinking| thinking.pause_ns());
                    if let Some(rates) = &mut self.rates {
                        rates.thought(pause_ns);
                    }
                    let pause_ns = pause_ns.saturating_add(self.lateness_ns());
                    self.is_filling = true;
                    return self.sleep(now_ns.saturating_add(pause_ns), true);
                }
                State::Running => {
                    if let Some(act) = self.run(now_ns) {
                        return act;
                    }
                }
            }
        }
    }

    /// One step of [`State::Running`]; None after a change of state.
    fn run(&mut self, now_ns: u64) -> Option<Act> {
        if now_ns >= self.ends_ns && !self.is_stopping {
            self.is_stopping = true;
            // A sync that waits for the last requests is still to come.
            self.held = self.held.take().filter(|step| matches!(step, Step::Sync { .. }));
            if let Some(stream) = &mut self.stream {
                stream.take_back(&mut self.run);
                stream.stop();
            }
        }
        if self.is_plain {
            if !self.is_filling {
                return Some(Act::Wait);
            }
            if let Some(step) = self.run.poll() {
                self.in_flight += 1;
                self.is_filling = self.in_flight < self.depth;
                return Some(Act::Do(step));
            }
        }
        self.run_any(now_ns)
    }

    /// As [`Process::run`], for every kind of process.
    #[inline(never)]
    fn run_any(&mut self, now_ns: u64) -> Option<Act> {
        if self.is_in_call {
            return Some(Act::Wait);
        }
        if !self.is_stopping
            && let Some(thinking) = &mut self.thinking
            && thinking.is_due(now_ns)
        {
            self.state = State::Draining(Then::Think);
            return None;
        }
        if let Some(search) = self.search.as_mut().filter(|search| search.is_draining()) {
            if self.in_flight > 0 {
                return Some(self.first_take(Act::Wait));
            }
            search.drained(now_ns);
            self.is_filling = true;
        }
        if !self.is_filling || self.in_flight >= self.depth {
            let is_ready = self.plan.has_calls && self.has_batch();
            return Some(if is_ready { Act::Take } else { Act::Wait });
        }
        if now_ns >= self.counts_from_ns
            && let Some(ended) = self.ended_in_ramp.take()
            && let Some(stream) = &mut self.stream
        {
            stream.take_back(&mut self.run);
            stream.allow(ended);
        }
        let Some(stream) = &mut self.stream else {
            if self.is_stopping {
                self.state = State::Draining(Then::End);
                return None;
            }
            self.state = State::Blocked;
            return Some(Act::Replay);
        };
        let run = &mut self.run;
        let step = self.held.take().or_else(|| run.poll()).or_else(|| {
            stream.take_back(run);
            if let Some(rates) = &self.rates {
                stream.steer(rates.due(now_ns));
            }
            let step = stream.next();
            stream.lend(run);
            step
        });
        let Some(step) = step else {
            self.loops_left -= u32::from(!self.plan.is_time_based);
            // A child makes one loop.
            let is_over = stream.is_exhausted() && !self.plan.forks;
            let is_last = self.loops_left == 0 || is_over || self.is_stopping;
            let then = if is_last { Then::End } else { Then::Restart };
            self.state = State::Draining(then);
            return None;
        };
        let is_rereading = stream.is_rereading();
        if is_rereading && self.rereads_from_ns.is_none() {
            // Verification begins when all is written.
            if self.in_flight > 0 {
                self.held = Some(step);
                self.state = State::Draining(Then::Do);
                return None;
            }
            self.rereads_from_ns = Some(now_ns);
        }
        match step {
            Step::Io { access, len, .. } => {
                // Verification is not paced, as in fio.
                let is_paced = !stream.is_verifying();
                if let Some(rates) = self.rates.as_mut().filter(|_| is_paced) {
                    let due_ns = rates.due_ns(access);
                    if due_ns > now_ns {
                        self.held = Some(step);
                        if self.has_kept() {
                            return Some(Act::Take);
                        }
                        return Some(self.sleep(due_ns, false));
                    }
                }
                if self.plan.has_flow && !self.may_go {
                    self.held = Some(step);
                    return Some(self.first_take(Act::Ask));
                }
                if self.plan.overlap.is_some() && !self.is_clear {
                    self.held = Some(step);
                    return Some(self.first_take(Act::Clear(step)));
                }
                (self.may_go, self.is_clear) = (false, false);
                // Verification between the writes has its part of the rate all the same.
                if let Some(rates) = self.rates.as_mut().filter(|_| !is_rereading) {
                    rates.issued(access, u64::from(len));
                }
                if let Some(thinking) = self.thinking.as_mut().filter(|_| !is_rereading) {
                    thinking.issued();
                }
                self.in_flight += 1;
                self.is_filling = self.in_flight < self.depth;
                self.is_in_call = self.plan.is_call(access);
            }
            Step::Sync { .. } => {
                // Syncs at the end cover all requests before, and glibc orders syncs behind earlier requests.
                let waits = stream.is_closing() || self.plan.submission == Submission::OnePerFile;
                if waits && self.in_flight > 0 {
                    self.held = Some(step);
                    self.state = State::Draining(Then::Do);
                    return None;
                }
                self.in_flight += 1;
                self.state = State::Blocked;
            }
        }
        Some(Act::Do(step))
    }

    fn has_reread(&mut self, now_ns: u64) {
        let from_ns = self.rereads_from_ns.take();
        self.reread_ns += from_ns.map_or(0, |from_ns| now_ns - from_ns);
    }

    /// Time since its start by `now_ns`, without `ramp_time`; and times of reading, writing and trimming, by its
    /// pattern. As in fio, verification after the writes counts apart.
    pub(super) fn ran_ns(&self, now_ns: u64) -> (u64, [u64; 3]) {
        let ran_ns = now_ns.saturating_sub(self.counts_from_ns);
        let reread_ns = self.reread_ns + self.rereads_from_ns.map_or(0, |from_ns| now_ns - from_ns);
        let reread_ns = reread_ns.min(ran_ns);
        let options = &self.plan.options;
        let is_replay = self.stream.is_none();
        let uses = |mixes: &[Mix]| is_replay || mixes.contains(&options.pattern.mix);
        let reads = uses(&[Mix::Read, Mix::ReadWrite])
            || options.verify_only
            || options.verify_backlog.is_some();
        let writes = uses(&[Mix::Write, Mix::ReadWrite, Mix::TrimWrite]);
        let trims = uses(&[Mix::Trim, Mix::TrimWrite]);
        let main_ns = |is_used: bool| if is_used { ran_ns - reread_ns } else { 0 };
        (ran_ns, [main_ns(reads) + reread_ns, main_ns(writes), main_ns(trims)])
    }

    pub(super) fn may_go(&mut self) {
        self.may_go = true;
    }

    pub(super) fn cleared(&mut self) {
        self.is_clear = true;
    }

    /// It is ahead of the others in its flow. Returns when to ask again, unless woken before.
    pub(super) fn must_wait(&mut self, now_ns: u64) -> u64 {
        let pause = self.plan.options.flow_sleep;
        match u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX) {
            0 => self.ends_ns,
            pause_ns => {
                let until_ns = now_ns.saturating_add(pause_ns);
                self.state = State::Sleeping { until_ns, thinks: false };
                until_ns.min(self.ends_ns)
            }
        }
    }

    /// How much later than asked a pause ends.
    fn lateness_ns(&mut self) -> u64 {
        let machine = self.plan.machine;
        let hiccup = machine.hiccup_ns > 0 && self.random.below(Machine::HICCUP_EVERY) == 0;
        machine.pause_late_ns.saturating_add(if hiccup { machine.hiccup_ns } else { 0 })
    }

    fn sleep(&mut self, until_ns: u64, thinks: bool) -> Act {
        self.state = State::Sleeping { until_ns, thinks };
        Act::Sleep(until_ns.min(self.ends_ns))
    }

    /// A request of so many bytes has ended: why the job fails for its `rate_min`, if it does.
    pub(super) fn moved(&mut self, now_ns: u64, access: Access, len: u32) -> Option<String> {
        if let Some(ended) = &mut self.ended_in_ramp {
            // Neither verification nor the trim before a write counts.
            let writes = matches!(self.plan.options.pattern.mix, Mix::Write | Mix::TrimWrite);
            let is_counted = access == Access::Write || !writes;
            *ended += u64::from(is_counted && now_ns < self.counts_from_ns);
        }
        self.rates.as_mut()?.moved(now_ns, access, len.into())
    }

    /// A request has taken so long: its consequence for the `latency_target`.
    pub(super) fn searched(&mut self, now_ns: u64, took_ns: u64) -> Verdict {
        // Requests that end late, when the process is ending, change nothing.
        let Some(search) = self.search.as_mut().filter(|_| now_ns < self.ends_ns) else {
            return Verdict::Go;
        };
        let verdict = search.ended(now_ns, took_ns);
        self.depth = search.depth();
        if verdict == Verdict::Count {
            self.counts_from_ns = now_ns;
        }
        verdict
    }

    /// Whether it ends before anything of it counts.
    pub(super) fn has_nothing(&self, now_ns: u64) -> bool {
        self.counts_from_ns > now_ns
            || self.search.as_ref().is_some_and(|search| search.has_nothing())
    }

    /// Result of its `latency_target`.
    pub(super) fn latency_target(&self) -> Option<LatencyTargetResult> {
        self.search.as_ref().map(|search| search.result())
    }

    pub(super) fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// When it ends at the latest, by its `runtime`.
    pub(super) fn ends_ns(&self) -> u64 {
        self.ends_ns
    }

    pub(super) fn replayed(&mut self) {
        self.state = State::Draining(Then::End);
    }

    pub(super) fn synced(&mut self) {
        self.in_flight -= 1;
        self.state = State::Running;
    }

    pub(super) fn is_replaying(&self) -> bool {
        // The cheaper test first: this is asked whenever a process waits.
        self.state == State::Blocked && self.stream.is_none()
    }
}
