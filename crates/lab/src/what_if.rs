//! Recorded arrivals of a server under other settings: each comes when it came, whatever became of the one before it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::rc::Rc;

use weir_disk::{DiskModel, DiskOp};
use weir_driver::Device;
use weir_engine::{
    Change, Dispatch, Engine, Event, Instant, Op, Outcome, Path, SchedulerKind, TaskId, Ticket,
    Watermark, Weight,
};
use weir_recording::Arrivals;
use weir_text::WeightKey;

/// A setting that is tried.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// Limits of a cgroup, as `io.max`: keys that are not named keep their value.
    Max(Path, String),
    /// Weight of a cgroup.
    Weight(Path, Weight),
    /// Watermark of a cgroup, or of the device.
    Watermark(Path, Watermark),
    /// Requests at the device at once.
    Depth(NonZeroU32),
    /// Scheduler of the device.
    Scheduler(SchedulerKind),
}

/// A text is no setting, or cannot be set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}={value}: {reason}")]
pub struct SettingError {
    key: String,
    value: String,
    reason: String,
}

impl Setting {
    /// Keys that can be tried.
    pub const KEYS: [&str; 5] = ["max", "weight", "watermark", "depth", "scheduler"];

    /// A setting by its name: `max`, `weight` and `watermark` with the cgroup first, else of the root.
    ///
    /// # Errors
    /// Another key, or a value that it does not take.
    pub fn parse(key: &str, value: &str) -> Result<Setting, SettingError> {
        let refuse = |reason: String| SettingError { key: key.into(), value: value.into(), reason };
        let (path, rest) = match value.split_once(' ') {
            Some((path, rest)) if path.starts_with('/') => (path, rest.trim()),
            _ => ("/", value),
        };
        let path = Path::parse(path).map_err(|error| refuse(error.to_string()))?;
        Ok(match key {
            "max" => {
                let text = weir_text::parse_io_max(rest, weir_engine::PerDimension::NONE);
                text.map_err(|error| refuse(error.to_string()))?;
                Setting::Max(path, rest.to_owned())
            }
            "weight" => {
                let line = weir_text::parse_weight(WeightKey::Io, rest);
                let line = line.map_err(|error| refuse(error.to_string()))?;
                Setting::Weight(path, line.weight.unwrap_or_default())
            }
            "watermark" => {
                let watermark = weir_text::parse_watermark(rest);
                Setting::Watermark(path, watermark.map_err(|error| refuse(error.to_string()))?)
            }
            "depth" => Setting::Depth(value.parse().map_err(|_| refuse("no depth".into()))?),
            "scheduler" => {
                let kind = SchedulerKind::from_name(value);
                Setting::Scheduler(kind.ok_or_else(|| refuse("none or bfq".into()))?)
            }
            _ => {
                let known = Setting::KEYS.join(", ");
                return Err(refuse(format!("of recorded arrivals can be tried: {known}, disk")));
            }
        })
    }

    fn apply(&self, engine: &mut Engine, now: Instant) -> Result<(), String> {
        let mut cgroup =
            |path: &Path| engine.ensure_cgroup(path).map_err(|error| error.to_string());
        let change = match self {
            Setting::Max(path, text) => {
                let cgroup = cgroup(path)?;
                let mut limits = engine.limits(cgroup).unwrap_or_default();
                limits.max =
                    weir_text::parse_io_max(text, limits.max).map_err(|error| error.to_string())?;
                for dimension in weir_engine::Dimension::ALL {
                    if limits.max.get(dimension).is_none() {
                        limits.burst.set(dimension, None);
                        limits.peak.set(dimension, None);
                    }
                }
                Change::SetLimits { cgroup, limits }
            }
            Setting::Weight(path, weight) => {
                Change::SetWeight { cgroup: cgroup(path)?, weight: *weight }
            }
            Setting::Watermark(path, watermark) => {
                Change::SetWatermark { cgroup: cgroup(path)?, watermark: Some(*watermark) }
            }
            Setting::Depth(depth) => Change::SetDepth(*depth),
            Setting::Scheduler(kind) => Change::SetScheduler(*kind),
        };
        engine.reconfigure(now, change).map_err(|error| error.to_string())
    }
}

/// What the requests of a cgroup meet, children not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// Requests.
    pub requests: u64,
    /// Bytes of reads and writes.
    pub bytes: u64,
    /// Median time from the submission until the end.
    pub latency_ns_p50: u64,
    /// The time that 99 % do not exceed.
    pub latency_ns_p99: u64,
    /// The longest.
    pub latency_ns_max: u64,
    /// Mean time until they go to the device.
    pub wait_ns_mean: u64,
}

