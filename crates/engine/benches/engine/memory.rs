//! Bytes of what an engine holds while nothing happens.

use std::num::NonZeroU32;

use weir_engine::settings::BfqSettings;
use weir_engine::{
    CgroupId, Change, ClientId, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome,
    PerDimension, Request, SchedulerKind, TaskId,
};

use crate::counting::usage;

/// Of each thing as many as just fill a table that grows by doubling. Right after it has grown, a table has twice
/// the room it needs: in the worst case the bytes of a thing's place in it, though not those of its boxes, count
/// twice.
const COUNT: u32 = 1 << 16;

/// Memory of one thing, on top of what it needs to be there.
pub(crate) struct Footprint {
    pub(crate) what: &'static str,
    /// Bytes asked of the allocator, on average.
    pub(crate) bytes: f64,
    /// Calls to the allocator, on average; each growing of a table is one.
    pub(crate) allocations: f64,
}

/// Everything that is kept in great numbers.
pub(crate) fn footprints() -> Vec<Footprint> {
    let mut found = Vec::new();
    let mut cgroups = Cgroups::new();
    found.push(measure("idle cgroup, no limit", || cgroups.create()));
    found.push(measure("  + riops", || cgroups.limit(&[Dimension::Riops])));
    found.push(measure("  + rbps wbps wiops", || cgroups.limit(&OF_A_DIRECTION)));
    found.push(measure("  + reads and writes have waited", || cgroups.make_each_wait()));
    found.push(measure("  + rwbps rwiops", || cgroups.limit(&Dimension::ALL)));
    let mut flows = Flows::new();
    found.push(measure("idle flow: a client, its task", || flows.open()));
    found.push(measure("another task of a client", || flows.open_more()));
    found.push(measure("request that waits", || flows.submit()));
    let mut served = Served::new(2 * COUNT);
    found.push(measure("what bfq keeps of an idle flow", || served.serve(Instant::ZERO)));
    let later = Instant::from_millis(11_000);
    found.push(measure("  of one that came after 11 s", || served.serve(later)));
    found
}

fn measure(what: &'static str, work: impl FnOnce()) -> Footprint {
    let before = usage();
    work();
    let after = usage();
    let each = |before: u64, after: u64| (after as f64 - before as f64) / f64::from(COUNT);
    Footprint {
        what,
        bytes: each(before.live_bytes, after.live_bytes),
        allocations: each(before.allocations, after.allocations),
    }
}

fn engine() -> Engine {
    Engine::new(Config { requests_max: NonZeroU32::MAX, ..Config::default() }, Instant::ZERO)
}

/// The dimensions of reads alone and of writes alone.
const OF_A_DIRECTION: [Dimension; 4] =
    [Dimension::Rbps, Dimension::Wbps, Dimension::Riops, Dimension::Wiops];

/// Ten a second in each of `dimensions`.
fn limits(dimensions: &[Dimension]) -> Limits {
    let none = PerDimension::NONE;
    let max = dimensions.iter().fold(none, |max, &dimension| max.with(dimension, 10));
    Limits { max, ..Limits::default() }
}

fn request(task: TaskId, op: Op) -> Request {
    Request::new(task, op, Extent::new(0, 1 << 20), 0)
}

/// As many cgroups as there are, the root among them.
struct Cgroups {
    engine: Engine,
    names: Vec<String>,
    made: Vec<CgroupId>,
}

impl Cgroups {
    fn new() -> Cgroups {
        let names: Vec<String> = (1..COUNT).map(|number| format!("group{number:05}")).collect();
        let made = Vec::with_capacity(names.len());
        Cgroups { engine: engine(), names, made }
    }

    fn create(&mut self) {
        let root = self.engine.root();
        for name in &self.names {
            self.made.push(self.engine.create_cgroup(root, name).expect("a name of its own"));
        }
    }

    fn limit(&mut self, dimensions: &[Dimension]) {
        let limits = limits(dimensions);
        for &cgroup in &self.made {
            let change = Change::SetLimits { cgroup, limits };
            self.engine.reconfigure(Instant::ZERO, change).expect("limits that make sense");
        }
    }

