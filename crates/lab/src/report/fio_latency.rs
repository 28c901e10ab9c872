//! Latency classes and percentiles as in fio's JSON.

use serde_json::{Map, Value, json};

use super::figures::{quantiles_ns, quotient, round};
use crate::results::Latency;

const DECIMALS: u32 = 6;

/// fio's default percentiles, in thousandths of a percent.
const PERCENTILES: [u32; 17] = [
    1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 95_000,
    99_000, 99_500, 99_900, 99_950, 99_990,
];

/// Upper ends of fio's latency classes, in the class's own unit; the last of milliseconds is open.
const NS_ENDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const MS_ENDS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];

pub(super) fn float(value: f64) -> Value {
    round(value, DECIMALS).into()
}

/// `min`, `max`, `mean`, `stddev` and `N`.
pub(super) fn summary(times: &Latency) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("min".into(), times.min_ns().into());
    object.insert("max".into(), times.max_ns().into());
    object.insert("mean".into(), float(times.mean_ns()));
    object.insert("stddev".into(), float(times.deviation_ns()));
    object.insert("N".into(), times.count().into());
    object
}

/// As [`summary`] with `percentile`, which fio leaves out where there was no request.
pub(super) fn with_percentiles(times: &Latency) -> Map<String, Value> {
    let mut object = summary(times);
    if times.count() > 0 {
        let told = PERCENTILES.into_iter().zip(quantiles_ns(times, PERCENTILES));
        let told = told.map(|(thousandths, ns)| {
            (format!("{}.{:03}000", thousandths / 1000, thousandths % 1000), Value::from(ns))
        });
        object.insert("percentile".into(), Value::Object(told.collect()));
    }
    object
}

/// `latency_ns`, `latency_us` and `latency_ms`: percent of requests in each class, which is named by its upper end. A
/// bucket counts where its middle is.
pub(super) fn classes(times: &Latency) -> [(&'static str, Value); 3] {
    let mut buckets = times.buckets().peekable();
    let mut below = |end_ns: u64| {
        let mut count = 0;
        while let Some((_, _, inside)) =
            buckets.next_if(|(low, high, _)| low + (high - low) / 2 < end_ns)
        {
            count += u64::from(inside);
        }
        float(100.0 * quotient(count, times.count()))
    };
    let units = [("latency_ns", 1), ("latency_us", 1_000), ("latency_ms", 1_000_000)];
    units.map(|(unit, unit_ns)| {
        let ends: &[u64] = if unit == "latency_ms" { &MS_ENDS } else { &NS_ENDS };
        let mut object = Map::new();
        for &end in ends {
            object.insert(end.to_string(), below(end * unit_ns));
        }
        if unit == "latency_ms" {
            object.insert(">=2000".into(), below(u64::MAX));
        }
        (unit, object.into())
    })
}

/// `iodepth_level`: all in the class of `depth`, none if there was no request.
pub(super) fn depth_level(depth: u64, is_used: bool) -> Value {
    let class = if depth >= 64 { 64 } else { 1 << depth.max(1).ilog2() };
    let levels = [1, 2, 4, 8, 16, 32, 64].map(|level| {
        let name = if level == 64 { ">=64".to_owned() } else { level.to_string() };
        (name, Value::from(if is_used && level == class { 100.0 } else { 0.0 }))
    });
    Value::Object(levels.into_iter().collect())
}

/// `iodepth_submit`, `iodepth_complete`: one at a time, which fio counts under `4`.
pub(super) fn one_at_a_time(is_used: bool) -> Value {
    let used = if is_used { 100.0 } else { 0.0 };
    json!({ "0": 0.0, "4": used, "8": 0.0, "16": 0.0, "32": 0.0, "64": 0.0, ">=64": 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_one_class() {
        let mut times = Latency::default();
        for ns in [0, 1, 2, 999, 1_000, 1_500, 999_000, 5_000_000, 3_000_000_000] {
            times.record(ns);
        }
        let classes = classes(&times);
        let part = |unit: usize, name: &str| classes[unit].1[name].as_f64().unwrap();
        let ninth = 11.111_111;
        assert_eq!((part(0, "2"), part(0, "4"), part(0, "1000")), (2.0 * ninth, ninth, ninth));
        assert_eq!((part(1, "2"), part(1, "1000")), (2.0 * ninth, ninth));
        assert_eq!((part(2, "2"), part(2, "10"), part(2, ">=2000")), (0.0, ninth, ninth));
        let all = classes.iter().flat_map(|(_, class)| class.as_object().unwrap().values());
        let all: f64 = all.map(|part| part.as_f64().unwrap()).sum();
        assert!((all - 100.0).abs() < 1e-4, "{all}");
    }

    #[test]
    fn depths_fall_into_powers_of_two() {
        let levels =
            [(0, "1"), (1, "1"), (3, "2"), (31, "16"), (32, "32"), (64, ">=64"), (999, ">=64")];
        for (depth, name) in levels {
            assert_eq!(depth_level(depth, true)[name], 100.0, "{depth}");
        }
        assert_eq!(depth_level(8, false)["8"], 0.0);
    }
}
