//! Replay of a recording as it was: the same inputs at the same instants to an engine, whose decisions are compared.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use weir_driver::Device;
use weir_engine::{
    Change, ClientId, Config, Dispatch, Engine, Event as EngineEvent, Extent, Instant, Outcome,
    Path, Request, RequestId, TaskId, Ticket,
};

use crate::entry::{Marks, class_from_name};
use crate::reader::{ReadError, Recording};
use crate::row::{Event, Row};
use crate::settings::{self, EngineText, Target};

/// Inputs that may wait for one before them: as many as a file of the largest size has.
const WAITING_MAX: usize = 16 << 20;

/// What a replay has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Inputs carried out, calls for what is due included.
    pub inputs: u64,
    /// Requests submitted.
    pub requests: u64,
    /// Decisions compared: which request went to the device next, and when.
    pub dispatches: u64,
    /// Requests that were inside when the recording ended.
    pub left_inside: u64,
    /// From the first to the last instant, in nanoseconds.
    pub duration_ns: u64,
    /// The first decision that differs.
    pub divergence: Option<Divergence>,
}

/// A decision of a replay that is not the recorded one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// Number of the dispatch, or the input's where the engine has not done what the input needs.
    pub at: At,
    /// What was recorded.
    pub recorded: String,
    /// What the replay did.
    pub replayed: String,
}

/// Place of a divergence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The dispatch of this number, counted from 1.
    Dispatch(u64),
    /// The input of this step.
    Step(u64),
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { recorded, replayed, .. } = self;
        match self.at {
            At::Dispatch(number) => write!(f, "dispatch {number}")?,
            At::Step(step) => write!(f, "step {step}")?,
        }
        write!(f, ": recorded: {recorded}; replayed: {replayed}")
    }
}

/// Why a recording is not replayed as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its beginning is gone, or was never there.
    #[error("{0}")]
    NotFromStart(String),
    /// Inputs are missing in the middle.
    #[error("step {step} is missing: a file of the recording is gone, or could not be written")]
    Gap {
        /// The first one.
        step: u64,
    },
    /// A row says what no engine can do.
    #[error("step {step}: {reason}")]
    Row {
        /// Its step.
        step: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Replays `recording` as it was.
///
/// # Errors
/// It cannot be read, or not all of it from the beginning of the engine is there.
pub fn replay_as_recorded(recording: &Recording) -> Result<Replayed, ReplayError> {
    if !recording.is_from_start() {
        return Err(ReplayError::NotFromStart(why_not(recording)));
    }
    let mut replay: Option<Replay> = None;
    for row in recording.rows() {
        let row = row?;
        match (&mut replay, row.step) {
            (None, _) if row.event == Event::Engine => replay = Some(Replay::new(&row)?),
            (None, _) => {
                return Err(ReplayError::Row { step: 0, reason: "no engine to begin with".into() });
            }
            (Some(replay), None) => replay.note_inside(&row),
            (Some(replay), Some(_)) => replay.take(row)?,
        }
        if let Some(replay) = &replay
            && replay.counts.divergence.is_some()
        {
            break;
        }
    }
    let replay = replay.ok_or_else(|| ReplayError::NotFromStart("no row is there".into()))?;
    replay.finish()
}

fn why_not(recording: &Recording) -> String {
    let header = recording.header();
    if recording.dropped() > 0 {
        format!("{} entries found no room in memory while it was recorded", recording.dropped())
    } else if !header.from_start {
        "it began when the server was running".to_owned()
    } else {
        format!("its first file is gone: the oldest that is left is number {}", header.file)
    }
}

struct Replay {
    engine: Engine,
    config: Config,
    device: Dispatched,
    /// Inputs whose turn has not come, by step.
    waiting: BTreeMap<u64, Input>,
    next_step: u64,
    began_ns: u64,
    now_ns: u64,
    /// Whether there were inputs at this instant, and no turn since.
    is_turn_owed: bool,
    clients: HashMap<u64, ClientId>,
    tasks: HashMap<u64, TaskId>,
    requests: HashMap<u64, RequestId>,
    steps: HashMap<RequestId, u64>,
    /// By number, until compared.
    recorded: BTreeMap<u64, Decision>,
    counts: Replayed,
}

/// An input: a row, or the submission that it tells of.
enum Input {
    Submit(Row),
    Row(Row),
}

/// Dispatches of the replay, and the tickets that they gave.
#[derive(Default)]
struct Dispatched {
    tickets: HashMap<RequestId, Ticket>,
    /// In order, from those that have not been compared.
    order: Vec<(u64, RequestId)>,
    replayed: BTreeMap<u64, Decision>,
    count: u64,
}

/// A request, by the step of its submission, goes to the device at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Decision {
    submitted: u64,
    at_ns: u64,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request of step {} at {} ns", self.submitted, self.at_ns)
    }
}

