//! Governor of one device.

mod attained;
mod device;
mod judge;
mod law;
mod samples;
mod scale;
mod tree;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod situations;

pub use law::{Mode, Settings};
pub use samples::{BusyTime, CgroupSample, Counters, DeviceSample};

use device::{Device, Use};
use law::{Domain, View};
use scale::ONE;
use tree::{NONE, Tree};

use crate::IoMax;

/// Window of a decision: four slices of Linux's limiter, over which its lumps are even. So limits are raised 2.5 times
/// a second at most.
const WINDOW_NS: u64 = 400_000_000;

/// Others that were not seen for this long are gone.
const GONE_NS: u64 = 1_000_000_000;

/// Others that were seen in this time yield nothing to chance.
const LATELY_NS: u64 = 200_000_000;

/// The domain of the device's settings.
const DEVICE: u32 = 0;

/// A governed cgroup. IDs of removed cgroups are given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u32);

/// What a cgroup is governed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cgroup {
    /// Limits as written by its operator.
    pub limits: IoMax,
    /// Settings for this cgroup and those below it; `None` is its parent's, and the device's for a cgroup without parent.
    pub settings: Option<Settings>,
}

/// Limits to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub cgroup: CgroupId,
    /// What.
    pub limits: IoMax,
}

/// Why limits are as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Limits are as written: not enough samples yet.
    Starting,
    /// Limits are as written: cgroups without limits use the device.
    Others,
    /// Limits are as written: the device is used up to the watermark.
    Full,
    /// Limits are as written: no cgroup is at its limit.
    Idle,
    /// Limits are raised.
    Raised,
}

impl State {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Others => "others",
            State::Full => "full",
            State::Idle => "idle",
            State::Raised => "raised",
        }
    }
}

/// What a turn decided.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Limits to write now, parents first.
    pub writes: &'a [Write],
    /// Factor of the limits, in millionths: 1,000,000 is as written. `u64::MAX` is no limit, in gate mode.
    pub lambda_ppm: u64,
    /// Use of the device lately, in thousandths.
    pub utilisation_permille: u32,
    /// Why.
    pub state: State,
}

/// Governs the limits on one device.
///
/// After `note` for each cgroup comes one `turn`, every 50 ms or as often as the host likes: more often than 10 ms is of no
/// use, and less often than 50 ms makes it slower to give way. A turn is O(1) but at the end of a window of 400 ms, and
/// where limits change: O(cgroups) then. A steady turn allocates nothing.
#[derive(Debug)]
pub struct Governor {
    tree: Tree,
    device: Device,
    /// The device's, and those of cgroups with settings.
    domains: Vec<Domain>,
    free_domains: Vec<u32>,
    /// What limited cgroups did since the last turn.
    limited: Counters,
    /// Something that limited cgroups did was missed since the last turn, or is counted twice.
    is_inexact: bool,
    others_at_ns: Option<u64>,
    /// The last turn saw others.
    was_others: bool,
    /// The last turn, and what it said of the device.
    now_ns: u64,
    permille: u32,
    state: State,
    /// Limits do not wait for the end of the window.
    is_urgent: bool,
    writes: Vec<Write>,
}

impl Governor {
    /// A governor without cgroups.
    pub fn new(settings: Settings) -> Self {
        Governor {
            tree: Tree::default(),
            device: Device::default(),
            domains: vec![Domain::new(settings)],
            free_domains: Vec::new(),
            limited: Counters::default(),
            is_inexact: false,
            others_at_ns: None,
            was_others: false,
            now_ns: 0,
            permille: 0,
            state: State::Starting,
            is_urgent: false,
            writes: Vec::new(),
        }
    }

    /// Changes the device's settings.
    pub fn set_settings(&mut self, settings: Settings) {
        self.set_domain(DEVICE, settings);
    }

    fn set_domain(&mut self, domain: u32, settings: Settings) {
        let domain = &mut self.domains[domain as usize];
        if domain.settings.mode != settings.mode {
            domain.lambda = ONE;
            self.is_urgent = true;
        }
        domain.settings = settings;
    }

    /// Adds a cgroup below the nearest governed one.
    ///
    /// # Panics
    /// There is no cgroup `parent`.
    pub fn add(&mut self, parent: Option<CgroupId>, cgroup: Cgroup) -> CgroupId {
        let id = self.tree.add(parent, Cgroup { settings: None, ..cgroup });
        self.adopt(id, cgroup);
        // So that no turn allocates.
        self.writes.clear();
        self.writes.reserve(self.tree.len());
        self.is_inexact = true;
        id
    }

    /// Removes a cgroup; those below it come below its parent. O(cgroups).
    ///
    /// # Panics
    /// There is no such cgroup.
    pub fn remove(&mut self, id: CgroupId) {
        let domain = self.tree.remove(id);
        if domain != NONE {
            self.free_domains.push(domain);
        }
        self.is_inexact = true;
    }

