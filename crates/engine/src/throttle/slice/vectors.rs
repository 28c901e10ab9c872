//! The worked examples of spec/throttle 1.13 and 1.14 that need no tree.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Slice;
use crate::throttle::limiter::{Arrival, Limiter, Rate, Rates, Verdict};
use crate::throttle::single::Single;
use crate::types::KernelProfile::{self, *};
use crate::types::{Cost, Instant, Resource, SliceProfile};

const FROM_K419: [KernelProfile; 4] = [K419, K61, K612, K615];
const KIB: u64 = 1024;
const MIB_PER_SEC: u64 = 1 << 20;

fn rate(per_second: u64) -> Option<Rate> {
    Some(Rate { per_second, burst: 1, peak: None, quantum: 1 })
}

fn bps(per_second: u64) -> Rates {
    Rates { bps: rate(per_second), iops: None }
}

fn iops(per_second: u64) -> Rates {
    Rates { bps: None, iops: rate(per_second) }
}

/// A queue at HZ=1000 with slices of 100 ticks.
fn queue(kernel: KernelProfile, rates: Rates) -> Single<Slice> {
    let profile = SliceProfile { kernel, hz: 1000, slice_ticks: 100 };
    Single::new(Slice::new(Instant::ZERO, profile, rates))
}

fn submit(queue: &mut Single<Slice>, at_ms: u64, count: usize, bytes: u64) {
    for _ in 0..count {
        queue.submit(Instant::from_millis(at_ms), Cost::whole(bytes, 1));
    }
}

/// How many went when, like "10@0 5@100".
fn timeline(queue: &mut Single<Slice>) -> String {
    queue.drain();
    let ms: Vec<u64> = queue.went.iter().map(|went| went.0.as_nanos() / 1_000_000).collect();
    let runs: Vec<String> =
        ms.chunk_by(|a, b| a == b).map(|run| format!("{}@{}", run.len(), run[0])).collect();
    runs.join(" ")
}

/// `batches` are (at ms, how many, bytes each).
fn check(kernel: KernelProfile, rates: Rates, batches: &[(u64, usize, u64)], expected: &str) {
    let mut queue = queue(kernel, rates);
    for &(at, count, bytes) in batches {
        submit(&mut queue, at, count, bytes);
    }
    assert_eq!(timeline(&mut queue), expected, "{kernel:?}");
}

#[test]
fn a_two_large_writes_wait_for_many_slices() {
    check(K61, bps(1024), &[(0, 2, 10 * KIB)], "1@10000 1@20000");
    check(K612, bps(1024), &[(0, 2, 10 * KIB)], "1@10000 1@20000");
    check(K615, bps(1024), &[(0, 2, 10 * KIB)], "1@10000 1@20001");
}

#[test]
fn b_reads_of_64_kib_round_down_and_ask_again() {
    for kernel in [K61, K612, K615] {
        let mut queue = queue(kernel, bps(MIB_PER_SEC));
        submit(&mut queue, 0, 12, 64 * KIB);
        assert_eq!(
            timeline(&mut queue),
            "1@0 2@125 1@250 2@312 1@437 2@501 2@625 1@750",
            "{kernel:?}"
        );
    }
}

#[test]
fn b_with_timers_one_tick_late() {
    for kernel in [K61, K612, K615] {
        let mut queue = queue(kernel, bps(MIB_PER_SEC));
        queue.late_nanos = 1_000_000;
        submit(&mut queue, 0, 12, 64 * KIB);
        assert_eq!(
            timeline(&mut queue),
            "1@0 2@126 1@251 2@313 1@438 2@502 2@626 1@751",
            "{kernel:?}"
        );
    }
}

#[test]
fn c_small_reads_go_a_slice_at_a_time() {
    for kernel in [K61, K612, K615] {
        check(kernel, bps(MIB_PER_SEC), &[(0, 80, 4 * KIB)], "25@0 26@101 25@203 4@301");
    }
}

#[test]
fn d_an_io_limit_allows_ten_a_slice() {
    let batch = [(0, 45, 4 * KIB)];
    check(K418, iops(100), &batch, "10@0 10@111 10@211 10@311 5@411");
    check(K419a, iops(100), &batch, "10@0 10@101 10@201 10@301 5@401");
    for kernel in FROM_K419 {
        check(kernel, iops(100), &batch, "10@0 10@100 10@200 10@300 5@400");
    }
}

