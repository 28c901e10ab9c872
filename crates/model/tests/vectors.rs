//! The worked vectors A to P of spec/throttle 1.14, tick by tick.

use weir_model::kernel::{Direction, Flags, GroupId, Kernel, Limit, Limits, Profile};

use Direction::{Read, Write};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const FOREVER: u64 = 100_000;

const CARRYING: [Profile; 2] = [Profile::K61, Profile::K612];

fn kernel(profile: Profile) -> Kernel {
    Kernel::new(profile, 1000, 100)
}

fn reads(bps: Option<u64>, iops: Option<u64>) -> Limits {
    [Limit { bps, iops }, Limit::default()]
}

fn writes(bps: u64) -> Limits {
    [Limit::default(), Limit { bps: Some(bps), iops: None }]
}

fn limited(kernel: &mut Kernel, parent: GroupId, limits: Limits) -> GroupId {
    let group = kernel.add_group(parent);
    kernel.set_limits(0, group, limits);
    group
}

fn submit_many(kernel: &mut Kernel, tick: u64, group: GroupId, count: usize, bytes: u64) {
    for _ in 0..count {
        kernel.submit(tick, group, Read, bytes, Flags::default());
    }
}

/// The tick at which each bio left, by id; fails if one never did.
fn ticks(kernel: &mut Kernel, bios: usize) -> Vec<u64> {
    let mut ticks = vec![None; bios];
    for (tick, id) in kernel.run_until(FOREVER) {
        assert_eq!(ticks[id].replace(tick), None, "bio {id} left twice");
    }
    assert_eq!(kernel.queued(), 0);
    ticks.into_iter().map(|tick| tick.expect("every bio leaves")).collect()
}

/// `(tick, how many)`, for bios that leave in batches.
fn batches(ticks: &[u64]) -> Vec<(u64, usize)> {
    let mut batches: Vec<(u64, usize)> = Vec::new();
    for &tick in ticks {
        match batches.last_mut() {
            Some((last, count)) if *last == tick => *count += 1,
            _ => batches.push((tick, 1)),
        }
    }
    batches
}

/// All reads submitted at 0 to one group under the root.
fn one_group(profile: Profile, limits: Limits, count: usize, bytes: u64, late: u64) -> Vec<u64> {
    let mut kernel = kernel(profile);
    kernel.set_lateness(late);
    let group = limited(&mut kernel, Kernel::ROOT, limits);
    submit_many(&mut kernel, 0, group, count, bytes);
    ticks(&mut kernel, count)
}

/// What leaves when, by name: `"0: x0 x1 | 100: y0"`.
fn timeline(kernel: &mut Kernel, names: &[String]) -> String {
    let mut lines: Vec<(u64, Vec<&str>)> = Vec::new();
    for (tick, id) in kernel.run_until(FOREVER) {
        match lines.last_mut() {
            Some((last, line)) if *last == tick => line.push(&names[id]),
            _ => lines.push((tick, vec![&names[id]])),
        }
    }
    let lines = lines.iter().map(|(tick, line)| format!("{tick}: {}", line.join(" ")));
    lines.collect::<Vec<_>>().join(" | ")
}

fn named(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}{number}"))
}

#[test]
fn a_two_writes_of_10_kib_at_1_kib_a_second() {
    for (profile, second) in [(Profile::K61, 20_000), (Profile::K615, 20_001)] {
        let mut kernel = kernel(profile);
        let group = limited(&mut kernel, Kernel::ROOT, writes(1024));
        for _ in 0..2 {
            kernel.submit(0, group, Write, 10 * KIB, Flags::default());
        }
        assert_eq!(ticks(&mut kernel, 2), [10_000, second], "{}", profile.name);
    }
}

#[test]
fn b_large_reads_under_a_byte_limit() {
    for profile in [Profile::K61, Profile::K612, Profile::K615] {
        let exact = one_group(profile, reads(Some(MIB), None), 12, 64 * KIB, 0);
        let expected = [0, 125, 125, 250, 312, 312, 437, 501, 501, 625, 625, 750];
        assert_eq!(exact, expected, "{}", profile.name);
        let late = one_group(profile, reads(Some(MIB), None), 12, 64 * KIB, 1);
        let expected = [0, 126, 126, 251, 313, 313, 438, 502, 502, 626, 626, 751];
        assert_eq!(late, expected, "{} late", profile.name);
    }
}

#[test]
fn c_small_reads_under_a_byte_limit() {
    for profile in Profile::ALL {
        let ticks = one_group(profile, reads(Some(MIB), None), 80, 4 * KIB, 0);
        let expected = [(0, 25), (101, 26), (203, 25), (301, 4)];
        assert_eq!(batches(&ticks), expected, "{}", profile.name);
    }
}

