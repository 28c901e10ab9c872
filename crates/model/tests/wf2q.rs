//! Order of service under `scheduler = "bfq"`, against a model that looks at all entities; and that model against the
//! bounds of spec/bfq 2.11.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_engine::settings::BfqSettings;
use weir_engine::{
    CgroupId, Change, Config, Dispatch, Engine, Extent, Instant, Op, Outcome, Request, RequestId,
    SchedulerKind, TaskId, Weight,
};
use weir_model::share::Ledger;
use weir_model::wf2q::{NodeId, ROOT, Wf2q};

const SECTOR: u64 = 512;
/// The largest budget of a device that is not measured yet.
const BUDGET_MAX: u64 = 16_384 * SECTOR;
/// A client's weight, which nothing changes.
const CLIENT: u64 = 100;
/// Requests that a flow with a backlog always has.
const BACKLOG: usize = 2;

/// Events between two dispatches.
#[derive(Clone, Copy, Debug)]
enum Step {
    Dispatch,
    Weigh {
        cgroup: usize,
        weight: u64,
    },
    Create {
        parent: usize,
        weight: u64,
    },
    Open {
        cgroup: usize,
        sectors: u32,
    },
    /// All requests of a flow are withdrawn.
    Quieten {
        flow: usize,
    },
    /// A flow without requests has some again.
    Wake {
        flow: usize,
    },
    Move {
        cgroup: usize,
        parent: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (cgroup, flow) = (0..10_usize, 0..12_usize);
    let weight = || prop_oneof![1..10_001_u64, 1..4_u64];
    prop_oneof![
        60 => Just(Step::Dispatch),
        4 => (cgroup.clone(), weight()).prop_map(|(cgroup, weight)| Step::Weigh { cgroup, weight }),
        1 => (cgroup.clone(), weight()).prop_map(|(parent, weight)| Step::Create { parent, weight }),
        1 => (cgroup.clone(), 1..40_000_u32).prop_map(|(cgroup, sectors)| Step::Open { cgroup, sectors }),
        2 => flow.clone().prop_map(|flow| Step::Quieten { flow }),
        4 => flow.prop_map(|flow| Step::Wake { flow }),
        1 => (cgroup.clone(), cgroup).prop_map(|(cgroup, parent)| Step::Move { cgroup, parent }),
    ]
}

/// One client, all of whose requests are of one length, and follow upon one another.
struct Flow {
    task: TaskId,
    leaf: NodeId,
    len: u32,
    end: u64,
    waiting: Vec<RequestId>,
}

/// Expectation of the model.
#[derive(Clone, PartialEq)]
struct Story {
    tree: Wf2q,
    /// By leaf: which flow it is, and its feedback (spec/bfq 3.2).
    flows: BTreeMap<NodeId, Feedback>,
    /// Of the flow that has the device: what it had, and what it may have.
    slot: (u64, u64),
}

#[derive(Clone, Copy, PartialEq)]
struct Feedback {
    number: usize,
    len: u64,
    max_budget: u64,
}

impl Feedback {
    fn budget(&self) -> u64 {
        self.max_budget.max(self.len)
    }
}

impl Story {
    /// The flow that has the device loses it, and its next budget is learnt from its last.
    fn end_slot(&mut self, next: impl Fn(u64) -> u64) {
        let leaf = self.tree.in_service().expect("a slot");
        let flow = self.flows.get_mut(&leaf).expect("a leaf is a flow");
        flow.max_budget = next(flow.max_budget);
        self.tree.settle(Some(flow.budget()));
    }

    /// The flow that has the device loses it if it is below `group`.
    fn end_slot_below(&mut self, group: NodeId) {
        if group != ROOT
            && self.tree.in_service().is_some_and(|leaf| self.tree.is_below(leaf, group))
        {
            self.end_slot(|last| last);
        }
    }

