//! `weir config check`.

use crate::support::Place;
use serde_json::{Value, json};

const GOOD: &str = r#"
[server]
listen = "127.0.0.1:10809"

[device.disk0]
path = "memory:1G"
depth = 8

[cgroup."/vm1"]
"io.max" = "disk0 rbps=4M riops=100"
"io.limiter" = "slice:6.12"

[export.vm1]
device = "disk0"
cgroup = "/vm1"
read_only = true
"#;

#[test]
fn a_valid_configuration_is_summed_up() {
    let place = Place::new("good");
    let file = place.file("weir.toml", GOOD);
    let (status, out, err) = place.run(&["config", "check", &file]);
    assert_eq!((status, err.as_str()), (0, ""));
    let expected = format!(
        "{file} is valid

DEVICE  PATH          DEPTH
disk0   memory:1 GiB  8

CGROUP  WEIGHT  LIMITER                       LIMITS
/vm1    100     slice:K612,hz=250,slice=100ms  disk0 rbps=4194304 wbps=max riops=100 wiops=max

EXPORT  DEVICE  CGROUP
\"vm1\"   disk0   /vm1    read-only

listens on 127.0.0.1:10809
"
    );
    assert_eq!(out.replace("  ", " "), expected.replace("  ", " "));
}

#[test]
fn a_valid_configuration_is_summed_up_as_json() {
    let place = Place::new("good-json");
    let file = place.file("weir.toml", GOOD);
    let (status, out, _) = place.run(&["config", "check", "--format", "json", &file]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["valid"], &found["errors"]), (0, &json!(true), &json!([])));
    let cgroup = json!({
        "cgroup": "/vm1",
        "io_weight": 100,
        "io_weight_by_device": {},
        "limiter": "slice:K612,hz=250,slice=100ms",
        "limits": [{
            "device": "disk0",
            "io_max": "rbps=4194304 wbps=max riops=100 wiops=max",
            "io_burst": null,
            "io_peak": null,
        }],
    });
    assert_eq!(found["config"]["cgroups"][0], cgroup);
    assert_eq!(found["config"]["devices"][0]["depth"], 8);
    assert_eq!(found["config"]["exports"][0]["read_only"], true);
}

#[test]
fn all_mistakes_of_a_configuration_are_reported() {
    let place = Place::new("bad");
    let bad = GOOD.replace("riops=100", "riops=0").replace("depth", "dept");
    let file = place.file("weir.toml", &bad);
    let (status, out, err) = place.run(&["config", "check", &file]);
    assert_eq!((status, out.as_str()), (2, ""));
    for words in ["weir.toml:7:1", "did you mean `depth`?", "weir.toml:10:", "riops = 0"] {
        assert!(err.contains(words), "{words}: {err}");
    }

    let (status, out, err) = place.run(&["config", "check", "--format", "json", &file]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, err.as_str(), &found["valid"]), (2, "", &json!(false)));
    let lines: Vec<_> =
        found["errors"].as_array().unwrap().iter().map(|error| &error["line"]).collect();
    assert_eq!(lines, [7, 10]);
    assert!(found["errors"][0]["hint"].is_string() && found["errors"][1]["key"].is_string());
}
