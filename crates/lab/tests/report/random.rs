//! Whatever the numbers are, also such as no run comes to: reports are whole.

use proptest::prelude::*;
use weir_engine::stats::{BfqStats, Counters, Moved};
use weir_engine::{Dimension, PerDimension};
use weir_lab::report::{compare, fio_json, html, json, table};
use weir_lab::results::{
    BfqResults, CgroupResults, Changed, DeviceResults, Latency, LimitWaits, Results, Row, Series,
};

use crate::page::well_formed;
use crate::sample::{cgroup, transfers};

/// Small and huge numbers alike.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

fn latency() -> impl Strategy<Value = Latency> {
    prop::collection::vec(number(), 0..20).prop_map(|times| {
        let mut latency = Latency::default();
        times.into_iter().for_each(|time| latency.record(time));
        latency
    })
}

fn series() -> impl Strategy<Value = Series> {
    prop::collection::vec((number(), number()), 0..20).prop_map(|amounts| {
        let mut series = Series::default();
        amounts.into_iter().for_each(|(at, amount)| series.add(at, amount));
        series
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["/", "(/[a-c]){1,3}", "\\PC{0,12}", Just("x".repeat(300))]
}

fn moved() -> impl Strategy<Value = Moved> {
    (number(), number()).prop_map(|(bytes, ios)| Moved { bytes, ios })
}

prop_compose! {
    fn counters()(read in moved(), write in moved(), discard in moved(), rest in [number(), number()],
                  throttled in prop::array::uniform6(number()), ns in prop::array::uniform4(number()))
        -> Counters {
        let [device_ns, window_ns, lifted_ns, others_ns] = ns;
        let mut counters = Counters::default();
        let blame = &mut counters.blame;
        (blame.device_ns, blame.window_ns) = (device_ns, window_ns);
        (blame.lifted_ns, blame.others_ns) = (lifted_ns, others_ns);
        [counters.completed, counters.failed] = rest;
        (counters.read, counters.write, counters.discard) = (read, write, discard);
        counters.throttled = throttled;
        counters
    }
}

prop_compose! {
    fn one_cgroup()(path in name(), counters in counters(), latency in latency(), rate in number(),
                    which in 0usize..6, reads in series(), writes in series(), owner in name(),
                    wait_ns in prop::array::uniform6(number()))
        -> CgroupResults {
        let limits = PerDimension::NONE.with(Dimension::ALL[which], rate);
        let limit_waits = vec![LimitWaits { path: owner, wait_ns }];
        CgroupResults {
            counters, latency, limit_waits, read_series: reads, write_series: writes,
            ..cgroup(&path, limits)
        }
    }
}

prop_compose! {
    fn row()(name in name(), cgroup in name(), numbers in prop::array::uniform4(number()),
             reads in latency(), sync in latency(), error in prop::option::of(name()))
        -> Row {
        let [ios, block, runtime_ns, processes] = numbers;
        let read = transfers(ios, block % (u64::MAX / ios.max(1)), runtime_ns, reads);
        let (processes, depth) = (processes as u32, ios as u32);
        let mixed = (ios % 3 == 0).then(|| read.clone());
        let is_unified = mixed.is_some() && block % 2 == 0;
        Row {
            name, cgroup, processes, runtime_ns, processes_ns: runtime_ns, read, mixed, is_unified, sync, error, depth,
            ..Row::default()
        }
    }
}

prop_compose! {
    fn results()(texts in [name(), name(), name()], numbers in prop::array::uniform6(number()),
                 rows in prop::collection::vec(row(), 0..4),
                 cgroups in prop::collection::vec(one_cgroup(), 0..5),
                 latency in latency(), busy_series in series(),
                 watermark_percent in prop::option::of(any::<u8>()))
        -> Results {
        let [title, disk, note] = texts;
        let [elapsed_ns, requests, busy_ns, ios, bytes, seed] = numbers;
        let in_flight_max = requests as u32;
        let device = DeviceResults {
            busy_ns, ios, bytes, latency, busy_series, in_flight_max, watermark_percent,
        };
        let (scheduler, depth, notes) = ("none".to_owned(), ios as u32, vec![note]);
        let mut stats = BfqStats::default();
        stats.selections = ios;
        stats.expirations = [0, ios, 0, 0, 0];
        stats.idling_ns = [busy_ns, 0, 0];
        let bfq = watermark_percent.map(|_| BfqResults { stats, ..BfqResults::default() });
        let (way_ns, way_each_ns) = (busy_ns, requests);
        let changes = vec![Changed { at_ns: busy_ns, setting: scheduler.clone() }; rows.len()];
        Results {
            title, disk, scheduler, depth, seed, way_ns, way_each_ns, elapsed_ns, requests, rows, cgroups, device,
            governed: None,
            bfq, changes, notes,
        }
    }
}

proptest! {
    // Huge times make long histograms, which take their time in builds without optimisation.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_results_give_well_formed_reports(a in results(), b in results()) {
        for text in [table(&a, 80), table(&b, 0), compare(("a", &a), ("b", &b)).table(100)] {
            prop_assert!(text.ends_with('\n'));
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", text);
        }
        for value in [json(&a), fio_json(&a), compare(("a", &a), ("b", &b)).json()] {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        }
        for runs in [&[("a", &a)][..], &[("a", &a), ("b", &b)]] {
            let text = well_formed(&html(runs));
            prop_assert!(!text.contains("NaN") && !text.contains("inf "), "{}", text);
        }
    }
}
