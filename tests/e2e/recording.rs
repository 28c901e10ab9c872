//! Recordings: read by DuckDB, Polars and pandas, replayed decision for decision, whole after a kill.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use weir_tests::{Place, Ran, Server, eventually, peer, pypi, run, weir};

const CONFIG: &str = r#"
    [record]
    directory = "rec"
    file_time = "1s"
    size = "64M"
    [device.disk]
    path = "emulated:null,latency=200us,size=64M"
    [cgroup."/free"]
    [cgroup."/limited"]
    "io.max" = "disk riops=500"
    [export.free]
    device = "disk"
    cgroup = "/free"
    [export.limited]
    device = "disk"
    cgroup = "/limited"
"#;

/// IOPS and p99 of each tenant's completed reads, as JSON, while it was at work.
const DUCKDB: &str = "
import duckdb, json, sys
rows = duckdb.execute('''
  select cgroup, count(*), (epoch_ns(max(time)) - epoch_ns(min(time))) / 1e9, quantile_cont(latency_ns, 0.99)
  from read_parquet(?) where event = 'completed' and op = 'read' and length = 4096 group by cgroup''',
  [sys.argv[1] + '/*.parquet']).fetchall()
print(json.dumps({cgroup: {'iops': count / seconds, 'p99': p99} for cgroup, count, seconds, p99 in rows}))
";
const POLARS: &str = "
import json, polars, sys
frame = polars.read_parquet(sys.argv[1] + '/*.parquet').filter(
  (polars.col('event') == 'completed') & (polars.col('op') == 'read') & (polars.col('length') == 4096))
rows = frame.group_by('cgroup').agg(
  polars.len().alias('count'),
  (polars.col('time').max().dt.epoch('ns') - polars.col('time').min().dt.epoch('ns')).alias('ns'),
  polars.col('latency_ns').quantile(0.99).alias('p99'))
print(json.dumps({row['cgroup']: {'iops': row['count'] * 1e9 / row['ns'], 'p99': row['p99']}
                  for row in rows.iter_rows(named=True)}))
";

const PANDAS: &str = "
import glob, json, pandas, sys
frame = pandas.concat(pandas.read_parquet(name) for name in glob.glob(sys.argv[1] + '/*.parquet'))
frame = frame[(frame.event == 'completed') & (frame.op == 'read') & (frame.length == 4096)]
found = {}
for cgroup, rows in frame.groupby('cgroup'):
  seconds = (rows.time.max() - rows.time.min()).total_seconds()
  found[cgroup] = {'iops': len(rows) / seconds, 'p99': float(rows.latency_ns.quantile(0.99))}
print(json.dumps(found))
";

/// Reads of both tenants at once, for so many seconds; fio's JSON.
fn load(server: &Server, seconds: u32) -> Option<Value> {
    let fio = peer("fio")?;
    let mut arguments: Vec<String> = [
        "--output-format=json",
        "--ioengine=nbd",
        "--rw=randread",
        "--bs=4k",
        "--iodepth=4",
        "--size=32M",
        "--time_based",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--runtime={seconds}"));
    for (name, uri) in ["free", "limited"].into_iter().zip(server.uris()) {
        arguments.extend([format!("--name={name}"), format!("--uri={uri}")]);
    }
    let output = fio.run(&arguments);
    let json = &output[output.find('{').expect("fio prints JSON")..];
    Some(serde_json::from_str(json).expect("fio prints JSON"))
}

fn replay(directory: &Path) -> Ran {
    let mut command = Command::new(weir());
    run(command.args(["lab", "replay", "--as-recorded", "--format", "json"]).arg(directory))
}

fn closed_files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").path());
    files.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect()
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found}, and fio says {expected}");
}

