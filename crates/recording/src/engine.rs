//! The seam: an engine whose calls are recorded where a recorder is attached.

use std::ops::Deref;

use weir_driver::Device;
use weir_engine::stats::SharedCounters;
use weir_engine::{
    CgroupId, Change, ChangeError, Class, ClientId, CreateError, Dispatch, Engine, Event, Instant,
    OpenError, Outcome, Path, Request, RequestId, SubmitError, TaskId, Ticket,
};

use crate::blocks::{Receiving, Sender, channel};
use crate::entry::{Entry, Marks, Rare, Slot};

/// Longest time that entries lie on the device's thread.
const FLUSH_NS: u64 = 1_000_000_000;

/// An engine. Calls that change it go through this type and are recorded; all others reach it by reference, so that none
/// can be forgotten.
pub struct RecordedEngine {
    engine: Engine,
    recorder: Option<Recorder>,
}

/// The device thread's part of a recording.
#[derive(Debug)]
pub struct Recorder {
    sender: Sender,
    /// The last instant that a call had.
    now_ns: u64,
    /// When the first entry since the last flush was made that is more than a turn.
    news_since_ns: Option<u64>,
}

/// The writer's part of a recording.
#[derive(Debug)]
pub struct Recorded {
    pub(crate) receiving: Receiving,
}

impl Recorder {
    /// A recorder, and what its writer reads from. `blocks_max` blocks of 32 KiB may wait for the writer.
    pub(crate) fn with_blocks(blocks_max: usize) -> (Recorder, Recorded) {
        let (sender, receiving) = channel(blocks_max);
        (Recorder { sender, now_ns: 0, news_since_ns: None }, Recorded { receiving })
    }

    /// A recorder, and what its writer reads from. 16 MiB may wait for the writer.
    pub fn new() -> (Recorder, Recorded) {
        Recorder::with_blocks(crate::blocks::BLOCKS_MAX)
    }

    #[inline]
    fn push(&mut self, now_ns: u64, entry: Entry) {
        self.now_ns = self.now_ns.max(now_ns);
        self.news_since_ns.get_or_insert(self.now_ns);
        self.sender.push(entry);
    }

    #[cold]
    fn push_rare(&mut self, now_ns: u64, rare: Rare) {
        self.push(now_ns, Entry::Rare(Box::new(rare)));
    }

    fn begin(&mut self, now: Instant, engine: &Engine) {
        let (now_ns, structure) = (now.as_nanos(), Box::new(engine.structure()));
        self.push_rare(now_ns, Rare::Structure { now_ns, structure });
    }

    /// A turn begins. What was dropped before is told, and what the engine is made of now.
    fn turn(&mut self, now: Instant, engine: &Engine) {
        if self.sender.is_dropping() {
            if let Some(entries) = self.sender.resume() {
                self.push_rare(0, Rare::Dropped { entries });
                self.begin(now, engine);
            }
            return;
        }
        self.now_ns = self.now_ns.max(now.as_nanos());
        self.sender.push(Entry::Turn { now_ns: now.as_nanos() });
        if let Some(since) = self.news_since_ns
            && now.as_nanos().saturating_sub(since) >= FLUSH_NS
        {
            self.sender.flush();
            self.news_since_ns = None;
        }
    }
}

impl Deref for RecordedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl RecordedEngine {
    /// An engine without a recorder.
    pub fn new(engine: Engine) -> RecordedEngine {
        RecordedEngine { engine, recorder: None }
    }

    /// Records from now on: the structure of the engine, then its calls. O(cgroups, clients, tasks).
    pub fn attach(&mut self, now: Instant, mut recorder: Recorder) {
        recorder.begin(now, &self.engine);
        self.recorder = Some(recorder);
    }

    /// Ends the recording; the writer gets what there is.
    pub fn detach(&mut self) {
        self.recorder = None;
    }

