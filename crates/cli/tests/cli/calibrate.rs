//! `weir calibrate` as a person meets it.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use weir_config::DeviceModel;

use crate::support::Place;

/// Two tenants of the lab that each want as much as they can get, for four seconds.
const TWO: &str = "[global]\nioengine=libaio\nrw=randread\nbs=64k\niodepth=8\ndirect=1\nsize=100g\nruntime=4\ntime_based\nnorandommap\n\
                   [a]\ncgroup=a\n[b]\ncgroup=b\n";

const QUICK: [&str; 3] = ["--virtual-time", "--step", "20ms"];

#[test]
fn a_model_is_measured_written_and_loaded() {
    let place = Place::new("calibrate");
    let disk = "emulated:linear-ssd-default,latency=80us";
    let args = [&["calibrate", disk, "--write", "--html", "page.html"][..], &QUICK].concat();
    let (status, out, err) = place.run_inside(&args);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("random reads of 4 KiB\n    1 at once"), "{out}");
    assert!(out.ends_with("The model is in linear-ssd-default.model.toml.\n"), "{out}");
    let model =
        DeviceModel::from_file(&place.path().join("linear-ssd-default.model.toml")).unwrap();
    assert!(model.has_writes);
    let spec = model.spec;
    for (seen, truth) in [
        (spec.read_bps, 488_636_629),
        (spec.read_seq_iops, 8932),
        (spec.read_rand_iops, 8518),
        (spec.write_bps, 427_891_549),
        (spec.write_seq_iops, 28_755),
        (spec.write_rand_iops, 21_940),
        (spec.latency_ns, 80_000),
    ] {
        assert!(seen.abs_diff(truth) * 20 <= truth, "{seen} for {truth}");
    }
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("Price by length") && page.ends_with("</html>\n"));
    let job = place
        .file("job.fio", "[one]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nruntime=1\ntime_based\n");
    let lab = ["lab", "run", &job, "--disk", "linear-ssd-default.model.toml", "--format", "json"];
    let (status, out, err) = place.run_inside(&lab);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("linear-hdd,size=500107862016,rbps=4886"), "{out}");
    // The lab uses the model: a watermark uses up the whole disk, and not one request after the other.
    let job = place.file("two.fio", TWO);
    let lab = ["lab", "run", &job, "--disk", "linear-ssd-default.model.toml", "--format", "json"];
    let limits = ["--max", "/a rbps=4M", "--max", "/b rbps=2M", "--set", "watermark=90"];
    let (status, out, err) = place.run_inside(&[&lab[..], &limits].concat());
    assert_eq!(status, 0, "{err}");
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    let bytes = |job: usize| value["jobs"][job]["read"]["bytes"].as_f64().unwrap();
    assert!((bytes(0) / bytes(1) - 2.0).abs() < 0.05, "{} {}", bytes(0), bytes(1));
    // 64 KiB at random take 243 us.
    let all = 4.0 * 65_536.0 / 243.1e-6;
    assert!((bytes(0) + bytes(1)) / all > 0.97, "{}", (bytes(0) + bytes(1)) / all);
}

#[test]
fn json_has_the_figures_of_the_text() {
    let place = Place::new("calibrate-json");
    let args =
        [&["calibrate", "emulated:linear-hdd", "--format", "json", "-o", "x"][..], &QUICK].concat();
    let (status, out, err) = place.run_inside(&args);
    assert_eq!((status, err.as_str()), (0, ""));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["write"], &value["model_file"]), (&serde_json::Value::Null, &"x".into()));
    let random = value["read"]["random_iops"].as_u64().unwrap();
    assert!(random.abs_diff(370) <= 3, "{random}");
    assert!(value["steps"].as_array().unwrap().len() > 6);
    assert!(value["checks"][0]["deviation_percent"].as_f64().unwrap().abs() < 1.0);
}

/// It would take minutes, and then all would be lost.
#[test]
fn where_nothing_can_be_written_nothing_is_measured() {
    let place = Place::new("calibrate-nowhere");
    let slow = "emulated:null,latency=10s";
    for (args, why) in [
        (&["-o", "none/x.toml"][..], "cannot write none/x.toml: No such file or directory"),
        (&["-o", "/"], "cannot write /: is a directory"),
        (&["--html", "none/x.html"], "cannot write none/x.html: No such file or directory"),
    ] {
        let (status, out, err) = place.run_inside(&[&["calibrate", slow][..], args].concat());
        assert_eq!((status, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(why), "{err}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "nothing is left");
}

/// Where the disk is full in the end, the model is in the report.
#[test]
fn what_was_measured_is_told_where_it_cannot_be_kept() {
    let place = Place::new("calibrate-full");
    let args = [&["calibrate", "emulated:linear-hdd", "-o", "/dev/full"][..], &QUICK].concat();
    let (status, out, err) = place.run_inside(&args);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("cannot write /dev/full: No space left on device"), "{err}");
    let model = &out[out.find("# ").expect("a file with a comment")..];
    let path = place.file("by-hand.toml", model);
    assert!(DeviceModel::from_file(path.as_ref()).is_ok(), "{model}");
}

#[test]
fn calibrate_does_not_overwrite_data() {
    let place = Place::new("calibrate-write");
    let path = place.file("used.img", &"x".repeat(4096));
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(256 << 20).unwrap();
    let (status, _, err) = place.run_inside(&["calibrate", &path, "--write", "--yes"]);
    assert_eq!(status, 2);
    assert!(err.contains("does not look empty: there is data at its beginning"), "{err}");
    let (status, _, err) = place.run_inside(&["calibrate", &path, "--write", "--force"]);
    assert_eq!(status, 2);
    assert!(err.contains("nobody is there to be asked"), "{err}");
    let head = std::fs::read(&path).unwrap();
    assert!(
        head[..4096].iter().all(|&byte| byte == b'x') && head[4096..].iter().all(|&byte| byte == 0)
    );
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "no model is written");
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let place = Place::new("calibrate-interrupt");
    let mut command = place.weir(&["calibrate", "emulated:null,latency=10s"]);
    command.current_dir(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until_it_listens(&child);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "note: ended early, by a signal: no model is written\n"
    );
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// The thread that takes signals is there once they are taken.
fn wait_until_it_listens(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    let listens = || {
        let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.trim() == "signals")
    };
    while !listens() {
        std::thread::yield_now();
    }
}
