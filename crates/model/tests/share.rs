//! `scheduler = "bfq"` against the bounds of spec/bfq 2.11, on two levels of a random tree.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_engine::settings::BfqSettings;
use weir_engine::{
    Change, Config, Dispatch, Engine, Extent, Instant, Op, Outcome, Request, SchedulerKind, TaskId,
    Weight,
};
use weir_model::share::Ledger;

/// The largest budget: 16,384 sectors.
const BUDGET_MAX: u64 = 8 << 20;
const REQUEST_MAX: u32 = 1 << 20;
/// A client's weight, which nothing changes.
const CLIENT: u64 = 100;

/// A child of the root.
#[derive(Clone, Debug)]
enum Top {
    /// A client with requests of these lengths.
    Client(u32),
    /// A cgroup with cgroups, each of them with clients.
    Cgroup { weight: u64, below: Vec<(u64, Vec<u32>)> },
}

fn tree() -> impl Strategy<Value = Vec<Top>> {
    let len = || (1..=REQUEST_MAX / 512).prop_map(|sectors| sectors * 512);
    let weight = || prop_oneof![1..10_001_u64, 1..11_u64];
    let clients = prop::collection::vec(len(), 1..4);
    let below = prop::collection::vec((weight(), clients), 1..4);
    let cgroup = (weight(), below).prop_map(|(weight, below)| Top::Cgroup { weight, below });
    prop::collection::vec(prop_oneof![1 => len().prop_map(Top::Client), 3 => cgroup], 1..5)
}

/// An engine, and for each flow its requests' length and its place in each ledger from the root down.
struct World {
    engine: Engine,
    ledgers: Vec<Ledger>,
    flows: BTreeMap<TaskId, (u32, Vec<(usize, usize)>)>,
    ends: BTreeMap<TaskId, u64>,
}

impl World {
    fn new(tree: &[Top]) -> World {
        // While it begins, a flow gets more than its share.
        let bfq = weir_text::parse_bfq("low_latency=0", BfqSettings::DEFAULT).expect("a setting");
        let (depth, scheduler) = (NonZeroU32::MIN, SchedulerKind::Bfq);
        let config = Config { depth, scheduler, bfq, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let weight = |top: &Top| match top {
            Top::Client(_) => CLIENT,
            Top::Cgroup { weight, .. } => *weight,
        };
        let ledgers = vec![Ledger::new(&tree.iter().map(weight).collect::<Vec<u64>>())];
        let mut world = World { engine, ledgers, flows: BTreeMap::new(), ends: BTreeMap::new() };
        for (number, top) in tree.iter().enumerate() {
            match top {
                Top::Client(len) => world.open("/", *len, vec![(0, number)]),
                Top::Cgroup { weight, below } => {
                    let path = format!("/{number}");
                    world.weigh(&path, *weight);
                    world.fill(&path, below, (0, number));
                }
            }
        }
        world
    }

    fn fill(&mut self, path: &str, below: &[(u64, Vec<u32>)], place: (usize, usize)) {
        let ledger = self.ledgers.len();
        let weights: Vec<u64> = below.iter().map(|(weight, _)| *weight).collect();
        self.ledgers.push(Ledger::new(&weights));
        for (number, (weight, clients)) in below.iter().enumerate() {
            let path = format!("{path}/{number}");
            self.weigh(&path, *weight);
            let last = self.ledgers.len();
            self.ledgers.push(Ledger::new(&vec![CLIENT; clients.len()]));
            for (client, &len) in clients.iter().enumerate() {
                self.open(&path, len, vec![place, (ledger, number), (last, client)]);
            }
        }
    }

    fn weigh(&mut self, path: &str, weight: u64) {
        let path = weir_engine::Path::parse(path).expect("a path");
        let cgroup = self.engine.ensure_cgroup(&path).expect("a cgroup");
        let weight = Weight::new(weight).expect("a weight");
        let change = Change::SetWeight { cgroup, weight };
        self.engine.reconfigure(Instant::ZERO, change).expect("a live cgroup");
    }

    fn open(&mut self, path: &str, len: u32, places: Vec<(usize, usize)>) {
        let path = weir_engine::Path::parse(path).expect("a path");
        let cgroup = self.engine.ensure_cgroup(&path).expect("a cgroup");
        let client = self.engine.open_client(cgroup).expect("a live cgroup");
        let task = self.engine.open_task(client).expect("a live client");
        self.ends.insert(task, (self.flows.len() as u64) << 40);
        self.flows.insert(task, (len, places));
    }

    /// The next request of a flow, where its last one ended.
    fn submit(&mut self, task: TaskId) {
        let (len, end) = (self.flows[&task].0, self.ends.get_mut(&task).expect("a flow"));
        let extent = Extent::new(*end, len);
        *end += u64::from(len);
        let request = Request::new(task, Op::Read, extent, 0);
        self.engine.submit(Instant::ZERO, request).expect("room");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 100, ..ProptestConfig::default()
    })]

    /// Every flow always has two requests waiting, and no time passes: none pays for time.
    #[test]
    fn lags_are_bounded_on_every_level(tree in tree()) {
        let mut world = World::new(&tree);
        let tasks: Vec<TaskId> = world.flows.keys().copied().collect();
        for &task in tasks.iter().chain(&tasks) {
            world.submit(task);
        }
        for _ in 0..2000 {
            let Dispatch { ticket, request, .. } =
                world.engine.poll_dispatch(Instant::ZERO).expect("a backlog");
            for &(ledger, child) in &world.flows[&request.task].1 {
                world.ledgers[ledger].serve(child, u64::from(request.extent.len));
            }
            world.engine.complete(Instant::ZERO, ticket, Outcome::Done);
            world.submit(request.task);
        }
        world.engine.check().map_err(TestCaseError::fail)?;
        for ledger in &world.ledgers {
            ledger.check(BUDGET_MAX, u64::from(REQUEST_MAX)).map_err(TestCaseError::fail)?;
        }
    }
}