    /// The flow whose request is next, which is charged for it.
    fn next(&mut self) -> Option<usize> {
        if let Some(leaf) = self.tree.in_service()
            && self.slot.0 + self.flows[&leaf].len > self.slot.1
        {
            self.end_slot(|last| (last * 4).min(BUDGET_MAX));
        }
        let leaf = match self.tree.in_service() {
            Some(leaf) => leaf,
            None => {
                let leaf = self.tree.select()?;
                self.slot = (0, self.flows[&leaf].budget());
                leaf
            }
        };
        let flow = self.flows[&leaf];
        self.tree.charge(flow.len);
        self.slot.0 += flow.len;
        Some(flow.number)
    }
}

/// An engine, and what it should do. A newcomer may end the slot under way (spec/bfq 6.6), or not: where both can
/// be, both are followed, until what the engine does tells which it was.
struct World {
    engine: Engine,
    stories: Vec<Story>,
    cgroups: Vec<(CgroupId, NodeId)>,
    flows: Vec<Flow>,
}

impl World {
    fn new() -> World {
        // While it begins, a flow gets more than its share.
        let bfq = weir_text::parse_bfq("low_latency=0", BfqSettings::DEFAULT).expect("a setting");
        let (depth, scheduler) = (NonZeroU32::MIN, SchedulerKind::Bfq);
        let config = Config { depth, scheduler, bfq, ..Config::default() };
        let engine = Engine::new(config, Instant::ZERO);
        let story = Story { tree: Wf2q::new(), flows: BTreeMap::new(), slot: (0, 0) };
        World { cgroups: vec![(engine.root(), ROOT)], engine, stories: vec![story], flows: vec![] }
    }

    fn apply(&mut self, step: Step) -> Result<(), String> {
        let flow_of = |flow: usize| flow % self.flows.len().max(1);
        match step {
            Step::Dispatch => return self.dispatch(),
            Step::Weigh { cgroup, weight } => self.weigh(cgroup % self.cgroups.len(), weight),
            Step::Create { parent, weight } => self.create(parent % self.cgroups.len(), weight),
            Step::Open { cgroup, sectors } => self.open(cgroup % self.cgroups.len(), sectors),
            Step::Quieten { flow } if !self.flows.is_empty() => self.quieten(flow_of(flow)),
            Step::Wake { flow } if !self.flows.is_empty() => self.wake(flow_of(flow)),
            Step::Move { cgroup, parent } => {
                self.relocate(cgroup % self.cgroups.len(), parent % self.cgroups.len());
            }
            Step::Quieten { .. } | Step::Wake { .. } => {}
        }
        Ok(())
    }

    fn weigh(&mut self, cgroup: usize, weight: u64) {
        let (cgroup, node) = self.cgroups[cgroup];
        if self.engine.weight(cgroup).map(|weight| u64::from(weight.get())) == Some(weight) {
            return;
        }
        for story in &mut self.stories {
            story.end_slot_below(node);
            story.tree.weigh(node, weight);
        }
        let weight = Weight::new(weight).expect("a weight");
        let change = Change::SetWeight { cgroup, weight };
        self.engine.reconfigure(Instant::ZERO, change).expect("a live cgroup");
    }

    /// A new node, which has the same number in every story.
    fn add(&mut self, parent: NodeId, weight: u64) -> NodeId {
        let add = |story: &mut Story| story.tree.add(parent, weight);
        let nodes: Vec<NodeId> = self.stories.iter_mut().map(add).collect();
        nodes[0]
    }

    fn create(&mut self, parent: usize, weight: u64) {
        let (parent, above) = self.cgroups[parent];
        let name = format!("c{}", self.cgroups.len());
        let cgroup = self.engine.create_cgroup(parent, &name).expect("a name of its own");
        let node = self.add(above, weight);
        self.cgroups.push((cgroup, node));
        self.weigh(self.cgroups.len() - 1, weight);
    }

