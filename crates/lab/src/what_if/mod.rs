//! Recorded arrivals of a server under other settings: each comes when it came, whatever became of the one before it.

mod disk;
mod met;
mod setting;

use std::collections::HashMap;
use std::rc::Rc;

use weir_disk::DiskModel;
use weir_engine::{Engine, Instant, Outcome, Path, TaskId};
use weir_recording::Arrivals;

pub use self::disk::AsRecorded;
use self::disk::AtDisk;
pub use self::met::{Met, MetByCgroup};
pub use self::setting::{Setting, SettingError};

/// Runs `arrivals` with `settings` over those of the recording, on `disk`. Returns what requests meet.
///
/// O(n log n) for n arrivals, and 16 bytes for each.
///
/// # Errors
/// The engine refuses a setting.
pub fn run(
    arrivals: &Arrivals,
    settings: &[Setting],
    disk: Box<dyn DiskModel>,
) -> Result<MetByCgroup, String> {
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
        met: MetByCgroup::default(),
    };
    world.run(arrivals)?;
    Ok(world.met)
}

struct World {
    engine: Engine,
    device: AtDisk,
    tasks: HashMap<(Rc<str>, u64), TaskId>,
    clients: HashMap<(Rc<str>, u64), weir_engine::ClientId>,
    met: MetByCgroup,
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
                    let arrival = &requests[tag as usize];
                    let wait_ns = self.device.dispatched_ns[tag as usize] - arrival.at_ns;
                    self.met.note(arrival, now_ns - arrival.at_ns, wait_ns);
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_disk::Spec;
    use weir_driver::Device;
    use weir_engine::{Config, Direction, Dispatch, Event, Extent, Op, Request, Ticket};
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
        run(arrivals, &settings, disk.build()).expect("it runs").by_cgroup()
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

    /// What they met is known; the device of the recording took no time, and its times are those of the disk of another run.
    #[test]
    fn requests_take_at_the_device_what_they_took() {
        let mut arrivals = arrivals();
        let recorded = MetByCgroup::recorded(&arrivals).by_cgroup();
        assert_eq!(recorded["/a"].latency_ns_max, 0);
        for (at, arrival) in arrivals.requests.iter_mut().enumerate() {
            arrival.device_ns = (at % 2 == 0).then_some(3_000_000);
        }
        let disk = AsRecorded::of(&arrivals).expect("times are known");
        let met = run(&arrivals, &[], Box::new(disk)).expect("it runs");
        for path in ["/a", "/b"] {
            let met = met.below(path, Direction::Read).expect("reads");
            assert_eq!([met.latency_ns_p50, met.latency_ns_max], [3_000_000; 2]);
        }
        assert_eq!(met.below("/", Direction::Read).expect("reads").requests, 2000);
        assert_eq!(met.below("/", Direction::Write), None);
        assert_eq!(met.below("/ab", Direction::Read), None);
    }

    #[test]
    fn a_burst_goes_at_its_peak() {
        let arrivals = arrivals();
        let slow = met(&arrivals, &[("max", "/b riops=500"), ("peak", "/b riops=600")]);
        let fast = met(&arrivals, &[("max", "/b riops=500")]);
        assert!(slow["/b"].latency_ns_p50 >= fast["/b"].latency_ns_p50);
        let setting = Setting::parse("peak", "/b riops=500").expect("a setting");
        let disk: Spec = "null".parse().expect("a disk");
        let max = Setting::parse("max", "/b riops=500").expect("a setting");
        assert!(run(&arrivals, &[max, setting], disk.build()).is_err());
    }
}