#[test]
fn d_reads_under_an_ios_limit() {
    for profile in Profile::ALL {
        let ticks = one_group(profile, reads(None, Some(100)), 45, 4 * KIB, 0);
        let rest = match profile.name {
            "K418" => [111, 211, 311, 411],
            "K419a" => [101, 201, 301, 401],
            _ => [100, 200, 300, 400],
        };
        let expected = [(0, 10), (rest[0], 10), (rest[1], 10), (rest[2], 10), (rest[3], 5)];
        assert_eq!(batches(&ticks), expected, "{}", profile.name);
    }
}

#[test]
fn e_a_read_late_in_the_slice() {
    for profile in Profile::ALL {
        let mut kernel = kernel(profile);
        let group = limited(&mut kernel, Kernel::ROOT, reads(None, Some(100)));
        submit_many(&mut kernel, 0, group, 9, 4 * KIB);
        submit_many(&mut kernel, 95, group, 3, 4 * KIB);
        let others = match profile.name {
            "K418" => 111,
            "K419a" => 101,
            "K419" | "K61" => 100,
            _ => 106,
        };
        let expected = [(0, 9), (95, 1), (others, 2)];
        assert_eq!(batches(&ticks(&mut kernel, 12)), expected, "{}", profile.name);
    }
}

#[test]
fn f_five_ios_a_second() {
    let limits = reads(None, Some(5));
    for profile in [Profile::K419, Profile::K61] {
        let ticks = one_group(profile, limits, 6, 4 * KIB, 0);
        assert_eq!(ticks, [100, 400, 700, 1000, 1300, 1600], "{}", profile.name);
    }
    let ticks = one_group(Profile::K612, limits, 6, 4 * KIB, 0);
    assert_eq!(ticks, [201, 402, 603, 804, 1005, 1206]);
}

#[test]
fn g_a_limit_change_keeps_what_was_waited_for() {
    for profile in CARRYING {
        for (before, after, change_at) in [(2048, 1024, 2000), (1024, 2048, 4000)] {
            let mut kernel = kernel(profile);
            let group = limited(&mut kernel, Kernel::ROOT, writes(before));
            kernel.submit(0, group, Write, 8 * KIB, Flags::default());
            kernel.set_limits(change_at, group, writes(after));
            assert_eq!(ticks(&mut kernel, 1), [6000], "{} {before}", profile.name);
        }
    }
}

#[test]
fn h_time_served_at_the_child_counts_at_the_parent() {
    for profile in Profile::ALL {
        let mut kernel = kernel(profile);
        let parent = limited(&mut kernel, Kernel::ROOT, reads(Some(4096), None));
        let child = limited(&mut kernel, parent, reads(Some(8192), None));
        submit_many(&mut kernel, 0, child, 4, 8 * KIB);
        // The slice that K615 keeps back when it trims costs it the same tick as in vector A.
        let late = u64::from(profile == Profile::K615);
        let expected = [2000, 4000 + late, 6000 + late, 8000 + late];
        assert_eq!(ticks(&mut kernel, 4), expected, "{}", profile.name);
    }
}

#[test]
fn i_two_children_take_turns_under_an_ios_limit() {
    for profile in [Profile::K419, Profile::K61, Profile::K612, Profile::K615] {
        let mut kernel = kernel(profile);
        let parent = limited(&mut kernel, Kernel::ROOT, reads(None, Some(100)));
        let x = kernel.add_group(parent);
        let y = kernel.add_group(parent);
        submit_many(&mut kernel, 0, x, 30, 4 * KIB);
        submit_many(&mut kernel, 0, y, 10, 4 * KIB);
        let names: Vec<_> = named("x", 30).chain(named("y", 10)).collect();
        assert_eq!(
            timeline(&mut kernel, &names),
            "0: x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 | 100: x10 y0 x11 y1 x12 y2 x13 y3 x14 y4 | \
             200: x15 y5 x16 y6 x17 y7 x18 y8 x19 y9 | \
             300: x20 x21 x22 x23 x24 x25 x26 x27 x28 x29",
            "{}",
            profile.name
        );
    }
}

#[test]
fn j_two_children_take_turns_under_a_byte_limit() {
    for profile in [Profile::K61, Profile::K612, Profile::K615] {
        let mut kernel = kernel(profile);
        let parent = limited(&mut kernel, Kernel::ROOT, reads(Some(MIB), None));
        let x = kernel.add_group(parent);
        let y = kernel.add_group(parent);
        submit_many(&mut kernel, 0, x, 6, 64 * KIB);
        submit_many(&mut kernel, 0, y, 6, 64 * KIB);
        let names: Vec<_> = named("x", 6).chain(named("y", 6)).collect();
        assert_eq!(
            timeline(&mut kernel, &names),
            "0: x0 | 125: x1 y0 | 250: x2 | 312: y1 x3 | 437: y2 | 501: x4 y3 | 625: x5 y4 | 750: y5",
            "{}",
            profile.name
        );
    }
}

