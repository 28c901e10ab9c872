//! Cases of the bench: flows, trees and limits.

use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_engine::{LimiterKind, SchedulerKind};

/// One line of the table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    pub(crate) load: Load,
    pub(crate) scheduler: SchedulerKind,
    /// Settings of BFQ.
    pub(crate) bfq: &'static str,
    /// Whether the device is a disk that seeks, on which BFQ looks for flows that should be one.
    pub(crate) rotational: bool,
    /// Whether each request is its flow's first, so that the flow is made for it; else all have had one before.
    pub(crate) makes_flows: bool,
    pub(crate) habit: Habit,
    /// The time that a case is to stay below, in nanoseconds.
    pub(crate) time_ns_goal: Option<u32>,
}

/// The shape of the hierarchy, the same everywhere on one level.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    /// Children of each cgroup, from the root down.
    pub(crate) fan_out: &'static [u32],
    /// Clients in each of the lowest cgroups, with one task each.
    pub(crate) clients: u32,
}

impl Tree {
    pub(crate) fn flows(&self) -> u32 {
        self.fan_out.iter().product::<u32>() * self.clients
    }

    /// Cgroups, the root not counted.
    pub(crate) fn cgroups(&self) -> u32 {
        let mut level = 1;
        self.fan_out
            .iter()
            .map(|children| {
                level *= children;
                level
            })
            .sum()
    }
}

/// What the requests meet on their way.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// No limit anywhere; 32 requests a turn from as many flows.
    Unlimited,
    /// The same under limits in bytes and I/Os that are never reached.
    Below(LimiterKind),
    /// Every flow has a request waiting at all times, and timers let them go, one virtual instant after the other.
    Reached(LimiterKind),
}

impl Load {
    /// The name in the JSON report.
    pub(crate) fn limits(self) -> &'static str {
        match self {
            Load::Unlimited => "none",
            Load::Below(_) => "below",
            Load::Reached(_) => "reached",
        }
    }

    pub(crate) fn limiter(self) -> Option<&'static str> {
        let (Load::Below(kind) | Load::Reached(kind)) = self else { return None };
        Some(kind.name())
    }
}

/// How flows ask, where no limit is reached.
#[derive(Clone, Copy)]
pub(crate) enum Habit {
    /// One request in a turn, always at the same position.
    Single,
    /// One flow after the other, in bursts of random requests that the device takes at once.
    Bursts,
    /// Each has 32 random requests inside at all times, of which the device takes as many of all flows together.
    Queues,
}

const ONE: Tree = Tree { fan_out: &[1], clients: 1 };
const TWO: Tree = Tree { fan_out: &[1], clients: 2 };
const THOUSAND: Tree = Tree { fan_out: &[100], clients: 10 };
const MILLION: Tree = Tree { fan_out: &[100_000], clients: 10 };
const DEEP: Tree = Tree { fan_out: &[10, 10, 10, 10, 10], clients: 10 };

const PACE: LimiterKind = LimiterKind::Pace;
const SLICE: LimiterKind =
    LimiterKind::Slice(SliceProfile { kernel: KernelProfile::K615, hz: 250, slice_ticks: 25 });

/// Every case, in the order of the table.
pub(crate) const CASES: [Case; 30] = [
    case("1-none", ONE, Load::Unlimited, Some(150)),
    case("1-below", ONE, Load::Below(PACE), Some(150)),
    case("1-reached", ONE, Load::Reached(PACE), Some(150)),
    case("1000-none", THOUSAND, Load::Unlimited, Some(300)),
    case("1000-below", THOUSAND, Load::Below(PACE), Some(300)),
    case("1000-reached", THOUSAND, Load::Reached(PACE), Some(300)),
    case("1000-below-token", THOUSAND, Load::Below(LimiterKind::Token), None),
    case("1000-reached-token", THOUSAND, Load::Reached(LimiterKind::Token), None),
    case("1000-below-leaky", THOUSAND, Load::Below(LimiterKind::Leaky), None),
    case("1000-reached-leaky", THOUSAND, Load::Reached(LimiterKind::Leaky), None),
    case("1000-below-slice", THOUSAND, Load::Below(SLICE), None),
    case("1000-reached-slice", THOUSAND, Load::Reached(SLICE), None),
    case("1000000-none", MILLION, Load::Unlimited, Some(1000)),
    case("1000000-below", MILLION, Load::Below(PACE), Some(1000)),
    case("1000000-reached", MILLION, Load::Reached(PACE), Some(1000)),
    case("deep-none", DEEP, Load::Unlimited, Some(1000)),
    case("deep-below", DEEP, Load::Below(PACE), Some(1000)),
    case("deep-reached", DEEP, Load::Reached(PACE), Some(1000)),
    bfq("1-bfq", ONE, Load::Unlimited, Some(150)),
    Case { bfq: "", ..bfq("1-bfq-idling", ONE, Load::Unlimited, Some(150)) },
    bfq("1000-bfq", THOUSAND, Load::Unlimited, Some(300)),
    Case { rotational: true, ..bfq("1000-bfq-disk", THOUSAND, Load::Unlimited, None) },
    bfq("1000-below-bfq", THOUSAND, Load::Below(PACE), None),
    bfq("1000000-bfq", MILLION, Load::Unlimited, Some(1000)),
    Case { makes_flows: true, ..bfq("1000000-bfq-first", MILLION, Load::Unlimited, None) },
    bfq("deep-bfq", DEEP, Load::Unlimited, None),
    server("2-bursts-none", SchedulerKind::None, Habit::Bursts),
    server("2-bursts-bfq", SchedulerKind::Bfq, Habit::Bursts),
    server("2-queues-none", SchedulerKind::None, Habit::Queues),
    server("2-queues-bfq", SchedulerKind::Bfq, Habit::Queues),
];

const fn case(name: &'static str, tree: Tree, load: Load, time_ns_goal: Option<u32>) -> Case {
    Case {
        name,
        tree,
        load,
        scheduler: SchedulerKind::None,
        bfq: "",
        rotational: false,
        makes_flows: false,
        habit: Habit::Single,
        time_ns_goal,
    }
}

/// What a server has: two clients with queues of their own, and the settings that it has unless it is told others.
const fn server(name: &'static str, scheduler: SchedulerKind, habit: Habit) -> Case {
    Case { scheduler, habit, ..case(name, TWO, Load::Unlimited, None) }
}

/// Each flow has one request in a turn, so every request is a slot of its own: the most that BFQ has to do for one.
/// No idling: it would measure the clock. `1-bfq-idling` has its bookkeeping.
const fn bfq(name: &'static str, tree: Tree, load: Load, time_ns_goal: Option<u32>) -> Case {
    Case {
        scheduler: SchedulerKind::Bfq,
        bfq: "slice_idle=0",
        ..case(name, tree, load, time_ns_goal)
    }
}
