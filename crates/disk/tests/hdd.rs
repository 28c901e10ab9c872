//! Disk with platters against closed-form expectations.

mod common;

use common::{SECOND, check_calls, drive, is_near, op, random, rate, run, sequential};
use proptest::prelude::*;
use weir_disk::{DiskModel, DiskOp, Hdd, HddSpec};

fn iops(spec: HddSpec, depth: u64) -> u64 {
    let count = 4000;
    count * SECOND
        / (run(&mut Hdd::new(spec), depth, count, DiskOp::Read, 4096, random(spec.size)) / 1000)
        / 1000
}

/// Sectors of a track half way in. The rates that are told include the switches between tracks.
fn mean_track(spec: &HddSpec) -> u64 {
    let switches = (spec.heads - 1) * spec.head_switch_ns + spec.track_to_track_ns;
    let track_ns = 60 * SECOND / spec.rpm + switches / spec.heads;
    (spec.inner + spec.outer) / 2 * track_ns / SECOND / 512
}

/// The mean seek between offsets chosen at random. Offsets are not cylinders: a cylinder of an outer zone holds more, so
/// they lie nearer to each other than cylinders do.
fn mean_seek(spec: &HddSpec) -> f64 {
    let rate = |zone: u64| {
        let step = (spec.outer - spec.inner) * zone / (spec.zones - 1);
        (spec.outer - step) as f64
    };
    let whole: f64 = (0..spec.zones).map(rate).sum();
    // Position of the arm for the share `offset` of the disk.
    let place = |offset: f64| {
        let (mut zone, mut left) = (0, offset * whole);
        while left > rate(zone) {
            left -= rate(zone);
            zone += 1;
        }
        (zone as f64 + left / rate(zone)) / spec.zones as f64
    };
    let (track, average, full) =
        (spec.track_to_track_ns as f64, spec.average_ns as f64, spec.full_ns as f64);
    let third = (135.0 * average - 27.0 * track - 20.0 * full) / 88.0;
    let seek = |distance: f64| match distance * 3.0 {
        share if share <= 1.0 => track + (third - track) * share.sqrt(),
        share => third + (full - third) * (share - 1.0) / 2.0,
    };
    let steps = 1000;
    let places: Vec<f64> =
        (0..steps).map(|n| place((f64::from(n) + 0.5) / f64::from(steps))).collect();
    let from = |a: f64| places.iter().map(|b| seek((a - b).abs())).sum::<f64>();
    let sum: f64 = places.iter().map(|a| from(*a)).sum();
    sum / f64::from(steps * steps)
}

#[test]
fn random_reads_take_a_seek_and_half_a_turn() {
    for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
        let count = 40_000;
        let time = run(&mut Hdd::new(spec), 1, count, DiskOp::Read, 4096, random(spec.size));
        let (seek, turn) = (mean_seek(&spec) as u64, 60 * SECOND / spec.rpm);
        let wanted = seek + turn / 2 + spec.overhead_ns + 8 * turn / mean_track(&spec);
        // Seek and turn deviate by about 6 ms, 0.03 ms in the mean of so many.
        assert!(is_near(time / count, wanted, 6), "{} for {wanted}", time / count);
        // The zones make up for one or two percent.
        assert!(seek < spec.average_ns && seek > spec.average_ns * 98 / 100, "{seek}");
    }
}

#[test]
fn queueing_helps_random_reads() {
    let at = [1, 4, 32].map(|depth| iops(HddSpec::HDD7200, depth));
    assert!(at[1] * 10 > at[0] * 12 && at[2] * 10 > at[0] * 20, "{at:?}");
    let without = iops(HddSpec { ncq: 1, ..HddSpec::HDD7200 }, 32);
    assert!(without.abs_diff(at[0]) * 50 < at[0], "{without} for {at:?}");
}

#[test]
fn one_reader_after_the_other_gets_the_rate_of_the_zone() {
    for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
        let (len, count) = (128 << 10, 1024);
        let bytes = u64::from(len) * count;
        for (first, rate) in [(0, spec.outer), (spec.size - bytes, spec.inner)] {
            let mut at = first;
            let mut next = || {
                at += u64::from(len);
                at - u64::from(len)
            };
            let time = run(&mut Hdd::new(spec), 1, count, DiskOp::Read, len, &mut next);
            let seen = (u128::from(bytes) * u128::from(SECOND) / u128::from(time)) as u64;
            assert!(seen.abs_diff(rate) < rate * 3 / 100, "{seen} for {rate}");
        }
    }
}