impl Device for Dispatched {
    const JOINS: bool = true;

    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let id = dispatch.ticket.id();
        self.tickets.insert(id, dispatch.ticket);
        self.order.push((now.as_nanos(), id));
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        self.issue(now, dispatch);
    }

    fn record(&mut self, _now: Instant, _event: EngineEvent) {}
}

impl Replay {
    fn new(row: &Row) -> Result<Replay, ReplayError> {
        let wrong = |reason: String| ReplayError::Row { step: 0, reason };
        let text: EngineText = serde_json::from_str(row.detail().unwrap_or_default())
            .map_err(|error| wrong(error.to_string()))?;
        let config = Config::try_from(text).map_err(wrong)?;
        Ok(Replay {
            engine: Engine::new(config, Instant::from_nanos(row.time_ns)),
            config,
            device: Dispatched::default(),
            waiting: BTreeMap::new(),
            next_step: 1,
            began_ns: row.time_ns,
            now_ns: row.time_ns,
            is_turn_owed: false,
            clients: HashMap::new(),
            tasks: HashMap::new(),
            requests: HashMap::new(),
            steps: HashMap::new(),
            recorded: BTreeMap::new(),
            counts: Replayed::default(),
        })
    }

    /// A request that was inside when its file ended.
    fn note_inside(&mut self, row: &Row) {
        if row.event == Event::Submitted {
            self.note(row);
        }
    }

    /// Takes note of the submission and the dispatch that a row tells of.
    fn note(&mut self, row: &Row) {
        let Some(submitted) = row.submitted else { return };
        // Also a request that is told of twice was submitted once.
        if submitted >= self.next_step && row.op.is_some() {
            self.waiting.entry(submitted).or_insert_with(|| Input::Submit(row.clone()));
        }
        let submitted_ns = row.time_ns.saturating_sub(row.latency_ns.unwrap_or_default());
        if let (Some(number), Some(wait_ns)) = (row.dispatched, row.wait_ns) {
            let at_ns = submitted_ns.saturating_add(wait_ns);
            if number > self.counts.dispatches {
                self.recorded.insert(number, Decision { submitted, at_ns });
            }
        }
    }

    fn take(&mut self, row: Row) -> Result<(), ReplayError> {
        let step = row.step.unwrap_or_default();
        self.note(&row);
        self.waiting.insert(step, Input::Row(row));
        self.carry_out_next()?;
        match self.waiting.len() {
            0..WAITING_MAX => Ok(()),
            _ => Err(ReplayError::Gap { step: self.next_step }),
        }
    }

    /// Carries out the inputs whose turn has come.
    fn carry_out_next(&mut self) -> Result<(), ReplayError> {
        while self.counts.divergence.is_none()
            && let Some(input) = self.waiting.remove(&self.next_step)
        {
            self.next_step += 1;
            self.carry_out(input)?;
        }
        Ok(())
    }