#[test]
fn e_the_end_of_a_slice_is_nearer_than_one_io() {
    let batches = [(0, 9, 4 * KIB), (95, 3, 4 * KIB)];
    check(K418, iops(100), &batches, "9@0 1@95 2@111");
    check(K419a, iops(100), &batches, "9@0 1@95 2@101");
    check(K419, iops(100), &batches, "9@0 1@95 2@100");
    check(K61, iops(100), &batches, "9@0 1@95 2@100");
    check(K612, iops(100), &batches, "9@0 1@95 2@106");
    check(K615, iops(100), &batches, "9@0 1@95 2@106");
}

#[test]
fn f_less_than_one_io_a_slice() {
    let batch = [(0, 6, 4 * KIB)];
    for kernel in [K419, K61] {
        check(kernel, iops(5), &batch, "1@100 1@400 1@700 1@1000 1@1300 1@1600");
    }
    check(K612, iops(5), &batch, "1@201 1@402 1@603 1@804 1@1005 1@1206");
}

#[test]
fn g_a_limit_change_keeps_what_was_earned() {
    for kernel in [K61, K612, K615] {
        let mut halved = queue(kernel, bps(2048));
        submit(&mut halved, 0, 1, 8 * KIB);
        halved.set_rates(Instant::from_millis(2000), bps(1024));
        assert_eq!(timeline(&mut halved), "1@6000", "{kernel:?}");

        let mut doubled = queue(kernel, bps(1024));
        submit(&mut doubled, 0, 1, 8 * KIB);
        doubled.set_rates(Instant::from_millis(4000), bps(2048));
        assert_eq!(timeline(&mut doubled), "1@6000", "{kernel:?}");
    }
}

#[test]
fn g_without_carry_the_wait_begins_anew() {
    // 8192 bytes at 1024 a second from 2000 on: 8090 over the first slice, 7900 ms and 100.
    let mut queue = queue(K419, bps(2048));
    submit(&mut queue, 0, 1, 8 * KIB);
    queue.set_rates(Instant::from_millis(2000), bps(1024));
    assert_eq!(timeline(&mut queue), "1@10000");
}

#[test]
fn h_a_parent_counts_from_the_slice_of_the_child() {
    for kernel in [K418, K419a, K419, K61, K612, K615] {
        let mut child = queue(kernel, bps(8192));
        let mut parent = queue(kernel, bps(4096));
        submit(&mut child, 0, 1, 8 * KIB);
        assert_eq!(timeline(&mut child), "1@1000", "{kernel:?}");
        let now = Instant::from_millis(1000);
        parent.limiter.credit(now, child.limiter.slice_start());
        submit(&mut parent, 1000, 1, 8 * KIB);
        assert_eq!(timeline(&mut parent), "1@2000", "{kernel:?}");
    }
}

#[test]
fn l_both_limits() {
    let both = Rates { bps: rate(MIB_PER_SEC), iops: rate(10) };
    let batch = [(0, 6, 64 * KIB)];
    check(K61, both, &batch, "1@0 1@125 1@200 1@300 1@400 1@500");
    check(K612, both, &batch, "1@0 1@125 1@226 1@327 1@428 1@529");
}

#[test]
fn l_bytes_paid_by_a_head_that_is_gone_are_given_back() {
    // 104,857 bytes and one I/O a slice. After 4 KiB, 64 KiB fit and are paid while the I/O waits; if another
    // request comes up instead, its 96 KiB fit too, but not both.
    let both = Rates { bps: rate(MIB_PER_SEC), iops: rate(10) };
    let mut slice = queue(K615, both).limiter;
    let mut waits_for = |bytes: u64, arrival: Arrival| match slice.check(
        Instant::ZERO,
        Cost::whole(bytes, 1),
        arrival,
    ) {
        Verdict::Go => {
            slice.charge(Instant::ZERO, Cost::whole(bytes, 1));
            None
        }
        Verdict::Wait { throttled_by, .. } => Some(throttled_by),
    };
    assert_eq!(waits_for(4 * KIB, Arrival::Fresh), None);
    assert_eq!(waits_for(64 * KIB, Arrival::Queued), Some(Resource::Ios));
    assert_eq!(waits_for(96 * KIB, Arrival::Queued), Some(Resource::Ios));
    assert_eq!(waits_for(64 * KIB, Arrival::Fresh), Some(Resource::Ios));
    assert_eq!(waits_for(128 * KIB, Arrival::Queued), Some(Resource::Bytes));
}

