//! A run in the layout of fio's own JSON, for tools that read it; `docs/lab-json.md` maps the keys.

use serde_json::{Map, Value, json};
use weir_fio::LatencyTarget;

use super::figures::{percent, quotient};
use super::fio_latency::{classes, depth_level, float, one_at_a_time, summary, with_percentiles};
use crate::results::{Latency, Results, Row, Steadiness, Transfers};

/// The version whose layout it is. Tools read the number; the rest says that fio did not run.
const VERSION: &str = concat!("fio-3.33-weir-", env!("CARGO_PKG_VERSION"));

/// Errno of a job that ended before its time: EIO.
const FAILED: u32 = 5;

/// The run as `fio --output-format=json` prints it: the same keys with the same types, one of `jobs` for each row.
///
/// The clock is virtual: `timestamp` and `time` are the epoch, and the figures of processors and memory are 0. Times
/// between submission and issue (`slat_ns`) are 0; a request's waits are in its `clat_ns`. Source: the output of fio
/// 3.33.
pub fn fio_json(results: &Results) -> Value {
    json!({
        "fio version": VERSION,
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "Thu Jan  1 00:00:00 1970",
        "global options": {},
        "jobs": results.rows.iter().map(|row| job(row, results.elapsed_ns)).collect::<Vec<_>>(),
        "disk_util": [disk(results)],
    })
}

fn job(row: &Row, elapsed_ns: u64) -> Value {
    let mut all = Latency::default();
    for (_, moved) in row.directions() {
        all.absorb(&moved.latency);
    }
    let is_used = all.count() > 0;
    let target = row.latency_target.map_or(LatencyTarget::NONE, |found| found.target);
    let mut value = json!({
        "jobname": row.name,
        "groupid": row.group,
        "error": if row.error.is_some() { FAILED } else { 0 },
        "eta": 0,
        "elapsed": elapsed_ns.div_ceil(1_000_000_000),
        "job options": options(row),
        "sync": { "total_ios": row.sync.count(), "lat_ns": with_percentiles(&row.sync) },
        "job_runtime": millis(row.processes_ns),
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_level(mean_depth(row, &all), is_used),
        "iodepth_submit": one_at_a_time(is_used),
        "iodepth_complete": one_at_a_time(is_used),
        "latency_depth": row.latency_target.map_or(row.depth, |found| found.depth),
        "latency_target": target.time.as_nanos() as u64,
        "latency_percentile": target.percentile,
        "latency_window": target.window.as_micros() as u64,
    });
    for (name, moved) in row.moved() {
        value[name] = direction(moved).into();
    }
    if let Some(steady) = &row.steady {
        value["steadystate"] = steadystate(steady);
    }
    for (name, class) in classes(&all) {
        value[name] = class;
    }
    value
}

/// The options of the section, and those that plotting tools group by.
fn options(row: &Row) -> Value {
    let mut options = Map::new();
    options.insert("name".into(), row.name.clone().into());
    options.insert("iodepth".into(), row.depth.to_string().into());
    options.insert("numjobs".into(), row.processes.to_string().into());
    for (key, value) in &row.options {
        options.insert(key.clone(), value.clone().into());
    }
    options.into()
}

/// Of jobs with `steadystate`. As in fio the criterion is a text, and an unknown figure is 0.
fn steadystate(steady: &Steadiness) -> Value {
    let percent = if steady.rule.in_percent { "%" } else { "" };
    let rates = |of: usize| steady.rates.iter().map(|rates| rates[of]).collect::<Vec<u64>>();
    let mean = |rates: &[u64]| {
        let sum: u128 = rates.iter().copied().map(u128::from).sum();
        (sum / rates.len().max(1) as u128) as u64
    };
    let (iops, bw) = (rates(0), rates(1));
    json!({
        "ss": steady.rule.to_string(),
        "duration": steady.seconds,
        "attained": u32::from(steady.attained_ns.is_some()),
        "criterion": format!("{:.6}{percent}", steady.criterion.unwrap_or_default()),
        "max_deviation": float(steady.deviation.unwrap_or_default()),
        "slope": float(steady.slope.unwrap_or_default()),
        "data": { "bw_mean": mean(&bw), "iops_mean": mean(&iops), "iops": iops, "bw": bw },
    })
}

fn direction(moved: &Transfers) -> Map<String, Value> {
    let is_used = moved.ios > 0;
    let kib = moved.bytes_per_sec() / 1024.0;
    let (iops, samples) = (moved.iops(), u32::from(is_used));
    let nothing = Latency::default();
    // fio samples rates every half second; here the whole runtime is the only sample.
    let value = json!({
        "io_bytes": moved.bytes,
        "io_kbytes": moved.bytes / 1024,
        "bw_bytes": moved.bytes_per_sec() as u64,
        "bw": kib as u64,
        "iops": float(iops),
        "runtime": millis(moved.runtime_ns),
        "total_ios": moved.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": summary(&nothing),
        "clat_ns": with_percentiles(&moved.latency),
        "lat_ns": summary(&moved.latency),
        "bw_min": kib as u64,
        "bw_max": kib as u64,
        "bw_agg": if is_used { 100.0 } else { 0.0 },
        "bw_mean": float(kib),
        "bw_dev": 0.0,
        "bw_samples": samples,
        "iops_min": iops as u64,
        "iops_max": iops as u64,
        "iops_mean": float(iops),
        "iops_stddev": 0.0,
        "iops_samples": samples,
    });
    match value {
        Value::Object(object) => object,
        _ => unreachable!("it is written as an object above"),
    }
}

/// Mean requests in flight of a process, by Little's law: the sum of request times over that of processes.
fn mean_depth(row: &Row, all: &Latency) -> u64 {
    let time = u128::from(row.processes_ns.max(1));
    let mean = (all.sum_ns() + time / 2) / time;
    u64::try_from(mean).unwrap_or(u64::MAX).clamp(1, u64::from(row.depth.max(1)))
}

/// The disk, as the kernel would count it. Its busy time is divided among reads and writes by their number.
fn disk(results: &Results) -> Value {
    let device = &results.device;
    let name = results.disk.split([',', ':', ' ']).next().unwrap_or_default();
    let root = results.cgroups.first().map(|root| &root.counters);
    let (reads, writes) = root.map_or((0, 0), |root| (root.read.ios, root.write.ios));
    let ticks = u64::try_from(device.latency.sum_ns()).unwrap_or(u64::MAX);
    let of = |ios: u64| millis((ticks as f64 * quotient(ios, reads.saturating_add(writes))) as u64);
    json!({
        "name": name,
        "read_ios": reads,
        "write_ios": writes,
        "read_merges": 0,
        "write_merges": 0,
        "read_ticks": of(reads),
        "write_ticks": of(writes),
        "in_queue": millis(ticks),
        "util": percent(device.busy_ns, results.elapsed_ns),
    })
}

fn millis(ns: u64) -> u64 {
    ns / 1_000_000
}
