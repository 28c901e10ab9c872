//! Properties on random calls.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
enum Call {
    Add {
        parent: usize,
        cgroup: Cgroup,
    },
    Remove(usize),
    Adopt {
        at: usize,
        cgroup: Cgroup,
    },
    Settings(Settings),
    /// What a cgroup did besides, and how long some task waited.
    Note {
        at: usize,
        done: Counters,
        waited_ns: Option<u64>,
    },
    Turn {
        after_ns: u64,
        used_permille: u64,
        done: Counters,
        in_flight_ios: u64,
    },
    /// Counters of a cgroup, or of the device, are others.
    Anew(Option<usize>),
}

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        Just(None),
        Just(Some(1)),
        (1u64..10_000).prop_map(Some),
        (1u64..100_000_000).prop_map(Some),
        Just(Some(u64::MAX)),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (0u16..=1000, any::<bool>()).prop_map(|(watermark_permille, is_gate)| {
        let mode = if is_gate { Mode::Gate } else { Mode::Proportional };
        Settings { watermark_permille, mode }
    })
}

fn cgroup() -> impl Strategy<Value = Cgroup> {
    let own = prop_oneof![4 => Just(None), 1 => settings().prop_map(Some)];
    ((limit(), limit(), limit(), limit()), own).prop_map(
        |((rbps, wbps, riops, wiops), settings)| Cgroup {
            limits: IoMax { rbps, wbps, riops, wiops },
            settings,
        },
    )
}

fn done() -> impl Strategy<Value = Counters> {
    let amount = || prop_oneof![3 => 0u64..10_000_000, 1 => Just(0), 1 => any::<u64>()];
    (amount(), amount(), 0u64..1_000, 0u64..1_000)
        .prop_map(|(rbytes, wbytes, rios, wios)| Counters { rbytes, wbytes, rios, wios })
}

fn call() -> impl Strategy<Value = Call> {
    let turn =
        (prop_oneof![8 => Just(50_000_000), 2 => 0..2 * SECOND_NS], 0u64..1_100, done(), 0u64..64);
    prop_oneof![
        2 => (any::<usize>(), cgroup()).prop_map(|(parent, cgroup)| Call::Add { parent, cgroup }),
        1 => any::<usize>().prop_map(Call::Remove),
        1 => (any::<usize>(), cgroup()).prop_map(|(at, cgroup)| Call::Adopt { at, cgroup }),
        1 => settings().prop_map(Call::Settings),
        8 => (any::<usize>(), done(), prop::option::of(0u64..50_000_000))
            .prop_map(|(at, done, waited_ns)| Call::Note { at, done, waited_ns }),
        12 => turn.prop_map(|(after_ns, used_permille, done, in_flight_ios)| {
            Call::Turn { after_ns, used_permille, done, in_flight_ios }
        }),
        1 => prop::option::of(any::<usize>()).prop_map(Call::Anew),
    ]
}

/// What the kernel has, and how often it was written.
#[derive(Default)]
struct Kernel {
    limits: IoMax,
    written_ns: Vec<u64>,
    sample: CgroupSample,
}

fn plus(counters: &mut Counters, done: Counters) {
    counters.rbytes = counters.rbytes.saturating_add(done.rbytes);
    counters.wbytes = counters.wbytes.saturating_add(done.wbytes);
    counters.rios = counters.rios.saturating_add(done.rios);
    counters.wios = counters.wios.saturating_add(done.wios);
}

/// Limit by limit, whether `limits` are at least `least`.
fn is_at_least(limits: IoMax, least: IoMax) -> bool {
    let pairs = [
        (limits.rbps, least.rbps),
        (limits.wbps, least.wbps),
        (limits.riops, least.riops),
        (limits.wiops, least.wiops),
    ];
    pairs.into_iter().all(|(limit, least)| limit.unwrap_or(u64::MAX) >= least.unwrap_or(u64::MAX))
}

fn check(calls: &[Call]) {
    let mut governor =
        Governor::new(Settings { watermark_permille: 900, mode: Mode::Proportional });
    let mut written: BTreeMap<CgroupId, (Cgroup, Kernel)> = BTreeMap::new();
    let mut device = DeviceSample::default();
    let mut now_ns = 0;
    let at = |written: &BTreeMap<CgroupId, (Cgroup, Kernel)>, at: usize| {
        written.keys().copied().nth(at.checked_rem(written.len())?)
    };
    for call in calls {
        match call {
            Call::Add { parent, cgroup } => {
                let parent = at(&written, *parent).filter(|_| parent % 3 > 0);
                let id = governor.add(parent, *cgroup);
                let kernel = Kernel { limits: cgroup.limits, ..Kernel::default() };
                assert!(written.insert(id, (*cgroup, kernel)).is_none(), "an ID that is in use");
            }
            Call::Remove(index) => {
                let Some(id) = at(&written, *index) else { continue };
                governor.remove(id);
                written.remove(&id);
            }
            Call::Adopt { at: index, cgroup } => {
                let Some(id) = at(&written, *index) else { continue };
                governor.adopt(id, *cgroup);
                let entry = written.get_mut(&id).unwrap();
                (entry.0, entry.1.limits) = (*cgroup, cgroup.limits);
            }
            Call::Settings(settings) => governor.set_settings(*settings),
            Call::Note { at: index, done, waited_ns } => {
                let Some(id) = at(&written, *index) else { continue };
                let sample = &mut written.get_mut(&id).unwrap().1.sample;
                plus(&mut sample.counters, *done);
                sample.waited_ns = waited_ns.map(|ns| sample.waited_ns.unwrap_or(0) + ns);
                governor.note(id, *sample);
            }
            Call::Anew(None) => device = DeviceSample::default(),
            Call::Anew(Some(index)) => {
                let Some(id) = at(&written, *index) else { continue };
                written.get_mut(&id).unwrap().1.sample = CgroupSample::default();
            }
            Call::Turn { after_ns, used_permille, done, in_flight_ios } => {
                now_ns += after_ns;
                plus(&mut device.counters, *done);
                device.used_ns += after_ns / 1000 * used_permille;
                device.in_flight_ios = *in_flight_ios;
                let turn = governor.turn(now_ns, device);
                assert!(turn.lambda_ppm >= 1_000_000);
                for write in turn.writes {
                    let (_, kernel) = written.get_mut(&write.cgroup).expect("a live cgroup");
                    assert_ne!(kernel.limits, write.limits, "a write that changes nothing");
                    kernel.limits = write.limits;
                    kernel.written_ns.retain(|&at_ns| now_ns - at_ns < SECOND_NS);
                    kernel.written_ns.push(now_ns);
                }
            }
        }
        for (id, (cgroup, kernel)) in &written {
            assert_eq!(governor.effective(*id), kernel.limits, "what it thinks the kernel has");
            assert!(is_at_least(kernel.limits, cgroup.limits), "{:?} {cgroup:?}", kernel.limits);
        }
    }
    let settings =
        calls.iter().filter(|call| !matches!(call, Call::Note { .. } | Call::Turn { .. }));
    // Where the operator changes settings or counters begin anew, limits fall at once.
    let is_quiet = !settings.into_iter().any(|call| {
        matches!(call, Call::Settings(_) | Call::Anew(None) | Call::Adopt { .. } | Call::Remove(_))
    });
    if is_quiet {
        let most = written.values().map(|(_, kernel)| kernel.written_ns.len()).max();
        assert!(most.unwrap_or(0) <= 4, "{most:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_are_never_below_those_as_written(calls in vec(call(), 0..200)) {
        check(&calls);
    }
}
