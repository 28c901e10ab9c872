//! `scheduler = "bfq"` under everything that can happen at once: what goes in comes out once, the books balance, no request
//! waits for nothing, and the same calls give the same answers. `Engine::check` looks at the whole engine after each call.
//!
//! Unlike the tests of `bfq.rs`, trees here are random, and grow and shrink while requests wait, fail and are withdrawn.
//! [`step`] has calls in any order; [`play`] has clients that want something, which is what it takes to merge, to idle and
//! to fill gaps.

mod play;
mod reach;
mod step;
mod world;

use std::cell::RefCell;
use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use self::play::{perform, play};
use self::reach::Reach;
use self::step::step;
use self::world::{Done, World, run};

/// What has to happen in the plays of [`everything_is_reached`], and how often at least.
const REACHED: &[(&str, u64)] = &[
    ("joined", 100),
    ("joined behind", 20),
    ("joined in front", 20),
    ("joined two", 20),
    ("injected own_async", 20),
    ("injected waker", 20),
    ("injected woken", 20),
    ("injected other", 20),
    ("merged as neighbours", 20),
    ("merged at creation", 3),
    ("merged late", 3),
    ("redirected", 20),
    ("split", 3),
    ("alone again", 3),
    ("refused too_late", 20),
    ("refused target_too_late", 3),
    ("refused seeky", 20),
    ("refused other_group", 3),
    ("held", 20),
    ("short slot", 20),
    ("charged for time", 20),
    ("raised interactive", 20),
    ("raised soft_real_time", 3),
    ("idled throughput", 20),
    ("idled guarantees", 20),
    ("idled settling", 20),
    ("expired no_more_requests", 20),
    ("expired too_idle", 20),
    ("expired budget_timeout", 20),
    ("expired budget_exhausted", 20),
    ("expired preempted", 20),
    ("switched while requests wait and are at the device", 3),
    ("tuned while requests wait", 3),
    ("moved while its requests are under way", 3),
    ("removed while its requests are under way", 3),
    ("weighed while its requests are under way", 3),
    ("failed at the device", 20),
    ("flushed while others wait", 20),
    ("withdrawn", 3),
];

/// The same plays each time: another seed would reach as much, but not exactly as often.
#[test]
fn everything_is_reached() {
    let reach = RefCell::new(Reach::default());
    let config =
        ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() };
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let played = TestRunner::new_with_rng(config, seed).run(&play(), |play| {
        let world = perform(&play).map_err(TestCaseError::fail)?;
        accounted_for(&world)?;
        reach.borrow_mut().absorb(&world.reach);
        Ok(())
    });
    played.unwrap_or_else(|failure| panic!("{failure}"));
    let missing = reach.borrow().missing(REACHED);
    assert!(missing.is_empty(), "never or seldom seen: {missing:#?} of {reach:#?}");
}

/// Each request that went in came out of the device once, or was withdrawn.
fn accounted_for(world: &World) -> Result<(), TestCaseError> {
    let Done { submitted, withdrawn, completed, .. } = world.done;
    prop_assert_eq!(submitted, withdrawn + completed);
    prop_assert!(world.log.len() as u64 >= completed, "each was dispatched, in pieces or whole");
    Ok(())
}

/// How large a command for the device may be.
fn pieces() -> impl Strategy<Value = Option<NonZeroU32>> {
    prop::option::of(prop::sample::select(vec![1 << 20, 8 << 20]))
        .prop_map(|bytes| bytes.and_then(NonZeroU32::new))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 64, ..ProptestConfig::default()
    })]

    /// Every request comes out once or is withdrawn, counters and books agree, and the engine is sound after every call.
    #[test]
    fn every_request_comes_out_once(
        rotational in any::<bool>(),
        depth in 1..9_u32,
        pieces in pieces(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let world = run(rotational, depth, pieces, &steps).map_err(TestCaseError::fail)?;
        accounted_for(&world)?;
    }

    /// spec/bfq 11.23: the same calls with the same instants give the same requests in the same order.
    #[test]
    fn the_same_calls_give_the_same_answers(
        depth in 1..9_u32,
        pieces in pieces(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let [one, two] = [(); 2].map(|()| run(true, depth, pieces, &steps).map(|world| world.log));
        prop_assert_eq!(one.map_err(TestCaseError::fail)?, two.map_err(TestCaseError::fail)?);
    }

    /// An engine that is polled as often as possible dispatches all that may go, or says when it will.
    #[test]
    fn every_waiting_request_waits_for_an_event(
        rotational in any::<bool>(),
        depth in 1..9_u32,
        pieces in pieces(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new(rotational, depth, pieces, "");
        for step in &steps {
            world.apply(step);
            world.dispatch_all().map_err(TestCaseError::fail)?;
            world.check().map_err(TestCaseError::fail)?;
        }
    }
}

proptest! {
    // Each is thousands of calls.
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 12, ..ProptestConfig::default()
    })]

    /// Any clients, and anything that happens to them.
    #[test]
    fn every_play_ends(play in play()) {
        let world = perform(&play).map_err(TestCaseError::fail)?;
        accounted_for(&world)?;
    }
}