#[test]
fn a_recording_has_what_fio_has_seen_and_is_replayed_decision_for_decision() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let Some(fio) = load(&server, 4) else { return };
    server.stop();
    let directory = place.file("rec");
    let ran = replay(&directory);
    assert!(ran.status.success(), "{ran:?}");
    let replayed: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(replayed["exact"], true, "{replayed}");
    let requests = replayed["requests"].as_u64().expect("a count");
    let jobs = fio["jobs"].as_array().expect("a list");
    let asked: u64 = jobs.iter().filter_map(|job| job["read"]["total_ios"].as_u64()).sum();
    assert!(requests >= asked, "{requests} requests, and fio has asked for {asked}");
    let bytes: u64 = closed_files(&directory)
        .iter()
        .map(|path| fs::metadata(path).expect("it is there").len())
        .sum();
    assert!(bytes <= 20 * requests + closed_files(&directory).len() as u64 * 16_384, "{bytes}");
    for (package, script) in
        [("duckdb==2.0.1", DUCKDB), ("polars==2.1.0", POLARS), ("pandas[parquet]==3.1.1", PANDAS)]
    {
        let Some(python) = pypi(package, "python") else { continue };
        let printed = python.run(&["-c", script, directory.to_str().expect("plain")]);
        let found: Value = serde_json::from_str(&printed).expect("it prints JSON");
        for job in jobs {
            let name = job["jobname"].as_str().expect("a name");
            let of = &found[format!("/{name}")];
            let number = |value: &Value| value.as_f64().expect("a number");
            near("IOPS", number(&of["iops"]), number(&job["read"]["iops"]), 0.05);
            // fio's time has the way there and back, too, and what else the machine does: some time beside the
            // milliseconds of a limit, and more than that of the disk.
            let p99 = number(&of["p99"]);
            let fio_p99 = number(&job["read"]["clat_ns"]["percentile"]["99.000000"]);
            assert!(p99 < 1.1 * fio_p99, "{name}: {p99}, fio {fio_p99}");
            if name == "limited" {
                near("p99", p99, fio_p99, 0.3);
            }
        }
    }
}

#[test]
fn a_kill_leaves_whole_files_that_are_replayed() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    if load(&server, 2).is_none() {
        return;
    }
    let directory = place.file("rec");
    eventually("two files are closed", || closed_files(&directory).len() >= 2);
    server.kill();
    let ran = replay(&directory);
    assert!(ran.status.success(), "{ran:?}");
    // The next server takes away what was not whole, and begins another recording.
    let before = closed_files(&directory).len();
    let server = Server::again(&place, 2);
    server.stop();
    let names = fs::read_dir(&directory).expect("it is there");
    let names = names.map(|entry| entry.expect("it is there").path());
    assert_eq!(
        names.filter(|path| path.extension().is_some_and(|end| end == "partial")).count(),
        0
    );
    assert!(closed_files(&directory).len() > before);
}

#[test]
fn a_recording_is_switched_while_the_server_runs() {
    let place = Place::new();
    let config = CONFIG.replace("size = \"64M\"", "start = false");
    let server = Server::config(&place, &config);
    let directory = place.file("rec");
    let said = |subcommand: &str| {
        let ran = server.ask("record", &[subcommand, "--format", "json"]);
        assert!(ran.status.success(), "{ran:?}");
        let reply: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
        reply["recording"].clone()
    };
    assert_eq!(said("status")["on"], false);
    assert_eq!(said("start")["on"], true);
    if load(&server, 1).is_none() {
        return;
    }
    assert_eq!(said("stop")["on"], false);
    eventually("the file is closed", || said("status")["files"].as_u64() > Some(0));
    let ran = replay(&directory);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stderr.contains("it began when the server was running"), "{ran:?}");
    server.stop();
}

#[test]
fn without_a_section_nothing_is_recorded() {
    let place = Place::new();
    let config = CONFIG.split_once("[device").expect("it has one").1;
    let server = Server::config(&place, &format!("[device{config}"));
    let ran = server.ask("record", &["start"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stderr.contains("the configuration has no [record]"), "{ran:?}");
    server.stop();
}
