//! Latencies that tried requests meet.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_engine::{Direction, Op};
use weir_recording::{Arrival, Arrivals};

/// What the requests of a cgroup meet, children not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// Requests.
    pub requests: u64,
    /// Bytes of reads and writes.
    pub bytes: u64,
    /// Median time from the submission until the end.
    pub latency_ns_p50: u64,
    /// The time that 99 % do not exceed.
    pub latency_ns_p99: u64,
    /// The longest.
    pub latency_ns_max: u64,
    /// Mean time until they go to the device.
    pub wait_ns_mean: u64,
}

impl Met {
    fn of(mut latencies: Latencies) -> Option<Met> {
        latencies.ns.sort_unstable();
        let count = latencies.ns.len();
        let percentile = |percent: usize| latencies.ns[(count * percent).div_ceil(100) - 1];
        (count > 0).then(|| Met {
            requests: count as u64,
            bytes: latencies.bytes,
            latency_ns_p50: percentile(50),
            latency_ns_p99: percentile(99),
            latency_ns_max: percentile(100),
            wait_ns_mean: latencies.wait_ns / count as u64,
        })
    }
}

/// What all requests meet.
#[derive(Clone, Debug, Default)]
pub struct MetByCgroup(BTreeMap<Rc<str>, [Latencies; Direction::BOTH.len()]>);

#[derive(Clone, Debug, Default)]
struct Latencies {
    ns: Vec<u64>,
    wait_ns: u64,
    bytes: u64,
}

impl Latencies {
    fn add(&mut self, other: &Latencies) {
        self.ns.extend(&other.ns);
        self.wait_ns += other.wait_ns;
        self.bytes += other.bytes;
    }
}

impl MetByCgroup {
    /// What the `arrivals` met when they were recorded, those that had ended then.
    pub fn recorded(arrivals: &Arrivals) -> MetByCgroup {
        let mut met = MetByCgroup::default();
        for arrival in &arrivals.requests {
            if let Some(ns) = arrival.latency_ns {
                met.note(arrival, ns, ns.saturating_sub(arrival.device_ns.unwrap_or(ns)));
            }
        }
        met
    }

    pub(super) fn note(&mut self, arrival: &Arrival, ns: u64, wait_ns: u64) {
        let directions = self.0.entry(Rc::clone(&arrival.cgroup)).or_default();
        let of = &mut directions[arrival.op.direction().index()];
        of.ns.push(ns);
        of.wait_ns += wait_ns;
        if matches!(arrival.op, Op::Read | Op::Write) {
            of.bytes += u64::from(arrival.len);
        }
    }

    /// Of each cgroup, children not included, by its path.
    pub fn by_cgroup(&self) -> BTreeMap<String, Met> {
        let met = self.0.iter().filter_map(|(cgroup, directions)| {
            let mut all = Latencies::default();
            directions.iter().for_each(|of| all.add(of));
            Some((cgroup.to_string(), Met::of(all)?))
        });
        met.collect()
    }

    /// Of the cgroup at `path` with all below it, in one direction; `None` where there are none.
    pub fn below(&self, path: &str, direction: Direction) -> Option<Met> {
        let is_below = |cgroup: &str| {
            let rest = cgroup.strip_prefix(path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut all = Latencies::default();
        let below = self.0.iter().filter(|(cgroup, _)| is_below(cgroup));
        below.for_each(|(_, directions)| all.add(&directions[direction.index()]));
        Met::of(all)
    }
}