/// Runs `arrivals` with `settings` over those of the recording, on `disk`. Returns what each cgroup meets, by its path.
///
/// O(n log n) for n arrivals, and 16 bytes for each.
///
/// # Errors
/// The engine refuses a setting.
pub fn run(
    arrivals: &Arrivals,
    settings: &[Setting],
    disk: Box<dyn DiskModel>,
) -> Result<BTreeMap<String, Met>, String> {
    let start_ns = arrivals.requests.first().map_or(0, |first| first.at_ns);
    let mut engine = arrivals.engine(Instant::from_nanos(start_ns));
    for setting in settings {
        setting.apply(&mut engine, Instant::from_nanos(start_ns))?;
    }
    let mut world = World {
        engine,
        device: AtDisk { disk, start_ns, tickets: HashMap::new(), dispatched_ns: Vec::new() },
        tasks: HashMap::new(),
        clients: HashMap::new(),
        met: BTreeMap::new(),
    };
    world.run(arrivals)?;
    Ok(world.report())
}

struct World {
    engine: Engine,
    device: AtDisk,
    tasks: HashMap<(Rc<str>, u64), TaskId>,
    clients: HashMap<(Rc<str>, u64), weir_engine::ClientId>,
    met: BTreeMap<Rc<str>, Latencies>,
}

#[derive(Default)]
struct Latencies {
    ns: Vec<u64>,
    wait_ns: u64,
    bytes: u64,
}

/// Requests at the modelled disk.
struct AtDisk {
    disk: Box<dyn DiskModel>,
    /// The disk's clock begins with the arrivals.
    start_ns: u64,
    tickets: HashMap<u64, Ticket>,
    /// When each went there first, by its place among the arrivals.
    dispatched_ns: Vec<u64>,
}

impl Device for AtDisk {
    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let request = dispatch.request;
        let op = match request.op {
            Op::Read | Op::Cache | Op::Status => DiskOp::Read,
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            Op::Discard => DiskOp::Discard,
            Op::WriteZeroes => DiskOp::WriteZeroes,
        };
        let len = match op {
            DiskOp::Flush => 0,
            _ => u64::from(request.extent.len).clamp(1, self.disk.capacity()),
        };
        // A smaller disk has the requests beyond its end from its beginning on.
        let offset = request.extent.offset % (self.disk.capacity() - len).max(1);
        let first_ns = &mut self.dispatched_ns[request.tag as usize];
        *first_ns = (*first_ns).min(now.as_nanos());
        self.tickets.insert(request.tag, dispatch.ticket);
        self.disk.submit(now.as_nanos() - self.start_ns, request.tag, op, offset, len as u32);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}

impl World {
    fn run(&mut self, arrivals: &Arrivals) -> Result<(), String> {
        let requests = &arrivals.requests;
        let start_ns = self.device.start_ns;
        self.device.dispatched_ns = vec![u64::MAX; requests.len()];
        let (mut next, mut due, mut now_ns) = (0, None::<Instant>, start_ns);
        loop {
            let at_disk = self.device.disk.next_event().map(|ns| ns.saturating_add(start_ns));
            let arrival = requests.get(next).map(|arrival| arrival.at_ns);
            let soonest =
                [at_disk, arrival, due.map(Instant::as_nanos)].into_iter().flatten().min();
            let Some(soonest) = soonest else { return Ok(()) };
            now_ns = now_ns.max(soonest);
            let now = Instant::from_nanos(now_ns);
            while let Some(tag) = self.device.disk.poll_complete(now_ns - start_ns) {
                let ticket = self.device.tickets.remove(&tag).expect("it is at the disk");
                if self.engine.complete(now, ticket, Outcome::Done) {
                    self.note(&requests[tag as usize], tag, now_ns);
                }
            }
            while let Some(arrival) = requests.get(next).filter(|arrival| arrival.at_ns <= now_ns) {
                let client = arrivals.clients.get(&arrival.task).copied().unwrap_or_default();
                let task = self.task(&arrival.cgroup, arrival.task, client)?;
                let request = arrival.request(task, next as u64);
                self.engine.submit(now, request).map_err(|error| error.to_string())?;
                next += 1;
            }
            due = weir_driver::turn(&mut self.engine, now, &mut self.device);
        }
    }

    fn task(&mut self, cgroup: &Rc<str>, task: u64, client: u64) -> Result<TaskId, String> {
        if let Some(task) = self.tasks.get(&(Rc::clone(cgroup), task)) {
            return Ok(*task);
        }
        let key = (Rc::clone(cgroup), client);
        let id = match self.clients.get(&key) {
            Some(id) => *id,
            None => {
                let path = Path::parse(cgroup).map_err(|error| error.to_string())?;
                let made = self.engine.ensure_cgroup(&path).map_err(|error| error.to_string())?;
                let id = self.engine.open_client(made).map_err(|error| error.to_string())?;
                self.clients.insert(key, id);
                id
            }
        };
        let opened = self.engine.open_task(id).map_err(|error| error.to_string())?;
        self.tasks.insert((Rc::clone(cgroup), task), opened);
        Ok(opened)
    }

