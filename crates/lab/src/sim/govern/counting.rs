//! Counters of a run as a kernel has them.

use weir_engine::Extent;
use weir_engine::Op;
use weir_engine::utilisation::{Capacity, Positions};
use weir_govern::{BusyTime, CgroupSample, Counters, DeviceSample};

use super::io_ticks::IoTicks;
use crate::scenario::CgroupVersion;

/// What the kernel counts of one governed cgroup.
#[derive(Debug, Default)]
struct Counted {
    counters: Counters,
    /// Requests of it, wherever they are, and the time with at least one.
    inside: u32,
    waited_ns: u64,
    since_ns: u64,
}

impl Counted {
    fn pass(&mut self, now_ns: u64) {
        if self.inside > 0 {
            self.waited_ns += now_ns - self.since_ns;
        }
        self.since_ns = now_ns;
    }
}

/// Counters of the device and of all governed cgroups.
pub(in crate::sim) struct Counting {
    version: CgroupVersion,
    cgroups: Vec<Counted>,
    /// By the recorder's number of a cgroup, the governed ones at and above it.
    chains: Vec<Vec<u32>>,
    /// By source of requests, the recorder's number of its cgroup.
    cgroup_of: Vec<u32>,
    device: Counters,
    ticks: IoTicks,
    /// Time of all requests, counted as they end.
    requests_ns: u64,
    busy: BusyTime,
    /// Commands at the disk; their requests.
    commands: u32,
    in_flight_ios: u64,
    /// By key of a request at the disk, the bytes of it that are there.
    at_disk: Vec<u32>,
    model: Option<(Capacity, Positions)>,
    cost_ns: u64,
}

impl Counting {
    pub(super) fn new(capacity: Option<Capacity>, version: CgroupVersion) -> Counting {
        let positions = |capacity: Capacity| Positions::new(capacity.streams.into());
        Counting {
            version,
            cgroups: Vec::new(),
            chains: Vec::new(),
            cgroup_of: Vec::new(),
            device: Counters::default(),
            ticks: IoTicks::default(),
            requests_ns: 0,
            busy: BusyTime::default(),
            commands: 0,
            in_flight_ios: 0,
            at_disk: Vec::new(),
            model: capacity.map(|capacity| (capacity, positions(capacity))),
            cost_ns: 0,
        }
    }

    /// Adds a governed cgroup, which has the next number.
    pub(super) fn add(&mut self, number: usize) {
        debug_assert_eq!(number, self.cgroups.len());
        self.cgroups.push(Counted::default());
    }

    /// Sources of requests that are known.
    pub(in crate::sim) fn actors(&self) -> usize {
        self.cgroup_of.len()
    }

    /// The next source of requests, in the recorder's cgroup `cgroup`, whose governed cgroups are `chain`.
    pub(in crate::sim) fn add_actor(&mut self, cgroup: u32, chain: Vec<u32>) {
        if self.chains.len() <= cgroup as usize {
            self.chains.resize(cgroup as usize + 1, Vec::new());
        }
        self.chains[cgroup as usize] = chain;
        self.cgroup_of.push(cgroup);
    }

    fn of_actor(&mut self, actor: u32, mut each: impl FnMut(&mut Counted)) {
        let cgroup = self.cgroup_of[actor as usize];
        for &index in &self.chains[cgroup as usize] {
            each(&mut self.cgroups[index as usize]);
        }
    }

    /// A request goes to the throttle.
    pub(in crate::sim) fn submitted(&mut self, now_ns: u64, actor: u32, op: Op, bytes: u32) {
        let is_counted = self.version == CgroupVersion::V1;
        self.of_actor(actor, |cgroup| {
            cgroup.pass(now_ns);
            cgroup.inside += 1;
            if is_counted {
                count(&mut cgroup.counters, op, bytes);
            }
        });
    }

    /// A request, or a piece of one, is past the throttle.
    pub(in crate::sim) fn issued(&mut self, actor: u32, key: u32, op: Op, extent: Extent) {
        if self.version == CgroupVersion::V2 {
            self.of_actor(actor, |cgroup| count(&mut cgroup.counters, op, extent.len));
        }
        if self.at_disk.len() <= key as usize {
            self.at_disk.resize(key as usize + 1, 0);
        }
        self.at_disk[key as usize] = extent.len;
        self.in_flight_ios += u64::from(is_data(op));
        if let Some((capacity, positions)) = &mut self.model
            && is_data(op)
        {
            let is_sequential = positions.is_sequential(extent);
            self.cost_ns += capacity.costs.price(op, extent.len, is_sequential).as_nanos();
        }
    }

    /// A command goes to the disk.
    pub(in crate::sim) fn started(&mut self, now_ns: u64) {
        self.ticks.pass(now_ns, self.commands);
        self.commands += 1;
    }

    /// A command is back.
    pub(in crate::sim) fn ended(&mut self, now_ns: u64) {
        self.ticks.pass(now_ns, self.commands);
        self.commands -= 1;
    }

    /// A request of a command that is back. `is_whole` if it was the last piece of it.
    pub(in crate::sim) fn completed(
        &mut self,
        now_ns: u64,
        actor: u32,
        key: usize,
        op: Op,
        dispatched_ns: u64,
        is_whole: bool,
    ) {
        self.requests_ns += now_ns - dispatched_ns;
        if is_data(op) {
            count(&mut self.device, op, self.at_disk[key]);
            self.in_flight_ios -= 1;
        }
        if is_whole {
            self.of_actor(actor, |cgroup| {
                cgroup.pass(now_ns);
                cgroup.inside -= 1;
            });
        }
    }

    pub(super) fn device(&mut self, now_ns: u64) -> DeviceSample {
        let ticks_ns = self.ticks.read(now_ns, self.commands);
        // The file has whole milliseconds.
        let requests_ns = self.requests_ns / 1_000_000 * 1_000_000;
        let busy_ns = self.busy.add(ticks_ns, requests_ns);
        let used_ns = if self.model.is_some() { self.cost_ns } else { busy_ns };
        DeviceSample { counters: self.device, used_ns, in_flight_ios: self.in_flight_ios }
    }

    pub(super) fn cgroup(&self, index: usize, now_ns: u64) -> CgroupSample {
        let Counted { counters, inside, waited_ns, since_ns } = &self.cgroups[index];
        let waits_ns = if *inside > 0 { now_ns - since_ns } else { 0 };
        let waited_ns = (self.version == CgroupVersion::V2).then_some(waited_ns + waits_ns);
        CgroupSample { counters: *counters, waited_ns }
    }
}

fn is_data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

fn count(counters: &mut Counters, op: Op, bytes: u32) {
    match op {
        Op::Read => {
            counters.rbytes += u64::from(bytes);
            counters.rios += 1;
        }
        Op::Write => {
            counters.wbytes += u64::from(bytes);
            counters.wios += 1;
        }
        _ => {}
    }
}
