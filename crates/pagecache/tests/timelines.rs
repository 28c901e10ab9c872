//! The page cache in front of a disk of fixed rate: what happens when, and what it comes to in the long run.

#[path = "timelines/machine.rs"]
mod machine;

use machine::{KIB, MIB, MS, Machine, SECOND};
use weir_pagecache::{Owner, Settings};

/// A machine whose limits are round: 64 MiB of memory, background 4 MiB, dirty 8 MiB, requests of 1 MiB.
fn settings() -> Settings {
    Settings {
        memory_bytes: 64 * MIB,
        dirty_background_bytes: 4 * MIB,
        dirty_bytes: 8 * MIB,
        write_chunk_bytes: MIB,
        flusher_depth: 2,
        ..Settings::default()
    }
}

// Timelines.

#[test]
fn a_sequential_reader_has_read_ahead() {
    // 128 KiB take 1 ms.
    let mut machine = Machine::new(settings(), 128 * KIB * 1000);
    machine.cache.set_file_size(0, 400 * KIB);
    for page in 0..100 {
        machine.read_and_wait(0, page * 4 * KIB, 4 * KIB as u32);
    }
    assert_eq!(
        machine.timeline(),
        "\
0.000 r0 0+16K waited
0.125 r0 16+32K ahead
0.125 r0 48+64K ahead
0.375 r0 112+128K ahead
0.875 r0 240+128K ahead
1.875 r0 368+32K ahead
"
    );
    // The disk never rested: 400 KiB at its rate.
    assert_eq!(machine.now_ns, 3_125_000);
    let counters = machine.cache.counters();
    assert_eq!((counters.ahead_pages, counters.ahead_used_pages), (99, 99));
    assert_eq!(counters.hit_pages + counters.miss_pages, 100);
}

#[test]
fn windows_of_a_long_read_are_as_long_as_the_read() {
    let mut machine = Machine::new(settings(), 128 * KIB * 1000);
    machine.cache.set_file_size(0, 64 * MIB);
    machine.read_and_wait(0, 0, 512 * KIB as u32);
    // The next is read when the reader comes to the middle of the one before.
    assert_eq!(
        machine.timeline(),
        "\
0.000 r0 0+512K waited
0.000 r0 512+512K ahead
"
    );
    assert_eq!(machine.now_ns, 4 * MS);
    // A short one after it is read ahead for by the usual 128 KiB.
    machine.read_and_wait(0, 512 * KIB, 4 * KIB as u32);
    assert!(machine.timeline().ends_with(" r0 1024+128K ahead\n"), "{}", machine.timeline());
}

#[test]
fn random_reads_have_no_read_ahead() {
    let mut machine = Machine::new(settings(), 4 * KIB * 1000);
    machine.cache.set_file_size(0, 64 * MIB);
    for offset in [40, 8000, 400, 400] {
        machine.read_and_wait(0, offset * KIB, 4 * KIB as u32);
    }
    machine.read_and_wait(0, 6001 * KIB, KIB as u32);
    assert_eq!(
        machine.timeline(),
        "\
0.000 r0 40+4K waited
1.000 r0 8000+4K waited
2.000 r0 400+4K waited
3.000 r0 6000+4K waited
"
    );
    let counters = machine.cache.counters();
    assert_eq!((counters.hit_pages, counters.miss_pages, counters.ahead_pages), (1, 4, 0));
}

#[test]
fn without_read_ahead_reads_are_as_asked() {
    let settings = Settings { read_ahead_bytes: 0, ..settings() };
    let mut machine = Machine::new(settings, 4 * KIB * 1000);
    machine.cache.set_file_size(0, 10_000);
    for offset in [0, 4096, 8192] {
        machine.read_and_wait(0, offset, 4096);
    }
    // The last ends with the sector in which the file does.
    let lens: Vec<u32> = machine.log.iter().map(|entry| entry.io.len).collect();
    assert_eq!(lens, [4096, 4096, 2048]);
    assert_eq!(machine.cache.counters().ahead_pages, 0);
}

#[test]
fn dirty_data_expires_at_a_look_of_the_flusher() {
    let mut machine = Machine::new(settings(), 1000 * MIB);
    machine.write_and_wait(0, 0, 0, 4096);
    machine.go_to(7 * SECOND);
    // A second file, and more of the first.
    machine.write_and_wait(0, 1, 0, 8192);
    machine.write_and_wait(0, 0, MIB, 4096);
    machine.go_to(100 * SECOND);
    // The first look is 5 s after the first page, so the sixth is when that is 30 s old: the whole file goes. The
    // other file is 30 s old at 37 s, and the next look at 40 s.
    assert_eq!(
        machine.timeline(),
        "\
30000.000 w0 0+4K by 0
30000.000 w0 1024+4K by 0
40000.000 w1 0+8K by 0
"
    );
    assert_eq!((machine.cache.poll_timeout(), machine.cache.counters().dirty_bytes), (None, 0));
}

