//! Worked examples of spec/bfq 2.9 and 2.10, and the rules of spec/bfq 2.1 to 2.8 against a scan of all entities.

use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SECTOR: u64 = 512;

/// A service tree with flows only, in sectors.
struct Scene {
    tree: ServiceTree,
    entities: Entities,
    weights: Vec<u32>,
}

impl Scene {
    fn new(weights: &[u32]) -> Scene {
        let mut entities = Entities::default();
        for index in 0..weights.len() {
            entities.ensure(EntityId::flow(index as u32));
        }
        Scene { tree: ServiceTree::new(), entities, weights: weights.to_vec() }
    }

    fn activate(&mut self, flow: usize, budget: u64, how: Return) {
        let (id, weight) = (EntityId::flow(flow as u32), self.weights[flow]);
        self.tree.activate(&mut self.entities, id, weight, budget * SECTOR, how);
    }

    fn select(&mut self) -> Option<usize> {
        let id = self.tree.select(&mut self.entities)?;
        (0..self.weights.len()).find(|&flow| EntityId::flow(flow as u32) == id)
    }

    fn charge(&mut self, sectors: u64) {
        let id = self.tree.in_service().expect("someone to charge");
        self.entities[id].service += sectors * SECTOR;
        self.tree.charge(&mut self.entities, sectors * SECTOR);
    }

    fn expire(&mut self, flow: usize, budget: Option<u64>) {
        let (id, weight) = (EntityId::flow(flow as u32), self.weights[flow]);
        let budget = budget.map(|sectors| sectors * SECTOR);
        let placing = budget.map(|budget| (weight, budget));
        self.tree.expire(&mut self.entities, id, placing);
    }

    /// Serves whole budgets. Returns the flows served.
    fn slots(&mut self, budgets: &[u64], slots: usize) -> Vec<usize> {
        let serve = |_| {
            let flow = self.select().expect("a backlog");
            self.charge(budgets[flow]);
            self.expire(flow, Some(budgets[flow]));
            flow
        };
        (0..slots).map(serve).collect()
    }

    /// Start and finish of a flow, as sectors at weight 1.
    fn tags(&self, flow: u32) -> (Vtime, Vtime) {
        let entity = &self.entities[EntityId::flow(flow)];
        (entity.start, entity.finish)
    }
}

/// An instant in tenths of a sector at weight 1.
fn at(tenths: u64) -> Vtime {
    Vtime::ZERO.after(tenths * SECTOR, 10)
}

#[test]
fn weights_of_two_to_one_share_two_to_one() {
    // spec/bfq EX-5, tag by tag.
    let (budgets, mut scene) = ([1200, 1200], Scene::new(&[40, 80]));
    (0..2).for_each(|flow| scene.activate(flow, 1200, Return::Afresh));
    let table = [
        (1, 0, 15),
        (0, 0, 30),
        (1, 15, 30),
        (1, 30, 45),
        (0, 30, 60),
        (1, 45, 60),
        (1, 60, 75),
        (0, 60, 90),
    ];
    for (slot, (flow, start, finish)) in table.into_iter().enumerate() {
        assert_eq!(scene.tree.vtime, at(slot as u64 * 100), "V before slot {slot}");
        let id = scene.tree.next(&mut scene.entities).expect("a backlog");
        assert_eq!(id, EntityId::flow(flow), "in slot {slot}");
        assert_eq!(scene.tags(flow), (at(start * 10), at(finish * 10)), "in slot {slot}");
        scene.slots(&budgets, 1);
    }
}

#[test]
fn larger_budgets_buy_no_larger_share() {
    // spec/bfq EX-6.
    let (budgets, mut scene) = ([512, 1024, 4096], Scene::new(&[10, 20, 70]));
    (0..3).for_each(|flow| scene.activate(flow, budgets[flow], Return::Afresh));
    let served = scene.slots(&budgets, 60);
    let order: String = served[..26].iter().map(|&flow| ['X', 'Y', 'Z'][flow]).collect();
    assert_eq!(order, "XYZXYZXYZXYZXYZXYZXYZXYXYZ");
    let service = |flow| served.iter().filter(|&&who| who == flow).count() as u64 * budgets[flow];
    assert_eq!([0, 1, 2].map(service), [10752, 21504, 73728]);
}

#[test]
fn d19_a_slot_is_charged_at_the_weight_it_began_with() {
    let mut scene = Scene::new(&[40, 40]);
    (0..2).for_each(|flow| scene.activate(flow, 1200, Return::Afresh));
    assert_eq!(scene.select(), Some(0));
    scene.charge(600);
    // Within its slot its weight doubles: it is charged 1,200 sectors at 40, and activated with 80.
    scene.weights[0] = 80;
    scene.charge(600);
    assert_eq!((scene.tree.vtime, scene.tree.weights), (at(150), 80));
    scene.expire(0, Some(1200));
    assert_eq!((scene.tags(0), scene.tree.weights), ((at(300), at(450)), 120));
}

#[test]
fn a_flow_that_returns_in_time_resumes_its_budget() {
    // spec/bfq EX-7a.
    for (how, start, finish) in [(Return::InTime, 80, 200), (Return::Afresh, 120, 240)] {
        let mut scene = Scene::new(&[40, 40]);
        (0..2).for_each(|flow| scene.activate(flow, 800, Return::Afresh));
        assert_eq!(scene.select(), Some(0));
        scene.charge(320);
        assert_eq!(scene.tree.vtime, at(40));
        scene.expire(0, None);
        assert_eq!(scene.entities[EntityId::flow(0)].state, State::Idle, "8 is after 4");
        assert_eq!(scene.select(), Some(1));
        scene.charge(320);
        assert_eq!(scene.tree.vtime, at(80));
        assert_eq!(scene.tree.weights, 40, "A is forgotten");
        scene.charge(160);
        scene.activate(0, 480, how);
        assert_eq!(scene.tags(0), (at(start), at(finish)), "{how:?}");
    }
}