    fn open(&mut self, cgroup: usize, sectors: u32) {
        let (cgroup, above) = self.cgroups[cgroup];
        let client = self.engine.open_client(cgroup).expect("a live cgroup");
        let task = self.engine.open_task(client).expect("a live client");
        let (number, leaf, len) = (self.flows.len(), self.add(above, CLIENT), sectors * 512);
        let max_budget = BUDGET_MAX / SECTOR * 2 / 3 * SECTOR;
        let feedback = Feedback { number, len: len.into(), max_budget };
        self.stories.iter_mut().for_each(|story| {
            story.flows.insert(leaf, feedback);
        });
        // Each in a terabyte of its own.
        self.flows.push(Flow { task, leaf, len, end: (number as u64) << 40, waiting: Vec::new() });
        self.wake(number);
    }

    fn wake(&mut self, number: usize) {
        if !self.flows[number].waiting.is_empty() {
            return;
        }
        for _ in 0..BACKLOG {
            self.submit(number);
        }
        let leaf = self.flows[number].leaf;
        let mut preempted = Vec::new();
        for story in &mut self.stories {
            story.tree.activate(leaf, story.flows[&leaf].budget(), false);
            if story.tree.in_service().is_some() {
                let mut other = story.clone();
                other.end_slot(|last| last);
                preempted.push(other);
            }
        }
        self.stories.append(&mut preempted);
    }

    /// The next request of a flow, where its last one ended.
    fn submit(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let extent = Extent::new(flow.end, flow.len);
        flow.end += u64::from(flow.len);
        let request = Request::new(flow.task, Op::Read, extent, number as u64);
        flow.waiting.push(self.engine.submit(Instant::ZERO, request).expect("room"));
    }

    /// But not one that may have the device: it would be waited for.
    fn quieten(&mut self, number: usize) {
        let leaf = self.flows[number].leaf;
        let has_device = |story: &Story| story.tree.in_service() == Some(leaf);
        if self.flows[number].waiting.is_empty() || self.stories.iter().any(has_device) {
            return;
        }
        for id in std::mem::take(&mut self.flows[number].waiting) {
            self.engine.withdraw(Instant::ZERO, id).expect("it waits");
        }
        self.stories.iter_mut().for_each(|story| story.tree.deactivate(leaf));
    }

    fn relocate(&mut self, cgroup: usize, parent: usize) {
        let ((id, node), (parent, above)) = (self.cgroups[cgroup], self.cgroups[parent]);
        let before = self.engine.cgroup_path(id);
        if self.engine.reconfigure(Instant::ZERO, Change::Move { cgroup: id, parent }).is_err()
            || self.engine.cgroup_path(id) == before
        {
            return;
        }
        for story in &mut self.stories {
            story.end_slot_below(node);
            story.tree.move_group(node, above);
        }
    }