    /// Goes on to an instant; what is owed at the last one is done first.
    fn advance(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            if std::mem::take(&mut self.is_turn_owed) {
                self.turn();
            }
            self.now_ns = now_ns;
        }
    }

    fn turn(&mut self) {
        let now = Instant::from_nanos(self.now_ns);
        weir_driver::turn(&mut self.engine, now, &mut self.device);
        self.counts.inputs += 1;
        for (at_ns, id) in std::mem::take(&mut self.device.order) {
            self.device.count += 1;
            let submitted = self.steps.get(&id).copied().unwrap_or_default();
            self.device.replayed.insert(self.device.count, Decision { submitted, at_ns });
        }
        self.compare();
    }

    /// Compares decisions that are known from both sides, in order.
    fn compare(&mut self) {
        while self.counts.divergence.is_none() {
            let number = self.counts.dispatches + 1;
            let Some(replayed) = self.device.replayed.get(&number) else { return };
            let Some(recorded) = self.recorded.get(&number) else { return };
            if recorded != replayed {
                self.diverge(At::Dispatch(number), recorded.to_string(), replayed.to_string());
                return;
            }
            self.device.replayed.remove(&number);
            self.recorded.remove(&number);
            self.counts.dispatches = number;
        }
    }

    fn diverge(&mut self, at: At, recorded: String, replayed: String) {
        self.counts.divergence.get_or_insert(Divergence { at, recorded, replayed });
    }

    fn carry_out(&mut self, input: Input) -> Result<(), ReplayError> {
        self.counts.inputs += 1;
        let step = self.next_step - 1;
        let wrong = |reason: &str| ReplayError::Row { step, reason: reason.to_owned() };
        let row = match input {
            Input::Submit(row) => {
                self.advance(row.time_ns.saturating_sub(row.latency_ns.unwrap_or_default()));
                self.is_turn_owed = true;
                self.counts.requests += 1;
                let request =
                    self.request(&row).ok_or_else(|| wrong("a request without its parts"))?;
                let now = Instant::from_nanos(self.now_ns);
                match self.engine.submit(now, request) {
                    Ok(id) => {
                        self.requests.insert(step, id);
                        self.steps.insert(id, step);
                    }
                    Err(error) => {
                        self.diverge(At::Step(step), "submitted".into(), error.to_string());
                    }
                }
                return Ok(());
            }
            Input::Row(row) => row,
        };
        let now_ns = row.time_ns;
        match row.event {
            Event::ClientOpened
            | Event::ClientClosed
            | Event::TaskOpened
            | Event::TaskClosed
            | Event::CgroupCreated => {
                return self.change_structure(&row).map_err(|reason| wrong(&reason));
            }
            _ => self.advance(now_ns),
        }
        self.is_turn_owed = !matches!(row.event, Event::Turn | Event::NoTurn);
        let now = Instant::from_nanos(self.now_ns);
        match row.event {
            Event::Turn => self.turn(),
            Event::NoTurn => {}
            Event::Completed | Event::Failed | Event::Piece => {
                let outcome = match row.event {
                    Event::Failed => Outcome::Failed,
                    _ => Outcome::Done,
                };
                let submitted = row.submitted.unwrap_or_default();
                let id = *self.requests.get(&submitted).ok_or_else(|| wrong("no such request"))?;
                let Some(ticket) = self.device.tickets.remove(&id) else {
                    let recorded = format!("the request of step {submitted} comes back");
                    self.diverge(At::Step(step), recorded, "it is not at the device".into());
                    return Ok(());
                };
                let is_whole = self.engine.complete(now, ticket, outcome);
                if is_whole != (row.event != Event::Piece) {
                    let replayed = format!("whole: {is_whole}");
                    self.diverge(At::Step(step), row.event.name().into(), replayed);
                }
                if is_whole {
                    self.forget(submitted);
                }
            }
            Event::Withdrawn => {
                let submitted = row.submitted.unwrap_or_default();
                let id = *self.requests.get(&submitted).ok_or_else(|| wrong("no such request"))?;
                if self.engine.withdraw(now, id).is_none() {
                    self.diverge(At::Step(step), "withdrawn".into(), "it is at the device".into());
                }
                self.forget(submitted);
            }
            Event::WithdrawnNext => {
                let task = row.task.and_then(|task| self.tasks.get(&task)).copied();
                let task = task.ok_or_else(|| wrong("no such task"))?;
                let next = self.engine.next_to_withdraw(task);
                let found = next.and_then(|id| self.steps.get(&id)).copied();
                if let Some(id) = next {
                    self.engine.withdraw(now, id);
                }
                if found != row.submitted {
                    let (recorded, replayed) =
                        (format!("withdrawn: {:?}", row.submitted), format!("{found:?}"));
                    self.diverge(At::Step(step), recorded, replayed);
                }
                found.into_iter().for_each(|step| self.forget(step));
            }
            Event::Refused => {
                let request =
                    self.request(&row).ok_or_else(|| wrong("a request without its parts"))?;
                if self.engine.submit(now, request).is_ok() {
                    self.diverge(At::Step(step), "refused".into(), "submitted".into());
                }
            }
            Event::Promoted => {
                let id = row.submitted.and_then(|step| self.requests.get(&step)).copied();
                let task = row.task.and_then(|task| self.tasks.get(&task)).copied();
                let class = row.detail().and_then(class_from_name);
                let (Some(id), Some(task), Some(class)) = (id, task, class) else {
                    return Err(wrong("a promotion without its parts"));
                };
                if !self.engine.promote(now, id, task, class) {
                    self.diverge(At::Step(step), "promoted".into(), "it is not inside".into());
                }
            }
            Event::CgroupMoved | Event::CgroupRemoved | Event::Set => {
                let change = self.change(&row).map_err(|reason| wrong(&reason))?;
                match change {
                    Change::SetBfq(bfq) => self.config.bfq = bfq,
                    Change::SetDepth(depth) => self.config.depth = depth,
                    _ => {}
                }
                self.engine.reconfigure(now, change).map_err(|error| wrong(&error.to_string()))?;
            }
            event => return Err(wrong(&format!("{} is no input", event.name()))),
        }
        Ok(())
    }

    fn forget(&mut self, step: u64) {
        if let Some(id) = self.requests.remove(&step) {
            self.steps.remove(&id);
        }
    }

    fn request(&self, row: &Row) -> Option<Request> {
        let task = *self.tasks.get(&row.task?)?;
        let extent = Extent::new(row.offset?, u32::try_from(row.length?).ok()?);
        let mut request = Request::new(task, row.op?, extent, 0);
        Marks::parse(row.detail())?.apply(&mut request);
        Some(request)
    }

    fn cgroup(&self, path: Option<&str>) -> Result<weir_engine::CgroupId, String> {
        let path = Path::parse(path.unwrap_or_default()).map_err(|error| error.to_string())?;
        self.engine.find_cgroup(&path).ok_or_else(|| format!("no cgroup {path}"))
    }

    fn change(&self, row: &Row) -> Result<Change, String> {
        let cgroup = || self.cgroup(row.cgroup());
        Ok(match row.event {
            Event::CgroupRemoved => Change::Remove { cgroup: cgroup()? },
            Event::CgroupMoved => {
                Change::Move { cgroup: cgroup()?, parent: self.cgroup(row.detail())? }
            }
            _ => {
                let target = match (row.client, row.cgroup()) {
                    (Some(client), _) => {
                        let client = self.clients.get(&client);
                        Target::Client(*client.ok_or("no such client")?)
                    }
                    (None, Some(_)) => Target::Cgroup(cgroup()?),
                    (None, None) => Target::Device,
                };
                settings::parse(target, row.detail().unwrap_or_default(), &self.config)?
            }
        })
    }

    fn change_structure(&mut self, row: &Row) -> Result<(), String> {
        match row.event {
            Event::CgroupCreated => {
                let path = Path::parse(row.cgroup().unwrap_or_default());
                let path = path.map_err(|error| error.to_string())?;
                self.engine.ensure_cgroup(&path).map_err(|error| error.to_string())?;
            }
            Event::ClientOpened => {
                let cgroup = self.cgroup(row.cgroup())?;
                let client = self.engine.open_client(cgroup).map_err(|error| error.to_string())?;
                self.clients.insert(row.client.ok_or("a client without a number")?, client);
            }
            Event::TaskOpened => {
                let client = row.client.and_then(|client| self.clients.get(&client));
                let client = *client.ok_or("no such client")?;
                let task = self.engine.open_task(client).map_err(|error| error.to_string())?;
                self.tasks.insert(row.task.ok_or("a task without a number")?, task);
            }
            Event::TaskClosed => {
                let task = row.task.and_then(|task| self.tasks.remove(&task));
                self.engine.close_task(task.ok_or("no such task")?);
            }
            _ => {
                let client = row.client.and_then(|client| self.clients.remove(&client));
                self.engine.close_client(client.ok_or("no such client")?);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Replayed, ReplayError> {
        self.carry_out_next()?;
        if self.counts.divergence.is_none() {
            if !self.waiting.is_empty() {
                return Err(ReplayError::Gap { step: self.next_step });
            }
            if std::mem::take(&mut self.is_turn_owed) {
                self.turn();
            }
            // Requests that are still at the device are told of last.
            self.compare();
            if let Some((number, recorded)) = self.recorded.pop_first() {
                self.diverge(At::Dispatch(number), recorded.to_string(), "no dispatch".into());
            }
            // The recording may end within the last turn.
            let last_ns = self.now_ns;
            let first = self.device.replayed.first_key_value();
            if let Some((&number, replayed)) = first.filter(|(_, first)| first.at_ns < last_ns) {
                let replayed = replayed.to_string();
                self.diverge(At::Dispatch(number), "no dispatch".into(), replayed);
            }
        }
        self.counts.left_inside = self.requests.len() as u64;
        self.counts.duration_ns = self.now_ns - self.began_ns;
        Ok(self.counts)
    }
}
