//! Properties of the engine, for any tree, limits, weights, requests and changes (spec/throttle 4).

mod accuracy;
#[path = "../cases/mod.rs"]
mod cases;
mod run;
mod scenario;
mod twins;
mod window;

use proptest::prelude::*;
use run::{How, run};
use scenario::{Limiters, Numbers, Scenario};
use weir_model::pace::{Log, Violation, check_log};

fn keeps_its_promises(
    test: &str,
    scenarios: impl Strategy<Value = Scenario>,
    how: How,
    cases: u32,
) {
    cases::run(test, cases, scenarios, |scenario| {
        let log = run(&scenario, how).map_err(TestCaseError::fail)?;
        check_log(&log).map_err(|broken| TestCaseError::fail(explain(&log, &broken)))
    });
}

fn common(limiters: Limiters) -> impl Strategy<Value = Scenario> {
    scenario::any(limiters, Numbers::Common, 50)
}

fn only_data(limiters: Limiters) -> impl Strategy<Value = Scenario> {
    common(limiters).prop_map(Scenario::without_metadata)
}

const LIFT: How = How { reads_only: false, late: 0, lift: true };

/// The violation, and the record up to it, one event a line.
fn explain(log: &Log, broken: &Violation) -> String {
    let events = log.iter().take(broken.event + 1).enumerate();
    let lines = events.map(|(place, (at, event))| format!("{place}: {at} ns: {event:?}"));
    format!("{broken}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn pace_keeps_its_properties() {
    keeps_its_promises(
        "pace_keeps_its_properties",
        only_data(Limiters::Pace),
        How::default(),
        3_000,
    );
}

#[test]
fn pace_keeps_its_properties_under_a_gate() {
    keeps_its_promises(
        "pace_keeps_its_properties_under_a_gate",
        only_data(Limiters::Pace),
        LIFT,
        3_000,
    );
}

#[test]
fn token_and_leaky_keep_their_properties() {
    keeps_its_promises(
        "token_and_leaky_keep_their_properties",
        only_data(Limiters::Pulled),
        How::default(),
        2_000,
    );
}

/// spec/throttle P18.
#[test]
fn metadata_keeps_the_properties() {
    keeps_its_promises(
        "metadata_keeps_the_properties",
        common(Limiters::Pulled),
        How::default(),
        2_000,
    );
}

#[test]
fn slice_keeps_its_properties() {
    keeps_its_promises("slice_keeps_its_properties", common(Limiters::All), How::default(), 1_500);
}

#[test]
fn slice_keeps_its_properties_under_a_gate() {
    keeps_its_promises("slice_keeps_its_properties_under_a_gate", common(Limiters::All), LIFT, 500);
}

/// spec/throttle P22 and P23: the ends of the number ranges, and the same decisions twice.
fn extreme_numbers(test: &str, limiters: Limiters) {
    cases::run(test, 500, scenario::any(limiters, Numbers::Extreme, 20), |scenario| {
        let log = run(&scenario, LIFT).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&run(&scenario, LIFT), &Ok(log.clone()));
        check_log(&log).map_err(|broken| TestCaseError::fail(explain(&log, &broken)))
    });
}

#[test]
fn extreme_numbers_keep_the_properties_of_pace() {
    extreme_numbers("extreme_numbers_keep_the_properties_of_pace", Limiters::Pace);
}

#[test]
fn extreme_numbers_keep_the_properties_of_all_limiters() {
    extreme_numbers("extreme_numbers_keep_the_properties_of_all_limiters", Limiters::All);
}
