//! The same input and seed give the same output, on every machine.

use super::support::*;

/// A bit of everything: seeks, chance, limits, the page cache, delays, weights.
const JOBS: &str = "[global]\nsize=256m\nruntime=3\ntime_based\n\
[db]\ncgroup=a/db\nrw=randrw\nbs=8k\ndirect=1\nioengine=libaio\niodepth=8\nrandom_distribution=zipf:1.2\n\
[log]\ncgroup=a/log\nrw=write\nbs=4k\nfdatasync=4\nthinktime=1ms\n\
[scan]\ncgroup=b\nrw=read\nbs=128k\nstartdelay=500ms-1s\n\
[web]\ncgroup=b\nrw=randread\nbssplit=4k/60:16k/40\ndirect=1\nioengine=libaio\niodepth=32\nrate_iops=120\nrate_process=poisson\nnumjobs=2\n";
const SETTINGS: Settings = &[
    ("max", "/a riops=90 wbps=2M"),
    ("max", "/b rbps=8M"),
    ("weight", "/a 300"),
    ("memory", "64M"),
    ("hiccup", "1ms"),
    ("pause-late", "80us"),
];

fn report(seed: &str) -> String {
    let settings = [SETTINGS, &[("seed", seed)]].concat();
    serde_json::to_string(&weir_lab::report::json(&run("hdd7200", &settings, JOBS))).unwrap()
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[test]
fn results_depend_only_on_scenario_and_seed() {
    let jobs = "[a]\nrw=randread\ndirect=1\nsize=64m\nnumber_ios=2000\n[b]\nrw=randwrite\ndirect=1\nsize=64m\nnumber_ios=500\n";
    assert_eq!(run("hdd7200", &[], jobs), run("hdd7200", &[], jobs));
    assert_ne!(run("hdd7200", &[], jobs), run("hdd7200", &[("seed", "2")], jobs));
    let first = report("1");
    assert_eq!(first, report("1"));
    assert_ne!(first, report("2"));
}

/// The report of one run, to the last byte. A change of the simulator's behaviour changes this number, and says so. A
/// change without one has found a machine on which results differ.
#[test]
fn a_report_is_what_it_was() {
    let report = report("1");
    assert_eq!(hash(&report), 17_437_141_108_072_402_301, "{report}");
}
