//! Properties of merging under any order of calls: random calls, and a plain record of what they should have done.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_engine::Instant;
use weir_engine::merge_internals::cooperation::{Device, QueueFacts, ServedQueue, Start};
use weir_engine::merge_internals::sets::Sets;
use weir_engine::merge_internals::stable::Evidence;
use weir_engine::merge_internals::{
    Ask, Check, Kind, MergeWindow, Merging, Position, PositionTree, PriorityClass, QueueId, Rules,
    Settings, Traits,
};

const WINDOW_NS: u64 = 100_000_000;
const CLOSE_BYTES: u64 = 8192 * 512;
const SLOTS: u32 = 12;

#[derive(Clone, Debug)]
enum Step {
    Open { slot: u32, group: u32, level: u8, sync: bool },
    Close { slot: u32 },
    Ask { slot: u32, at: u64, seeky: bool, boosts: bool },
    Dispatch { slot: u32 },
    Expire { slot: u32 },
    Part { slot: u32 },
    Regroup { slot: u32, group: u32 },
    Wait { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        3 => (slot.clone(), 0..2u32, 3..5u8, prop::bool::weighted(0.9))
            .prop_map(|(slot, group, level, sync)| Step::Open { slot, group, level, sync }),
        1 => slot.clone().prop_map(|slot| Step::Close { slot }),
        8 => (slot.clone(), 0..4u64, prop::bool::weighted(0.1), any::<bool>()).prop_map(
            |(slot, at, seeky, boosts)| Step::Ask { slot, at: at * 3_000_000, seeky, boosts }
        ),
        4 => slot.clone().prop_map(|slot| Step::Dispatch { slot }),
        2 => slot.clone().prop_map(|slot| Step::Expire { slot }),
        1 => slot.clone().prop_map(|slot| Step::Part { slot }),
        1 => (slot, 0..2u32).prop_map(|(slot, group)| Step::Regroup { slot, group }),
        4 => (0..120_000u64).prop_map(|micros| Step::Wait { micros }),
    ]
}

/// What a queue is given to keep, and must get back: its slot, and how often it was alone before.
type State = (u32, u32);

#[derive(Clone, Debug)]
struct Queue {
    id: QueueId,
    traits: Traits,
    start: Start,
    /// The model of `start`.
    first_served: Option<Instant>,
    seeky: bool,
    busy: bool,
    queued: bool,
    insertions: u32,
    state: State,
    /// Whether `state` is put aside.
    saved: bool,
}

struct World {
    merging: Merging<State>,
    position_tree: PositionTree,
    queues: BTreeMap<u32, Queue>,
    in_service: Option<(QueueId, Option<Position>)>,
    flash: bool,
    now: Instant,
    generation: u32,
    alone: u32,
    /// Every decision, to be compared between runs.
    log: Vec<String>,
}

/// Gives a queue its state back, and checks that it is the one it put aside.
fn restored(queues: &mut BTreeMap<u32, Queue>, alone: &mut u32, id: QueueId, state: State) {
    let queue = queues.get_mut(&id.index).expect("a closed queue gets nothing back");
    assert!(queue.saved, "{id:?} had nothing put aside");
    assert_eq!(queue.state, state);
    queue.saved = false;
    *alone += 1;
    queue.state.1 = *alone;
}

impl World {
    fn new(settings: Settings, flash: bool, origin: Instant) -> World {
        World {
            merging: Merging::new(settings),
            position_tree: PositionTree::new(),
            queues: BTreeMap::new(),
            in_service: None,
            flash,
            now: origin,
            generation: 0,
            alone: 0,
            log: Vec::new(),
        }
    }

    fn facts(&self, id: QueueId) -> Option<QueueFacts> {
        let queue = self.queues.get(&id.index).filter(|queue| queue.id == id)?;
        let Queue { traits, seeky, busy, start, .. } = *queue;
        Some(QueueFacts { queue: id, traits, seeky, busy, start })
    }

    fn save(&mut self, merge: weir_engine::merge_internals::Merge) -> QueueId {
        let queues = &mut self.queues;
        self.merging.merge(merge, |id| {
            let queue = queues.get_mut(&id.index).unwrap();
            assert!(!queue.saved, "{id:?} is asked twice");
            queue.saved = true;
            queue.state
        })
    }