#[test]
fn above_the_background_limit_the_flusher_writes_down_to_it() {
    // 1 MiB takes 10 ms.
    let mut machine = Machine::new(settings(), 100 * MIB);
    machine.write_and_wait(0, 0, 0, 4 * MIB as u32);
    assert_eq!(machine.timeline(), "");
    machine.write_and_wait(0, 0, 4 * MIB, 2 * MIB as u32);
    machine.write_and_wait(0, 1, 0, MIB as u32);
    machine.go_to(SECOND);
    // Two at a time; what is on its way does not count as too much.
    assert_eq!(
        machine.timeline(),
        "\
0.000 w0 0+1024K by 0
0.000 w0 1024+1024K by 0
10.000 w0 2048+1024K by 0
"
    );
    assert_eq!(machine.cache.counters().dirty_bytes, 4 * MIB);
    let owner = machine.cache.owner_counters(0);
    assert_eq!((owner.background_bytes, owner.forced_bytes), (3 * MIB, 0));
}

#[test]
fn fsync_waits_for_its_file_and_no_other() {
    // 1 MiB takes 10 ms; a flush takes its turn and no time.
    let mut machine = Machine::new(settings(), 100 * MIB);
    machine.write_and_wait(1, 0, 0, 2 * MIB as u32);
    machine.write_and_wait(2, 1, 0, MIB as u32);
    machine.write_and_wait(2, 0, 8 * MIB, 4096);
    machine.sync_and_wait(3, 0);
    assert_eq!(
        machine.timeline(),
        "\
0.000 w0 0+1024K by 1 waited
0.000 w0 1024+1024K by 1 waited
0.000 w0 8192+4K by 2 waited
20.039 f0 by 3 waited
"
    );
    // The other file is as dirty as before, and nothing of this one is.
    assert_eq!(machine.cache.counters().dirty_bytes, MIB);
    assert_eq!(machine.cache.dirty_owner(1, 0), Some(2));
    // Nothing dirty: the flush alone.
    machine.log.clear();
    machine.sync_and_wait(3, 0);
    assert_eq!(machine.timeline(), "20.039 f0 by 3 waited\n");
    assert_eq!(machine.cache.owner_counters(1).sync_bytes, 2 * MIB);
}

#[test]
fn fsync_waits_for_writeback_and_writes_changed_pages_again() {
    let settings = Settings { dirty_background_bytes: 0, ..settings() };
    let mut machine = Machine::new(settings, 100 * MIB);
    let first = machine.write(0, 0, 0, MIB as u32, false);
    let again = machine.write(1, 0, 4096, 4096, false);
    let sync = machine.sync(0, 0);
    // Written after the call: goes in its own time.
    let late = machine.write(0, 0, 2 * MIB, 4096, false);
    machine.drain();
    let times = [first, again, sync, late].map(|token| machine.ended_ns(token));
    // 10 ms for the mebibyte, twice 39,062.5 ns for a page: the late one was on its way before the repeated one.
    assert_eq!(times, [0, 0, 10 * MS + 78_125, 0]);
    assert_eq!(
        machine.timeline(),
        "\
0.000 w0 0+1024K by 0
0.000 w0 2048+4K by 0
10.000 w0 4+4K by 0 waited
10.078 f0 by 0 waited
"
    );
}

#[test]
fn a_synchronous_write_waits_for_its_own_pages() {
    let mut machine = Machine::new(settings(), 100 * MIB);
    machine.write_and_wait(1, 0, 0, MIB as u32);
    let token = machine.write(2, 0, 512 * KIB, 8192, true);
    machine.drain_until_done(token);
    // The pages are their first writer's, the flush is the caller's.
    assert_eq!(machine.timeline(), "0.000 w0 512+8K by 1 waited\n0.078 f0 by 2 waited\n");
    assert_eq!(machine.cache.counters().dirty_bytes, MIB - 8192);
}