    /// When a turn is due so that the writer gets what lies here.
    pub fn recording_due(&self) -> Option<Instant> {
        let recorder = self.recorder.as_ref()?;
        let due_ns = recorder.news_since_ns?.saturating_add(FLUSH_NS);
        // A full block without a place to go waits for the writer, and any turn looks for that.
        let has_news = !recorder.sender.is_empty() && !recorder.sender.is_dropping();
        has_news.then(|| Instant::from_nanos(due_ns))
    }

    /// See [`Engine::create_cgroup`].
    ///
    /// # Errors
    /// As there.
    pub fn create_cgroup(&mut self, parent: CgroupId, name: &str) -> Result<CgroupId, CreateError> {
        let made = self.engine.create_cgroup(parent, name)?;
        if let Some(recorder) = &mut self.recorder {
            let (slot, parent, name) = (made.slot(), parent.slot(), name.to_owned());
            recorder.push_rare(0, Rare::Cgroup { slot, parent, name });
        }
        Ok(made)
    }

    /// See [`Engine::ensure_cgroup`].
    ///
    /// # Errors
    /// As there.
    pub fn ensure_cgroup(&mut self, path: &Path) -> Result<CgroupId, CreateError> {
        if self.recorder.is_none() {
            return self.engine.ensure_cgroup(path);
        }
        let mut at = self.engine.root();
        let mut upto = 0;
        for name in path.names() {
            upto += 1 + name.len();
            let there = Path::parse(&path.as_str()[..upto]).ok();
            let there = there.and_then(|path| self.engine.find_cgroup(&path));
            at = match there {
                Some(there) => there,
                None => self.create_cgroup(at, name)?,
            };
        }
        Ok(at)
    }

    /// See [`Engine::open_client`].
    ///
    /// # Errors
    /// As there.
    pub fn open_client(&mut self, cgroup: CgroupId) -> Result<ClientId, OpenError> {
        let client = self.engine.open_client(cgroup)?;
        if let Some(recorder) = &mut self.recorder {
            let (slot, cgroup) = (client.slot(), cgroup.slot());
            recorder.push_rare(0, Rare::Client { slot, cgroup });
        }
        Ok(client)
    }

    /// See [`Engine::open_task`].
    ///
    /// # Errors
    /// As there.
    pub fn open_task(&mut self, client: ClientId) -> Result<TaskId, OpenError> {
        let task = self.engine.open_task(client)?;
        if let Some(recorder) = &mut self.recorder {
            let (slot, client) = (task.slot(), client.slot());
            recorder.push_rare(0, Rare::Task { slot, client });
        }
        Ok(task)
    }

    /// See [`Engine::close_task`].
    pub fn close_task(&mut self, task: TaskId) {
        // The slot of a task that is gone may be another's.
        if let Some(recorder) = &mut self.recorder
            && self.engine.task_stats(task).is_some()
        {
            recorder.push_rare(0, Rare::CloseTask { slot: task.slot() });
        }
        self.engine.close_task(task);
    }

    /// See [`Engine::close_client`].
    pub fn close_client(&mut self, client: ClientId) {
        if let Some(recorder) = &mut self.recorder
            && self.engine.has_client(client)
        {
            recorder.push_rare(0, Rare::CloseClient { slot: client.slot() });
        }
        self.engine.close_client(client);
    }

