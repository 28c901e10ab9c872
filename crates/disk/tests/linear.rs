//! Disk of the linear model against closed-form expectations.

mod common;

use common::{SECOND, check_calls, drive, is_near, op, random, rate, run, sequential};
use proptest::prelude::*;
use weir_disk::{DiskModel, DiskOp, Linear, LinearSpec, Spec, presets};

fn profile(name: &str) -> LinearSpec {
    match name.parse() {
        Ok(Spec::Linear { spec, .. }) => spec,
        other => panic!("{name}: {other:?}"),
    }
}

/// Each drive has the rates that its figures say, unless its rate in bytes does not allow that many operations.
#[test]
fn drives_reach_their_figures_at_any_depth() {
    let mut drives = 0;
    for preset in presets() {
        let Ok(Spec::Linear { spec, .. }) = preset.name.parse() else { continue };
        drives += 1;
        for (op, bps, seq_iops, rand_iops) in [
            (DiskOp::Read, spec.read_bps, spec.read_seq_iops, spec.read_rand_iops),
            (DiskOp::Write, spec.write_bps, spec.write_seq_iops, spec.write_rand_iops),
        ] {
            for depth in [1, 32] {
                let disk = || Linear::new(spec);
                let len = 1 << 20;
                let time = run(&mut disk(), depth, 500, op, len, sequential(0, len));
                // The base comes once a MiB: what a request of a page costs beyond a page.
                let base = (SECOND / seq_iops).saturating_sub(4096 * SECOND / bps);
                let wanted = SECOND * (1 << 20) / ((SECOND << 20) / bps + base);
                assert!(is_near(rate(500 << 20, time), wanted, 2), "{}", preset.name);
                let time = run(&mut disk(), depth, 2000, op, 4096, sequential(0, 4096));
                let wanted = seq_iops.min(bps / 4096);
                assert!(is_near(rate(2000, time), wanted, 2), "{}", preset.name);
                let time = run(&mut disk(), depth, 2000, op, 4096, random(spec.size));
                let wanted = rand_iops.min(bps / 4096);
                // Now and then one is near the last.
                assert!(is_near(rate(2000, time), wanted, 5), "{}", preset.name);
            }
        }
    }
    assert_eq!(drives, 40);
}

#[test]
fn a_figure_of_each_table_is_as_published() {
    let spec = profile("samsung-ssd-970-pro-512gb");
    let reads = (spec.read_bps, spec.read_seq_iops, spec.read_rand_iops);
    assert_eq!(reads, (3_468_000_000, 343_800, 376_844));
    let spec = profile("patriot-m2-p300-1024gb");
    let writes = (spec.write_bps, spec.write_seq_iops, spec.write_rand_iops);
    assert_eq!(writes, (1_608_000_000, 59_875, 5_246));
    let spec = profile("linear-ssd-qd1");
    assert_eq!((spec.read_rand_iops, spec.write_bps), (6_946, 141_365_009));
}

#[test]
fn a_latency_overlaps() {
    let spec = LinearSpec { latency_ns: 100_000, ..profile("linear-ssd-fast") };
    let iops = |depth| {
        rate(
            20_000,
            run(&mut Linear::new(spec), depth, 20_000, DiskOp::Read, 4096, random(spec.size)),
        )
    };
    let one = SECOND / (spec.latency_ns + 1_321);
    assert!(is_near(iops(1), one, 2) && is_near(iops(16), 16 * one, 2), "{}", iops(16));
    assert!(is_near(iops(256), spec.read_bps / 4096, 10), "{}", iops(256));
}

#[test]
fn a_request_beyond_sixteen_mebibytes_is_random() {
    let spec = profile("linear-hdd");
    let took = |offset| {
        let mut disk = Linear::new(spec);
        disk.submit(0, 1, DiskOp::Read, 0, 4096);
        let first = disk.next_event().unwrap();
        disk.poll_complete(first);
        disk.submit(first, 2, DiskOp::Read, offset, 4096);
        disk.next_event().unwrap() - first
    };
    let (near, far) = (SECOND / spec.read_seq_iops, SECOND / spec.read_rand_iops);
    let limit = 4096 + (16 << 20);
    assert!(is_near(took(limit), near, 1) && is_near(took(limit + 512), far, 1));
    assert!(is_near(took(0), near, 1));
}

