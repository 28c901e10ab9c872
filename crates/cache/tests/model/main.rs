//! The cache against a plain account of what was asked: random clients, a device that takes its time, reorders, loses power
//! and fails.
//!
//! Every byte is a register. A read may answer what was written last before it began, or what is being written; after a
//! loss of power a byte may be anything that was written since the last of what is known to be durable. Both are judged
//! from times alone (`history`), so the account knows nothing of how a cache works.

mod history;
mod world;

use proptest::prelude::*;

use world::{Action, World};

fn action() -> impl Strategy<Value = Action> {
    let range = || (0..world::CELLS, 1..40usize);
    prop_oneof![
        8 => (0..3usize, range()).prop_map(|(client, (at, len))| Action::Write { client, at, len, fua: false }),
        1 => (0..3usize, range()).prop_map(|(client, (at, len))| Action::Write { client, at, len, fua: true }),
        1 => (0..3usize, range(), any::<bool>())
            .prop_map(|(client, (at, len), is_trim)| Action::Zero { client, at, len: len * 2, is_trim }),
        5 => (0..3usize, range()).prop_map(|(client, (at, len))| Action::Read { client, at, len }),
        2 => (0..3usize).prop_map(|client| Action::Flush { client }),
        9 => (any::<usize>(), any::<bool>()).prop_map(|(pick, early)| Action::Dispatch { pick, early }),
        9 => (any::<usize>(), 0..12u8).prop_map(|(pick, luck)| Action::Finish { pick, fails: luck == 0 }),
        3 => (0..40u64).prop_map(|millis| Action::Pass { millis }),
    ]
}

/// All owners write to the same few blocks, of a device that fails much: owners change while blocks are on their way.
fn crowded() -> impl Strategy<Value = Action> {
    let write = (0..3usize, 0..32usize, 1..24usize).prop_map(|(client, at, len)| {
        let at = if client == world::APART { at } else { world::APART_FROM + at };
        Action::Write { client, at, len, fua: false }
    });
    prop_oneof![
        8 => write,
        3 => (0..3usize).prop_map(|client| Action::Flush { client }),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(pick, early)| Action::Dispatch { pick, early }),
        6 => (any::<usize>(), 0..4u8).prop_map(|(pick, luck)| Action::Finish { pick, fails: luck == 0 }),
        4 => (10..40u64).prop_map(|millis| Action::Pass { millis }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, in whatever order, and wherever it stops.
    #[test]
    fn nothing_flushed_is_lost(
        actions in prop::collection::vec(action(), 1..160),
        fails in any::<bool>(),
        luck in any::<u64>(),
    ) {
        let mut world = World::new(luck);
        for action in actions {
            let action = match action {
                Action::Finish { pick, .. } if !fails => Action::Finish { pick, fails: false },
                action => action,
            };
            world.act(action);
        }
        world.power_fails();
    }

    /// The same, with everything coming to an end: nothing waits for ever, nothing stays dirty, every byte is where it
    /// belongs.
    #[test]
    fn everything_ends(actions in prop::collection::vec(action(), 1..160), luck in any::<u64>()) {
        let mut world = World::new(luck);
        for action in actions {
            world.act(action);
        }
        world.comes_to_rest();
        world.power_fails();
    }

    /// The owner of a block that the device fails is told, also if it was on its way when it became theirs.
    #[test]
    fn no_failure_is_swallowed(actions in prop::collection::vec(crowded(), 1..160), luck in any::<u64>()) {
        let mut world = World::new(luck);
        for action in actions {
            world.act(action);
        }
        world.comes_to_rest();
        world.power_fails();
    }
}
