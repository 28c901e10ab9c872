//! `weir lab` from the command line.

use std::fs;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_tests::{Place, eventually, wait, weir};

/// A reader that thinks, as in the report of 2018 on the tail of throttled reads.
const THINKER: &str = "# one reader, one at a time
[global]
name=fio-rand-read
filename=/dev/nullb1
rw=randread
bs=4k
direct=1
numjobs=1
time_based=1
runtime=60
group_reporting=1

[file1]
size=4G
ioengine=libaio
iodepth=1
rate_iops=50000
norandommap=1
thinktime=4ms
";

const TWO: &str = "[global]
direct=1
size=64m
bs=4k
runtime=2
time_based
[reader]
cgroup=vm1
rw=randread
[writer]
cgroup=vm2
rw=randwrite
";

fn lab(arguments: &[&str]) -> Output {
    let ran = Command::new(weir()).arg("lab").args(arguments).stdin(Stdio::null()).output();
    ran.expect("weir can be started")
}

fn plus<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, more].concat()
}

/// Standard output of a successful run.
#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let ran = lab(arguments);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{arguments:?}: {}\n{said}", ran.status);
    String::from_utf8(ran.stdout).expect("text")
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    let text = prints(arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// Message of wrong usage: exit status 2, nothing on standard output.
#[track_caller]
fn refuses(arguments: &[&str], words: &[&str]) {
    let ran = lab(arguments);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(ran.stdout.is_empty(), "{arguments:?}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no {word:?} in {said}");
    }
}

fn job(place: &Place, name: &str, text: &str) -> String {
    place.filled(name, text.as_bytes()).to_str().expect("a plain name").to_owned()
}

#[test]
fn a_job_file_runs_unchanged_with_a_kernels_limiter() {
    let place = Place::new();
    let file = job(&place, "r2.job", THINKER);
    let limits = ["--max", "riops=100", "--limiter", "slice", "--kernel", "4.18"];
    let table = prints(&plus(&["run", &file], &limits));
    assert!(table.contains("file1") && table.contains("slice"), "{table}");
    // On a disk as fast as the one of the report.
    let run = |more: &[&str]| {
        let disk = ["run", &file, "--disk", "null,latency=2us", "--format", "json"];
        json(&[&disk[..], &limits[..2], more].concat())
    };
    let before = run(&["--limiter", "slice", "--kernel", "4.18"]);
    let after = run(&["--limiter", "slice", "--kernel", "6.12"]);
    let pace = run(&["--burst", "riops=1"]);
    for report in [&before, &after, &pace] {
        let read = &report["jobs"][0]["read"];
        let iops = read["ios_per_sec"].as_f64().expect("a rate");
        assert!((99.0..=100.5).contains(&iops), "{iops}");
        // The name of a section goes before that of `[global]`, as in the report.
        assert_eq!(report["jobs"][0]["job"], "file1");
        assert_eq!(report["jobs"][0]["processes"], 1);
        assert_eq!(report["cgroups"][1]["cgroup"], "/main");
        assert_eq!(report["cgroups"][1]["io_max"], "rbps=max wbps=max riops=100 wiops=max");
    }
    let p99_ms = |report: &Value| {
        report["jobs"][0]["read"]["latency_us_p99"].as_f64().expect("a time") / 1000.0
    };
    // A slice has ten reads, which take 40 ms with the thinking: the next one waits for the rest of its 100 ms, before
    // 4.19 for longer now and then. Evenly spaced reads wait for the rest of their interval.
    assert!((59.0..=76.0).contains(&p99_ms(&before)), "{}", p99_ms(&before));
    assert!((59.0..=61.0).contains(&p99_ms(&after)), "{}", p99_ms(&after));
    assert!((5.9..=6.1).contains(&p99_ms(&pace)), "{}", p99_ms(&pace));
}