    fn note(&mut self, arrival: &weir_recording::Arrival, tag: u64, now_ns: u64) {
        let of = self.met.entry(Rc::clone(&arrival.cgroup)).or_default();
        of.ns.push(now_ns - arrival.at_ns);
        of.wait_ns += self.device.dispatched_ns[tag as usize] - arrival.at_ns;
        if matches!(arrival.op, Op::Read | Op::Write) {
            of.bytes += u64::from(arrival.len);
        }
    }

    fn report(self) -> BTreeMap<String, Met> {
        let met = self.met.into_iter().map(|(cgroup, mut of)| {
            of.ns.sort_unstable();
            let count = of.ns.len();
            let percentile = |percent: usize| of.ns[(count * percent).div_ceil(100) - 1];
            let met = Met {
                requests: count as u64,
                bytes: of.bytes,
                latency_ns_p50: percentile(50),
                latency_ns_p99: percentile(99),
                latency_ns_max: percentile(100),
                wait_ns_mean: of.wait_ns / count as u64,
            };
            (cgroup.to_string(), met)
        });
        met.collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_disk::Spec;
    use weir_engine::{Config, Extent, Request};
    use weir_recording::{
        Device as RecordedDevice, RecordedEngine, Recorder, Recording, Settings, Writer,
    };

    use super::*;

    struct Done(Vec<Ticket>);

    impl Device for Done {
        fn issue(&mut self, _now: Instant, dispatch: Dispatch) {
            self.0.push(dispatch.ticket);
        }

        fn record(&mut self, _now: Instant, _event: Event) {}
    }

    /// A read of `/a` and one of `/b` in each of 1,000 ms; `/b` has a weight.
    fn arrivals() -> Arrivals {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = Settings { bytes_max: 1 << 30, file_ns: u64::MAX, clock_offset_ns: 0 };
        let mut writer = Writer::new(directory.path(), settings).expect("a ring");
        let (recorder, recorded) = Recorder::new();
        let device =
            RecordedDevice { name: "disk".into(), bytes: 1 << 30, disk: None, from_start: true };
        writer.add(0, device, recorded);
        let mut engine = RecordedEngine::new(Engine::new(Config::default(), Instant::ZERO));
        engine.attach(Instant::ZERO, recorder);
        let tasks = ["/a", "/b"].map(|path| {
            let path = Path::parse(path).expect("a path");
            let cgroup = engine.ensure_cgroup(&path).expect("it is made");
            let client = engine.open_client(cgroup).expect("it is there");
            engine.open_task(client).expect("it is there")
        });
        let mut done = Done(Vec::new());
        for ms in 1..=1000 {
            let now = Instant::from_millis(ms);
            for task in tasks {
                let read = Request::new(task, Op::Read, Extent::new(4096 * ms, 4096), 0);
                engine.submit(now, read).expect("there is room");
            }
            engine.turn(now, &mut done);
            for ticket in done.0.drain(..) {
                engine.complete(now, ticket, Outcome::Done);
            }
        }
        engine.detach();
        while writer.poll(0) {}
        let recording = Recording::open(directory.path(), None).expect("it is closed");
        Arrivals::of(&recording, None).expect("it can be read")
    }

    fn met(arrivals: &Arrivals, settings: &[(&str, &str)]) -> BTreeMap<String, Met> {
        let settings: Vec<Setting> = settings
            .iter()
            .map(|(key, value)| Setting::parse(key, value).expect("a setting"))
            .collect();
        let disk: Spec = "null,latency=100us".parse().expect("a disk");
        run(arrivals, &settings, disk.build()).expect("it runs")
    }

    #[test]
    fn a_limit_holds_its_cgroup_back_and_no_other() {
        let arrivals = arrivals();
        assert_eq!(arrivals.requests.len(), 2000);
        let free = met(&arrivals, &[]);
        let of_disk = (1000, 100_000, 0);
        let all = |met: &Met| (met.requests, met.latency_ns_p99, met.wait_ns_mean);
        assert_eq!([all(&free["/a"]), all(&free["/b"])], [of_disk; 2]);
        let limited = met(&arrivals, &[("max", "/b riops=500")]);
        assert_eq!(all(&limited["/a"]), of_disk);
        // Half of 1,000 reads are done after a second, and the others wait for up to another one.
        let p99_ms = limited["/b"].latency_ns_p99 / 1_000_000;
        assert!((950..1000).contains(&p99_ms), "{p99_ms} ms");
    }

    #[test]
    fn what_cannot_be_tried_is_refused() {
        for (key, value, reason) in [
            ("limiter", "slice", "of recorded arrivals can be tried"),
            ("max", "/b riops=fast", "riops"),
            ("depth", "0", "no depth"),
            ("scheduler", "cfq", "none or bfq"),
        ] {
            let error = Setting::parse(key, value).expect_err(value).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