#[test]
fn writes_are_acknowledged_when_held_and_a_flush_waits_for_the_platters() {
    let spec = HddSpec::HDD7200;
    let mut disk = Hdd::new(spec);
    disk.submit(0, 1, DiskOp::Write, 1 << 30, 4096);
    let held = spec.overhead_ns + 4096 * SECOND / spec.interface;
    assert_eq!((disk.next_event(), disk.poll_complete(held)), (Some(held), Some(1)));
    disk.submit(held, 2, DiskOp::Flush, 0, 0);
    let on_platters = disk.next_event().unwrap();
    assert!(on_platters > spec.track_to_track_ns);
    assert_eq!(disk.poll_complete(on_platters), None);
    assert_eq!(disk.poll_complete(on_platters + spec.overhead_ns), Some(2));

    let mut disk = Hdd::new(HddSpec { cache: 0, ..spec });
    disk.submit(0, 1, DiskOp::Write, 1 << 30, 4096);
    assert!(disk.next_event().unwrap() > spec.track_to_track_ns);
}

/// Completion times of requests by id, with none submitted meanwhile.
fn drain(disk: &mut Hdd) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    while let Some(at) = disk.next_event() {
        seen.extend(disk.poll_complete(at).map(|id| (id, at)));
    }
    seen
}

#[test]
fn a_write_with_fua_is_on_the_platters_when_it_is_complete() {
    let spec = HddSpec::HDD7200;
    let mut disk = Hdd::new(spec);
    disk.submit(0, 1, DiskOp::WriteFua, 1 << 30, 4096);
    let [(1, durable)] = drain(&mut disk)[..] else { panic!("one request") };
    assert!(durable > spec.track_to_track_ns);
    // So a flush has nothing to do.
    disk.submit(durable, 2, DiskOp::Flush, 0, 0);
    assert_eq!(drain(&mut disk), [(2, durable + spec.overhead_ns)]);
    // It costs what a write costs without a cache: a seek and half a turn.
    let (fua, plain) = (DiskOp::WriteFua, DiskOp::Write);
    let with_cache = run(&mut Hdd::new(spec), 1, 2000, fua, 4096, random(spec.size));
    let without = HddSpec { cache: 0, ..spec };
    let without = run(&mut Hdd::new(without), 1, 2000, plain, 4096, random(spec.size));
    assert!(is_near(with_cache, without, 1), "{with_cache} and {without}");
}

/// Earlier commands complete before a flush empties the cache, and later ones wait.
#[test]
fn a_flush_is_not_overtaken_by_what_comes_later() {
    let spec = HddSpec::HDD7200;
    let (mut disk, mut next) = (Hdd::new(spec), random(spec.size));
    disk.submit(0, 0, DiskOp::Write, 1 << 30, 4096);
    for id in 1..=4 {
        disk.submit(0, id, DiskOp::Read, next(), 4096);
    }
    disk.submit(0, 5, DiskOp::Flush, 0, 0);
    for id in 6..=40 {
        disk.submit(0, id, [DiskOp::Read, DiskOp::Write][id as usize % 2], next(), 4096);
    }
    disk.submit(0, 41, DiskOp::Flush, 0, 0);
    let mut seen = drain(&mut disk);
    let at = |id| seen.iter().position(|&(seen, _)| seen == id).expect("it completes");
    assert!((0..5).all(|id| at(id) < at(5)) && (6..41).all(|id| at(5) < at(id)));
    assert_eq!(seen.pop().map(|(id, _)| id), Some(41));
}

/// Readers that always have four requests at the disk, and a flush of 4 KiB now and then: it waits for these four, and
/// not until it is older than `age`.
#[test]
fn a_flush_beside_readers_takes_as_long_as_they_have_at_the_disk() {
    let spec = HddSpec::HDD7200;
    let (mut disk, mut next) = (Hdd::new(spec), random(spec.size));
    let (mut now, mut id, mut longest, mut flushes) = (0, 100, 0, 0);
    for _ in 0..4 {
        id += 1;
        disk.submit(0, id, DiskOp::Read, next(), 64 << 10);
    }
    let mut flush = None;
    while flushes < 50 {
        if flush.is_none() {
            disk.submit(now, 1, DiskOp::Write, next(), 4096);
            disk.submit(now, 2, DiskOp::Flush, 0, 0);
            flush = Some(now);
        }
        now = disk.next_event().expect("readers read");
        while let Some(done) = disk.poll_complete(now) {
            match done {
                1 => {}
                2 => {
                    longest = longest.max(now - flush.take().expect("it was submitted"));
                    flushes += 1;
                }
                _ => {
                    id += 1;
                    disk.submit(now, id, DiskOp::Read, next(), 64 << 10);
                }
            }
        }
    }
    // Five times the longest seek and a turn.
    let most = 5 * (spec.full_ns + 60 * SECOND / spec.rpm);
    assert!(longest < most && longest < spec.age_ns / 5, "{longest} ns of {most}");
}

/// Reads 128 KiB, and lets the heads read ahead for 20 ms; returns the time of the read.
fn read_and_think(disk: &mut Hdd, now: &mut u64, offset: u64) -> u64 {
    disk.submit(*now, 0, DiskOp::Read, offset, 128 << 10);
    let start = *now;
    *now = loop {
        let at = disk.next_event().expect("a read is in flight");
        if disk.poll_complete(at).is_some() {
            break at;
        }
    };
    let took = *now - start;
    *now += SECOND / 50;
    took
}

