//! Pacing of a process's requests: `rate`, `rate_iops` and `thinktime`.

use std::cmp::Ordering;

use weir_fio::random::Random;
use weir_fio::stream::Access;
use weir_fio::{Options, PerDirection, RateProcess};
use weir_units::{BytesPerSec, IosPerSec};

use super::nanos;

const SECOND_NS: u128 = 1_000_000_000;

/// The rates of one process. A direction behind its rate catches up, as in fio.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    lanes: [Option<Lane>; 3],
    poisson: Option<Random>,
    /// `rate_ignore_thinktime`: pauses move the schedules on.
    ignores_thinking: bool,
    minima: Option<Minima>,
}

/// Minimum rates in each [`Options::rate_cycle`]: `rate_min` or `rate_iops_min`. The process fails below them.
///
/// As in fio, a direction is checked at the end of its requests, once a cycle has passed since the last check, and
/// first 2 s after the start. Minima in bytes apply where the rate, or a minimum, is in bytes.
#[derive(Debug, Clone)]
struct Minima {
    lanes: [Minimum; 3],
    cycle_ns: u64,
    from_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Minimum {
    per_second: Option<u64>,
    counts_ios: bool,
    moved: u64,
    /// What it had moved at the last check, and when that was.
    seen: Option<(u64, u64)>,
}

/// Minima are not checked before.
const MINIMA_AFTER_NS: u64 = 2_000_000_000;

/// The rate of one direction. As in fio, a rate in requests is one in bytes, of requests of the smallest size.
#[derive(Debug, Clone, Copy)]
struct Lane {
    bytes_per_sec: u64,
    /// Time of the smallest request in the schedule.
    interval_ns: u64,
    begun_ns: u64,
    issued: u64,
    /// Due time of the next request with `rate_process=poisson`.
    drawn_ns: u64,
}

impl Rates {
    pub(super) fn are_any(options: &Options) -> bool {
        let minima = options.rate_min.iter().chain(options.rate_iops_min.iter());
        options.has_rates() || minima.into_iter().any(Option::is_some)
    }

    pub(super) fn new(options: &Options, begun_ns: u64, random: Random) -> Rates {
        let lane = |bytes: Option<u64>, ios: Option<u64>, block: u64| {
            let bytes = bytes.or(ios.map(|ios| ios.saturating_mul(block)))?.max(1);
            let interval = u128::from(block) * SECOND_NS / u128::from(bytes);
            Some(Lane {
                bytes_per_sec: bytes,
                interval_ns: u64::try_from(interval).unwrap_or(u64::MAX),
                begun_ns,
                issued: 0,
                drawn_ns: begun_ns,
            })
        };
        let PerDirection { read, write, trim } = options.rate;
        let ios = options.rate_iops;
        let blocks = options.block_size();
        let lanes = [
            lane(read, ios.read, blocks.read.min()),
            lane(write, ios.write, blocks.write.min()),
            lane(trim, ios.trim, blocks.trim.min()),
        ];
        let poisson = (options.rate_process == RateProcess::Poisson).then_some(random);
        let ignores_thinking = options.rate_ignore_thinktime;
        Rates { lanes, poisson, ignores_thinking, minima: Minima::new(options, begun_ns) }
    }

    /// A request has ended. Returns why the process fails, if it does.
    pub(super) fn moved(&mut self, now_ns: u64, access: Access, bytes: u64) -> Option<String> {
        self.minima.as_mut()?.moved(now_ns, access, bytes)
    }