    /// In each cgroup a client comes, asks for more than the burst, gives up and leaves.
    fn make_each_wait(&mut self) {
        let (engine, now) = (&mut self.engine, Instant::ZERO);
        for &cgroup in &self.made {
            let client = engine.open_client(cgroup).expect("a live cgroup");
            let task = engine.open_task(client).expect("a live client");
            // The first waits for its last instalments.
            for op in [Op::Read, Op::Write] {
                engine.submit(now, request(task, op)).expect("an empty engine");
            }
            while let Some(dispatch) = engine.poll_dispatch(now) {
                engine.complete(now, dispatch.ticket, Outcome::Done);
            }
            assert_eq!(engine.device().throttled, 2, "a request waits in each direction");
            while engine.withdraw_next(now, task).is_some() {}
            engine.close_task(task);
            engine.close_client(client);
        }
    }
}

/// Clients that BFQ is to serve.
struct Served {
    engine: Engine,
    /// Those that have not been served yet, the next one last.
    tasks: Vec<TaskId>,
}

/// How many of them are in a cgroup.
const SIBLINGS: u32 = 10;

impl Served {
    fn new(clients: u32) -> Served {
        // No idling, so that each is served at once.
        let bfq = weir_text::parse_bfq("slice_idle=0", BfqSettings::DEFAULT).expect("a setting");
        let config = Config { scheduler: SchedulerKind::Bfq, bfq, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        let mut tasks = Vec::with_capacity(clients as usize);
        let mut cgroup = engine.root();
        for number in 0..clients {
            if number % SIBLINGS == 0 {
                let name = format!("group{number:05}");
                cgroup = engine.create_cgroup(engine.root(), &name).expect("a name of its own");
            }
            let client = engine.open_client(cgroup).expect("a live cgroup");
            tasks.push(engine.open_task(client).expect("a live client"));
        }
        tasks.reverse();
        // What all share is there before.
        let mut served = Served { engine, tasks };
        served.serve_cgroup(Instant::ZERO);
        served
    }

    /// As many as make a footprint ask for something, but for those of a cgroup or two, one cgroup after the other.
    fn serve(&mut self, now: Instant) {
        (SIBLINGS..COUNT - SIBLINGS)
            .step_by(SIBLINGS as usize)
            .for_each(|_| self.serve_cgroup(now));
    }

    /// All clients of a cgroup ask at once, so that the cgroup has had room for all of them to wait in.
    fn serve_cgroup(&mut self, now: Instant) {
        for _ in 0..SIBLINGS {
            let task = self.tasks.pop().expect("a client that was not served yet");
            // At an offset of its own, so that flows do not merge.
            let extent = Extent::new((self.tasks.len() as u64) << 30, 4096);
            let read = Request::new(task, Op::Read, extent, 0);
            self.engine.submit(now, read).expect("room for ten requests");
        }
        for _ in 0..SIBLINGS {
            let dispatch = self.engine.poll_dispatch(now).expect("they go at once");
            self.engine.complete(now, dispatch.ticket, Outcome::Done);
        }
        assert_eq!(self.engine.device().ready, 0, "all are idle");
    }
}

/// Clients and tasks in one cgroup with limits.
struct Flows {
    engine: Engine,
    cgroup: CgroupId,
    /// The one opened last.
    client: ClientId,
    tasks: Vec<TaskId>,
}

impl Flows {
    fn new() -> Flows {
        let mut engine = engine();
        let cgroup = engine.create_cgroup(engine.root(), "all").expect("the first");
        let change = Change::SetLimits { cgroup, limits: limits(&Dimension::ALL) };
        engine.reconfigure(Instant::ZERO, change).expect("limits that make sense");
        let client = engine.open_client(cgroup).expect("a live cgroup");
        engine.close_client(client);
        Flows { engine, cgroup, client, tasks: Vec::with_capacity(COUNT as usize) }
    }

    fn open(&mut self) {
        for _ in 0..COUNT {
            self.client = self.engine.open_client(self.cgroup).expect("a live cgroup");
            self.tasks.push(self.engine.open_task(self.client).expect("a live client"));
        }
    }

    fn open_more(&mut self) {
        for _ in 0..COUNT {
            self.engine.open_task(self.client).expect("a live client");
        }
    }

    fn submit(&mut self) {
        for &task in &self.tasks {
            self.engine.submit(Instant::ZERO, request(task, Op::Read)).expect("room for all");
        }
    }
}
