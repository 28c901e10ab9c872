//! `weir config check`, `diff`, `import` and `show`.

use crate::docs::examples::certify;
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
fn what_is_served_over_tls_is_summed_up() {
    let place = Place::new("good-tls");
    certify(&place);
    let tls = "[server]\nlisten = \"127.0.0.1:10809\"\ntls = \"required\"\ncontrol_listen = \"127.0.0.1:10810\"\n\
               metrics = \"/run/weir/m.sock\"\nmetrics_listen = \"127.0.0.1:9810\"\n\
               [tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n\
               [device.disk0]\npath = \"memory:1M\"\n[export.\"\"]\ndevice = \"disk0\"\ncgroup = \"/\"\n";
    let token = format!("[token.panel]\nsha256 = {:?}\naccess = \"read\"\n", "0a".repeat(32));
    let file = place.file("weir.toml", &format!("{tls}{token}"));
    let (status, out, err) = place.run(&["config", "check", &file]);
    assert_eq!((status, err.as_str()), (0, ""));
    let expected = "\nlistens on 127.0.0.1:10809; TLS required on TCP\n\
                    control API over TLS on 127.0.0.1:10810, for 1 token\n\
                    metrics on /run/weir/m.sock, 127.0.0.1:9810\n";
    assert!(out.ends_with(expected), "{out}");
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

/// A configuration with two files beside it: `20.toml` has `over`.
fn with_directory(place: &Place, over: &str) -> String {
    std::fs::create_dir_all(place.path().join("weir.d")).unwrap();
    place.file("weir.d/10.toml", "[device.disk0]\ndepth = 9\n");
    place.file("weir.d/20.toml", over);
    place.file("weir.d/20.toml~", "what an editor leaves");
    place.file("weir.toml", GOOD)
}

#[test]
fn files_beside_a_configuration_are_part_of_it() {
    let place = Place::new("beside");
    let file = with_directory(&place, "[export.vm2]\ndevice = \"disk0\"\ncgroup = \"/\"\n");
    let (status, out, err) = place.run(&["config", "check", &file]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("memory:1 GiB  9") && out.contains("\"vm2\""), "{out}");

    let file = with_directory(&place, "[export.vm2]\n\ndevice = \"disk7\"\n");
    let (status, out, err) = place.run(&["config", "check", &file]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("weir.d/20.toml:3:11") && err.contains("weir.d/20.toml:1:9"), "{err}");
}

#[test]
fn a_configuration_is_shown_as_one_file_that_says_the_same() {
    let place = Place::new("show");
    let file = with_directory(
        &place,
        "[cgroup.\"/vm1\"]\n\"io.weight\" = 7\n[export.vm1]\nremoved = true\n[export.x]\ndevice = \"disk0\"\ncgroup = \"/vm1\"\n",
    );
    let (status, out, err) = place.run_inside(&["config", "show", "weir.toml"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "# weir.toml\n[server]\nlisten = \"127.0.0.1:10809\"\n\n# weir.toml, weir.d/10.toml\n[device.disk0]\n\
         path = \"memory:1073741824\"\ndepth = 9\n\n# weir.toml, weir.d/20.toml\n[cgroup.\"/vm1\"]\n\
         \"io.max\" = \"disk0 rbps=4194304 riops=100\"\n\"io.weight\" = 7\n\
         \"io.limiter\" = \"slice:K612,hz=250,slice=100ms\"\n\n# weir.d/20.toml\n[export.x]\ndevice = \"disk0\"\n\
         cgroup = \"/vm1\"\n"
    );
    let one = place.file("one.toml", &out);
    let (status, out, err) = place.run(&["config", "diff", "--exit-code", &file, &one]);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
}

#[test]
fn differences_are_told_by_section_and_key() {
    let place = Place::new("diff");
    let old = place.file("old.toml", GOOD);
    let new = GOOD.replace("depth = 8", "depth = 32").replace("riops=100", "riops=200");
    let new = new + "[export.vm9]\ndevice = \"disk0\"\ncgroup = \"/\"\n";
    let new = place.file("new.toml", &new);
    let (status, out, err) = place.run(&["config", "diff", &old, &new]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "~ device disk0 depth: 8 -> 32\n\
         ~ cgroup /vm1 io.max: disk0 rbps=4194304 riops=100 -> rbps=4194304 riops=200\n\
         + export vm9: device = disk0, cgroup = /\n"
    );
    let (status, out, _) =
        place.run(&["config", "diff", "--exit-code", "--format", "json", &new, &old]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, found["differences"].as_array().unwrap().len()), (1, 3));
    let depth = json!({
        "section": "device", "name": "disk0", "change": "changed", "key": "depth", "device": null, "old": "32", "new": "8"
    });
    assert_eq!(found["differences"][0], depth);
    assert_eq!(found["differences"][2]["change"], "removed");

    let bad = place.file("bad.toml", "[device.x]\n");
    let (status, out, err) = place.run(&["config", "diff", &old, &bad]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("the key `path` is missing"), "{err}");
}

/// A unit of systemd, a flag that names what the text does not, and what is refused.
#[test]
fn limits_of_others_are_printed_as_a_configuration() {
    let place = Place::new("import");
    let unit = "[Service]\nIOReadBandwidthMax=/dev/sdb 20M\nIOWeight=50\nIODeviceLatencyTargetSec=/dev/sdb 25ms\n";
    let file = place.file("backup.service", unit);
    let (status, out, err) = place.run(&["config", "import", &file]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(
        out.contains("[cgroup.\"/backup.service\"]\n\"io.max\" = \"sdb rbps=20000000\"\n"),
        "{out}"
    );
    assert!(out.contains("# line 4: IODeviceLatencyTargetSec=/dev/sdb 25ms is left out"), "{out}");
    // Whether the device is there is another question.
    let printed = place.file("unit.toml", &out);
    let (status, _, err) = place.run(&["config", "show", &printed]);
    assert_eq!((status, err.as_str()), (0, ""));

    let image = place.file("disk.img", &"x".repeat(4096));
    let command = place.file("run.sh", &format!("docker run --device-read-bps {image}:1mb x\n"));
    let (_, out, _) = place.run(&["config", "import", &command]);
    let printed = place.file("docker.toml", &out);
    let (status, out, err) = place.run(&["config", "check", &printed]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("rbps=1048576"), "{out}");

    let line = place.file("line", "8:16 rbps=4096\n");
    let import = ["config", "import", "--from", "cgroup", "--cgroup", "/vms/db", &line];
    let (status, out, _) = place.run(&import);
    assert_eq!(status, 0);
    assert!(out.contains("[cgroup.\"/vms/db\"]\n\"io.max\" = \"disk-8-16 rbps=4096\"\n"), "{out}");

    let wrong = place.file("wrong.service", "[Service]\nIOReadBandwidthMax=/dev/sdb 20m\n");
    let (status, out, err) = place.run(&["config", "import", &wrong]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains(&format!("{wrong}:2:1: IOReadBandwidthMax: \"20m\" is not")), "{err}");
    let (status, _, err) = place.run(&["config", "import", &place.file("words", "what is this?")]);
    assert_eq!(status, 2);
    assert!(err.contains("unknown format") && err.contains("--from names"), "{err}");
}