#[test]
fn a_partial_page_is_read_before_it_is_written() {
    let mut machine = Machine::new(settings(), 4 * KIB * 1000);
    machine.cache.set_file_size(0, 10 * KIB);
    // Both ends of the write leave bytes of the file alone.
    machine.write_and_wait(0, 0, 1024, 8192);
    assert_eq!(machine.timeline(), "0.000 r0 0+4K waited\n1.000 r0 8+2K waited\n");
    // A whole page, up to the end of the file, and beyond it: nothing to read.
    machine.cache.set_file_size(1, 10 * KIB);
    let before = machine.log.len();
    machine.write_and_wait(0, 1, 4096, 4096);
    machine.write_and_wait(0, 1, 8192, 2048);
    machine.write_and_wait(0, 1, 16_384, 100);
    assert_eq!(machine.log.len(), before);
}

#[test]
fn pages_have_owners_by_the_setting() {
    for (owner, wanted) in [
        (Owner::First, "w0 0+12K by 1 | w0 12+4K by 2"),
        (Owner::Last, "w0 0+4K by 1 | w0 4+12K by 2"),
    ] {
        let mut machine = Machine::new(Settings { owner, ..settings() }, 100 * MIB);
        machine.write_and_wait(1, 0, 0, 12 * KIB as u32);
        machine.write_and_wait(2, 0, 4 * KIB, 12 * KIB as u32);
        machine.sync_and_wait(3, 0);
        let timeline = machine.timeline();
        let writes: Vec<&str> = timeline
            .lines()
            .filter(|line| line.contains('w'))
            .filter_map(|line| line.strip_prefix("0.000 ")?.strip_suffix(" waited"))
            .collect();
        assert_eq!(writes.join(" | "), wanted);
        // A clean page is the next writer's.
        machine.write_and_wait(4, 0, 0, 4096);
        assert_eq!(machine.cache.dirty_owner(0, 0), Some(4));
    }
}

#[test]
fn the_most_recently_used_pages_are_kept() {
    let settings = Settings { memory_bytes: 64 * KIB, ..settings() };
    let mut machine = Machine::new(settings, 4 * KIB * 1000);
    machine.cache.set_file_size(0, MIB);
    // 16 pages fit. Every second page, so that nothing is in order.
    for page in (1..=16).map(|n| 2 * n) {
        machine.read_and_wait(0, page * 4096, 4096);
    }
    machine.read_and_wait(0, 2 * 4096, 4096);
    machine.read_and_wait(0, 200 * 4096, 4096);
    let cached = [2, 4, 6, 200].map(|page| machine.cache.is_cached(0, page * 4096));
    assert_eq!(cached, [true, false, true, true]);
    assert_eq!(machine.cache.counters().evicted_pages, 1);
    machine.cache.invalidate(machine.now_ns, 0);
    assert_eq!(machine.cache.counters().cached_bytes, 0);
}

#[test]
fn trimmed_pages_are_not_written() {
    let mut machine = Machine::new(settings(), 100 * MIB);
    machine.write_and_wait(0, 0, 0, 64 * KIB as u32);
    // Only whole pages inside go.
    machine.cache.trim(0, 4097, 16 * KIB as u32);
    machine.cache.set_file_size(0, 32 * KIB);
    machine.sync_and_wait(0, 0);
    assert_eq!(
        machine.timeline(),
        "\
0.000 w0 0+8K by 0 waited
0.000 w0 20+12K by 0 waited
0.195 f0 by 0 waited
"
    );
}

