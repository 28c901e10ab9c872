//! Host of a governor: whatever others, the governor and a crash do, what others have written can be put back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_govern::host::{Host, Observed, Rule, Selector, SelectorKind};
use weir_govern::kernel::Interface;
use weir_govern::{CgroupSample, Counters, DeviceSample, IoMax, Mode, Settings, State};

const MIB: u64 = 1 << 20;
const SETTINGS: Settings = Settings { watermark_permille: 900, mode: Mode::Proportional };

fn reads(rbps: u64) -> IoMax {
    IoMax { rbps: Some(rbps), ..IoMax::default() }
}

/// A disk of 20 MiB/s, whose cgroups read as much as they may.
struct World {
    host: Host,
    kernel: BTreeMap<String, IoMax>,
    /// Limits that others have written last.
    others: BTreeMap<String, IoMax>,
    counters: BTreeMap<String, Counters>,
    device: DeviceSample,
    now_ms: u64,
}

impl World {
    fn new(mode: Mode, rules: Vec<Rule>) -> World {
        World {
            host: Host::new(Interface::V2, Settings { mode, ..SETTINGS }, rules),
            kernel: BTreeMap::new(),
            others: BTreeMap::new(),
            counters: BTreeMap::new(),
            device: DeviceSample::default(),
            now_ms: 0,
        }
    }

    fn set(&mut self, path: &str, limits: IoMax) {
        self.kernel.insert(path.to_owned(), limits);
        self.others.insert(path.to_owned(), limits);
    }

    fn look(&mut self, path: &str) -> Observed {
        self.host.observe(path, self.kernel[path])
    }

    /// 50 ms of reading, and a turn.
    fn turn(&mut self) -> Vec<String> {
        self.now_ms += 50;
        for (path, limits) in &self.kernel {
            let below = format!("{path}/");
            if self.kernel.keys().any(|other| other.starts_with(&below)) {
                continue;
            }
            let read = limits.rbps.unwrap_or(20 * MIB).min(20 * MIB) / 20;
            let add = |counters: &mut Counters| {
                counters.rbytes += read;
                counters.rios += read >> 16;
            };
            add(&mut self.device.counters);
            self.device.used_ns += read * 50_000_000 / MIB;
            // What a cgroup does, those above it do.
            for (at, _) in (path.clone() + "/").match_indices('/').skip(1) {
                add(self.counters.entry(path[..at].to_owned()).or_default());
            }
        }
        for path in self.kernel.keys() {
            let counters = self.counters.get(path).copied().unwrap_or_default();
            self.host.note(path, CgroupSample { counters, waited_ns: None });
        }
        self.host.turn(self.now_ms * 1_000_000, self.device)
    }

    fn write(&mut self, path: &str) {
        let planned = self.host.begin(path).expect("it is due");
        self.kernel.insert(path.to_owned(), planned.after);
        self.host.wrote(path);
    }

    /// Writes all that a turn wants.
    fn turn_and_write(&mut self) {
        for path in self.turn() {
            self.write(&path);
        }
    }

    /// Turns until `is_so`, for 20 s at most.
    #[track_caller]
    fn until(&mut self, is_so: impl Fn(&World) -> bool) {
        for _ in 0..400 {
            self.turn_and_write();
            if is_so(self) {
                return;
            }
        }
        panic!("not within 20 s: {:?}", self.host);
    }

    /// What a restoration would leave.
    fn restored(&self) -> BTreeMap<String, IoMax> {
        let kept = self.host.kept();
        let of = |(path, stands): (&String, &IoMax)| {
            let restored = kept.get(path).and_then(|kept| kept.restoration(*stands));
            (path.clone(), restored.unwrap_or(*stands))
        };
        self.kernel.iter().map(of).collect()
    }
}

#[test]
fn limits_are_adopted_raised_and_released() {
    let mut world = World::new(Mode::Proportional, Vec::new());
    world.set("/a", reads(2 * MIB));
    world.set("/b", IoMax::default());
    assert_eq!(world.look("/a"), Observed::Adopted(reads(2 * MIB)));
    assert_eq!(world.look("/b"), Observed::Ungoverned);
    world.kernel.remove("/b");
    world.until(|world| world.kernel["/a"].rbps > Some(4 * MIB));
    assert_eq!(world.host.decided().state, State::Raised);
    assert_eq!(world.look("/a"), Observed::Unchanged);
    world.set("/a", reads(3 * MIB));
    assert_eq!(world.look("/a"), Observed::Adopted(reads(3 * MIB)));
    world.until(|world| world.kernel["/a"].rbps > Some(5 * MIB));
    assert_eq!(world.restored()["/a"], reads(3 * MIB));
    world.set("/a", IoMax::default());
    assert_eq!(world.look("/a"), Observed::Released);
    assert!(world.host.cgroups().next().is_none() && world.host.kept().is_empty());
}