    /// The possible stories, and the engine's behaviour.
    fn dispatch(&mut self) -> Result<(), String> {
        let expected: Vec<Option<usize>> = self.stories.iter_mut().map(Story::next).collect();
        let dispatch = self.engine.poll_dispatch(Instant::ZERO);
        let found = dispatch.as_ref().map(|dispatch| dispatch.request.tag as usize);
        let mut expectations = expected.iter();
        self.stories.retain(|_| expectations.next() == Some(&found));
        if self.stories.is_empty() {
            return Err(format!("{found:?} had the device, it was the turn of {expected:?}"));
        }
        let mut told: Vec<Story> = Vec::new();
        for story in self.stories.drain(..) {
            if !told.contains(&story) {
                told.push(story);
            }
        }
        self.stories = told;
        let Some(Dispatch { ticket, .. }) = dispatch else { return Ok(()) };
        let number = found.expect("a dispatch is of a flow");
        self.flows[number].waiting.retain(|&id| id != ticket.id());
        self.submit(number);
        self.engine.complete(Instant::ZERO, ticket, Outcome::Done);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 100, ..ProptestConfig::default()
    })]

    /// Whatever happens to weights, cgroups and flows: the engine serves whom the model serves, request by request.
    #[test]
    fn the_engine_selects_the_flow_that_a_scan_selects(
        cgroups in prop::collection::vec((0..10_usize, 1..10_001_u64), 0..8),
        flows in prop::collection::vec((0..10_usize, 1..4000_u32), 1..8),
        steps in prop::collection::vec(step(), 1..600),
    ) {
        let mut world = World::new();
        for (parent, weight) in cgroups {
            world.create(parent % world.cgroups.len(), weight);
        }
        for (cgroup, sectors) in flows {
            world.open(cgroup % world.cgroups.len(), sectors);
        }
        for step in steps {
            world.apply(step).map_err(|what| TestCaseError::fail(format!("{step:?}: {what}")))?;
        }
        world.engine.check().map_err(TestCaseError::fail)?;
    }

    /// Flat, always a backlog, slots of any length up to each child's budget: the lags of spec/bfq 2.11, each child
    /// with a bound of its own.
    #[test]
    fn each_lag_is_bounded_by_the_flows_own_budget(
        children in prop::collection::vec((1..10_001_u64, 1..512_u64), 1..7),
        slots in prop::collection::vec(1..=64_u64, 50..400),
    ) {
        let chunk = 8 * SECTOR;
        let (mut tree, mut leaves) = (Wf2q::new(), Vec::new());
        for &(weight, chunks) in &children {
            let leaf = tree.add(ROOT, weight);
            tree.activate(leaf, chunks * chunk, false);
            leaves.push(leaf);
        }
        let weights: Vec<u64> = children.iter().map(|&(weight, _)| weight).collect();
        let mut ledger = Ledger::new(&weights);
        let mut budgets: Vec<u64> = children.iter().map(|&(_, chunks)| chunks).collect();
        for part in slots {
            let leaf = tree.select().expect("a backlog");
            let child = leaves.iter().position(|&other| other == leaf).expect("one of them");
            for _ in 0..budgets[child] {
                tree.charge(chunk);
                ledger.serve(child, chunk);
            }
            // The next slot is some part of its largest.
            budgets[child] = (children[child].1 * part).div_ceil(64);
            tree.settle(Some(budgets[child] * chunk));
        }
        let largest: Vec<u64> = children.iter().map(|&(_, chunks)| chunks * chunk).collect();
        ledger.check_each(&largest, chunk).map_err(TestCaseError::fail)?;
    }

    /// A leaf that comes with a budget among others that always have a backlog has been served it no later than at its share from
    /// its coming on, and the largest budget and a request of the others.
    #[test]
    fn a_newcomer_waits_for_a_budget_of_the_others(
        children in prop::collection::vec((1..10_001_u64, 1..512_u64), 1..7),
        before in 0..100_usize,
        into in 0..512_u64,
        (weight, chunks) in (1..10_001_u64, 1..512_u64),
    ) {
        let chunk = 8 * SECTOR;
        let (mut tree, mut budgets) = (Wf2q::new(), BTreeMap::new());
        for &(weight, chunks) in &children {
            let leaf = tree.add(ROOT, weight);
            tree.activate(leaf, chunks * chunk, false);
            budgets.insert(leaf, chunks);
        }
        let newcomer = tree.add(ROOT, weight);
        budgets.insert(newcomer, chunks);
        let (mut slots, mut waited) = (0, None);
        loop {
            let leaf = tree.select().expect("a backlog");
            for number in 0..budgets[&leaf] {
                if slots == before && number == into % budgets[&leaf] {
                    tree.activate(newcomer, chunks * chunk, false);
                    waited = Some(0);
                }
                tree.charge(chunk);
                waited = waited.map(|waited| waited + chunk);
            }
            if leaf == newcomer {
                break;
            }
            tree.settle(Some(budgets[&leaf] * chunk));
            slots += 1;
        }
        let weights: u64 = children.iter().map(|&(weight, _)| weight).sum();
        let fluid = (chunks * chunk * (weights + weight)).div_ceil(weight);
        let others = children.iter().map(|&(_, chunks)| chunks).max().expect("one at least");
        let bound = fluid + others * chunk + chunk;
        prop_assert!(waited.expect("it came") <= bound, "{waited:?} of {bound}");
    }
}
