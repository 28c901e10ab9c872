//! Promises about two runs that differ in one thing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_engine::{LimiterKind, Op};
use weir_model::pace::{Event, Log, RequestId};

use crate::cases;
use crate::run::{How, run};
use crate::scenario::{self, Cgroup, Lim, Limiters, Numbers, Pick, Scenario, Step};

/// When each request left.
fn departures(log: &Log) -> BTreeMap<RequestId, u64> {
    let departure = |(at, event): &(u64, Event)| match event {
        Event::Dispatch(id) => Some((*id, *at)),
        _ => None,
    };
    log.iter().filter_map(departure).collect()
}

/// spec/throttle P11: reads leave when they would have left without writes, where no limit is on both.
#[test]
fn writes_do_not_delay_reads() {
    let scenarios = scenario::any(Limiters::Pulled, Numbers::Common, 50).prop_map(Scenario::apart);
    cases::run("writes_do_not_delay_reads", 500, scenarios, |scenario| {
        let alone = How { reads_only: true, ..How::default() };
        let alone = departures(&run(&scenario, alone).map_err(TestCaseError::fail)?);
        let mut beside = departures(&run(&scenario, How::default()).map_err(TestCaseError::fail)?);
        beside.retain(|id, _| alone.contains_key(id));
        prop_assert_eq!(alone, beside);
        Ok(())
    });
}

/// One task below one limit, reading.
fn one_reader(lim: Lim, reads: &[(u64, u32)], change: Option<(usize, Lim)>) -> Scenario {
    let mut steps = Vec::new();
    for (place, &(pause, len)) in reads.iter().enumerate() {
        let task = Pick(0);
        steps.push((
            pause,
            Step::Submit { task, op: Op::Read, len, metadata: false, remainder: false },
        ));
        if let Some((_, limits)) = change.filter(|(before, _)| *before == place) {
            steps.push((0, Step::Limit { cgroup: Pick(0), limits: Box::new(limits) }));
        }
    }
    let root = Cgroup { parent: Pick(0), weight: 100, limits: lim };
    Scenario {
        iops_size: None,
        cgroups: vec![root],
        clients: vec![Pick(0)],
        tasks: vec![Pick(0)],
        steps,
    }
}

fn paced(rbps: u64, riops: u64) -> Lim {
    let max = [Some(rbps), None, Some(riops), None, None, None];
    Lim { limiter: LimiterKind::Pace, max, burst: [None; 6], peak_above: [None; 6] }
}

fn reads() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let pause = prop_oneof![Just(0u64), 0u64..40_000_000];
    prop::collection::vec((pause, 512u32..200_000), 1..30)
}

fn rates() -> impl Strategy<Value = (u64, u64)> {
    (10_000u64..10_000_000, 1u64..1000)
}

/// spec/throttle P9: a raised limit never delays what waits, a lowered one never advances it.
#[test]
fn a_change_helps_or_hurts_as_it_says() {
    let cases = (reads(), rates(), 1u64..8, any::<bool>(), 0usize..30);
    cases::run(
        "a_change_helps_or_hurts_as_it_says",
        500,
        cases,
        |(reads, rates, by, raised, at)| {
            let (low, high) = (paced(rates.0, rates.1), paced(rates.0 * by, rates.1 * by));
            let (before, after) = if raised { (low, high) } else { (high, low) };
            let change = Some((at % reads.len(), after));
            let departures = |change| {
                let log = run(&one_reader(before, &reads, change), How::default());
                log.map(|log| departures(&log)).map_err(TestCaseError::fail)
            };
            let (kept, changed) = (departures(None)?, departures(change)?);
            for (id, kept) in kept {
                let changed = changed[&id];
                let as_it_says = if raised { changed <= kept } else { changed >= kept };
                prop_assert!(as_it_says, "{:?} leaves at {} ns, not at {}", id, changed, kept);
            }
            Ok(())
        },
    );
}

/// spec/throttle P15: timeouts handled late delay nothing by more than that, as long as the burst makes good for it.
#[test]
fn lateness_does_not_add_up() {
    let limit = prop_oneof![
        (512u64..1_000_000).prop_map(|bps| [Some(bps), None, None, None, None, None]),
        (4u64..300).prop_map(|iops| [None, None, Some(iops), None, None, None]),
    ];
    let cases = (reads(), limit, 0u64..10_000_000);
    cases::run("lateness_does_not_add_up", 500, cases, |(reads, max, late)| {
        // The default burst makes good for 10 ms, and so do all but one of its two to four I/Os at 4 to 300 a second.
        let scenario = one_reader(Lim { max, ..paced(1, 1) }, &reads, None);
        let departures = |late| {
            let log = run(&scenario, How { late, ..How::default() });
            log.map(|log| departures(&log)).map_err(TestCaseError::fail)
        };
        let (punctual, late_ones) = (departures(0)?, departures(late)?);
        for (id, punctual) in punctual {
            let found = late_ones[&id];
            prop_assert!(
                (punctual..=punctual + late).contains(&found),
                "{:?} leaves at {} ns instead of {}, timeouts are {} late",
                id,
                found,
                punctual,
                late
            );
        }
        Ok(())
    });
}
