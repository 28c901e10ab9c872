//! Job files of the shapes that people have: each runs, or is refused for the reason that is told here.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use weir_fio::{Input, JobText};
use weir_lab::builder::{ScenarioBuilder, Source};
use weir_lab::results::Results;
use weir_lab::sim;

/// Files that run: how many rows their reports have, and words of a note that they must have.
const RUN: &[(&str, usize, &str)] = &[
    ("volume-bandwidth", 4, ""),
    ("volume-iops", 2, ""),
    ("volume-latency", 2, ""),
    ("storage-class", 4, "`gtod_reduce` has no effect"),
    ("database-volume", 10, "`clocksource` has no effect"),
    ("cluster-bandwidth", 2, "`disk_util` has no effect"),
    ("cluster-iops", 2, "glibc serves the requests of posixaio one at a time"),
    ("cluster-latency", 2, ""),
    ("rbd-image", 1, "`ioengine=rbd`: its requests are taken as direct ones"),
    ("rados-objects", 1, "`ioengine=rados`"),
    ("cluster-image-mix", 1, "`write_lat_log` has no effect"),
    ("shared-directory", 2, ""),
    ("object-mount-sequential", 1, "`fallocate` has no effect"),
    ("object-mount-threads", 1, "`thread` has no effect"),
    ("object-mount-write", 1, "`unlink` has no effect"),
    ("blob-mount-write", 1, ""),
    ("blob-mount-random-read", 2, ""),
    ("blob-mount-open", 1, "`create_only`: `lay_out` lays out its files"),
    ("user-space-driver", 1, "`ioengine=spdk`"),
    ("user-space-bdev", 1, "`ioengine=spdk_bdev`"),
    ("user-space-fabrics", 1, "`digest_enable` has no effect"),
    ("passthrough", 1, "`ioengine=io_uring_cmd`"),
    ("vhost-library", 1, "`ioengine=libblkio`"),
    ("many-backends", 1, "`ioengine=xnvme`"),
    ("file-system-reads", 1, "`buffer_pattern` has no effect"),
    ("file-system-mix", 1, ""),
    ("file-system-lay-out", 1, ""),
    ("cloud-disk-matrix", 8, ""),
    ("cloud-disk-rates", 1, ""),
    ("precondition", 3, ""),
    ("export-over-nbd", 1, ""),
    ("two-cgroups", 2, ""),
];

/// Files that are refused: all that is said of them.
const REFUSED: &[(&str, &str)] = &[
    (
        "zoned-drive",
        "zoned-drive.fio:4:10: zonemode: \"zbd\" is not simulated: zoned devices are not among the disks\n\
         zoned-drive.fio:5:1: max_open_zones is not simulated: zoned devices are not among the disks",
    ),
    (
        "processor-load",
        "processor-load.fio:2:10: ioengine: \"cpuio\" is not simulated: the engine asks no disk for anything",
    ),
    (
        "file-creation",
        "file-creation.fio:2:10: ioengine: \"filecreate\" is not simulated: the engine asks no disk for anything",
    ),
    (
        "bucket",
        "bucket.fio:2:10: ioengine: \"http\" is not simulated: it asks for no blocks of a disk; ioengine=nbd makes the \
         same requests, past the page cache",
    ),
    (
        "windows-disk",
        "windows-disk.fio:2:10: ioengine: \"windowsaio\" is not simulated: it is not for Linux; there ioengine=io_uring \
         or libaio does the same",
    ),
    (
        "misspelt",
        "misspelt.fio:2:10: ioengine: \"libaoi\" is none of sync, psync, vsync, pvsync, pvsync2, mmap, splice, libaio, \
         linuxaio, posixaio, io_uring, sg, nbd, null; did you mean \"libaio\"?\n\
         misspelt.fio:3:1: unknown option \"io_depth\"; did you mean \"iodepth\"?\n\
         misspelt.fio:4:4: bs: \"4.5k\" is not a whole number: write it in a smaller unit\n\
         misspelt.fio:5:1: include \"nowhere.inc\": there is no such file",
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/job_files")
}

/// A file with those that it includes, and the variables that some of these files have.
fn input(name: &str) -> Input {
    let file = format!("{name}.fio");
    let bytes = fs::read(folder().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let read = &mut |path: &str, _: &str| {
        let bytes =
            fs::read(folder().join(path)).map_err(|_| "there is no such file".to_owned())?;
        Ok((path.to_owned(), bytes))
    };
    let env = [
        ("BLOCKSIZE", "128k"),
        ("TESTFS", "pool/fs"),
        ("NUMJOBS", "4"),
        ("FILESIZE", "256m"),
        ("COMPRESSION", "66"),
        ("DIRECT", "0"),
        ("SYNC", "1"),
        ("RUNTIME", "10"),
        ("IMAGE", "one"),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Input::of_file(JobText::load(file, bytes, read), BTreeMap::from(env))
}

fn run(input: Input) -> Result<Results, String> {
    let mut builder = ScenarioBuilder::new("x", Source::Input(input));
    for (key, value) in [("disk", "ssd-sata,size=2T"), ("stop-after", "4s"), ("memory", "4G")] {
        builder.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = builder.build().map_err(|error| error.to_string())?;
    sim::run(&scenario, &mut |_| ControlFlow::Continue(())).map_err(|error| error.to_string())
}

#[test]
fn common_job_files_run() {
    for &(name, rows, words) in RUN {
        let results = run(input(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(results.rows.len(), rows, "{name}");
        let notes = &results.notes;
        assert!(notes.iter().any(|note| note.contains(words)) || words.is_empty(), "{notes:#?}");
        let is_laid_out = notes.iter().any(|note| note.starts_with("`create_only`"));
        for row in &results.rows {
            let ios = row.read.ios + row.write.ios + row.trim.ios;
            // Later stages have not begun.
            assert!((ios > 0) != is_laid_out || row.runtime_ns == 0, "{name}: {}", row.name);
            assert_eq!(row.error, None, "{name}: {}", row.name);
        }
        assert_eq!(results.device.ios == 0, is_laid_out, "{name}");
    }
}

#[test]
fn files_that_cannot_be_simulated_are_refused_with_the_reason() {
    for &(name, words) in REFUSED {
        let error = run(input(name)).expect_err(name);
        assert_eq!(error.trim_end(), words, "{name}");
    }
}

#[test]
fn every_job_file_is_in_a_table() {
    let entries = fs::read_dir(folder()).expect("the folder is there");
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut found: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".fio")?.to_owned())).collect();
    found.sort_unstable();
    let listed = RUN.iter().map(|(name, ..)| *name).chain(REFUSED.iter().map(|(name, _)| *name));
    let mut listed: Vec<&str> = listed.collect();
    listed.sort_unstable();
    assert_eq!(found, listed);
    assert!(found.len() >= 30);
}