    fn run(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Wait { micros } => self.now = now.plus_nanos(micros * 1000),
            Step::Open { slot, group, level, sync } => self.open(slot, group, level, sync),
            Step::Ask { slot, at, seeky, boosts } => self.ask(slot, at, seeky, boosts),
            Step::Close { slot } => {
                let Some(queue) = self.queues.get(&slot) else { return };
                let id = queue.id;
                let (queues, alone) = (&mut self.queues, &mut self.alone);
                let left = self.merging.close(id, |id, state| restored(queues, alone, id, state));
                self.log.push(format!("{left:?}"));
                self.position_tree.remove(id);
                self.queues.remove(&slot);
                self.in_service.take_if(|(served, _)| *served == id);
                assert_eq!(self.merging.representative(id), None);
            }
            Step::Dispatch { slot } => {
                let Some(queue) = self.queues.get_mut(&slot) else { return };
                queue.start.serve(now);
                queue.first_served.get_or_insert(now);
                queue.queued = false;
                let end = Position(u64::from(slot) * 3_000_000);
                self.in_service = Some((queue.id, Some(end)));
                self.position_tree.remove(queue.id);
            }
            Step::Expire { slot } => {
                let Some(queue) = self.queues.get_mut(&slot) else { return };
                queue.busy = queue.queued;
                let id = queue.id;
                self.in_service.take_if(|(served, _)| *served == id);
            }
            Step::Part { slot } => {
                let Some(queue) = self.queues.get(&slot) else { return };
                let id = queue.id;
                let members: Vec<QueueId> = self.merging.sets().iter(id).collect();
                let is_kept = |id: &QueueId| self.merging.sets().is_stable(*id);
                let kept: Vec<QueueId> = members.iter().copied().filter(is_kept).collect();
                let (queues, alone) = (&mut self.queues, &mut self.alone);
                let left =
                    self.merging.part(now, id, |id, state| restored(queues, alone, id, state));
                self.log.push(format!("{left:?}"));
                if self.merging.settings().rules == Rules::Weir {
                    for member in members {
                        let together = kept.iter().filter(|_| kept.contains(&member)).count();
                        let expected = together.max(1) as u32;
                        assert_eq!(self.merging.sets().members(member), expected, "all at once");
                    }
                }
            }
            Step::Regroup { slot, group } => {
                let Some(queue) = self.queues.get_mut(&slot) else { return };
                let (id, moves) = (queue.id, queue.traits.group != group);
                queue.traits.group = group;
                let traits = queue.traits;
                let (queues, alone) = (&mut self.queues, &mut self.alone);
                let left =
                    self.merging.change(id, traits, |id, state| restored(queues, alone, id, state));
                self.log.push(format!("{left:?}"));
                if moves {
                    self.position_tree.remove(id);
                    assert_eq!(self.merging.sets().members(id), 1);
                }
            }
        }
    }

    fn open(&mut self, slot: u32, group: u32, level: u8, sync: bool) {
        if self.queues.contains_key(&slot) {
            return;
        }
        self.generation += 1;
        self.alone += 1;
        let id = QueueId { index: slot, generation: self.generation };
        let traits = Traits { group, class: PriorityClass::BestEffort, level, sync };
        let queue = Queue {
            id,
            traits,
            start: Start::NEW,
            first_served: None,
            seeky: false,
            busy: false,
            queued: false,
            insertions: 0,
            state: (slot, self.alone),
            saved: false,
        };
        self.queues.insert(slot, queue);
        let opened = self.merging.open(self.now, id, traits, self.flash);
        self.log.push(format!("{opened:?}"));
        if let Some(merge) = opened.merge {
            assert!(self.flash);
            let to = self.save(merge);
            // A cooperation may have led the anchor to a queue of another level: the group is what must be equal.
            assert_eq!(self.queues[&to.index].traits.group, group);
        }
    }

    fn ask(&mut self, slot: u32, at: u64, seeky: bool, boosts: bool) {
        let Some(queue) = self.queues.get(&slot) else { return };
        let own = queue.id;
        let using = self.merging.representative(own).unwrap();
        let (queues, alone) = (&mut self.queues, &mut self.alone);
        let left =
            self.merging.part_if_due(self.now, own, |id, state| restored(queues, alone, id, state));
        self.log.push(format!("{left:?}"));
        let using = if left.is_some() { own } else { using };
        self.queues.get_mut(&using.index).unwrap().seeky = seeky;

        let facts = self.facts(using).unwrap();
        let served = self.in_service.and_then(|(id, end)| Some((self.facts(id)?, end)));
        let device = Device {
            queueing_flash: self.flash,
            busy_queues: self.queues.values().filter(|queue| queue.busy).count() as u32,
            in_service: served.map(|(facts, last_end)| ServedQueue { facts, last_end }),
        };
        let place = Position(at);
        let near = self.position_tree.nearest(using, facts.traits.group, place, CLOSE_BYTES);
        let near = near.and_then(|id| self.facts(id));
        let insertions = self.queues[&using.index].insertions;
        let evidence =
            Evidence { just_created: insertions == 0, insertions, boosts_throughput: boosts };
        let ask = Ask { queue: own, facts, at: place, evidence };
        let before: u64 = self.merging.counters().checks;
        let check = self.merging.check(self.now, &ask, &device, || near);
        assert_eq!(self.merging.counters().checks, before + 1);
        self.log.push(format!("{check:?}"));
        let to = match check {
            Check::Stay(_) => using,
            Check::Follow(to) => to,
            Check::Merge(merge) => {
                if merge.kind == Kind::Cooperation {
                    self.assert_may_cooperate(&ask, &device, near, merge.to);
                } else {
                    assert!(!boosts && !self.flash, "{merge:?}");
                }
                self.save(merge)
            }
        };
        assert_eq!(self.merging.representative(own), Some(to));
        let queue = self.queues.get_mut(&to.index).unwrap();
        if !queue.busy {
            queue.start.restart();
            queue.first_served = None;
        }
        queue.busy = true;
        queue.queued = true;
        queue.insertions += 1;
        let group = queue.traits.group;
        self.position_tree.place(to, group, place);
    }

    /// spec/bfq 11.12, from the record kept here. Of the two queues that may have been meant, one
    /// must qualify.
    fn assert_may_cooperate(
        &self,
        ask: &Ask,
        device: &Device,
        near: Option<QueueFacts>,
        to: QueueId,
    ) {
        assert!(!self.flash);
        let in_time = |id: QueueId| {
            let first = self.queues[&id.index].first_served;
            first.is_none_or(|first| self.now.nanos_since(first) <= WINDOW_NS)
        };
        let fits = |facts: &QueueFacts| facts.traits.sync && !facts.seeky && in_time(facts.queue);
        assert!(fits(&ask.facts));
        let served = device
            .in_service
            .filter(|served| served.last_end.unwrap().distance(ask.at) <= CLOSE_BYTES)
            .map(|served| served.facts);
        let meant = [served, near].into_iter().flatten().any(|facts| {
            fits(&facts)
                && self.merging.sets().users(facts.queue) > 0
                && facts.traits.group == ask.facts.traits.group
                && self.merging.representative(facts.queue) == Some(to)
        });
        assert!(meant, "{ask:?} {device:?} {near:?}");
    }

    fn check(&self) {
        let sets = self.merging.sets();
        sets.check();
        let mut seen = BTreeMap::new();
        for queue in self.queues.values() {
            let head = sets.representative(queue.id).unwrap();
            *seen.entry(head).or_insert(0) += 1;
            assert_eq!(queue.saved, sets.members(queue.id) > 1);
            assert_eq!(sets.saved(queue.id), queue.saved.then_some(&queue.state));
            let group = self.queues[&head.index].traits.group;
            assert_eq!(queue.traits.group, group, "no set spans cgroups");
        }
        for (head, members) in seen {
            assert_eq!(sets.members(head), members);
            assert!(sets.iter(head).all(|id| sets.representative(id) == Some(head)));
        }
        let counters = self.merging.counters();
        let ends = counters.already_merged
            + counters.cooperations
            + counters.stable_late
            + counters.stable_cancelled
            + counters.refusals();
        assert_eq!(counters.checks, ends, "each check ends in one way");
    }
}