#[test]
fn a_flow_away_longer_than_a_budget_catches_up_one_budget() {
    // spec/bfq EX-7b: with the finish at 8 and V at 30, 8/20 becomes 18/30.
    let mut scene = Scene::new(&[40, 40]);
    (0..2).for_each(|flow| scene.activate(flow, 800, Return::Afresh));
    assert_eq!(scene.select(), Some(0));
    scene.charge(320);
    scene.expire(0, None);
    assert_eq!(scene.select(), Some(1));
    scene.charge(320);
    // Alone since V was 8.
    scene.charge(22 * 40);
    assert_eq!(scene.tree.vtime, at(300));
    scene.activate(0, 480, Return::InTime);
    assert_eq!(scene.tags(0), (at(180), at(300)));
}

/// Operations on a service tree.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A flow without backlog is activated.
    Arrive { flow: usize, budget: u64, in_time: bool },
    /// A waiting flow gets another budget.
    Change { flow: usize, budget: u64 },
    /// A waiting flow loses its backlog.
    Leave { flow: usize },
    /// The next flow is served so many eighths of its budget, and is activated again or not.
    Serve { eighths: u64, again: Option<u64> },
    /// A flow has another weight from its next activation on.
    Weigh { flow: usize, weight: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (flow, budget) = (0..6_usize, 1..3000_u64);
    let arrive = (flow.clone(), budget.clone(), any::<bool>())
        .prop_map(|(flow, budget, in_time)| Step::Arrive { flow, budget, in_time });
    let change =
        (flow.clone(), budget.clone()).prop_map(|(flow, budget)| Step::Change { flow, budget });
    let serve = (0..9_u64, prop::option::weighted(0.7, budget))
        .prop_map(|(eighths, again)| Step::Serve { eighths, again });
    let weigh =
        (flow.clone(), 1..10_001_u32).prop_map(|(flow, weight)| Step::Weigh { flow, weight });
    let leave = flow.prop_map(|flow| Step::Leave { flow });
    prop::collection::vec(
        prop_oneof![4 => arrive, 1 => change, 1 => leave, 6 => serve, 1 => weigh],
        1..150,
    )
}

proptest! {
    /// V never runs back, weights add up, and the next flow is that of a scan: the least finish among those with a
    /// start not after V, where V is at least the least start.
    #[test]
    fn the_next_flow_is_that_of_a_scan(weights in prop::array::uniform6(1..10_001_u32), steps in steps()) {
        let mut scene = Scene::new(&weights);
        let mut last = scene.tree.vtime;
        for step in steps {
            let state = |scene: &Scene, flow: usize| scene.entities[EntityId::flow(flow as u32)].state;
            match step {
                Step::Arrive { flow, budget, in_time } => {
                    if matches!(state(&scene, flow), State::Off | State::Idle) {
                        let how = if in_time { Return::InTime } else { Return::Afresh };
                        scene.activate(flow, budget, how);
                    }
                }
                Step::Change { flow, budget } => {
                    if state(&scene, flow).is_active() {
                        let (id, weight) = (EntityId::flow(flow as u32), scene.weights[flow]);
                        scene.tree.reposition(&mut scene.entities, id, weight, budget * SECTOR);
                    }
                }
                Step::Leave { flow } => {
                    if state(&scene, flow).is_active() {
                        scene.tree.deactivate(&mut scene.entities, EntityId::flow(flow as u32));
                    }
                }
                Step::Weigh { flow, weight } => scene.weights[flow] = weight,
                Step::Serve { eighths, again } => {
                    let expected = scan(&scene);
                    let served = scene.select();
                    prop_assert_eq!(served, expected);
                    if let Some(flow) = served {
                        let budget = scene.entities[EntityId::flow(flow as u32)].budget / SECTOR;
                        scene.charge(budget * eighths / 8);
                        scene.expire(flow, again);
                    }
                }
            }
            prop_assert!(!last.is_after(scene.tree.vtime), "V ran back");
            last = scene.tree.vtime;
            sound(&scene);
        }
    }
}

/// The next flow by spec/bfq 2.1 and 2.6, from a scan.
fn scan(scene: &Scene) -> Option<usize> {
    let ids = (0..scene.weights.len()).map(|flow| EntityId::flow(flow as u32));
    let active: Vec<EntityId> = ids.filter(|&id| scene.entities[id].state.is_active()).collect();
    let starts = active.iter().map(|&id| scene.entities[id].start);
    let least = starts.reduce(|a, b| if a.is_after(b) { b } else { a })?;
    let vtime = scene.tree.vtime.latest(least);
    let order = |id: EntityId| {
        let members =
            scene.tree.heaps.entries::<WAITING>().chain(scene.tree.heaps.entries::<ELIGIBLE>());
        members.clone().find(|entry| entry.id() == id).expect("active ones are in a heap").order()
    };
    let eligible = active.into_iter().filter(|&id| !scene.entities[id].start.is_after(vtime));
    let next = eligible.reduce(|a, b| {
        let (x, y) = (scene.entities[a].finish, scene.entities[b].finish);
        if x.is_after(y) || (x == y && order(a) > order(b)) { b } else { a }
    })?;
    (0..scene.weights.len()).find(|&flow| EntityId::flow(flow as u32) == next)
}

fn sound(scene: &Scene) {
    scene.tree.check(&scene.entities).expect("a sound tree");
}
