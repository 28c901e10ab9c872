//! Loads for any disk.

#![allow(dead_code, reason = "each test file uses its part")]

use weir_disk::{DiskModel, DiskOp};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Keeps `depth` requests in flight until `count` are complete; returns the end.
pub(crate) fn run(
    disk: &mut dyn DiskModel,
    depth: u64,
    count: u64,
    op: DiskOp,
    len: u32,
    mut next: impl FnMut() -> u64,
) -> u64 {
    drive(disk, 0, depth, count, || (op, next(), len))
}

/// The same from `start` on, with requests of any kind.
pub(crate) fn drive(
    disk: &mut dyn DiskModel,
    start: u64,
    depth: u64,
    count: u64,
    mut next: impl FnMut() -> (DiskOp, u64, u32),
) -> u64 {
    let (mut now, mut sent) = (start, 0);
    let mut send = |disk: &mut dyn DiskModel, now| {
        let (op, offset, len) = next();
        disk.submit(now, sent, op, offset, len);
        sent += 1;
        sent < count
    };
    let mut has_more = true;
    for _ in 0..depth.min(count) {
        has_more = send(disk, now);
    }
    let mut left = count;
    while left > 0 {
        now = disk.next_event().expect("requests are in flight");
        while disk.poll_complete(now).is_some() {
            left -= 1;
            has_more = has_more && send(disk, now);
        }
    }
    now
}

/// Offsets of 4 KiB all over the disk, the same ones every time.
pub(crate) fn random(size: u64) -> impl FnMut() -> u64 {
    let mut state = 1u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(size / 4096)) >> 64) as u64 * 4096
    }
}

/// Offsets one after the other from `first` on.
pub(crate) fn sequential(first: u64, len: u32) -> impl FnMut() -> u64 {
    let mut at = first;
    move || {
        at += u64::from(len);
        at - u64::from(len)
    }
}

/// `bytes` in `ns`, a second.
pub(crate) fn rate(bytes: u64, ns: u64) -> u64 {
    (u128::from(bytes) * u128::from(SECOND) / u128::from(ns)) as u64
}

/// Whether two numbers are `permille` from each other at most.
pub(crate) fn is_near(seen: u64, wanted: u64, permille: u64) -> bool {
    seen.abs_diff(wanted) * 1000 <= wanted * permille
}

/// Runs the same calls twice: polled at each event, and only at the end. Both give the same completions, each request once,
/// not before its submission, in order of time. Returns them as (id, time).
pub(crate) fn check_calls(
    mut disk: Box<dyn DiskModel>,
    mut again: Box<dyn DiskModel>,
    calls: &[(u64, DiskOp, u64, u32)],
) -> Vec<(u64, u64)> {
    let (mut now, mut sent, mut seen, mut second) = (0, Vec::new(), Vec::new(), Vec::new());
    for (id, &(wait, op, offset, len)) in calls.iter().enumerate() {
        now += wait;
        while let Some(at) = disk.next_event().filter(|at| *at <= now) {
            seen.extend(disk.poll_complete(at).map(|done| (done, at)));
        }
        disk.submit(now, id as u64, op, offset, len);
        again.submit(now, id as u64, op, offset, len);
        sent.push(now);
    }
    while let Some(at) = disk.next_event() {
        seen.extend(disk.poll_complete(at).map(|done| (done, at)));
    }
    assert!(seen.iter().all(|&(id, at)| at >= sent[id as usize]));
    assert!(seen.is_sorted_by_key(|&(_, at)| at));
    while let Some(id) = again.poll_complete(u64::MAX / 2) {
        second.push(id);
    }
    assert_eq!(second, seen.iter().map(|&(id, _)| id).collect::<Vec<_>>());
    let mut ids = second;
    ids.sort_unstable();
    assert_eq!(ids, (0..calls.len() as u64).collect::<Vec<_>>());
    seen
}

/// Any kind of request.
pub(crate) fn op(number: u8) -> DiskOp {
    use DiskOp::{Discard, Flush, Read, Write, WriteFua, WriteZeroes};
    [Read, Write, Flush, Discard, WriteZeroes, WriteFua][usize::from(number % 6)]
}
