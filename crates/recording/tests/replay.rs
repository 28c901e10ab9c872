//! A recording, replayed: each decision is the recorded one.

mod load;

use std::path::Path;

use proptest::prelude::*;
use weir_engine::{Instant, SchedulerKind};
use weir_recording::{
    Arrivals, Device, Recorder, Recording, ReplayError, Settings, Status, Writer,
    replay_as_recorded,
};

fn settings(bytes_max: u64) -> Settings {
    Settings { bytes_max, file_ns: 1_000_000_000, clock_offset_ns: 1_790_000_000_123_456_789 }
}

fn device() -> Device {
    Device { name: "disk".into(), bytes: 1 << 34, disk: None, from_start: true }
}

/// Records so many requests of a load; what the writer says at the end, and the dispatches.
fn record(directory: &Path, seed: u64, requests: u64, settings: Settings) -> (Status, usize) {
    let scheduler = SchedulerKind::ALL[(seed % 2) as usize];
    let mut load = load::Load::new(seed, scheduler, 20_000);
    let mut writer = Writer::new(directory, settings).unwrap();
    let (recorder, recorded) = Recorder::new();
    writer.add(load.now_ns, device(), recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.tenants(9, 300);
    for _ in 0..requests / 1000 {
        load.lease();
        load.run(1000);
        while writer.poll(load.now_ns) {}
    }
    if seed.is_multiple_of(3) {
        load.finish();
    }
    load.engine.detach();
    while writer.poll(load.now_ns) {}
    assert!(writer.is_empty());
    (writer.status(), load.disk.dispatched.len())
}

#[test]
fn a_recording_from_the_start_is_replayed_decision_for_decision() {
    for seed in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let (status, dispatched) = record(dir.path(), seed, 30_000, settings(1 << 30));
        assert_eq!((status.dropped, status.lost, &status.error), (0, 0, &None));
        let recording = Recording::open(dir.path(), None).unwrap();
        assert!(recording.files() > 1, "a second is a file");
        let replayed = replay_as_recorded(&recording).unwrap();
        assert_eq!(replayed.divergence, None, "seed {seed}");
        assert_eq!(replayed.dispatches, dispatched as u64, "seed {seed}");
        assert!(replayed.requests <= 30_000 && replayed.requests > 29_000, "{replayed:?}");
    }
}

#[test]
fn a_request_takes_at_most_20_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _) = record(dir.path(), 2, 200_000, settings(1 << 30));
    let bytes = status.bytes as f64 / status.requests as f64;
    assert!(bytes <= 20.0, "{bytes}");
}

#[test]
fn the_ring_keeps_its_bound_and_the_newest_files() {
    let dir = tempfile::tempdir().unwrap();
    let bytes_max = 1 << 20;
    let (status, _) = record(dir.path(), 4, 200_000, settings(bytes_max));
    assert!(status.bytes <= bytes_max && status.files >= 2, "{status:?}");
    let recording = Recording::open(dir.path(), None).unwrap();
    assert!(recording.header().file > 1);
    let error = replay_as_recorded(&recording).unwrap_err();
    assert!(matches!(error, ReplayError::NotFromStart(_)), "{error}");
    assert!(error.to_string().starts_with("its first file is gone"), "{error}");
}

/// As much as is asked for is looked at, from the end on, and no file before.
#[test]
fn the_end_of_a_ring_is_found_from_behind() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 4, 200_000, settings(1 << 20));
    let all = Recording::open(dir.path(), None).unwrap();
    let end_of = |last_ns, requests| {
        Recording::end_of(dir.path(), &device().name, last_ns, requests).unwrap()
    };
    let whole = end_of(u64::MAX, u64::MAX);
    assert_eq!(whole.files(), all.files());
    let newest = end_of(u64::MAX, 1);
    assert_eq!(newest.files(), 1);
    assert!(newest.header().file > all.header().file);
    let last = |recording: &Recording, most| {
        Arrivals::bounded(recording, None, most).unwrap().requests.last().cloned()
    };
    assert_eq!(last(&newest, 1), last(&all, usize::MAX));
    assert_eq!(Arrivals::bounded(&all, None, 100).unwrap().requests.len(), 100);
    // Before the files of another recording, or device, it ends.
    assert!(Recording::end_of(dir.path(), "another", u64::MAX, 1).is_err());
}

