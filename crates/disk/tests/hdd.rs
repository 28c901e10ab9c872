//! The disk with platters, held to what arithmetic says.

mod common;

use common::{SECOND, check_calls, op, random, run};
use proptest::prelude::*;
use weir_disk::{DiskModel, DiskOp, Hdd, HddSpec};

fn iops(spec: HddSpec, depth: u64) -> u64 {
    let count = 4000;
    count * SECOND
        / (run(&mut Hdd::new(spec), depth, count, DiskOp::Read, 4096, random(spec.size)) / 1000)
        / 1000
}

#[test]
fn random_reads_take_a_seek_and_half_a_turn() {
    for spec in [HddSpec::HDD7200, HddSpec::HDD4200, HddSpec::DISK2009] {
        let count = 16_000;
        let time =
            run(&mut Hdd::new(spec), 1, count, DiskOp::Read, 4096, random(spec.size)) / count;
        let wanted = spec.average_ns
            + 30 * SECOND / spec.rpm
            + spec.overhead_ns
            + 4096 * SECOND / spec.inner;
        // Outer cylinders hold more, so offsets lie nearer to each other than cylinders do.
        assert!(time < wanted * 102 / 100 && time > wanted * 88 / 100, "{time} for {wanted}");
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_completes_once_and_not_before_its_time(
        calls in proptest::collection::vec((0..20_000_000u64, 0..5u8, 0..1u64 << 27, 0..1u32 << 22), 1..60),
        cache in prop_oneof![Just(0), Just(1 << 20), Just(16 << 20)],
        ncq in 1..40u64,
    ) {
        let spec = HddSpec { size: 1 << 28, cache, ncq, ..HddSpec::HDD7200 };
        let calls: Vec<_> =
            calls.into_iter().map(|(wait, number, offset, len)| (wait, op(number), offset, len)).collect();
        check_calls(Box::new(Hdd::new(spec)), Box::new(Hdd::new(spec)), &calls);
    }
}
