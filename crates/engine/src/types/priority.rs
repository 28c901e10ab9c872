//! Priorities (ioprio of Linux), weights and low latency: settings that decide which of several goes first.

use core::num::{NonZeroU16, NonZeroU32};

/// The three scheduling classes. Only equals merge, and [`PriorityClass::Idle`] never does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PriorityClass {
    /// Before all others.
    RealTime,
    /// By weight; the default.
    #[default]
    BestEffort,
    /// When no other class wants the device, and a little at least (spec/bfq 2.6).
    Idle,
}

impl PriorityClass {
    /// All of them, the first to be served first.
    pub const ALL: [PriorityClass; 3] =
        [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

    /// The index into per-class arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A client's priority among the clients and child cgroups of its cgroup.
///
/// ```
/// use weir_engine::Priority;
/// use weir_engine::settings::PriorityClass;
///
/// assert_eq!(Priority::default().weight().get(), 100);
/// assert_eq!(Priority::new(PriorityClass::BestEffort, 0).unwrap().weight().get(), 200);
/// assert_eq!(Priority::new(PriorityClass::BestEffort, 8), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    class: PriorityClass,
    level: u8,
}

impl Priority {
    /// Level 0 (best) to 7 within `class`; [`None`] for any other level. The idle class has level 7 only, and takes any.
    pub const fn new(class: PriorityClass, level: u8) -> Option<Priority> {
        match (class, level) {
            (PriorityClass::Idle, 0..=7) => Some(Priority { class, level: 7 }),
            (_, 0..=7) => Some(Priority { class, level }),
            _ => None,
        }
    }

    /// The class.
    pub const fn class(self) -> PriorityClass {
        self.class
    }

    /// The level.
    pub const fn level(self) -> u8 {
        self.level
    }

    /// The weight among its siblings: 25 × (8 − level). The kernel's are 10 × (8 − level); here the default, level 4,
    /// is worth what a cgroup of default weight is.
    pub const fn weight(self) -> NonZeroU32 {
        NonZeroU32::new(25 * (8 - self.level as u32)).expect("levels are below 8")
    }
}

impl Default for Priority {
    /// Best effort, level 4.
    fn default() -> Priority {
        Priority { class: PriorityClass::BestEffort, level: 4 }
    }
}

/// `io.prio.class` of a cgroup: what becomes of the classes of its clients, and which class it has itself among its
/// siblings.
///
/// In the kernel a cgroup is always best effort among its siblings, so that idle clients of a cgroup compete with its
/// siblings by weight all the same. Here the cgroup goes where its clients are sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PrioClass {
    /// Clients keep theirs; the cgroup is best effort.
    #[default]
    NoChange,
    /// Clients of lower classes become real time, and so does the cgroup.
    PromoteToRt,
    /// Real-time clients become best effort.
    RestrictToBe,
    /// All clients are idle, and so is the cgroup.
    Idle,
}

impl PrioClass {
    /// All of them, in the order in which errors list them.
    pub const ALL: [PrioClass; 4] =
        [PrioClass::NoChange, PrioClass::PromoteToRt, PrioClass::RestrictToBe, PrioClass::Idle];

    /// The name in configurations, which is the kernel's.
    pub const fn name(self) -> &'static str {
        match self {
            PrioClass::NoChange => "no-change",
            PrioClass::PromoteToRt => "promote-to-rt",
            PrioClass::RestrictToBe => "restrict-to-be",
            PrioClass::Idle => "idle",
        }
    }

    /// The setting of that name.
    pub fn from_name(name: &str) -> Option<PrioClass> {
        PrioClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The cgroup's own class among its siblings.
    pub const fn of_cgroup(self) -> PriorityClass {
        match self {
            PrioClass::NoChange | PrioClass::RestrictToBe => PriorityClass::BestEffort,
            PrioClass::PromoteToRt => PriorityClass::RealTime,
            PrioClass::Idle => PriorityClass::Idle,
        }
    }

    /// What becomes of a client's priority.
    pub const fn apply(self, priority: Priority) -> Priority {
        let (class, level) = match (self, priority.class) {
            (PrioClass::NoChange, class) => (class, priority.level),
            (PrioClass::PromoteToRt, PriorityClass::Idle) => (PriorityClass::RealTime, 4),
            (PrioClass::PromoteToRt, _) => (PriorityClass::RealTime, priority.level),
            (PrioClass::RestrictToBe, PriorityClass::RealTime) => {
                (PriorityClass::BestEffort, priority.level)
            }
            (PrioClass::RestrictToBe, class) => (class, priority.level),
            (PrioClass::Idle, _) => (PriorityClass::Idle, 7),
        };
        Priority { class, level }
    }
}

