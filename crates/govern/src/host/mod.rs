//! Host of a governor, without files and clock: which cgroups are governed, whose each limit is, and what is put back.
//!
//! ```text
//!   walk of the tree ──► observe ──► adopted, if others have limited it or a rule selects it
//!   samples          ──► note    ──► turn ──► writes
//!   a write's end    ◄── wrote, refused
//! ```
//!
//! Limits that differ from those last written here are others': they are the limits as written from then on.

mod glob;
mod lag;
mod rule;
mod selector;
mod state_file;

use std::collections::BTreeMap;

use crate::kernel::{Interface, kernel_limits};
use crate::{
    Cgroup, CgroupId, CgroupSample, Counters, DeviceSample, Governor, IoMax, Settings, State,
};

use lag::Lag;

pub use rule::Rule;
pub use selector::{Selector, SelectorError, SelectorKind};
pub use state_file::{Kept, StateFile, StateFileError};

/// Most cgroups that are governed: each is sampled twenty times a second.
pub const GOVERNED_MAX: usize = 10_000;

/// Governed cgroups of one device, and their governor.
#[derive(Debug)]
pub struct Host {
    interface: Interface,
    governor: Governor,
    rules: Vec<Rule>,
    cgroups: BTreeMap<String, Governed>,
    paths: BTreeMap<CgroupId, String>,
    lag: Lag,
    decided: Decided,
}

/// A governed cgroup.
#[derive(Debug, Clone, Copy)]
pub struct Governed {
    id: CgroupId,
    /// Limits that others have written.
    pub original: IoMax,
    /// Limits as written: those of others, or of a rule where others have none.
    pub limits: IoMax,
    /// Limits that the kernel has.
    pub stands: IoMax,
    /// What it has done, as last noted.
    pub counters: Counters,
    /// Limits that the kernel should have.
    target: IoMax,
    /// What is being written, or was refused.
    next: Option<IoMax>,
    is_refused: bool,
}

impl Governed {
    fn is_due(&self) -> bool {
        self.target != self.stands && !self.is_refused
    }
}

/// What became of an observed cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It has no limits and no rule selects it.
    Ungoverned,
    /// The kernel has what it had, or what was written here.
    Unchanged,
    /// It is governed from now on, or by other limits.
    Adopted(IoMax),
    /// Others have taken its limits away: it is not governed any more.
    Released,
    /// [`GOVERNED_MAX`] are governed already.
    Full,
}

/// Limits to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// What the kernel has.
    pub before: IoMax,
    /// What it should have.
    pub after: IoMax,
}

/// What the last turn decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// Factor of the limits, in millionths; `u64::MAX` where there are none.
    pub lambda_ppm: u64,
    /// Use of the device, in thousandths.
    pub utilisation_permille: u32,
    /// Why.
    pub state: State,
}

impl Host {
    /// Host without cgroups.
    pub fn new(interface: Interface, settings: Settings, rules: Vec<Rule>) -> Host {
        Host {
            interface,
            governor: Governor::new(settings),
            rules,
            cgroups: BTreeMap::new(),
            paths: BTreeMap::new(),
            lag: Lag::default(),
            decided: Decided {
                lambda_ppm: 1_000_000,
                utilisation_permille: 0,
                state: State::Starting,
            },
        }
    }

    /// The tree's interface.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// What the last turn decided.
    pub fn decided(&self) -> Decided {
        self.decided
    }

    /// Governed cgroups by path.
    pub fn cgroups(&self) -> impl Iterator<Item = (&str, &Governed)> {
        self.cgroups.iter().map(|(path, governed)| (path.as_str(), governed))
    }

    /// The governed cgroup at `path`.
    pub fn cgroup(&self, path: &str) -> Option<&Governed> {
        self.cgroups.get(path)
    }

