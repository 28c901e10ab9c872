//! Usage as a new user sees it: help, completions, exit statuses.

use crate::support::Place;

#[test]
fn help_has_examples_everywhere_and_fits_eighty_columns() {
    let place = Place::new("help");
    for command in [
        &[][..],
        &["serve"],
        &["status"],
        &["top"],
        &["explain"],
        &["set"],
        &["move"],
        &["remove"],
        &["config", "check"],
        &["demo"],
        &["calibrate"],
        &["replay"],
        &["disk", "list"],
        &["disk", "mount"],
        &["lab"],
        &["lab", "run"],
        &["lab", "compare"],
        &["lab", "sweep"],
        &["lab", "list"],
        &["lab", "reproduce"],
        &["completions"],
    ] {
        for flag in ["--help", "-h"] {
            let [narrow, wide] = ["80", "100"].map(|columns| {
                let (status, text, _) = place.run_at(columns, &[command, &[flag]].concat());
                assert_eq!(status, 0);
                text
            });
            assert!(narrow.contains("Examples:\n  weir "), "{command:?}:\n{narrow}");
            let long = narrow.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{command:?}");
            assert!(!narrow.contains("\\\""), "{command:?}: quotes that are escaped");
            // Hand-written lines, such as tables and commands, are not wrapped.
            assert_eq!(by_hand(&narrow), by_hand(&wide), "{command:?}");
        }
    }
}

/// Text after the list of options, which has its own line breaks.
fn by_hand(help: &str) -> &str {
    let begins = ["\nExamples:\n", "\nKeys and values are", "\nTraces: "];
    let first = begins.iter().filter_map(|begin| help.find(begin)).min();
    &help[first.expect("there are examples")..]
}

#[test]
fn wrong_usage_is_2_and_what_cannot_be_done_1() {
    let place = Place::new("usage");
    for (args, status, words) in [
        (&["srve"][..], 2, "similar subcommand"),
        (&["./disk.img"], 2, "tip: to serve it: weir serve ./disk.img"),
        (&["memory:1G"], 2, "tip: to serve it: weir serve memory:1G"),
        (&["serve"], 2, "CONFIG.toml|IMAGE"),
        (&["serve", "memory:1M", "--depth", "0"], 2, "1..=4096"),
        (&["serve", "memory:1M", "--direct", "on"], 2, "--direct: only files"),
        (&["serve", "memory:1M", "--max", "riops=x"], 2, "--max: riops"),
        (&["serve", "memory:1M", "--max", "riops=4294967296"], 2, "write \"riops=max\""),
        (&["serve", "memory:1M", "--max", "8:16 riops=5"], 2, "leave it out: \"riops=5\""),
        (&["serve", "memory:1M", "--max", "riops=5", "--max", "riops=6"], 2, "multiple times"),
        (&["serve", "memory:1M", "--weight", "10001"], 2, "between 1 and 10000"),
        (&["serve", "memory:1M", "--limiter", "slice:99.99"], 2, "the newest is 7.0"),
        (&["serve", "/dev/nowhere"], 2, "`lsblk --paths`"),
        (&["lab", "run", "weights", "--max", "8:16 rbps=4M"], 2, "leave it out: \"rbps=4M\""),
        (
            &["lab", "run", "weights", "--limiter", "pace", "--limiter", "token"],
            2,
            "multiple times",
        ),
        (&["serve", "nowhere.img"], 2, "does not exist"),
        (&["serve", "nowhere.toml"], 2, "cannot be read"),
        (&["serve", "nowhere.toml", "--max", "riops=1"], 2, "is a configuration"),
        (&["serve", "memory:1M", "--socket", "/proc/no/nbd.sock"], 1, "cannot listen on /proc/no"),
        (&["status", "--interval", "1ms"], 2, "allowed are 10ms to 24h"),
        (&["explain"], 2, "CGROUP|EXPORT"),
        (&["status", "--control", "/nonexistent"], 1, "is the server running?"),
        (&["set", "/vm1", "io.max"], 2, "<VALUE>"),
        (&["move", "/vm1"], 2, "<PARENT>"),
        (&["move", "/vm1", "/", "--control", "/nonexistent"], 1, "is the server running?"),
        (&["remove"], 2, "<CGROUP>"),
        (&["lab", "sweep", "x", "--set", "depth=1", "--set", "depth=2"], 2, "--set depth=1,2"),
    ] {
        let (found, out, err) = place.run(args);
        assert_eq!(found, status, "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
        assert!(out.is_empty() && !err.contains('\x1b'), "{args:?}: {out}{err}");
    }
}

#[test]
fn without_a_server_one_is_told_where_it_was_looked_for() {
    let system = std::path::Path::new("/run/weir").read_dir().into_iter().flatten().flatten();
    if system
        .into_iter()
        .any(|entry| entry.file_name().as_encoded_bytes().ends_with(b"control.sock"))
    {
        eprintln!("skipped: a server in /run/weir would be found");
        return;
    }
    let place = Place::new("none");
    let (status, _, err) = place.run(&["status"]);
    assert_eq!(status, 1);
    assert!(err.contains(&format!("no server answers in {}", place.path().display())), "{err}");
    assert!(err.contains("`weir serve` starts one"), "{err}");
}

#[test]
fn completions_know_the_subcommands() {
    let place = Place::new("completions");
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, _) = place.run(&["completions", shell]);
        assert_eq!(status, 0);
        assert!(script.contains("exit-with-parent"), "{shell}");
    }
}