#[test]
fn files_are_written_in_turns() {
    let settings = Settings { dirty_bytes: 32 * MIB, ..settings() };
    let mut machine = Machine::new(settings, 100 * MIB);
    for file in 0..3 {
        machine.write_and_wait(
            0,
            file,
            0,
            4 * MIB as u32 + if file == 0 { 4 * MIB as u32 } else { 0 },
        );
    }
    machine.go_to(SECOND);
    let files: Vec<u32> = machine.log.iter().map(|entry| entry.io.file).collect();
    assert_eq!(files, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(machine.cache.counters().dirty_bytes, 4 * MIB);
}

// Closed forms.

/// The dirty limit's worth at once, and then the rate of the disk.
#[test]
fn a_throttled_writer_goes_at_the_rate_of_the_disk() {
    let rate = 10 * MIB;
    let mut machine = Machine::new(settings(), rate);
    let len = 64 * KIB;
    let (mut written, mut offset) = (0, 0);
    // Twice the rate of the disk: a write every 3.125 ms, or when the one before has ended.
    let every_ns = len * SECOND / (2 * rate);
    let mut next_ns = 0;
    let mut at_10s = 0;
    while machine.now_ns < 110 * SECOND {
        let token = machine.write(0, 0, offset, len as u32, false);
        machine.drain_until_done(token);
        written += len;
        offset += len;
        next_ns += every_ns;
        if machine.now_ns < next_ns {
            machine.go_to(next_ns);
        } else {
            next_ns = machine.now_ns;
        }
        if machine.now_ns < 10 * SECOND {
            at_10s = written;
        }
        let dirty = machine.cache.counters().dirty_bytes;
        assert!(dirty <= 8 * MIB, "{dirty} dirty at {}", machine.now_ns);
    }
    // Of what it wrote in 100 s, the disk has all but what is dirty, to a request.
    let wanted = 100 * rate;
    let got = written - at_10s;
    assert!(got.abs_diff(wanted) <= 2 * MIB, "{got} for {wanted}");
    let counters = machine.cache.counters();
    assert!(counters.throttled_ns > 40 * SECOND, "{counters:?}");
    assert_eq!(counters.dirty_bytes_max, 8 * MIB);
    // Requests were as large as may be but for the odd one.
    let full = machine.log.iter().filter(|entry| u64::from(entry.io.len) == MIB).count();
    assert!(full * 100 >= machine.log.len() * 95, "{full} of {}", machine.log.len());
}

#[test]
fn a_slow_writer_is_not_throttled() {
    let mut machine = Machine::new(settings(), 10 * MIB);
    for step in 0..4000 {
        machine.go_to(step * SECOND * 64 / (8 * 1024));
        let token = machine.write(0, 0, step * 64 * KIB, 64 * KIB as u32, false);
        assert_eq!(machine.ended_ns(token), machine.now_ns);
    }
    let counters = machine.cache.counters();
    assert_eq!((counters.throttled_writes, counters.throttled_ns), (0, 0));
    assert!(counters.dirty_bytes_max < 6 * MIB, "{counters:?}");
}

/// Equal shares, though one writes far more at a time.
#[test]
fn throttled_writers_take_turns() {
    let mut machine = Machine::new(settings(), 10 * MIB);
    let mut tokens = [None; 2];
    let mut written = [0u64; 2];
    let lens = [4 * MIB, 128 * KIB];
    while machine.now_ns < 60 * SECOND {
        for owner in 0..2 {
            if tokens[owner].is_none_or(|token| machine.has_ended(token)) {
                let (offset, len) = (written[owner], lens[owner]);
                tokens[owner] =
                    Some(machine.write(owner as u32, owner as u32, offset, len as u32, false));
                written[owner] += len;
            }
        }
        if !tokens.iter().any(|token| machine.has_ended(token.unwrap())) {
            machine.step();
        }
    }
    let share = written[0] * 100 / (written[0] + written[1]);
    assert!((45..=55).contains(&share), "{written:?}");
}

/// Within expiry and interval, and the time of the disk.
#[test]
fn nothing_stays_dirty_for_long() {
    let settings =
        Settings { dirty_expire_ns: 3 * SECOND, writeback_interval_ns: SECOND, ..settings() };
    let mut machine = Machine::new(settings, 100 * MIB);
    let mut dirty_since = std::collections::BTreeMap::new();
    let mut dice = 1u64;
    let mut seen = 0;
    for _ in 0..5000 {
        machine.go_to(machine.now_ns + 10 * MS);
        while let Some(entry) = machine.log.get(seen) {
            seen += 1;
            for page in 0..u64::from(entry.io.len) / 4096 {
                let place = (entry.io.file, entry.io.offset / 4096 + page);
                let since_ns = dirty_since.remove(&place).expect("only dirty pages are written");
                let age_ns = entry.at_ns - since_ns;
                assert!(age_ns <= 4 * SECOND + SECOND / 10, "{place:?} was dirty for {age_ns} ns");
            }
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (file, page) = ((dice >> 60) as u32, (dice >> 40) % 16);
        machine.write_and_wait(0, file, page * 4096, 4096);
        dirty_since.entry((file, page)).or_insert(machine.now_ns);
    }
    assert!(seen > 500, "{seen}");
}

/// Whatever the size of the writes.
#[test]
fn a_sequential_gigabyte_takes_few_runs() {
    let settings = Settings {
        dirty_bytes: 2 << 30,
        dirty_background_bytes: 1 << 30,
        memory_bytes: 4 << 30,
        ..settings()
    };
    let mut machine = Machine::new(settings, 100 * MIB);
    for page in 0..(1u64 << 30) / 65_536 {
        machine.write_and_wait(0, 0, page * 65_536, 65_536);
    }
    machine.sync_and_wait(0, 0);
    assert_eq!(machine.log.len(), 1024 + 1);
    assert_eq!(machine.now_ns, 10_240 * MS);
}