    /// Takes note of the limits that the kernel has for the cgroup at `path`: `/` and names with slashes between them.
    pub fn observe(&mut self, path: &str, stands: IoMax) -> Observed {
        let Some(governed) = self.cgroups.get_mut(path) else {
            let limits = rule::limits_of(&self.rules, path, stands);
            if limits.is_max() {
                return Observed::Ungoverned;
            }
            if self.cgroups.len() >= GOVERNED_MAX {
                return Observed::Full;
            }
            self.add(path, stands, limits);
            return Observed::Adopted(limits);
        };
        let own = [Some(governed.stands), governed.next];
        let own: Vec<IoMax> = own.into_iter().flatten().collect();
        let original = state_file::without_own(governed.original, &own, stands);
        governed.stands = stands;
        if original == governed.original {
            return Observed::Unchanged;
        }
        let limits = rule::limits_of(&self.rules, path, original);
        if limits.is_max() && stands.is_max() {
            self.remove(path);
            return Observed::Released;
        }
        governed.original = original;
        governed.limits = limits;
        governed.next = None;
        governed.is_refused = false;
        self.lag.forget();
        let id = governed.id;
        let (_, settings) = self.place_of(path);
        self.governor.adopt(id, Cgroup { limits, settings });
        let target = kernel_limits(self.governor.effective(id));
        if let Some(governed) = self.cgroups.get_mut(path) {
            governed.target = target;
        }
        Observed::Adopted(limits)
    }

    /// Whether a rule has limits for the cgroup at `path`, if others have none.
    pub fn is_selected(&self, path: &str) -> bool {
        !rule::limits_of(&self.rules, path, IoMax::default()).is_max()
    }

    /// Forgets the cgroup at `path`, which is not there any more.
    pub fn remove(&mut self, path: &str) {
        if let Some(governed) = self.cgroups.remove(path) {
            self.governor.remove(governed.id);
            self.paths.remove(&governed.id);
            self.lag.forget();
            // Those below it may have had its settings.
            if self.rules.iter().any(|rule| rule.settings.is_some()) {
                self.add_again_below(path);
            }
        }
    }

    /// Takes note of what the cgroup at `path` did.
    pub fn note(&mut self, path: &str, sample: CgroupSample) {
        if let Some(governed) = self.cgroups.get_mut(path) {
            governed.counters = sample.counters;
            self.governor.note(governed.id, sample);
        }
    }

    /// Ends a round of samples. Returns paths of cgroups whose limits are to be written, parents first: each after a look
    /// ([`Host::observe`]) and [`Host::begin`], and after [`Host::kept`] is stored.
    pub fn turn(&mut self, now_ns: u64, device: DeviceSample) -> Vec<String> {
        let device = self.lag.correct(now_ns, device, self.limited());
        let turn = self.governor.turn(now_ns, device);
        self.decided = Decided {
            lambda_ppm: turn.lambda_ppm,
            utilisation_permille: turn.utilisation_permille,
            state: turn.state,
        };
        for write in turn.writes {
            let path = self.paths.get(&write.cgroup);
            if let Some(governed) = path.and_then(|path| self.cgroups.get_mut(path)) {
                governed.target = kernel_limits(write.limits);
                governed.is_refused = false;
            }
        }
        let due = self.cgroups.iter().filter(|(_, governed)| governed.is_due());
        due.map(|(path, _)| path.clone()).collect()
    }

    /// What is to be written for `path` now; `None` if nothing is any more.
    pub fn begin(&mut self, path: &str) -> Option<Planned> {
        let governed = self.cgroups.get_mut(path).filter(|governed| governed.is_due())?;
        governed.next = Some(governed.target);
        Some(Planned { before: governed.stands, after: governed.target })
    }

    /// What was begun for `path` is written.
    pub fn wrote(&mut self, path: &str) {
        if let Some(governed) = self.cgroups.get_mut(path)
            && let Some(next) = governed.next.take()
        {
            governed.stands = next;
        }
    }

