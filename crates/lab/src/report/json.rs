//! A run as JSON; `docs/lab-json.md` explains the names.

use serde_json::{Map, Value, json};
use weir_engine::stats::Moved;
use weir_engine::{Dimension, PerDimension};

use super::bfq;
use super::figures::{
    Cause, device_ns, inside_ns, limiter, per_sec, percent, quantiles_ns, quotient, round, waits,
};
use super::governor;
use crate::results::{
    CgroupResults, Changed, DeviceResults, Latency, Results, Row, Series, Steadiness,
};

/// The run as JSON: everything that the other reports show, under stable names that carry their units.
///
/// Rates are rounded to whole bytes or thousandths of a request, times in microseconds to nanoseconds, percents to
/// thousandths. A figure without requests is `null`. O(rows + cgroups).
pub fn json(results: &Results) -> Value {
    let whole_ns = device_ns(results);
    let cgroups = results.cgroups.iter().map(|one| {
        let mut value = cgroup(one, results.elapsed_ns, whole_ns);
        value["bfq"] = results.bfq.map(|_| bfq::of_cgroup(&one.bfq)).into();
        value
    });
    json!({
        "title": results.title,
        "disk": results.disk,
        "scheduler": results.scheduler,
        "depth": results.depth,
        "seed": results.seed,
        "way_ns": results.way_ns,
        "way_each_ns": results.way_each_ns,
        "elapsed_ns": results.elapsed_ns,
        "requests": results.requests,
        "jobs": results.rows.iter().map(job).collect::<Vec<_>>(),
        "cgroups": cgroups.collect::<Vec<_>>(),
        "device": device(&results.device, results.elapsed_ns),
        "bfq": results.bfq.as_ref().map(bfq::of_run),
        "governor": results.governed.as_ref().map(governor::json),
        "changes": results.changes.iter().map(change).collect::<Vec<_>>(),
        "notes": results.notes,
    })
}

fn change(change: &Changed) -> Value {
    json!({ "at_ns": change.at_ns, "setting": change.setting })
}

fn job(row: &Row) -> Value {
    let mut value = json!({
        "job": row.name,
        "group": row.group,
        "clone": row.clone,
        "cgroup": row.cgroup,
        "processes": row.processes,
        "depth": row.depth,
        "error": row.error,
        "runtime_ns": row.runtime_ns,
        "processes_ns": row.processes_ns,
        "options": row.options.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    });
    // All three, whatever the job's options: programs rely on keys.
    let mixed = row.mixed.as_ref().map(|mixed| ("mixed", mixed));
    for (name, moved) in row.directions().into_iter().chain(mixed) {
        let mut direction = rates(moved.bytes, moved.ios, moved.runtime_ns);
        direction.insert("runtime_ns".into(), moved.runtime_ns.into());
        direction.append(&mut latency(&moved.latency));
        value[name] = direction.into();
    }
    if let Some(of_row) = &row.steady {
        value["steady"] = steady(of_row);
    }
    if let Some(found) = &row.latency_target {
        value["found"] = json!({
            "depth": found.depth,
            "is_sure": found.is_sure,
            "latency_target_ns": found.target.time.as_nanos() as u64,
            "latency_window_ns": found.target.window.as_nanos() as u64,
            "latency_percentile": found.target.percentile,
        });
    }
    let mut sync = Map::new();
    sync.insert("ios".into(), row.sync.count().into());
    sync.append(&mut latency(&row.sync));
    value["sync"] = sync.into();
    value
}

fn steady(steady: &Steadiness) -> Value {
    json!({
        "rule": steady.rule.to_string(),
        "seconds": steady.seconds,
        "attained_ns": steady.attained_ns,
        "criterion": steady.criterion,
        "slope": steady.slope,
        "max_deviation": steady.deviation,
        "ios": steady.rates.iter().map(|[ios, _]| ios).collect::<Vec<_>>(),
        "bytes": steady.rates.iter().map(|[_, bytes]| bytes).collect::<Vec<_>>(),
    })
}

