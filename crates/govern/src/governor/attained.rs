//! Rates that a cgroup attained, as multiples of its limits.

use super::samples::Counters;
use super::scale::ONE;
use crate::IoMax;

/// Slices of Linux's limiter: an allowance has whole I/Os (spec/throttle 1.12.1).
const SLICE_NS: u64 = 100_000_000;

/// Multiples of the limit that was used best, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Attained {
    /// What it was.
    pub(super) least: u64,
    /// What it may have been: with one I/O more in each slice, and one request more at the end.
    pub(super) most: u64,
}

/// What was attained of `limits` with `done` in `time_ns`.
pub(super) fn attained(limits: IoMax, done: Counters, time_ns: u64) -> Attained {
    let rounds = (time_ns / SLICE_NS).max(1);
    let kinds = [
        (limits.rbps, done.rbytes, request_bytes(done.rbytes, done.rios)),
        (limits.wbps, done.wbytes, request_bytes(done.wbytes, done.wios)),
        (limits.riops, done.rios, rounds.min(done.rios)),
        (limits.wiops, done.wios, rounds.min(done.wios)),
    ];
    kinds.into_iter().fold(Attained::default(), |best, (limit, done, more)| {
        let Some(limit) = limit else { return best };
        Attained {
            least: best.least.max(multiple(done, limit, time_ns)),
            most: best.most.max(multiple(done.saturating_add(more), limit, time_ns)),
        }
    })
}

/// Mean size of a request.
fn request_bytes(bytes: u64, ios: u64) -> u64 {
    bytes.checked_div(ios).unwrap_or(0)
}

fn multiple(done: u64, limit: u64, time_ns: u64) -> u64 {
    let allowed = u128::from(limit.max(1)) * u128::from(time_ns.max(1));
    let done = u128::from(done) * u128::from(ONE) * 1_000_000_000;
    u64::try_from(done / allowed).unwrap_or(u64::MAX)
}