    /// Adopts what someone else wrote: these are the limits as written from now on, and what the kernel has.
    ///
    /// # Panics
    /// There is no such cgroup.
    pub fn adopt(&mut self, id: CgroupId, cgroup: Cgroup) {
        let node = self.tree.get_mut(id);
        let old = node.own_domain;
        (node.cgroup, node.lambda) = (cgroup, ONE);
        node.demand = tree::Demand::Unknown;
        match cgroup.settings {
            Some(settings) if old != NONE => self.set_domain(old, settings),
            Some(settings) => {
                let domain = Domain::new(settings);
                let index = match self.free_domains.pop() {
                    Some(index) => index,
                    None => {
                        self.domains.push(domain);
                        u32::try_from(self.domains.len() - 1).expect("fewer than cgroups")
                    }
                };
                self.domains[index as usize] = domain;
                self.tree.get_mut(id).own_domain = index;
            }
            None if old != NONE => {
                self.free_domains.push(old);
                self.tree.get_mut(id).own_domain = NONE;
            }
            None => {}
        }
        self.tree.changed();
    }

    /// Limits that the governor wants the kernel to have now.
    ///
    /// # Panics
    /// There is no such cgroup.
    pub fn effective(&self, id: CgroupId) -> IoMax {
        self.tree.get(id).effective()
    }

    /// Tells what a cgroup did. For each cgroup before each `turn`; without it the cgroup did nothing since the last.
    ///
    /// # Panics
    /// There is no such cgroup.
    pub fn note(&mut self, id: CgroupId, sample: CgroupSample) {
        self.tree.settle(DEVICE);
        let node = self.tree.get_mut(id);
        let last = node.last.replace(sample);
        // Both are told by version 2 only.
        self.device.is_blurred = sample.waited_ns.is_none();
        let done = last.and_then(|last| {
            let waited = Option::zip(sample.waited_ns, last.waited_ns);
            let is_same = waited.is_none_or(|(now, before)| now >= before);
            sample.counters.since(last.counters).filter(|_| is_same)
        });
        let done = done.unwrap_or_else(|| {
            // New here, or made anew: its past is no part of the window.
            node.base = sample;
            self.is_inexact = true;
            sample.counters
        });
        let [reads, writes] = node.is_topmost;
        if reads {
            self.limited.rbytes = self.limited.rbytes.saturating_add(done.rbytes);
            self.limited.rios = self.limited.rios.saturating_add(done.rios);
        }
        if writes {
            self.limited.wbytes = self.limited.wbytes.saturating_add(done.wbytes);
            self.limited.wios = self.limited.wios.saturating_add(done.wios);
        }
    }

    /// Ends a round of samples and decides. `now_ns` never goes back.
    pub fn turn(&mut self, now_ns: u64, device: DeviceSample) -> Turn<'_> {
        self.now_ns = self.now_ns.max(now_ns);
        self.writes.clear();
        self.tree.settle(DEVICE);
        let limited = std::mem::take(&mut self.limited);
        let is_exact = !std::mem::take(&mut self.is_inexact);
        if self.device.add(self.now_ns, device, limited, is_exact) {
            self.decide();
        } else {
            // Another device, or the first sample: nothing is known of it.
            for domain in &mut self.domains {
                domain.lambda = ONE;
            }
            self.state = State::Starting;
            self.write();
        }
        Turn {
            writes: &self.writes,
            lambda_ppm: self.domains[DEVICE as usize].lambda,
            utilisation_permille: self.permille,
            state: self.state,
        }
    }

    fn decide(&mut self) {
        let short = self.device.short();
        if let Some(Use { permille, is_others }) = short {
            // What is not exact has to be seen twice.
            let is_seen = is_others && (self.was_others || !self.device.is_blurred);
            self.was_others = is_others;
            if is_seen {
                self.others_at_ns = Some(self.now_ns);
            }
            if self.others_since(LATELY_NS) {
                let yields = |domain: &mut Domain| domain.yields(self.now_ns, permille);
                // Each has to be asked.
                let yielded =
                    self.domains.iter_mut().map(yields).filter(|&yielded| yielded).count();
                self.is_urgent |= yielded > 0;
            }
        }
        if std::mem::take(&mut self.is_urgent) {
            self.write();
        } else if self.device.window_ns() >= WINDOW_NS {
            self.end_window();
        } else {
            return;
        }
        let device = &self.domains[DEVICE as usize];
        let is_others = self.others_since(GONE_NS);
        self.state = match () {
            () if device.lambda > ONE => State::Raised,
            () if is_others => State::Others,
            () if u64::from(self.permille) >= device.target(false) => State::Full,
            () => State::Idle,
        };
    }

    fn others_since(&self, time_ns: u64) -> bool {
        self.others_at_ns.is_some_and(|at_ns| self.now_ns - at_ns < time_ns)
    }

    fn end_window(&mut self) {
        let Use { permille, is_others } = self.device.long();
        if is_others {
            self.others_at_ns = Some(self.now_ns);
        }
        let is_others = self.others_since(GONE_NS);
        if !is_others {
            self.domains.iter_mut().for_each(Domain::alone);
        }
        self.permille = permille;
        let view = View { now_ns: self.now_ns, permille: permille.into(), is_others };
        self.judge(&view);
        for domain in &mut self.domains {
            domain.decide(&view);
        }
        self.write();
    }

    /// Writes the limits of all cgroups whose factor is not that of their domain, and begins a window.
    fn write(&mut self) {
        let (writes, domains) = (&mut self.writes, &self.domains);
        self.tree.visit(|index, node, _| {
            let before = node.effective();
            node.lambda = domains[node.domain as usize].lambda;
            let limits = node.effective();
            if limits != before {
                writes.push(Write { cgroup: CgroupId(index), limits });
            }
            if let Some(last) = node.last {
                node.base = last;
            }
        });
        self.device.begin_window();
    }
}