    /// The kernel has refused what was begun for `path`, or a part of it. It is not tried again before the next change.
    pub fn refused(&mut self, path: &str) {
        if let Some(governed) = self.cgroups.get_mut(path) {
            governed.is_refused = true;
        }
    }

    /// What undoes all writes, those that are begun included.
    pub fn kept(&self) -> BTreeMap<String, Kept> {
        let kept = |(path, governed): (&String, &Governed)| {
            let own = [Some(governed.stands), governed.next];
            let own = own.into_iter().flatten().filter(|own| *own != governed.original);
            let kept = Kept { original: governed.original, written: own.collect() };
            (!kept.written.is_empty()).then(|| (path.clone(), kept))
        };
        self.cgroups.iter().filter_map(kept).collect()
    }

    fn add(&mut self, path: &str, stands: IoMax, limits: IoMax) {
        let (parent, settings) = self.place_of(path);
        let id = self.governor.add(parent, Cgroup { limits, settings });
        let target = kernel_limits(self.governor.effective(id));
        let governed = Governed {
            id,
            original: stands,
            limits,
            stands,
            counters: Counters::default(),
            target,
            next: None,
            is_refused: false,
        };
        self.cgroups.insert(path.to_owned(), governed);
        self.paths.insert(id, path.to_owned());
        self.lag.forget();
        self.add_again_below(path);
    }

    /// What cgroups with limits have counted, each direction where it is limited: what is below one is counted there.
    fn limited(&self) -> Counters {
        let mut limited = Counters::default();
        for (path, governed) in &self.cgroups {
            let is_topmost = |has: fn(IoMax) -> bool| {
                let is_above = || {
                    self.interface.is_hierarchical()
                        && rule::above(path).any(|above| {
                            self.cgroups.get(above).is_some_and(|above| has(above.limits))
                        })
                };
                has(governed.limits) && !is_above()
            };
            let Counters { rbytes, wbytes, rios, wios } = governed.counters;
            if is_topmost(|limits| limits.rbps.is_some() || limits.riops.is_some()) {
                limited.rbytes = limited.rbytes.saturating_add(rbytes);
                limited.rios = limited.rios.saturating_add(rios);
            }
            if is_topmost(|limits| limits.wbps.is_some() || limits.wiops.is_some()) {
                limited.wbytes = limited.wbytes.saturating_add(wbytes);
                limited.wios = limited.wios.saturating_add(wios);
            }
        }
        limited
    }

    /// Puts governed cgroups below `path` where they belong now.
    fn add_again_below(&mut self, path: &str) {
        if !self.interface.is_hierarchical() {
            return;
        }
        let prefix = format!("{path}/");
        let below = self.cgroups.range(prefix.clone()..);
        let below = below.take_while(|(below, _)| below.starts_with(&prefix));
        let below: Vec<String> = below.map(|(below, _)| below.clone()).collect();
        for path in below {
            let governed = self.cgroups[&path];
            self.governor.remove(governed.id);
            self.paths.remove(&governed.id);
            let (parent, settings) = self.place_of(&path);
            let id = self.governor.add(parent, Cgroup { limits: governed.limits, settings });
            let target = kernel_limits(self.governor.effective(id));
            self.paths.insert(id, path.clone());
            self.cgroups.insert(path, Governed { id, target, is_refused: false, ..governed });
        }
    }

    /// The nearest governed cgroup above `path`, whose limits count what `path` does, and settings of its own.
    fn place_of(&self, path: &str) -> (Option<CgroupId>, Option<Settings>) {
        let is_hierarchical = self.interface.is_hierarchical();
        let parent = rule::above(path)
            .filter(|_| is_hierarchical)
            .find_map(|above| Some((above, self.cgroups.get(above)?.id)));
        let settings = rule::settings_of(&self.rules, path, parent.map(|(path, _)| path));
        (parent.map(|(_, id)| id), settings)
    }
}
