//! Queues that come, go, merge and part allocate nothing once there were as many before.

#[path = "../benches/engine/counting.rs"]
mod counting;

use counting::{Counting, usage};
use weir_engine::Instant;
use weir_engine::merge_internals::cooperation::{Device, QueueFacts, Start};
use weir_engine::merge_internals::split::Raising;
use weir_engine::merge_internals::stable::Evidence;
use weir_engine::merge_internals::waker::InjectLimit;
use weir_engine::merge_internals::{
    Ask, Check, Merging, Position, PositionTree, QueueId, Settings, Traits,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const QUEUES: u32 = 256;

/// What a scheduler puts aside, in size.
type Saved = (InjectLimit, Raising);

fn saved(queue: QueueId) -> Saved {
    let created = Instant::from_millis(queue.index.into());
    (InjectLimit::new(created, true), Raising::none(created))
}

/// All queues are opened, read close to each other two by two, merge, part in half of the cases, and are closed.
/// Returns how many merged.
fn round(
    merging: &mut Merging<Saved>,
    position_tree: &mut PositionTree,
    generation: u32,
    start: Instant,
) -> u32 {
    let mut merges = 0;
    let id = |index| QueueId { index, generation };
    let facts = |index: u32| {
        let traits = Traits { group: index % 4, sync: true, ..Traits::default() };
        QueueFacts { queue: id(index), traits, seeky: false, busy: true, start: Start::NEW }
    };
    for index in 0..QUEUES {
        let now = start.plus_nanos(u64::from(index) * 1_000_000);
        let place = Position(u64::from(index / 8) * 100_000_000 + u64::from(index % 8));
        let asker = facts(index);
        merging.open(now, asker.queue, asker.traits, false);
        let evidence = Evidence { just_created: true, insertions: 0, boosts_throughput: true };
        let ask = Ask { queue: asker.queue, facts: asker, at: place, evidence };
        let device = Device { queueing_flash: false, busy_queues: index + 1, in_service: None };
        let near = position_tree.nearest(asker.queue, asker.traits.group, place, 1000);
        match merging.check(now, &ask, &device, || near.map(|queue| facts(queue.index))) {
            Check::Merge(merge) => {
                assert_eq!(merge.to, id(index - 4), "four groups take turns");
                merging.merge(merge, saved);
                merges += 1;
            }
            Check::Stay(_) => assert!(position_tree.place(asker.queue, asker.traits.group, place)),
            Check::Follow(_) => panic!("nobody moves later with Weir's rules"),
        }
    }
    for index in (0..QUEUES).step_by(2) {
        let restore = |queue, state| assert_eq!(state, saved(queue));
        merging.part(start, id(index), restore);
    }
    for index in 0..QUEUES {
        position_tree.remove(id(index));
        merging.close(id(index), |_, _| {});
    }
    merges
}

#[test]
fn merging_and_parting_allocate_nothing() {
    let mut merging = Merging::new(Settings::WEIR);
    let mut position_tree = PositionTree::new();
    let mut at = Instant::ZERO;
    let mut play = |merging: &mut _, rounds: core::ops::Range<u32>| {
        let mut merges = 0;
        for generation in rounds {
            merges += round(merging, &mut position_tree, generation, at);
            at = at.plus_nanos(3_000_000_000);
        }
        merges
    };
    assert_eq!(play(&mut merging, 0..2), QUEUES);
    let before = usage();
    assert_eq!(play(&mut merging, 2..102), 50 * QUEUES);
    let after = usage();
    assert_eq!(after.live_bytes, before.live_bytes);
    assert_eq!(after.allocations, before.allocations);
    merging.sets().check();
}
