//! When a process makes its next request: `rate`, `rate_iops` and `thinktime`.

use crate::fio::{Options, PerDirection, RateProcess};
use crate::random::Random;
use crate::stream::Access;

const SECOND_NS: u128 = 1_000_000_000;

/// The rates of one process. A direction that is behind its rate catches up, as in fio.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    lanes: [Option<Lane>; 3],
    poisson: Option<Random>,
    /// `rate_ignore_thinktime`: schedules move on by the pauses.
    ignores_thinking: bool,
}

/// The rate of one direction.
#[derive(Debug, Clone, Copy)]
struct Lane {
    per_second: u64,
    counts_ios: bool,
    begun_ns: u64,
    /// Bytes or requests issued since.
    issued: u64,
    /// With `rate_process=poisson`: when the next is due.
    drawn_ns: u64,
}

impl Rates {
    /// None if there are no rates.
    pub(super) fn new(options: &Options, begun_ns: u64, random: Random) -> Option<Box<Rates>> {
        let lane = |bytes: Option<u64>, ios: Option<u64>| {
            let (per_second, counts_ios) = match (bytes, ios) {
                (Some(bytes), _) => (bytes, false),
                (None, Some(ios)) => (ios, true),
                (None, None) => return None,
            };
            let lane = Lane {
                per_second: per_second.max(1),
                counts_ios,
                begun_ns,
                issued: 0,
                drawn_ns: begun_ns,
            };
            Some(lane)
        };
        let PerDirection { read, write, trim } = options.rate;
        let ios = options.rate_iops;
        let lanes = [lane(read, ios.read), lane(write, ios.write), lane(trim, ios.trim)];
        let poisson = (options.rate_process == RateProcess::Poisson).then_some(random);
        let ignores_thinking = options.rate_ignore_thinktime;
        let rates = Rates { lanes, poisson, ignores_thinking };
        lanes.iter().any(Option::is_some).then(|| Box::new(rates))
    }

    /// When the next request of a direction may be made.
    pub(super) fn due_ns(&self, access: Access) -> u64 {
        let Some(lane) = self.lanes[access as usize] else { return 0 };
        if self.poisson.is_some() {
            return lane.drawn_ns;
        }
        let after = u128::from(lane.issued) * SECOND_NS / u128::from(lane.per_second);
        lane.begun_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// A request was made.
    pub(super) fn issued(&mut self, access: Access, bytes: u64) {
        let Some(lane) = &mut self.lanes[access as usize] else { return };
        let amount = if lane.counts_ios { 1 } else { bytes };
        lane.issued = lane.issued.saturating_add(amount);
        if let Some(random) = &mut self.poisson {
            let mean = amount as f64 * 1e9 / lane.per_second as f64;
            // Between 0 and 1, neither included.
            let uniform = ((random.word() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
            let pause = -libm::log(uniform) * mean;
            lane.drawn_ns = lane.drawn_ns.saturating_add(pause as u64);
        }
    }

    /// The process thought for so long.
    pub(super) fn thought(&mut self, pause_ns: u64) {
        if self.ignores_thinking {
            for lane in self.lanes.iter_mut().flatten() {
                lane.begun_ns = lane.begun_ns.saturating_add(pause_ns);
                lane.drawn_ns = lane.drawn_ns.saturating_add(pause_ns);
            }
        }
    }
}

/// Pauses between requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thinking {
    pause_ns: u64,
    blocks: u32,
    counts_issues: bool,
    io_time_ns: u64,
    seen: u32,
    since_ns: u64,
}

impl Thinking {
    pub(super) fn new(options: &Options, now_ns: u64) -> Option<Thinking> {
        let think = options.thinktime;
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (!think.pause.is_zero()).then(|| Thinking {
            pause_ns: nanos(think.pause),
            blocks: think.blocks.max(1),
            counts_issues: think.blocks_type == crate::fio::ThinkBlocks::Issue,
            io_time_ns: nanos(think.io_time),
            seen: 0,
            since_ns: now_ns,
        })
    }

    pub(super) fn issued(&mut self) {
        self.seen = self.seen.saturating_add(u32::from(self.counts_issues));
    }

    pub(super) fn completed(&mut self) {
        self.seen = self.seen.saturating_add(u32::from(!self.counts_issues));
    }

    /// Whether it is time to think; asked once, for the answer begins the next count.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let worked = now_ns.saturating_sub(self.since_ns);
        let due = self.seen >= self.blocks || (self.io_time_ns > 0 && worked >= self.io_time_ns);
        if due {
            self.seen = 0;
        }
        due
    }

    pub(super) fn pause_ns(&self) -> u64 {
        self.pause_ns
    }

    /// Thinking is over.
    pub(super) fn over(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }
}