/// Share of a contended limit or device that a cgroup gets while it has requests, relative to its siblings.
///
/// No unit; 1 to 10000, 100 by default. Only ratios count. A change counts from the next request that is let through.
/// Source: cgroup v2 `io.weight`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u16", try_from = "u16"))]
pub struct Weight(NonZeroU16);

/// A weight outside 1 to 10000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("weight {asked} is not between 1 and {}", Weight::MAX)]
#[non_exhaustive]
pub struct WeightError {
    /// What was asked for.
    pub asked: u64,
}

impl Weight {
    /// 100, the weight of a cgroup by default, and of each client.
    pub const DEFAULT: Weight = Weight(NonZeroU16::new(100).unwrap());

    /// The largest weight.
    pub const MAX: u16 = 10_000;

    /// Checks `weight`.
    ///
    /// # Errors
    /// [`WeightError`] outside 1 to 10000.
    pub fn new(weight: u64) -> Result<Weight, WeightError> {
        u16::try_from(weight)
            .ok()
            .filter(|&weight| weight <= Weight::MAX)
            .and_then(NonZeroU16::new)
            .map(Weight)
            .ok_or(WeightError { asked: weight })
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl From<Weight> for u16 {
    fn from(weight: Weight) -> u16 {
        weight.get()
    }
}

impl TryFrom<u16> for Weight {
    type Error = WeightError;

    fn try_from(weight: u16) -> Result<Weight, WeightError> {
        Weight::new(weight.into())
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::DEFAULT
    }
}

/// Whether a flow's weight may be raised for a while, so that a starting flow need not wait for steady readers and
/// writers.
///
/// A cgroup's setting holds for all clients below it that have no nearer one. In the kernel's BFQ weights are raised
/// only at weight 40, so that any explicit weight turns raising off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LowLatency {
    /// By behaviour: raised when it begins after a pause, or wants little at a time, unless it belongs to a large
    /// burst.
    #[default]
    Auto,
    /// Never raised.
    Never,
    /// As `Auto`, and in large bursts too, for instance a session that starts ten programs at once.
    Interactive,
}

impl LowLatency {
    /// All policies, in the order of tables.
    pub const ALL: [LowLatency; 3] = [LowLatency::Auto, LowLatency::Never, LowLatency::Interactive];

    /// The name in configurations and reports: `auto`, `never` or `interactive`.
    pub const fn name(self) -> &'static str {
        match self {
            LowLatency::Auto => "auto",
            LowLatency::Never => "never",
            LowLatency::Interactive => "interactive",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<LowLatency> {
        LowLatency::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_weights() {
        // spec/bfq EX-1, in the proportion of the kernel's 80, 40 and 10.
        let weight = |level| {
            Priority::new(PriorityClass::RealTime, level).map(|priority| priority.weight().get())
        };
        assert_eq!([0, 4, 7, 8].map(weight), [Some(200), Some(100), Some(25), None]);
    }

    #[test]
    fn a_cgroup_sends_its_clients_where_it_is_told() {
        use PriorityClass::{BestEffort, Idle, RealTime};
        for (policy, becomes) in [
            (PrioClass::NoChange, [RealTime, BestEffort, Idle]),
            (PrioClass::PromoteToRt, [RealTime; 3]),
            (PrioClass::RestrictToBe, [BestEffort, BestEffort, Idle]),
            (PrioClass::Idle, [Idle; 3]),
        ] {
            let class = |class| {
                let priority = Priority::new(class, 2).expect("a level");
                policy.apply(priority).class()
            };
            assert_eq!(PriorityClass::ALL.map(class), becomes, "{policy:?}");
            assert_eq!(PrioClass::from_name(policy.name()), Some(policy));
        }
    }
}