    /// See [`Engine::submit`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<RequestId, SubmitError> {
        let submitted = self.engine.submit(now, request);
        if let Some(recorder) = &mut self.recorder
            // The slot of a task that is gone may be another's.
            && !matches!(submitted, Err(SubmitError::UnknownTask))
        {
            let now_ns = now.as_nanos();
            let slot = submitted.as_ref().ok().and_then(|id| Slot::new(id.slot()));
            let (task, op, marks) = (request.task.slot(), request.op, Marks::of(&request));
            let (offset, len) = (request.extent.offset, request.extent.len);
            recorder.push(now_ns, Entry::Submit { now_ns, offset, slot, task, len, op, marks });
        }
        submitted
    }

    /// See [`Engine::complete`].
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn complete(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) -> bool {
        let slot = ticket.id().slot();
        let is_whole = self.engine.complete(now, ticket, outcome);
        if let Some(recorder) = &mut self.recorder {
            let now_ns = now.as_nanos();
            recorder.push(now_ns, Entry::Complete { now_ns, slot, outcome, is_whole });
        }
        is_whole
    }

    /// See [`Engine::promote`].
    pub fn promote(&mut self, now: Instant, id: RequestId, task: TaskId, class: Class) -> bool {
        let is_inside = self.engine.promote(now, id, task, class);
        if let Some(recorder) = &mut self.recorder
            && is_inside
        {
            let (now_ns, slot, task) = (now.as_nanos(), id.slot(), task.slot());
            recorder.push(now_ns, Entry::Promote { now_ns, slot, task, class });
        }
        is_inside
    }

    /// See [`Engine::withdraw`].
    pub fn withdraw(&mut self, now: Instant, id: RequestId) -> Option<Request> {
        let withdrawn = self.engine.withdraw(now, id);
        if let Some(recorder) = &mut self.recorder
            && withdrawn.is_some()
        {
            let (now_ns, slot) = (now.as_nanos(), id.slot());
            recorder.push(now_ns, Entry::Withdraw { now_ns, slot });
        }
        withdrawn
    }

    /// See [`Engine::withdraw_next`].
    pub fn withdraw_next(&mut self, now: Instant, task: TaskId) -> Option<Request> {
        let is_known = self.engine.task_stats(task).is_some();
        let next = self.engine.next_to_withdraw(task);
        let withdrawn = next.and_then(|next| self.engine.withdraw(now, next));
        if let Some(recorder) = &mut self.recorder
            && is_known
        {
            let (now_ns, task) = (now.as_nanos(), task.slot());
            let slot = next.and_then(|next| Slot::new(next.slot()));
            recorder.push(now_ns, Entry::WithdrawNext { now_ns, task, slot });
        }
        withdrawn
    }

    /// See [`Engine::reconfigure`].
    ///
    /// # Errors
    /// As there.
    pub fn reconfigure(&mut self, now: Instant, change: Change) -> Result<(), ChangeError> {
        self.engine.reconfigure(now, change)?;
        if let Some(recorder) = &mut self.recorder {
            let now_ns = now.as_nanos();
            recorder.push_rare(now_ns, Rare::Change { now_ns, change: Box::new(change) });
        }
        Ok(())
    }

    /// See [`weir_driver::turn`].
    #[inline]
    pub fn turn<D: Device>(&mut self, now: Instant, device: &mut D) -> Option<Instant> {
        match &mut self.recorder {
            None => weir_driver::turn(&mut self.engine, now, device),
            Some(recorder) => {
                recorder.turn(now, &self.engine);
                weir_driver::turn(&mut self.engine, now, &mut Listening { recorder, device })
            }
        }
    }

    /// As [`Engine::shared_counters`], which decides nothing and is not recorded.
    pub fn shared_counters(&mut self, cgroup: CgroupId) -> Option<SharedCounters> {
        self.engine.shared_counters(cgroup)
    }

    /// See [`Engine::check`].
    ///
    /// # Errors
    /// As there.
    #[cfg(feature = "check")]
    pub fn check(&mut self) -> Result<(), String> {
        self.engine.check()
    }
}

/// A device whose dispatches are recorded.
struct Listening<'a, D> {
    recorder: &'a mut Recorder,
    device: &'a mut D,
}

impl<D> Listening<'_, D> {
    fn note(&mut self, now: Instant, dispatch: &Dispatch) {
        let slot = dispatch.ticket.id().slot();
        self.recorder.push(now.as_nanos(), Entry::Dispatch { slot });
    }
}

impl<D: Device> Device for Listening<'_, D> {
    const JOINS: bool = D::JOINS;

    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        self.note(now, &dispatch);
        self.device.issue(now, dispatch);
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        self.note(now, &dispatch);
        self.device.join(now, dispatch);
    }

    fn start(&mut self, now: Instant) {
        self.device.start(now);
    }

    fn record(&mut self, now: Instant, event: Event) {
        self.device.record(now, event);
    }
}