fn run(settings: Settings, flash: bool, origin: Instant, steps: &[Step]) -> Vec<String> {
    let mut world = World::new(settings, flash, origin);
    for step in steps {
        world.run(step);
        world.check();
    }
    assert_eq!(settings.merge_window, MergeWindow::For(std::time::Duration::from_nanos(WINDOW_NS)));
    world.log
}

fn settings() -> impl Strategy<Value = Settings> {
    prop::sample::select(vec![Settings::KERNEL_BEFORE_2021, Settings::KERNEL, Settings::WEIR])
}

proptest! {
    /// Members partition the queues, nothing merges that may not, counters add up, each gets back what was put
    /// aside; and all that depends on times between calls only, not on the hour or on the run.
    #[test]
    fn random_calls(settings in settings(), flash in any::<bool>(), steps in vec(step(), 1..250)) {
        let first = run(settings, flash, Instant::from_millis(1), &steps);
        let later = run(settings, flash, Instant::from_millis(1_000_000_007), &steps);
        prop_assert_eq!(first, later);
    }

    /// Merging and parting is as if nothing had been.
    #[test]
    fn a_split_restores_every_member(pairs in vec((0..20u32, 0..20u32), 1..60)) {
        let mut sets: Sets<u64> = Sets::new(Rules::Weir);
        let id = |index| QueueId { index, generation: 3 };
        let state = |id: QueueId| u64::from(id.index) * 1_000_003;
        (0..20).for_each(|index| sets.open(id(index)));
        let mut joins = 0;
        for (a, b) in pairs {
            joins += u32::from(sets.join(id(a), id(b), state).is_ok());
            sets.check();
        }
        let heads = (0..20).filter(|&index| sets.representative(id(index)) == Some(id(index)));
        prop_assert_eq!(heads.count() as u32, 20 - joins);
        let mut back = BTreeMap::new();
        for index in 0..20 {
            sets.part(id(index), |id, saved| assert_eq!(back.insert(id, saved), None));
            sets.check();
            prop_assert_eq!(sets.members(id(index)), 1);
            prop_assert_eq!(sets.users(id(index)), 1);
        }
        prop_assert!(back.iter().all(|(&id, &saved)| saved == state(id)));
    }
}