fn cgroup(cgroup: &CgroupResults, elapsed_ns: u64, whole_ns: u64) -> Value {
    let counters = &cgroup.counters;
    let moved = |moved: Moved| rates(moved.bytes, moved.ios, elapsed_ns);
    let text = |values: &PerDimension| (!values.is_none()).then(|| values.to_string());
    let mut value = json!({
        "cgroup": cgroup.path,
        "io_max": text(&cgroup.limits.max),
        "io_burst": text(&cgroup.limits.burst),
        "io_peak": text(&cgroup.limits.peak),
        "io_weight": cgroup.weight,
        "limiter": limiter(cgroup.limits.limiter),
        "read": moved(counters.read),
        "write": moved(counters.write),
        "discard": moved(counters.discard),
        "other_ios": counters.other_ios,
        "failed_ios": counters.failed,
        "completed_ios": counters.completed,
        "throttled_ios": by_dimension(counters.throttled),
        "device_share_percent": percent(counters.blame.device_ns, whole_ns),
        "wait": wait(cgroup),
        "waited_for": waited_for(cgroup),
        "latency_by_cause": super::waits::json(cgroup),
        "read_series": series(&cgroup.read_series, "bytes"),
        "write_series": series(&cgroup.write_series, "bytes"),
        "read_ios_series": series(&cgroup.read_ios_series, "ios"),
        "write_ios_series": series(&cgroup.write_ios_series, "ios"),
    });
    if let Value::Object(object) = &mut value {
        object.append(&mut latency(&cgroup.latency));
    }
    value
}

fn rates(bytes: u64, ios: u64, time_ns: u64) -> Map<String, Value> {
    let mut rates = Map::new();
    rates.insert("bytes".into(), bytes.into());
    rates.insert("ios".into(), ios.into());
    rates.insert("bandwidth_bytes_per_sec".into(), per_sec(bytes, time_ns).into());
    rates.insert("ios_per_sec".into(), round(quotient(ios, time_ns) * 1e9, 3).into());
    rates
}

/// Waits under the names of `weir status`.
fn wait(cgroup: &CgroupResults) -> Value {
    let blame = cgroup.blame();
    let limits = cgroup.limit_waits.iter();
    let limits =
        limits.map(|limit| json!({ "cgroup": limit.path, "wait_ns": by_dimension(limit.wait_ns) }));
    json!({
        "limits": limits.collect::<Vec<_>>(),
        "other_clients_ns": blame.others_ns,
        "lifted_ns": blame.lifted_ns,
        "window_ns": blame.window_ns,
        "device_ns": blame.device_ns,
    })
}

/// Waits, the longest first, as parts of the time in the engine.
fn waited_for(cgroup: &CgroupResults) -> Vec<Value> {
    let waits = waits(cgroup);
    let whole = inside_ns(&waits);
    let told = waits.iter().map(|wait| {
        let (cause, path, dimension) = match wait.cause {
            Cause::Limit { path, dimension } => ("limit", Some(path), Some(dimension.key())),
            Cause::Others => ("other_clients", None, None),
            Cause::Lifted => ("lifted_limit", None, None),
            Cause::Window => ("window", None, None),
            Cause::Device => ("device", None, None),
        };
        json!({
            "cause": cause,
            "cgroup": path,
            "dimension": dimension,
            "wait_ns": wait.wait_ns,
            "percent": percent(wait.wait_ns, whole),
        })
    });
    told.collect()
}

fn device(device: &DeviceResults, elapsed_ns: u64) -> Value {
    let mut value = rates(device.bytes, device.ios, elapsed_ns);
    value.insert("busy_ns".into(), device.busy_ns.into());
    value.insert("utilisation_percent".into(), percent(device.busy_ns, elapsed_ns).into());
    value.insert("watermark_percent".into(), device.watermark_percent.into());
    value.insert("in_flight_max".into(), device.in_flight_max.into());
    value.insert("busy_series".into(), series(&device.busy_series, "busy_ns"));
    value.append(&mut latency(&device.latency));
    value.into()
}

/// `latency_us_*`; all `null` if there was no request.
pub(super) fn latency(times: &Latency) -> Map<String, Value> {
    let exact = |ns: u64| ns as f64 / 1000.0;
    let [p50, p90, p99, p99_9, p99_99] =
        quantiles_ns(times, [50_000, 90_000, 99_000, 99_900, 99_990]).map(exact);
    let figures = [
        ("latency_us_min", exact(times.min_ns())),
        ("latency_us_mean", times.mean_ns() / 1000.0),
        ("latency_us_stddev", times.deviation_ns() / 1000.0),
        ("latency_us_p50", p50),
        ("latency_us_p90", p90),
        ("latency_us_p99", p99),
        ("latency_us_p99_9", p99_9),
        ("latency_us_p99_99", p99_99),
        ("latency_us_max", exact(times.max_ns())),
    ];
    let known = |us: f64| if times.count() == 0 { Value::Null } else { round(us, 3).into() };
    figures.into_iter().map(|(name, us)| (name.to_owned(), known(us))).collect()
}

pub(super) fn series(series: &Series, amount: &str) -> Value {
    json!({ "interval_ns": series.interval_ns(), amount: series.points() })
}

fn by_dimension(values: [u64; Dimension::COUNT]) -> Value {
    let pairs = Dimension::ALL.into_iter().zip(values);
    Value::Object(pairs.map(|(dimension, value)| (dimension.key().into(), value.into())).collect())
}