#[test]
fn as_many_streams_are_sequential_as_it_is_told() {
    let of = |streams, readers: u64| {
        let spec = LinearSpec { streams, ..profile("linear-hdd") };
        let (mut at, mut turn) = ([0u64; 8], 0);
        let end = drive(&mut Linear::new(spec), 0, 4, 4000, || {
            turn = (turn + 1) % readers;
            at[turn as usize] += 4096;
            (DiskOp::Read, (turn << 32) + at[turn as usize], 4096)
        });
        rate(4000, end)
    };
    let spec = profile("linear-hdd");
    assert!(
        is_near(of(1, 1), spec.read_seq_iops, 10) && is_near(of(1, 2), spec.read_rand_iops, 10)
    );
    // The first of each stream is random.
    assert!(of(4, 4) > spec.read_seq_iops * 9 / 10, "{}", of(4, 4));
    assert!(is_near(of(4, 5), spec.read_rand_iops, 10));
}

#[test]
fn what_transfers_nothing_costs_nothing() {
    let mut disk = Linear::new(profile("linear-hdd"));
    disk.submit(0, 1, DiskOp::Write, 0, 4096);
    let end = disk.next_event();
    disk.submit(0, 2, DiskOp::Flush, 0, 0);
    disk.submit(0, 3, DiskOp::Discard, 1 << 35, 1 << 30);
    disk.submit(0, 4, DiskOp::WriteZeroes, 1 << 35, 1 << 30);
    let end = end.unwrap();
    assert_eq!(disk.poll_complete(end - 1), None);
    assert_eq!([1, 2, 3, 4].map(|_| disk.poll_complete(end)), [1, 2, 3, 4].map(Some));
    assert_eq!((disk.poll_complete(end), disk.next_event()), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_once_and_not_before_its_time(
        calls in proptest::collection::vec((0..2_000_000u64, 0..5u8, 0..1u64 << 40, any::<u32>()), 1..100),
        (bps, iops, latency_ns, streams) in (1..1u64 << 40, 1..1u64 << 30, 0..1u64 << 30, 1..9u64),
    ) {
        let spec = LinearSpec {
            read_bps: bps, write_rand_iops: iops, latency_ns, streams, ..profile("linear-ssd-fast")
        };
        let calls: Vec<_> =
            calls.into_iter().map(|(wait, number, offset, len)| (wait, op(number), offset, len)).collect();
        check_calls(Box::new(Linear::new(spec)), Box::new(Linear::new(spec)), &calls);
    }
}

/// As in `io.cost.model`: a part whose figure is 0 takes no time.
#[test]
fn a_figure_of_0_takes_no_time() {
    for (settings, len, times_ns) in [
        // A request is its base alone, an eighth of a second in order and half a second at random.
        ("rbps=0,rseqiops=8,rrandiops=2", 4096, [125_000_000, 500_000_000]),
        ("rbps=0,rseqiops=8,rrandiops=2", 1 << 20, [125_000_000, 500_000_000]),
        // Its pages alone: eight a second.
        ("rbps=32768,rseqiops=0,rrandiops=0", 8192, [250_000_000, 250_000_000]),
        ("rbps=0,rseqiops=0,rrandiops=0", 1 << 20, [0, 0]),
    ] {
        for (offset, time_ns) in [0, 1 << 30].into_iter().zip(times_ns) {
            let spec: Spec = format!("linear-hdd,{settings}").parse().unwrap();
            assert!(!spec.to_string().is_empty() && spec.to_string().parse() == Ok(spec));
            let mut disk = spec.build();
            disk.submit(0, 1, DiskOp::Read, offset, len);
            assert_eq!(disk.next_event(), Some(time_ns), "{settings}, {len} at {offset}");
        }
    }
    let is_rotational = |line: &str| line.parse::<Spec>().unwrap().is_rotational();
    assert!(is_rotational("linear-hdd") && is_rotational("linear-hdd,rseqiops=0"));
    assert!(!is_rotational("linear-hdd,rrandiops=0"));
}