#[test]
fn the_buffer_keeps_as_many_stretches_as_it_has_segments() {
    let spec = HddSpec { segments: 3, ..HddSpec::HDD7200 };
    let from_buffer = spec.overhead_ns + (128 << 10) * SECOND / spec.interface;
    let mut disk = Hdd::new(spec);
    let (mut now, step) = (0, 128 << 10);
    let stream = |number: u64| number * 100_000_000_000;
    for number in 0..3 {
        assert!(read_and_think(&mut disk, &mut now, stream(number)) > spec.track_to_track_ns);
    }
    // All three go on from the buffer until what was read on, 1 MiB, is used up.
    for turn in 1..=8 {
        for number in 0..3 {
            let took = read_and_think(&mut disk, &mut now, stream(number) + turn * step);
            assert_eq!(took, from_buffer, "{turn} of {number}");
        }
    }
    // One more, and the one that was used least recently has to go.
    assert!(read_and_think(&mut disk, &mut now, stream(3)) > spec.track_to_track_ns);
    assert_eq!(read_and_think(&mut disk, &mut now, stream(1) + 2 * step), from_buffer);
    assert!(read_and_think(&mut disk, &mut now, stream(0) + 2 * step) > spec.track_to_track_ns);

    // What is written is no longer what was read.
    let mut disk = Hdd::new(spec);
    read_and_think(&mut disk, &mut now, stream(0));
    read_and_think(&mut disk, &mut now, stream(1));
    disk.submit(now, 1, DiskOp::Write, 256 << 10, 4096);
    now += SECOND;
    assert_eq!(disk.poll_complete(now), Some(1));
    assert!(read_and_think(&mut disk, &mut now, 256 << 10) > from_buffer);
}

#[test]
fn an_old_request_is_served_before_nearer_ones() {
    let far = HddSpec::HDD7200.size - 4096;
    let waited = |age_ns| {
        let spec = HddSpec { age_ns, ..HddSpec::HDD7200 };
        let (mut disk, mut near, mut now) = (Hdd::new(spec), random(1 << 30), 0);
        disk.submit(0, 0, DiskOp::Read, near(), 4096);
        disk.submit(0, 1, DiskOp::Read, far, 4096);
        for id in 2..32 {
            disk.submit(0, id, DiskOp::Read, near(), 4096);
        }
        loop {
            now = disk.next_event().unwrap().max(now);
            while let Some(id) = disk.poll_complete(now) {
                if id == 1 {
                    return now;
                }
                disk.submit(now, id, DiskOp::Read, near(), 4096);
            }
        }
    };
    let spec = HddSpec::HDD7200;
    let turn = 60 * SECOND / spec.rpm;
    // What is under way, then the stroke and a turn. The others of the first moment are old then as well, and before it.
    for age_ns in [SECOND / 2, 2 * SECOND] {
        let seen = waited(age_ns);
        let most = age_ns + 2 * (spec.full_ns + turn) + 2_000_000;
        assert!(seen >= age_ns && seen <= most, "{seen} for {age_ns}");
    }
    // Without age it is passed over for as long as there is anything nearer.
    assert!(waited(10 * SECOND) >= 10 * SECOND);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_once_and_not_before_its_time(
        calls in proptest::collection::vec((0..20_000_000u64, 0..6u8, 0..1u64 << 27, 0..1u32 << 22), 1..60),
        cache in prop_oneof![Just(0), Just(1 << 20), Just(16 << 20)],
        ncq in 1..40u64,
        segments in 1..5u64,
    ) {
        let spec = HddSpec { size: 1 << 28, cache, ncq, segments, ..HddSpec::HDD7200 };
        let calls: Vec<_> =
            calls.into_iter().map(|(wait, number, offset, len)| (wait, op(number), offset, len)).collect();
        check_calls(Box::new(Hdd::new(spec)), Box::new(Hdd::new(spec)), &calls);
    }
}

/// After a pause, the buffer's data comes at the rate of the interface, and the rest at that of the platters: reading ahead
/// ends when the buffer is full.
#[test]
fn a_pause_fills_the_buffer_and_no_more() {
    for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
        let (len, count) = (128 << 10, 400);
        let bytes = u64::from(len) * count;
        let mut disk = Hdd::new(spec);
        let mut next = sequential(0, len);
        let mut read_on =
            |from| drive(&mut disk, from, 1, count, || (DiskOp::Read, next(), len)) - from;
        let first = read_on(0);
        let second = read_on(first + SECOND);
        let platters = rate(bytes - spec.readahead, second);
        assert!(is_near(platters, spec.outer, 15), "{platters} instead of {}", spec.outer);
    }
}
