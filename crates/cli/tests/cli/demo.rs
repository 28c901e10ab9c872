//! `weir demo`, shortened.

use crate::support::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_demo_ends_by_itself_and_leaves_no_file() {
    let place = Place::new("demo");
    let (status, out, err) = place.run(&["demo", "--seconds", "1", "--format", "json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let outcome: Value = serde_json::from_str(&out).unwrap();
    let cgroups = |part: &str| -> Vec<String> {
        let part = outcome[part].as_array().unwrap();
        part.iter().map(|one| one["cgroup"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(cgroups("tenants"), ["/before", "/after", "/today", "/weir"]);
    assert_eq!(cgroups("shared"), ["/weir/web", "/weir/backup", "/weir/web", "/weir/backup"]);
    for tenant in outcome["tenants"].as_array().unwrap() {
        assert!(tenant["ios_per_sec"].as_f64().unwrap() > 0.0, "{tenant}");
        assert!(tenant["latency_us_p99"].is_number(), "{tenant}");
    }
    assert_eq!(outcome["shared"][3]["io_weight"], 100);
    assert!(outcome["shared"][1]["waited_for"][0]["cause"].is_string(), "{outcome}");
    let left: Vec<_> = place.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_interrupted_demo_leaves_no_file() {
    let place = Place::new("interrupted");
    let mut command = place.weir(&["demo", "--seconds", "3600"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It speaks when its server runs.
    assert!(lines.next().unwrap().unwrap().starts_with("Four tenants"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left: Vec<_> = place.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_watermark_is_shown_in_three_parts() {
    let place = Place::new("demo-watermark");
    let arguments = ["demo", "watermark", "--seconds", "3", "--format", "json"];
    let (status, out, err) = place.run(&arguments);
    assert_eq!((status, err.as_str()), (0, ""));
    let parts: Value = serde_json::from_str(&out).unwrap();
    let parts = parts.as_array().unwrap();
    // Two tenants, the third with them, and the two again: each gets something.
    let moving = |part: &Value| -> usize {
        let tenants = part["tenants"].as_array().unwrap().iter();
        tenants.filter(|of| of["read_bytes_per_sec"].as_f64().unwrap() > 0.0).count()
    };
    assert_eq!(parts.len(), 3, "{out}");
    assert_eq!((moving(&parts[0]), moving(&parts[1])), (2, 3), "{out}");
    let left: Vec<_> = place.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
