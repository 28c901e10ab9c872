//! The reports for programs.

use serde_json::{Value, json};
use weir_lab::report::{compare, json as report};

use crate::sample::{many, nothing, one_request, tenants};

/// The document without its series, whose thousands of points would bury what matters.
fn without_points(mut document: Value) -> String {
    let shorten = |series: &mut Value| {
        for amount in ["bytes", "ios", "busy_ns"] {
            if let Some(points) = series.get_mut(amount) {
                let list = points.as_array().unwrap();
                let sum: u64 = list.iter().map(|point| point.as_u64().unwrap()).sum();
                *points = json!(format!("{} points, sum {sum}", list.len()));
            }
        }
    };
    for cgroup in document["cgroups"].as_array_mut().unwrap() {
        for name in ["read_series", "write_series", "read_ios_series", "write_ios_series"] {
            shorten(&mut cgroup[name]);
        }
    }
    shorten(&mut document["device"]["busy_series"]);
    serde_json::to_string_pretty(&document).unwrap()
}

#[test]
fn a_run() {
    insta::assert_snapshot!(without_points(report(&tenants(1, 1))));
}

#[test]
fn nothing_has_nulls_and_the_same_names() {
    let (empty, full) = (report(&nothing()), report(&one_request()));
    assert_eq!(empty["cgroups"][0]["latency_us_p99"], Value::Null);
    assert_eq!(full["cgroups"][0]["latency_us_p99"], 6000.0);
    assert_eq!(full["jobs"][0]["read"]["latency_us_max"], 6000.0);
    assert_eq!(full["jobs"][0]["write"]["latency_us_max"], Value::Null);
    assert_eq!(full["jobs"][0]["read"]["ios_per_sec"], 166.667);
    assert_eq!(full["device"]["utilisation_percent"], 100.0);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&empty["cgroups"][0]), names(&full["cgroups"][0]));
    assert_eq!(names(&empty["device"]), names(&full["device"]));
}

#[test]
fn the_waits_of_a_cgroup_are_parts_of_a_whole() {
    for cgroup in report(&tenants(1, 1))["cgroups"].as_array().unwrap() {
        let causes = cgroup["waited_for"].as_array().unwrap();
        let percent: f64 = causes.iter().map(|cause| cause["percent"].as_f64().unwrap()).sum();
        assert!((percent - 100.0).abs() < 0.01, "{cgroup}");
    }
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let text = |results| serde_json::to_string(&report(&results)).unwrap();
    assert_eq!(text(many()), text(many()));
    assert_ne!(text(tenants(1, 1)), text(tenants(2, 1)));
}

#[test]
fn two_runs() {
    let (a, mut b) = (tenants(1, 1), tenants(1, 1));
    b.rows.remove(1);
    b.cgroups[4].path = "/elsewhere".into();
    let document = compare(("a", &a), ("b", &b)).json();
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn ratios_of_a_run_of_twice_the_speed_are_2_and_one_half() {
    let (a, mut b) = (one_request(), one_request());
    b.rows[0].read.runtime_ns /= 2;
    b.rows[0].read.latency = crate::sample::latency(0, 0, 1);
    b.rows[0].read.latency.record(3_000_000);
    let ratio = &compare(("a", &a), ("b", &b)).json()["jobs"][0]["ratio"];
    assert_eq!((&ratio["ios"], &ratio["latency_p99"]), (&json!(2.0), &json!(0.5)));
}