#[test]
fn a_run_gives_the_same_report_each_time_in_every_format() {
    let place = Place::new();
    let file = job(&place, "two.fio", TWO);
    let page = place.file("page.html");
    let page_name = page.to_str().expect("a plain name");
    let limits = ["--disk", "ssd-sata", "--max", "/vm1 riops=500", "--max", "/vm2 wbps=1M"];
    let first = [&["run", &file][..], &limits].concat();

    let table = prints(&plus(&first, &[]));
    for word in ["reader", "writer", "/vm1", "/vm2", "P99.9", "riops=500"] {
        assert!(table.contains(word), "no {word:?} in\n{table}");
    }

    let text = prints(&plus(&first, &["--format", "json", "--html", page_name]));
    assert_eq!(text, prints(&plus(&first, &["--format", "json"])), "two runs differ");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let jobs = report["jobs"].as_array().expect("a list");
    assert_eq!(jobs.len(), 2);
    assert_eq!((&jobs[0]["job"], &jobs[0]["cgroup"]), (&"reader".into(), &"/vm1".into()));
    let reads = jobs[0]["read"]["ios"].as_u64().expect("a number");
    // Half a second's burst more than two seconds of the rate, at most.
    assert!((1000..=1500).contains(&reads), "{reads}");
    assert_ne!(
        text,
        prints(&plus(&first, &["--format", "json", "--seed", "2"])),
        "the seed is not heeded"
    );

    let html = fs::read_to_string(&page).expect("the page is written");
    assert!(html.starts_with("<!") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("<svg") && html.contains("/vm1"));
    assert!(
        !html.contains("http://") || html.contains("www.w3.org"),
        "it needs nothing from elsewhere"
    );
    assert!(!html.contains("src=\"http") && !html.contains("@import"));

    let fio = json(&plus(&first, &["--format", "fio-json"]));
    let told = &fio["jobs"][0];
    assert!(fio["fio version"].as_str().is_some_and(|version| version.starts_with("fio-3")));
    assert_eq!(told["jobname"], "reader");
    assert_eq!(told["read"]["total_ios"], reads);
    for key in ["bw_bytes", "iops", "runtime", "clat_ns", "lat_ns"] {
        assert!(!told["read"][key].is_null(), "no {key}");
    }
    assert!(told["read"]["clat_ns"]["percentile"]["99.000000"].as_u64() > Some(0));
}

#[test]
fn two_runs_are_compared_and_grids_are_swept() {
    let place = Place::new();
    let file = job(&place, "two.fio", TWO);
    let common = ["--disk", "ssd-sata", "--max", "/vm1 riops=500"];
    let sides = ["compare", &file, &file, "--a", "limiter=slice:6.12", "--b", "limiter=pace"];
    let compared = json(&[&sides[..], &common, &["--format", "json"]].concat());
    assert_eq!(
        (&compared["a"], &compared["b"]),
        (&"limiter=slice:6.12".into(), &"limiter=pace".into())
    );
    let first = &compared["jobs"][0];
    assert_eq!((&first["job"], &first["direction"]), (&"reader".into(), &"read".into()));
    for side in ["a", "b"] {
        assert!(first[side]["ios_per_sec"].as_f64() > Some(400.0), "{first}");
    }
    assert!(first["ratio"]["ios"].as_f64().is_some_and(|ratio| (0.8..=1.4).contains(&ratio)));
    let table = prints(&[&sides[..], &common].concat());
    assert!(table.contains("limiter=pace") && table.contains("reader"), "{table}");

    let sweep = [
        "sweep",
        &file,
        "--disk",
        "null,latency=1ms",
        "--set",
        "fio.runtime=1,2",
        "--set",
        "max=/vm1 riops=10,/vm1 riops=20",
    ];
    let runs = json(&[&sweep[..], &["--format", "json", "--jobs", "2"]].concat());
    let runs = runs.as_array().expect("a list");
    let settings: Vec<String> = runs.iter().map(|run| run["settings"].to_string()).collect();
    assert_eq!(
        settings,
        [
            r#"{"fio.runtime":"1","max":"/vm1 riops=10"}"#,
            r#"{"fio.runtime":"1","max":"/vm1 riops=20"}"#,
            r#"{"fio.runtime":"2","max":"/vm1 riops=10"}"#,
            r#"{"fio.runtime":"2","max":"/vm1 riops=20"}"#,
        ]
    );
    assert_eq!(runs[3]["report"]["elapsed_ns"], 2_001_000_000_u64);
    // Jobs one after the other give the same as all at once.
    let alone = json(&[&sweep[..], &["--format", "json", "--jobs", "1"]].concat());
    assert_eq!(alone.as_array().expect("a list"), runs);
    let lines = prints(&sweep);
    assert_eq!(lines.lines().count(), 1 + 4, "{lines}");
}

#[test]
fn scenarios_disks_kernels_and_settings_are_listed() {
    let all = json(&["list", "--format", "json"]);
    let names = |title: &str| -> Vec<&str> {
        let entries = all[title].as_array().unwrap_or_else(|| panic!("no {title}"));
        entries.iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
    };
    for disk in ["hdd7200", "hdd4200", "ssd-sata", "ssd-nvme", "null"] {
        assert!(names("disks").contains(&disk), "{disk}");
    }
    for kernel in ["4.18", "6.12"] {
        assert!(names("kernels").contains(&kernel), "{kernel}");
    }
    assert!(names("settings").contains(&"forks=JOB"));
    assert!(names("reproductions").contains(&"blk-throttle-tail"));
    let settings = prints(&["list", "settings"]);
    assert!(
        settings.starts_with("settings:\n") && settings.contains("child process"),
        "{settings}"
    );
    // Each scenario runs under its name.
    for scenario in names("scenarios") {
        let report = json(&["run", scenario, "--format", "json", "--stop-after", "1s"]);
        assert!(report["requests"].as_u64() > Some(0), "{scenario}");
    }
}