#[test]
fn limits_of_a_rule_are_for_cgroups_without() {
    let selector = Selector::parse(SelectorKind::Cgroup, "/t/*").expect("a path");
    let rule = Rule { selector, limits: reads(MIB), settings: None };
    let mut world = World::new(Mode::Proportional, vec![rule]);
    world.set("/t/a", IoMax::default());
    world.set("/t/b", reads(2 * MIB));
    assert_eq!(world.look("/t/a"), Observed::Adopted(reads(MIB)));
    assert_eq!(world.look("/t/b"), Observed::Adopted(reads(2 * MIB)));
    world.turn_and_write();
    assert_eq!(world.kernel["/t/a"], reads(MIB), "it is limited at once");
    assert_eq!(world.restored(), world.others);
    // Others take their limit away: the rule has one.
    world.set("/t/b", IoMax::default());
    assert_eq!(world.look("/t/b"), Observed::Adopted(reads(MIB)));
    world.turn_and_write();
    assert!(world.kernel["/t/b"].rbps >= Some(MIB));
    assert_eq!(world.restored(), world.others);
}

/// The cgroup between two governed ones is limited later.
#[test]
fn a_cgroup_between_two_others_is_governed_between_them() {
    let mut world = World::new(Mode::Proportional, Vec::new());
    for (path, limit) in [("/a", 8), ("/a/b/c", 2), ("/a/b-c", 2)] {
        world.set(path, reads(limit * MIB));
        world.look(path);
    }
    world.until(|world| world.kernel["/a/b/c"].rbps > Some(3 * MIB));
    world.set("/a/b", reads(4 * MIB));
    assert_eq!(world.look("/a/b"), Observed::Adopted(reads(4 * MIB)));
    world.until(|world| world.kernel["/a/b"].rbps > Some(4 * MIB));
    assert_eq!(world.restored(), world.others);
    world.host.remove("/a");
    world.kernel.remove("/a");
    world.until(|world| world.kernel["/a/b/c"].rbps > Some(3 * MIB));
}

/// What is refused stays as it is until the governor wants something else.
#[test]
fn a_refused_write_is_not_tried_again_at_once() {
    let mut world = World::new(Mode::Proportional, Vec::new());
    world.set("/a", reads(2 * MIB));
    world.look("/a");
    let mut tries = 0;
    for _ in 0..200 {
        for path in world.turn() {
            tries += 1;
            world.host.begin(&path).expect("it is due");
            world.host.refused(&path);
        }
    }
    // At most four a second, as other writes.
    assert!((1..=40).contains(&tries), "{tries}");
    assert_eq!(world.restored(), world.others);
}

#[derive(Debug, Clone)]
enum Step {
    /// Others set one limit of a cgroup.
    Set {
        cgroup: usize,
        limit: usize,
        value: Option<u64>,
    },
    Look {
        cgroup: usize,
    },
    /// A turn; of each cgroup's four limits only some are written before the rest is refused.
    Turn {
        written: usize,
    },
    Turns {
        count: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3usize, 0..4usize, prop::option::of(MIB..4 * MIB))
            .prop_map(|(cgroup, limit, value)| Step::Set { cgroup, limit, value }),
        2 => (0..3usize).prop_map(|cgroup| Step::Look { cgroup }),
        1 => (0..5usize).prop_map(|written| Step::Turn { written }),
        3 => (1..20usize).prop_map(|count| Step::Turns { count }),
    ]
}

fn limit(limits: &mut IoMax, index: usize) -> &mut Option<u64> {
    [&mut limits.rbps, &mut limits.wbps, &mut limits.riops, &mut limits.wiops]
        .into_iter()
        .nth(index)
        .expect("there are four")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_others_have_written_can_always_be_put_back(
        steps in prop::collection::vec(step(), 1..60), is_gate in any::<bool>(),
    ) {
        let mode = if is_gate { Mode::Gate } else { Mode::Proportional };
        let mut world = World::new(mode, Vec::new());
        let paths = ["/a", "/a/b", "/c"];
        for path in paths {
            world.set(path, reads(MIB));
            world.look(path);
        }
        for step in steps {
            match step {
                Step::Set { cgroup, limit: index, value } => {
                    let path = paths[cgroup];
                    let own = world.host.kept().get(path).map(|kept| kept.written.clone());
                    // The very values of the governor are taken for its own.
                    let is_own = own.unwrap_or_default().iter_mut().any(|own| *limit(own, index) == value);
                    if !is_own {
                        *limit(world.kernel.get_mut(path).expect("it is there"), index) = value;
                        *limit(world.others.get_mut(path).expect("it is there"), index) = value;
                    }
                }
                Step::Look { cgroup } => {
                    world.look(paths[cgroup]);
                }
                Step::Turn { written } => {
                    for path in world.turn() {
                        world.look(&path);
                        let Some(mut planned) = world.host.begin(&path) else { continue };
                        for index in 0..written {
                            let stands = world.kernel.get_mut(&path).expect("it is there");
                            *limit(stands, index) = *limit(&mut planned.after, index);
                            // A crash here is undone.
                            prop_assert_eq!(world.restored(), world.others.clone());
                        }
                        world.host.refused(&path);
                        world.look(&path);
                    }
                }
                Step::Turns { count } => {
                    for _ in 0..count {
                        for path in world.turn() {
                            if world.look(&path) == Observed::Unchanged {
                                world.write(&path);
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(world.restored(), world.others.clone());
        }
    }
}