#[test]
fn k_three_levels_with_timers_that_coincide() {
    for profile in [Profile::K419, Profile::K61, Profile::K612, Profile::K615] {
        let mut kernel = kernel(profile);
        let g = limited(&mut kernel, Kernel::ROOT, reads(None, Some(50)));
        let p = limited(&mut kernel, g, reads(None, Some(100)));
        let c1 = limited(&mut kernel, p, reads(None, Some(30)));
        let c2 = kernel.add_group(p);
        submit_many(&mut kernel, 0, c1, 8, 4 * KIB);
        submit_many(&mut kernel, 0, c2, 12, 4 * KIB);
        let names: Vec<_> = named("c1-", 8).chain(named("c2-", 12)).collect();
        assert_eq!(
            timeline(&mut kernel, &names),
            "0: c1-0 c1-1 c1-2 c2-0 c2-1 | 100: c2-2 c2-3 c2-4 c2-5 c2-6 | \
             200: c2-7 c1-3 c2-8 c1-4 c2-9 | 300: c1-5 c2-10 c2-11 c1-6 c1-7",
            "{}",
            profile.name
        );
    }
}

#[test]
fn l_bytes_and_ios_limited_at_once() {
    let limits = reads(Some(MIB), Some(10));
    let k61 = one_group(Profile::K61, limits, 6, 64 * KIB, 0);
    assert_eq!(k61, [0, 125, 200, 300, 400, 500]);
    let k612 = one_group(Profile::K612, limits, 6, 64 * KIB, 0);
    assert_eq!(k612, [0, 125, 226, 327, 428, 529]);
}

#[test]
fn m_reads_and_writes_of_one_group() {
    for profile in Profile::ALL {
        let mut kernel = kernel(profile);
        let limit = Limit { bps: Some(MIB), iops: None };
        let group = limited(&mut kernel, Kernel::ROOT, [limit, limit]);
        submit_many(&mut kernel, 0, group, 60, 4 * KIB);
        for _ in 0..60 {
            kernel.submit(0, group, Write, 4 * KIB, Flags::default());
        }
        let log = kernel.run_until(FOREVER);
        let kinds: Vec<_> =
            log.iter().map(|&(tick, id)| (tick, if id < 60 { 'R' } else { 'W' })).collect();
        let mut runs: Vec<(u64, char, usize)> = Vec::new();
        for (tick, kind) in kinds {
            match runs.last_mut() {
                Some((last, run, count)) if (*last, *run) == (tick, kind) => *count += 1,
                _ => runs.push((tick, kind, 1)),
            }
        }
        let expected = [
            (0, 'R', 25),
            (0, 'W', 25),
            (101, 'R', 26),
            (101, 'W', 26),
            (203, 'R', 9),
            (203, 'W', 9),
        ];
        assert_eq!(runs, expected, "{}", profile.name);
    }
}

#[test]
fn n_metadata_overtakes_and_leaves_a_debt() {
    for (with_meta, expected) in
        [(true, [0, 125, 125, 253, 316, 316]), (false, [0, 125, 125, 250, 312, 312])]
    {
        let mut kernel = kernel(Profile::K612);
        let group = limited(&mut kernel, Kernel::ROOT, writes(MIB));
        for _ in 0..6 {
            kernel.submit(0, group, Write, 64 * KIB, Flags::default());
        }
        let mut bios = 6;
        if with_meta {
            bios = 7;
            kernel.submit(10, group, Write, 4 * KIB, Flags { meta: true, remainder: false });
        }
        let ticks = ticks(&mut kernel, bios);
        assert_eq!(ticks[..6], expected);
        assert_eq!(ticks.get(6), with_meta.then_some(&10));
    }
}

#[test]
fn o_an_idle_slice_earns_nothing() {
    for profile in [Profile::K419, Profile::K61, Profile::K612, Profile::K615] {
        let mut kernel = kernel(profile);
        let group = limited(&mut kernel, Kernel::ROOT, reads(None, Some(100)));
        submit_many(&mut kernel, 0, group, 1, 4 * KIB);
        submit_many(&mut kernel, 150, group, 30, 4 * KIB);
        let expected = [(0, 1), (150, 10), (250, 10), (350, 10)];
        assert_eq!(batches(&ticks(&mut kernel, 31)), expected, "{}", profile.name);
    }
}

#[test]
fn p_a_lowered_limit_leaves_a_debt() {
    for (change_at, five_leave_at) in [(0, 1000), (50, 550)] {
        let mut kernel = kernel(Profile::K612);
        let group = limited(&mut kernel, Kernel::ROOT, reads(None, Some(1000)));
        submit_many(&mut kernel, 0, group, 105, 4 * KIB);
        kernel.set_limits(change_at, group, reads(None, Some(100)));
        let ticks = ticks(&mut kernel, 105);
        assert_eq!(batches(&ticks), [(0, 100), (five_leave_at, 5)]);
    }
}

#[test]
fn p_an_unsigned_debt_is_a_credit() {
    let mut kernel = kernel(Profile::K61);
    let group = limited(&mut kernel, Kernel::ROOT, reads(None, Some(1000)));
    submit_many(&mut kernel, 0, group, 105, 4 * KIB);
    kernel.set_limits(0, group, reads(None, Some(100)));
    assert_eq!(batches(&ticks(&mut kernel, 105)), [(0, 105)]);
}