#[test]
fn loops_can_run_as_child_processes() {
    let place = Place::new();
    let file = job(&place, "tool.fio", "[tool]\nrw=read\ndirect=1\nsize=40k\nloops=7\n");
    let report = json(&["run", &file, "--set", "forks=tool", "--format", "json"]);
    assert_eq!(report["notes"][0], "7 child processes made the loops of `tool`");
    refuses(
        &["run", &file, "--set", "forks=tol"],
        &["there is no job \"tol\"", "did you mean `tool`?"],
    );
}

/// Each result: its source, published figures and own figures, under names with units.
#[test]
fn published_results_are_run_again() {
    let all = json(&["reproduce", "--format", "json"]);
    let all = all.as_array().expect("a list");
    assert!(!all.is_empty());
    for one in all {
        assert!(one["name"].is_string() && one["source"].is_string(), "{one}");
        for list in ["published", "runs"] {
            let runs = one[list].as_array().expect("a list");
            assert!(!runs.is_empty(), "{list}");
            for run in runs {
                assert!(run["setting"].is_string());
                let figures = run["figures"].as_object().expect("figures");
                assert!(figures.values().all(Value::is_number) && !figures.is_empty(), "{run}");
            }
        }
    }
    let tail = json(&["reproduce", "blk-throttle-tail", "--format", "json"]);
    let runs = tail[0]["runs"].as_array().expect("a list");
    let figure = |start: &str, name: &str| {
        let run =
            runs.iter().find(|run| run["setting"].as_str().is_some_and(|s| s.starts_with(start)));
        run.expect(start)["figures"][name].as_f64().expect("a number")
    };
    for setting in ["Linux 4.18", "Linux 4.19", "Linux 6.12", "Weir, pace"] {
        assert!((99.0..=100.5).contains(&figure(setting, "iops")), "{setting}");
    }
    for (setting, p99_ms) in [("Linux 4.18", 22.0..24.5), ("Linux 4.19", 11.5..12.5)] {
        let p99 = figure(setting, "latency_us_p99") / 1000.0;
        assert!(p99_ms.contains(&p99), "{setting}: {p99}");
        let mean = figure(setting, "latency_us_mean") / 1000.0;
        assert!((5.7..6.1).contains(&mean), "{setting}: {mean}");
    }
    assert!(prints(&["reproduce"]).contains("published"));
    refuses(&["reproduce", "nothing"], &["there is no reproduction \"nothing\"", "known: "]);
}

/// A trace need not be named as one.
#[test]
fn the_format_of_a_trace_is_detected() {
    let place = Place::new();
    let line = "128166372003061629,web,0,Read,4096,4096,100\n";
    for name in ["requests.txt", "requests", "marked.log"] {
        let mark = if name == "marked.log" { "\u{feff}" } else { "" };
        let table = prints(&["run", &job(&place, name, &format!("{mark}{line}"))]);
        assert!(table.contains("web_0") && !table.contains("no sense"), "{table}");
    }
}

/// A failed job gives status 1 and the whole report.
#[test]
fn a_job_that_fails_is_named_beside_the_report() {
    let place = Place::new();
    // A gzip file of stored blocks, truncated before its second member.
    let line = |at: u64| format!("{at:09}000,srv,0,Read,{:09},4096,1\n", at * 4096);
    let lines: String = (0..4000).map(line).collect();
    let mut cut_off = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    for block in lines.as_bytes().chunks(10_000) {
        let len = (block.len() as u16).to_le_bytes();
        cut_off.extend([&[0][..], &len, &len.map(|byte| !byte), block].concat());
    }
    let trace = place.filled("cut-off.csv.gz", &cut_off);
    let trace = trace.to_str().expect("a plain name");
    let slow =
        "[slow]\nrw=randread\nbs=4k\ndirect=1\nrate_min=50m\nruntime=10\ntime_based\nsize=64m\n";
    let slow = job(&place, "slow.fio", slow);
    let hdd = ["--disk", "hdd7200"];
    for (arguments, printed, said) in [
        (plus(&["run", trace], &hdd), "failed:", "cut-off.csv.gz: reading line 4001 failed: "),
        (plus(&["run", trace, "--format", "json"], &hdd), "\"error\": \"", "reading line 4001 "),
        (plus(&["run", &slow], &hdd), "failed:", "`slow` failed: "),
        (plus(&["compare", &slow, &slow, "--b", "depth=1"], &hdd), "slow", "(and 1 more"),
        (plus(&["sweep", &slow, "--set", "depth=1,2"], &hdd), "MiB/s", "`slow` failed: "),
    ] {
        let ran = lab(&arguments);
        let [out, err] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(out.contains(printed), "{arguments:?}: no {printed:?} in\n{out}");
        assert!(err.contains(said), "{arguments:?}: no {said:?} in\n{err}");
    }
}