#[test]
fn n_metadata_overtakes_and_leaves_a_debt() {
    let mut queue = queue(K612, bps(MIB_PER_SEC));
    submit(&mut queue, 0, 6, 64 * KIB);
    queue.overtake(Instant::from_millis(10), Cost::whole(4 * KIB, 1));
    assert_eq!(timeline(&mut queue), "1@0 1@10 2@125 1@253 2@316");
    check(K612, bps(MIB_PER_SEC), &[(0, 6, 64 * KIB)], "1@0 2@125 1@250 2@312");
}

#[test]
fn o_a_slice_that_is_over_leaves_no_credit() {
    let batches = [(0, 1, 4 * KIB), (150, 30, 4 * KIB)];
    for kernel in FROM_K419 {
        check(kernel, iops(100), &batches, "1@0 10@150 10@250 10@350");
    }
}

#[test]
fn p_a_lowered_limit_leaves_a_debt() {
    for (change_ms, expected) in [(0, "100@0 5@1000"), (50, "100@0 5@550")] {
        let mut queue = queue(K612, iops(1000));
        submit(&mut queue, 0, 105, 4 * KIB);
        queue.set_rates(Instant::from_millis(change_ms), iops(100));
        assert_eq!(timeline(&mut queue), expected);
    }
    // 6.1 reads the debt as a credit without end.
    let mut queue = queue(K61, iops(1000));
    submit(&mut queue, 0, 105, 4 * KIB);
    queue.set_rates(Instant::from_millis(50), iops(100));
    assert_eq!(timeline(&mut queue), "100@0 5@50");
}

#[test]
fn an_io_limit_that_is_no_multiple_of_a_slice_is_missed_as_known() {
    // spec/throttle 1.12.1 to 1.12.3: I/Os in the first 100 s of a backlog.
    for (kernel, limit, least, most) in [
        (K419, 15, 1000, 1010),
        (K419, 99, 9000, 9010),
        (K612, 1234, 123_000, 123_123),
        (K61, 5, 333, 334),
        (K419, 2, 110, 112),
        (K612, 7, 500, 503),
        (K615, 7, 1090, 1110),
    ] {
        let mut queue = queue(kernel, iops(limit));
        submit(&mut queue, 0, 130_000, 4 * KIB);
        queue.run_until(Instant::from_millis(100_000));
        let went = queue.went.len();
        assert!((least..=most).contains(&went), "{kernel:?} {limit}: {went}");
    }
}

/// Requests that go in 10 s on Linux 6.15 and later (HZ=250), if the limit is written `times` at once every `every_ms`.
fn went_under_rewritten_limit(rates: Rates, bytes: u64, every_ms: u64, times: u32) -> f64 {
    let profile = SliceProfile { kernel: K615, hz: 250, slice_ticks: 25 };
    let mut queue = Single::new(Slice::new(Instant::ZERO, profile, rates));
    submit(&mut queue, 0, 5000, bytes);
    for ms in (every_ms..=10_000).step_by(every_ms as usize) {
        let now = Instant::from_millis(ms);
        queue.run_until(now);
        (0..times).for_each(|_| queue.set_rates_at_once(now, rates));
    }
    queue.run_until(Instant::from_millis(10_000));
    queue.went.len() as f64
}

#[test]
fn a_limit_of_today_that_is_rewritten_leaks_as_linux_6_18_does() {
    // MiB/s of a limit of 7, seen with Linux 6.18.44: every, how often at once (spec/throttle 1.12.12).
    for (every_ms, times, seen) in
        [(50, 1, 7.07), (50, 2, 15.0), (50, 3, 15.0), (100, 2, 7.5), (250, 2, 8.5), (500, 2, 7.0)]
    {
        let went = went_under_rewritten_limit(bps(7 * MIB_PER_SEC), 64 * KIB, every_ms, times);
        let mib = went / 160.0;
        assert!((mib / seen - 1.0).abs() < 0.03, "{times} every {every_ms} ms: {mib}, {seen}");
    }
    // I/Os a second, seen with Linux 6.18.44: limit, every, how often at once.
    for (limit, every_ms, times, seen) in [
        (20, 40, 1, 49.7),
        (20, 200, 1, 20.0),
        (20, 50, 2, 40.0),
        (200, 50, 1, 192.4),
        (200, 50, 2, 399.6),
    ] {
        let ios = went_under_rewritten_limit(iops(limit), 4 * KIB, every_ms, times) / 10.0;
        let distance = (ios / seen - 1.0).abs();
        assert!(distance < 0.05, "{limit}: {times} every {every_ms} ms: {ios}, {seen}");
    }
}
