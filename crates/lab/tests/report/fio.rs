//! The report in fio's layout, held to what fio 3.33 itself wrote.

use serde_json::Value;
use weir_lab::report::fio_json;

use crate::sample::{many, nothing, one_request, tenants};

/// `fio --output-format=json` of two jobs on a scratch file: reads, writes, syncs, and directions that are not used.
const RECORDED: &str = include_str!("fio-3.33.json");

/// What it adds to a job with `ss=iops:10% ss_dur=3`.
const RECORDED_STEADY: &str = r#"{
    "ss": "iops:10.000000%", "duration": 3, "attained": 1, "criterion": "0.066622%", "max_deviation": 0.666667, "slope": 0.000000,
    "data": {"bw_mean": 4098887, "iops_mean": 1000, "iops": [1001, 1001, 1000], "bw": [4100566, 4100096, 4096000]}
}"#;

/// Every key of `ours` and of `theirs` is in both, with the same type. Options are the job's own words; percentiles are
/// there where there were requests.
fn same_shape(ours: &Value, theirs: &Value, at: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            if at.ends_with("options") {
                return;
            }
            for (key, value) in theirs {
                let Some(own) = ours.get(key) else {
                    assert_eq!(key, "percentile", "{at}: {key} is missing");
                    assert_eq!(ours["N"], 0, "{at}");
                    continue;
                };
                same_shape(own, value, &format!("{at}.{key}"));
            }
            for key in ours.keys().filter(|key| *key != "percentile") {
                assert!(theirs.contains_key(key), "{at}: fio has no {key}");
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for one in ours {
                same_shape(one, &theirs[0], at);
            }
        }
        (Value::Number(one), Value::Number(other)) => {
            assert_eq!(one.is_f64(), other.is_f64(), "{at}: {one} and fio's {other}");
        }
        (one, other) => {
            assert_eq!(one.is_string(), other.is_string(), "{at}: {one} and fio's {other}");
        }
    }
}

#[test]
fn keys_and_types_are_the_same_as_in_fio() {
    let theirs: Value = serde_json::from_str(RECORDED).unwrap();
    let theirs_steady: Value = serde_json::from_str(RECORDED_STEADY).unwrap();
    for results in [tenants(1, 1), nothing(), one_request(), many()] {
        let mut ours = fio_json(&results);
        let jobs = ours["jobs"].as_array_mut().unwrap();
        assert_eq!(jobs.len(), results.rows.len());
        for (job, row) in jobs.iter_mut().zip(&results.rows) {
            let steady = job.as_object_mut().unwrap().remove("steadystate");
            assert_eq!(steady.is_some(), row.steady.is_some());
            if let Some(steady) = steady {
                same_shape(&steady, &theirs_steady, "steadystate");
            }
        }
        same_shape(&ours, &theirs, "");
    }
}

#[test]
fn percentiles_have_fios_names() {
    let theirs: Value = serde_json::from_str(RECORDED).unwrap();
    let names = |document: &Value| -> Vec<String> {
        let percentiles = &document["jobs"][0]["read"]["clat_ns"]["percentile"];
        percentiles.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&fio_json(&tenants(1, 1))), names(&theirs));
}

#[test]
fn figures_are_in_fios_units() {
    let document = fio_json(&tenants(1, 1));
    let db = &document["jobs"][0];
    // 1,500 reads of 4 KiB in 10 s.
    assert_eq!(db["read"]["bw_bytes"], 614_400);
    assert_eq!(db["read"]["bw"], 600);
    assert_eq!(db["read"]["iops"], 150.0);
    assert_eq!(db["read"]["runtime"], 10_000);
    assert_eq!(db["sync"]["total_ios"], 12);
    assert_eq!(db["job options"]["rw"], "randrw");
    assert_eq!(document["jobs"][2]["error"], 5);
    assert_eq!(document["disk_util"][0]["name"], "hdd7200");
    assert_eq!(document["disk_util"][0]["util"], 94.0);
}

#[test]
fn a_job_that_did_one_thing() {
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&fio_json(&one_request())["jobs"][0]).unwrap()
    );
}