#[test]
fn mistakes_are_named_with_their_place() {
    let place = Place::new();
    let good = job(&place, "good.fio", "[j]\nrw=read\ndirect=1\nsize=4k\n");
    let bad = job(&place, "bad.fio", "[j]\nrw=raed\niodpeth=3\n");
    let large = job(&place, "large.fio", "[j]\nrw=read\ndirect=1\nsize=1t\n");
    let endless =
        job(&place, "endless.fio", "[j]\nrw=read\ndirect=1\nsize=4k\nruntime=1\ntime_based\n");
    let scenario = job(&place, "bad.toml", "about = 'x'\njob = ''\ndepht = 3\n");
    let trace = job(&place, "bad.csv", "not a trace\nat all\n");
    let packed = job(&place, "packed", "BZh91AY&SY");
    let lost = job(&place, "lost.fio", "[j]\nread_iolog=/nowhere/x.log\n");
    // Both mistakes of a file, each with its line.
    refuses(&["run", &bad], &["bad.fio", "2", "raed", "read", "3", "iodpeth", "iodepth"]);
    refuses(&["run", "/nowhere/x.fio"], &["/nowhere/x.fio", "No such file"]);
    refuses(&["run", "noisy-neighbor"], &["did you mean the scenario `noisy-neighbour`?"]);
    refuses(&["run", &good, "--disk", "hdd7300"], &["--disk", "hdd7300", "hdd7200"]);
    refuses(&["run", &good, "--disk", "null,latency=x"], &["latency"]);
    refuses(&["run", &good, "--max", "riops=0"], &["--max", "riops"]);
    refuses(&["run", &good, "--max", "rios=100"], &["rios", "riops"]);
    refuses(&["run", &good, "--kernel", "6.12"], &["kernel", "--limiter slice --kernel VERSION"]);
    refuses(&["run", &good, "--limiter", "slise"], &["slise", "slice"]);
    refuses(&["run", &good, "--set", "dpth=3"], &["dpth", "did you mean `depth`?"]);
    refuses(&["run", &good, "--set", "depth"], &["KEY=VALUE"]);
    refuses(&["run", &good, "--set", "trace.depth=3"], &["is no trace"]);
    refuses(&["run", &good, "--format", "xml"], &["xml"]);
    refuses(&["run", &large], &["1099511627776", "--disk"]);
    refuses(&["run", &endless, "--disk", "null,latency=0ns"], &["stands still", "thinktime"]);
    refuses(&["run", &scenario], &["bad.toml", "depht", "did you mean `depth`?"]);
    refuses(&["run", &trace], &["bad.csv"]);
    refuses(&["run", &packed], &["compressed with bzip2; unpack it with `bunzip2`"]);
    refuses(&["run", &lost], &["job `j` (line 1): read_iolog: /nowhere/x.log", "No such file"]);
    refuses(&["compare", &good, &good, "--a", "depth=0"], &["depth"]);
    refuses(&["sweep", &good, "--set", "depth=1,0"], &["depth", "\"0\""]);
    refuses(&["sweep", &good], &["--set"]);
    refuses(&["list", "things"], &["things", "disks"]);
    refuses(&[], &["Usage"]);
    // Nothing wrong was asked for: the page could not be written.
    let ran = lab(&["run", &good, "--html", "/nowhere/page.html"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("/nowhere/page.html"), "{said}");
}

#[test]
fn a_signal_ends_a_run_with_a_partial_report() {
    let place = Place::new();
    let text = "[j]\nrw=randread\ndirect=1\nsize=1g\nioengine=libaio\niodepth=8\ntime_based\nruntime=1000000000\n";
    let file = job(&place, "long.fio", text);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = Command::new(weir())
            .args(["lab", "run", &file, "--disk", "null,latency=10us", "--format", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weir can be started");
        // Before it listens, a signal ends it without a word.
        eventually("it listens for signals", || catches(child.id(), signal));
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let mut stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (mut told, mut said) = (String::new(), String::new());
        stdout.read_to_string(&mut told).expect("text");
        stderr.read_to_string(&mut said).expect("text");
        let status = wait(&mut child).expect("it ends");
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(said.contains("ended early, by a signal"), "{said}");
        let report: Value = serde_json::from_str(&told).expect("the results so far");
        let (elapsed, ios) = (&report["elapsed_ns"], &report["jobs"][0]["read"]["ios"]);
        assert!(elapsed.as_u64() > Some(0) && ios.as_u64() > Some(0), "{elapsed} {ios}");
    }
}

/// Whether a process has a handler for a signal.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("hexadecimal");
    mask >> (signal.as_raw() - 1) & 1 == 1
}