    pub(super) fn due_ns(&self, access: Access) -> u64 {
        let Some(lane) = self.lanes[access as usize] else { return 0 };
        if self.poisson.is_some() {
            return lane.drawn_ns;
        }
        let after = u128::from(lane.issued) * SECOND_NS / u128::from(lane.bytes_per_sec);
        lane.begun_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// Compares the due times of the next read and the next write at `now_ns`.
    pub(super) fn due(&self, now_ns: u64) -> Ordering {
        let waits_ns = |access| self.due_ns(access).saturating_sub(now_ns);
        waits_ns(Access::Read).cmp(&waits_ns(Access::Write))
    }

    pub(super) fn issued(&mut self, access: Access, bytes: u64) {
        let Some(lane) = &mut self.lanes[access as usize] else { return };
        lane.issued = lane.issued.saturating_add(bytes);
        if let Some(random) = &mut self.poisson {
            let mean = lane.interval_ns as f64;
            // Between 0 and 1, neither included.
            let uniform = ((random.word() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
            let pause = -libm::log(uniform) * mean;
            lane.drawn_ns = lane.drawn_ns.saturating_add(pause as u64);
        }
    }

    /// The process paused. With `rate_ignore_thinktime` the next request is due right afterwards, as in fio: a pause
    /// of an interval or more counts for one interval less.
    pub(super) fn thought(&mut self, pause_ns: u64) {
        if self.ignores_thinking {
            for lane in self.lanes.iter_mut().flatten() {
                let lost_ns = pause_ns.checked_sub(lane.interval_ns).unwrap_or(pause_ns);
                lane.begun_ns = lane.begun_ns.saturating_add(lost_ns);
                lane.drawn_ns = lane.drawn_ns.saturating_add(pause_ns);
            }
        }
    }
}

impl Minima {
    fn new(options: &Options, begun_ns: u64) -> Option<Minima> {
        let lane = |rate: Option<u64>, min: Option<u64>, min_ios: Option<u64>| Minimum {
            per_second: if rate.or(min).is_some() { min } else { min_ios },
            counts_ios: rate.or(min).is_none(),
            ..Minimum::default()
        };
        let (rate, min, min_ios) = (options.rate, options.rate_min, options.rate_iops_min);
        let lanes = [
            lane(rate.read, min.read, min_ios.read),
            lane(rate.write, min.write, min_ios.write),
            lane(rate.trim, min.trim, min_ios.trim),
        ];
        let cycle_ns = u64::try_from(options.rate_cycle.as_nanos()).unwrap_or(u64::MAX).max(1);
        let from_ns = begun_ns.saturating_add(MINIMA_AFTER_NS);
        let is_any = lanes.iter().any(|lane| lane.per_second.is_some());
        is_any.then_some(Minima { lanes, cycle_ns, from_ns })
    }

    fn moved(&mut self, now_ns: u64, access: Access, bytes: u64) -> Option<String> {
        let lane = &mut self.lanes[access as usize];
        let least = lane.per_second?;
        lane.moved = lane.moved.saturating_add(if lane.counts_ios { 1 } else { bytes });
        if now_ns < self.from_ns {
            return None;
        }
        let Some((moved, since_ns)) = lane.seen else {
            lane.seen = Some((lane.moved, now_ns));
            return None;
        };
        let spent_ns = now_ns - since_ns;
        if spent_ns < self.cycle_ns {
            return None;
        }
        lane.seen = Some((lane.moved, now_ns));
        let rate = u128::from(lane.moved - moved) * SECOND_NS / u128::from(spent_ns);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let (option, got, least) = match lane.counts_ios {
            true => (
                "rate_iops_min",
                IosPerSec(rate).rounded().to_string(),
                IosPerSec(least).to_string(),
            ),
            false => (
                "rate_min",
                BytesPerSec(rate).rounded().to_string(),
                BytesPerSec(least).to_string(),
            ),
        };
        let what = match access {
            Access::Read => "reads",
            Access::Write => "writes",
            Access::Trim => "trims",
        };
        (rate < lane.per_second?)
            .then(|| format!("{what} at {got} in a cycle, less than its {option} of {least}"))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Thinking {
    pause_ns: u64,
    blocks: Option<u32>,
    counts_issues: bool,
    io_time_ns: u64,
    seen: u32,
    /// Whether a request was made since the last pause; as in fio there is one between two.
    is_issued: bool,
    /// End of the last pause. As in fio a job begins as if after one.
    since_ns: u64,
}

impl Thinking {
    /// None if there are no pauses. `blocks`: requests between pauses, None where only time counts.
    pub(super) fn new(options: &Options, blocks: Option<u32>, now_ns: u64) -> Option<Thinking> {
        let think = options.thinktime;
        let pause_ns = nanos(think.pause);
        (pause_ns > 0).then(|| Thinking {
            pause_ns,
            blocks,
            counts_issues: think.blocks_type == weir_fio::ThinkBlocks::Issue,
            io_time_ns: nanos(think.io_time),
            seen: 0,
            is_issued: false,
            since_ns: now_ns.saturating_add(pause_ns),
        })
    }

    pub(super) fn issued(&mut self) {
        self.is_issued = true;
        self.seen = self.seen.saturating_add(u32::from(self.counts_issues));
    }

    pub(super) fn completed(&mut self) {
        self.seen = self.seen.saturating_add(u32::from(!self.counts_issues));
    }

    /// Whether a pause is due; a yes begins the next count.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let worked = now_ns.saturating_sub(self.since_ns);
        let is_over = self.blocks.is_some_and(|blocks| self.seen >= blocks)
            || (self.io_time_ns > 0 && worked >= self.io_time_ns);
        let is_due = self.is_issued && is_over;
        if is_due {
            (self.seen, self.is_issued) = (0, false);
        }
        is_due
    }

    pub(super) fn pause_ns(&self) -> u64 {
        self.pause_ns
    }

    pub(super) fn over(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }
}