/// A device that never ends has no length to look at.
#[test]
fn the_lab_reads_no_more_than_a_job_file_has() {
    let place = Place::new("endless");
    let (status, out, err) = place.run(&["lab", "run", "/dev/zero"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("/dev/zero: over 1048576 bytes are no job file"), "{err}");
    assert!(err.contains("help: a trace is read from a file"), "{err}");
}

/// A full partition under a log, or a reader that is gone, is no reason for another exit status.
#[test]
fn a_complaint_that_cannot_be_written_keeps_its_status() {
    let place = Place::new("full");
    for (args, status) in [
        (&["serve", "nowhere.img"][..], 2),
        (&["serve", "nowhere.toml"], 2),
        (&["srve"], 2),
        (&["status", "--control", "/nonexistent"], 1),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = place.weir(args).stderr(full).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{args:?}");
    }
}

/// A laptop where limits are tried does not have the server's images.
#[test]
fn the_lab_takes_a_configuration_without_its_images() {
    let place = Place::new("plan");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/examples/weir.toml");
    let job = place.file("job.fio", "[one]\nrw=randread\nsize=1m\ndirect=1\n");
    let lab = ["lab", "run", &job, "--config", example, "--device", "disk0"];
    let (status, out, err) = place.run(&lab);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("scheduler none, depth 32"), "{out}");
}

#[test]
fn a_flag_of_the_lab_does_what_the_setting_of_its_name_does() {
    let place = Place::new("lab-flags");
    let global = "[global]\nsize=1g\nruntime=2\ntime_based\n";
    let writer = "[a]\nrw=randwrite\nbs=1m\nthinktime=1ms\n";
    let readers = "[b]\nrw=randread\ndirect=1\n[c]\ncgroup=c\nrw=randread\ndirect=1\n";
    let text = &[global, writer, readers].concat();
    let job = place.file("job.fio", text);
    let base =
        ["lab", "run", &job, "--max", "/c riops=20", "--scheduler", "bfq", "--format", "json"];
    let (_, plain, _) = place.run(&base);
    for (name, value) in [
        ("home", "/vm1"),
        ("watermark", "90"),
        ("prio-class", "idle"),
        ("low-latency", "never"),
        ("forks", "a"),
        ("memory", "1M"),
        ("dirty-each", "1M"),
        ("flusher-depth", "1"),
        ("way", "2ms"),
        ("pause-late", "1ms"),
        ("hiccup", "3ms"),
        ("timer-late", "4ms"),
    ] {
        let run = |more: [&str; 2]| place.run(&[&base[..], &more].concat());
        let flag = run([&format!("--{name}"), value]);
        assert_eq!((flag.0, flag.2.as_str()), (0, ""), "{name}");
        assert_eq!(flag, run(["--set", &format!("{name}={value}")]), "{name}");
        assert_ne!(flag.1, plain, "{name}");
    }
    let (status, _, err) = place.run(&["lab", "run", &job, "--memory", "much"]);
    assert_eq!(status, 2);
    assert!(err.contains("--memory \"much\": "), "{err}");
}

#[test]
fn a_text_that_is_no_job_file_and_no_trace_is_said_to_be_neither() {
    let place = Place::new("neither");
    let spc = place.file("F.spc", &"0,303567,3584,w,0.000000\n".repeat(100));
    let (status, out, err) = place.run(&["lab", "run", &spc]);
    assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 2), "{err}");
    for words in [
        "F.spc: neither a fio job file, which has a [section], nor a known trace",
        "it begins with \"0,303567,3584,w,0.000000\"",
        "help: known traces: msr, alibaba,",
        "--set trace.format=csv:",
    ] {
        assert!(err.contains(words), "{words}: {err}");
    }
    let binary = place.file("image", "[\0=\0\n\n\n");
    let (status, _, err) = place.run(&["lab", "run", &binary]);
    assert_eq!(status, 2);
    assert!(err.contains("image: neither a fio job file"), "{err}");
    // Columns make a trace of it, whatever its name; options without a section are a job file that misses one.
    let columns = "trace.format=csv:time_s=5,op=4,lba512=2,bytes=3,device=1";
    let (status, out, err) = place.run(&["lab", "run", &spc, "--set", columns]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("100 requests"), "{out}");
    let options = place.file("options", "rw=read\nbs=4k\n");
    let (status, _, err) = place.run(&["lab", "run", &options]);
    assert_eq!(status, 2);
    assert!(err.contains("write [global] above it"), "{err}");
}

#[test]
fn sweep_and_compare_tell_the_notes_of_their_runs() {
    let place = Place::new("notes");
    let job = place.file("job.fio", "[a]\nrw=randread\nsize=1m\ndirect=1\n");
    let note = "limits of /vm1 had nothing to do";
    let (_, out, _) = place.run(&["lab", "compare", &job, &job, "--b", "max=/vm1 riops=9"]);
    let (table, notes) = out.split_once("\nNotes\n").expect("notes");
    assert!(table.contains("ratio") && notes.matches(note).count() == 1, "{out}");
    let told: String = notes.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.ends_with("(max=/vm1 riops=9)"), "{out}");
    let sweep = ["lab", "sweep", &job, "--set", "depth=1,2,4", "--max", "/vm1 riops=9"];
    let (_, out, _) = place.run(&sweep);
    let (_, notes) = out.split_once("\nNotes\n").expect("notes");
    assert!(notes.matches(note).count() == 1 && !notes.contains("runs:"), "{out}");
    let compare = ["lab", "compare", &job, &job, "--b", "max=/vm1 riops=9", "--format", "json"];
    let (_, out, _) = place.run(&compare);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["notes"]["a"].as_array().map(Vec::len), Some(0));
    assert!(found["notes"]["b"][0].as_str().is_some_and(|told| told.starts_with(note)), "{out}");
}
