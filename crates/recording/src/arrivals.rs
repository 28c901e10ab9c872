//! Arrivals of a recording: what was asked, by which client of which cgroup, without what was decided.

use std::collections::HashMap;
use std::rc::Rc;

use weir_engine::{CgroupId, Config, Engine, Instant, Op, Path, Request, TaskId};

use crate::entry::Marks;
use crate::reader::{ReadError, Recording};
use crate::row::{Event, Row};
use crate::settings::{self, EngineText, Target};

/// Requests that are read from a recording, the last ones.
pub const ARRIVALS_MAX: usize = 8 << 20;

/// A request that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Of the engine's clock.
    pub at_ns: u64,
    /// Path of its cgroup.
    pub cgroup: Rc<str>,
    /// Its connection.
    pub task: u64,
    /// What it asks for.
    pub op: Op,
    /// Where, in bytes.
    pub offset: u64,
    /// How much.
    pub len: u32,
    /// How long it took; `None` of one that had not ended when the recording did, or was withdrawn.
    pub latency_ns: Option<u64>,
    /// Of that, from its last dispatch until the device had done it.
    pub device_ns: Option<u64>,
    step: u64,
    marks: Marks,
}

impl Arrival {
    /// The request, of this task.
    pub fn request(&self, task: TaskId, tag: u64) -> Request {
        let extent = weir_engine::Extent::new(self.offset, self.len);
        let mut request = Request::new(task, self.op, extent, tag);
        self.marks.apply(&mut request);
        request
    }
}

/// What came in a time, and how the device was set at its end.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// In the order in which they came.
    pub requests: Vec<Arrival>,
    /// The client of each connection.
    pub clients: HashMap<u64, u64>,
    /// Configuration of the engine.
    pub config: Config,
    /// Paths of cgroups with their settings, in the order in which they were set.
    settings: Vec<(String, String)>,
}

impl Arrivals {
    /// Reads the arrivals of a recording; of the last `last_ns` nanoseconds, if that is said, with what was inside when they
    /// began.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(recording: &Recording, last_ns: Option<u64>) -> Result<Arrivals, ReadError> {
        Arrivals::bounded(recording, last_ns, ARRIVALS_MAX)
    }

    /// The same, of at most `requests_max` requests, the last ones.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn bounded(
        recording: &Recording,
        last_ns: Option<u64>,
        requests_max: usize,
    ) -> Result<Arrivals, ReadError> {
        let mut arrivals = Arrivals {
            requests: Vec::new(),
            clients: HashMap::new(),
            config: Config::default(),
            settings: Vec::new(),
        };
        let mut names: HashMap<Vec<u8>, Rc<str>> = HashMap::new();
        for row in recording.rows() {
            arrivals.take(&row?, &mut names);
            // Half of them at once, so that each is moved once.
            if arrivals.requests.len() >= requests_max.saturating_mul(2) {
                arrivals.keep(requests_max);
            }
        }
        arrivals.keep(requests_max);
        let end_ns = arrivals.requests.last().map_or(0, |last| last.at_ns);
        let from_ns = last_ns.map_or(0, |last_ns| end_ns.saturating_sub(last_ns));
        arrivals.requests.retain_mut(|arrival| {
            let ended_ns = arrival.at_ns.saturating_add(arrival.latency_ns.unwrap_or_default());
            // What was inside then comes at once: others waited behind it.
            arrival.at_ns = arrival.at_ns.max(from_ns);
            ended_ns >= from_ns
        });
        Ok(arrivals)
    }

    /// Sorts them and keeps the last `requests_max`.
    fn keep(&mut self, requests_max: usize) {
        self.requests.sort_by_key(|arrival| arrival.step);
        // A request that was inside when a file ended is told of twice, and a long one with each piece.
        self.requests.dedup_by(|later, earlier| {
            let is_same = later.step == earlier.step;
            if is_same && later.latency_ns.is_some() {
                (earlier.latency_ns, earlier.device_ns) = (later.latency_ns, later.device_ns);
            }
            is_same
        });
        self.requests.drain(..self.requests.len().saturating_sub(requests_max));
    }

    fn take(&mut self, row: &Row, names: &mut HashMap<Vec<u8>, Rc<str>>) {
        match row.event {
            Event::Engine => {
                let text = serde_json::from_str::<EngineText>(row.detail().unwrap_or_default());
                if let Some(config) = text.ok().and_then(|text| Config::try_from(text).ok()) {
                    self.config = config;
                    // All is told anew.
                    self.settings.clear();
                }
            }
            Event::TaskOpened => {
                self.clients.extend(row.task.zip(row.client));
            }
            Event::CgroupCreated => {
                self.settings.extend(row.cgroup().map(|path| (path.to_owned(), String::new())));
            }
            Event::Set if row.client.is_none() => {
                let setting = row.detail().unwrap_or_default().to_owned();
                self.settings.push((row.cgroup().unwrap_or_default().to_owned(), setting));
            }
            _ => {}
        }
        let (Some(step), Some(op), Some(path)) = (row.submitted, row.op, &row.cgroup) else {
            return;
        };
        let len = u32::try_from(row.length.unwrap_or_default()).unwrap_or(u32::MAX);
        let name = names.entry(path.data().to_vec());
        let cgroup = Rc::clone(name.or_insert_with(|| row.cgroup().unwrap_or("/").into()));
        let has_ended = matches!(row.event, Event::Completed | Event::Failed);
        let latency_ns = row.latency_ns.filter(|_| has_ended);
        self.requests.push(Arrival {
            at_ns: row.time_ns.saturating_sub(row.latency_ns.unwrap_or_default()),
            cgroup,
            task: row.task.unwrap_or_default(),
            op,
            offset: row.offset.unwrap_or_default(),
            len,
            latency_ns,
            device_ns: latency_ns.zip(row.wait_ns).map(|(all, wait)| all.saturating_sub(wait)),
            step,
            marks: Marks::parse(row.detail()).unwrap_or_default(),
        });
    }

    /// A new engine with the cgroups and settings of the recording, and room for all requests. What is refused, as of a
    /// cgroup that has been removed since, is left out.
    pub fn engine(&self, now: Instant) -> Engine {
        let most = std::num::NonZeroU32::MAX;
        let config = Config { requests_max: most, requests_per_task_max: most, ..self.config };
        let mut engine = Engine::new(config, now);
        let mut config = config;
        for (path, setting) in &self.settings {
            let target = match cgroup(&mut engine, path) {
                _ if path.is_empty() => Target::Device,
                Some(cgroup) => Target::Cgroup(cgroup),
                None => continue,
            };
            if let Ok(change) = settings::parse(target, setting, &config)
                && engine.reconfigure(now, change).is_ok()
                && let weir_engine::Change::SetBfq(bfq) = change
            {
                config.bfq = bfq;
            }
        }
        engine
    }
}

/// The cgroup at `path`, made if need be.
fn cgroup(engine: &mut Engine, path: &str) -> Option<CgroupId> {
    engine.ensure_cgroup(&Path::parse(path).ok()?).ok()
}