/// What was there before the recorder was attached is no input: a file that says otherwise is found out.
#[test]
fn a_recording_that_lacks_its_beginning_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = load::Load::new(5, SchedulerKind::None, 20_000);
    load.tenants(3, 100);
    let mut writer = Writer::new(dir.path(), settings(1 << 30)).unwrap();
    let (recorder, recorded) = Recorder::new();
    writer.add(load.now_ns, device(), recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.run(1000);
    load.engine.detach();
    while writer.poll(load.now_ns) {}
    let recording = Recording::open(dir.path(), None).unwrap();
    // No client is known, since none was opened.
    let error = replay_as_recorded(&recording).unwrap_err();
    assert!(matches!(error, ReplayError::Row { .. }), "{error}");
}

#[test]
fn entries_are_dropped_and_counted_where_the_writer_does_not_come() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = load::Load::new(6, SchedulerKind::None, 20_000);
    let mut writer = Writer::new(dir.path(), settings(1 << 30)).unwrap();
    let (recorder, recorded) = Recorder::new();
    writer.add(load.now_ns, device(), recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.tenants(9, 300);
    load.run(200_000);
    let dropped = writer.status().dropped;
    assert!(dropped > 100_000, "{dropped}");
    // It comes again, and what follows is recorded, with the tenants that are there.
    while writer.poll(load.now_ns) {}
    load.run(10_000);
    load.engine.detach();
    while writer.poll(load.now_ns) {}
    let status = writer.status();
    assert!(status.dropped >= dropped && status.requests > 100_000, "{status:?}");
    let recording = Recording::open(dir.path(), None).unwrap();
    assert_eq!(recording.dropped(), status.dropped);
    let error = replay_as_recorded(&recording).unwrap_err().to_string();
    assert!(error.ends_with("entries found no room in memory while it was recorded"), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_is_lost_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = load::Load::new(7, SchedulerKind::None, 20_000);
    let mut writer = Writer::new(dir.path(), settings(1 << 30)).unwrap();
    let (recorder, recorded) = Recorder::new();
    writer.add(load.now_ns, device(), recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.tenants(2, 300);
    std::fs::remove_dir_all(dir.path()).unwrap();
    load.run(3000);
    while writer.poll(load.now_ns) {}
    let status = writer.status();
    assert!(status.error.is_some() && status.lost > 0, "{status:?}");
    // Once it can be written again it is.
    std::fs::create_dir(dir.path()).unwrap();
    load.run(60_000);
    load.engine.detach();
    while writer.poll(load.now_ns) {}
    let status = writer.status();
    assert_eq!(status.error, None);
    assert!(status.files > 0, "{status:?}");
    let recording = Recording::open(dir.path(), None).unwrap();
    assert!(replay_as_recorded(&recording).is_err(), "its beginning is lost");
}

/// A recording of a few requests, as bytes.
fn small_file() -> &'static [u8] {
    static FILE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FILE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), 8, 2000, Settings { file_ns: u64::MAX, ..settings(1 << 30) });
        let mut files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|end| end == "parquet"));
        std::fs::read(file.unwrap()).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_are_errors_and_nothing_worse(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = small_file().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir-damaged.parquet");
        std::fs::write(&path, bytes).unwrap();
        if let Ok(recording) = Recording::open(&path, None) {
            let _ = replay_as_recorded(&recording);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_recording(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir-noise.parquet");
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(Recording::open(&path, None).is_err());
    }
}

/// A limit that was set before the recorder was attached is no input: a replay lacks it, and decides otherwise.
#[test]
fn the_first_decision_that_differs_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut load = load::Load::new(5, SchedulerKind::None, 20_000);
    load.limit_all(100);
    let mut writer = Writer::new(dir.path(), settings(1 << 30)).unwrap();
    let (recorder, recorded) = Recorder::new();
    writer.add(load.now_ns, device(), recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.tenants(3, 1_000_000);
    load.run(1000);
    load.finish();
    load.engine.detach();
    while writer.poll(load.now_ns) {}
    let recording = Recording::open(dir.path(), None).unwrap();
    let replayed = replay_as_recorded(&recording).unwrap();
    let divergence = replayed.divergence.expect("the root's limit is not there").to_string();
    assert!(divergence.starts_with("dispatch "), "{divergence}");
}
