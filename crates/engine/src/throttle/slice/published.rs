//! The job of the 2018 tail-latency fix, by hand and as published: spec/throttle 1.13.
//!
//! 4 KiB reads one at a time, 4 ms of thinking between them, 100 a second allowed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Slice;
use crate::throttle::limiter::{Rate, Rates};
use crate::throttle::single::Single;
use crate::types::KernelProfile::{self, *};
use crate::types::{Cost, Instant, SliceProfile};

const READ: Cost = Cost::whole(4096, 1);

fn queue(kernel: KernelProfile, hz: u16, slice_ticks: u16) -> Single<Slice> {
    let limit = Rate { per_second: 100, burst: 1, peak: None, quantum: 1 };
    let rates = Rates { bps: None, iops: Some(limit) };
    let profile = SliceProfile { kernel, hz, slice_ticks };
    Single::new(Slice::new(Instant::ZERO, profile, rates))
}

/// One read after the other on a device that takes no time: when each was submitted and went, in nanoseconds.
fn closed_loop(
    queue: &mut Single<Slice>,
    count: usize,
    mut think: impl FnMut() -> u64,
) -> Vec<(u64, u64)> {
    let mut now = Instant::ZERO;
    (0..count)
        .map(|_| {
            queue.submit(now, READ);
            queue.drain();
            let went = queue.went.pop().expect("a drained queue has let it go").0;
            let pair = (now.as_nanos(), went.as_nanos());
            now = went.plus_nanos(think());
            pair
        })
        .collect()
}

/// The first throttled reads, like "8->31 39->51".
fn throttled(queue: &mut Single<Slice>, shown: usize) -> String {
    let reads: Vec<String> = closed_loop(queue, 60, || 4_000_000)
        .iter()
        .filter(|(submitted, went)| went > submitted)
        .take(shown)
        .map(|(submitted, went)| format!("{}->{}", submitted / 1_000_000, went / 1_000_000))
        .collect();
    reads.join(" ")
}

#[test]
fn slices_of_20_ms() {
    for (kernel, expected) in [
        (K418, "8->31 39->51 59->71 79->91 99->111"),
        (K419a, "8->21 29->41 49->61 69->81 89->101"),
        (K419, "8->20 28->40 48->60 68->80 88->100"),
        (K61, "8->20 28->40 48->60 68->80 88->100"),
        (K612, "8->20 28->40 48->60 68->80 88->100"),
        (K615, "8->20 28->40 48->60 68->80 88->100"),
    ] {
        assert_eq!(throttled(&mut queue(kernel, 1000, 20), 5), expected, "{kernel:?}");
    }
}

#[test]
fn slices_of_100_ms() {
    assert_eq!(throttled(&mut queue(K418, 1000, 100), 3), "40->111 151->211 251->311");
    for kernel in [K419, K61, K612, K615] {
        let waits = throttled(&mut queue(kernel, 1000, 100), 3);
        assert_eq!(waits, "40->100 140->200 240->300", "{kernel:?}");
    }
}

#[test]
fn slices_of_20_ms_in_longer_ticks() {
    assert_eq!(throttled(&mut queue(K418, 250, 5), 3), "8->32 40->52 60->72");
    assert_eq!(throttled(&mut queue(K419, 250, 5), 3), "8->20 28->40 48->60");
    assert_eq!(throttled(&mut queue(K418, 100, 2), 3), "8->40 52->80 92->120");
    assert_eq!(throttled(&mut queue(K419, 100, 2), 3), "8->20 28->40 48->60");
}

/// Latencies of a minute of the job on a real machine, in sorted nanoseconds: timers one tick late, and every tenth
/// thought takes a millisecond more.
fn a_minute_of_noise(kernel: KernelProfile) -> Vec<u64> {
    let mut queue = queue(kernel, 1000, 20);
    queue.late_nanos = 1_000_000;
    let mut state = 1u64;
    let reads = closed_loop(&mut queue, 6000, || {
        // Knuth's constants for a linear congruential generator; the high bits are good enough dice.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33).is_multiple_of(10) { 5_080_000 } else { 4_080_000 }
    });
    let last = reads[reads.len() - 1].1;
    // 99 to 100.5 a second.
    assert!((59_700_000_000..60_610_000_000).contains(&last), "{kernel:?} took {last} ns");
    let mut waits: Vec<u64> = reads.iter().map(|(submitted, went)| went - submitted).collect();
    waits.sort_unstable();
    let mean = waits.iter().sum::<u64>() / waits.len() as u64;
    assert!((5_700_000..=6_100_000).contains(&mean), "{kernel:?} mean {mean} ns");
    waits
}

#[test]
fn the_published_tail_before_and_after_the_fix() {
    let per_mille = |waits: &[u64], rank: usize| waits[waits.len() * rank / 1000] / 10_000;
    let before = a_minute_of_noise(K418);
    // In units of 10 us. Published: p95 22.68 ms before, p99 11.99 after.
    assert_eq!([500, 600, 900].map(|rank| per_mille(&before, rank)), [0, 1184, 1184]);
    assert_eq!(per_mille(&before, 950), 2268);
    assert!((2200..=2450).contains(&per_mille(&before, 990)));
    for kernel in [K419a, K419] {
        let after = a_minute_of_noise(kernel);
        assert_eq!([600, 990, 995].map(|rank| per_mille(&after, rank)), [1184; 3], "{kernel:?}");
    }
}
