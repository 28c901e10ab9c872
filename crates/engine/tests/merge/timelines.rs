//! The timelines of spec/bfq 7.12, 7.13 and 7.14, as the kernel goes through them and as Weir does.

use std::time::Duration;

use weir_engine::merge_internals::cooperation::{Device, QueueFacts, ServedQueue, Start};
use weir_engine::merge_internals::stable::Evidence;
use weir_engine::merge_internals::{
    Ask, Check, Kind, MergeWindow, Position, Rules, Settings, StableTimes, Traits,
};
use weir_engine::stats::Refusal;

use super::world::{SECTOR, TRAITS, World, at, id};

const START: u64 = 1_000_000;

/// One line for each request that arrives: when, whose, and what came of it.
fn arrive(world: &mut World, lines: &mut Vec<String>, millis: f64, process: u32, chunk: u64) {
    let queue = id(process - 1);
    if world.queues.len() < process as usize {
        world.open(at(millis), TRAITS);
    }
    let story = world.insert(at(millis), queue, START + 64 * chunk);
    lines.push(format!("{millis:.1} P{process} {story}"));
}

#[test]
fn three_cooperating_readers_with_the_kernels_rules() {
    let mut world = World::new(Settings::KERNEL);
    let mut lines = Vec::new();
    arrive(&mut world, &mut lines, 0.0, 1, 0);
    world.dispatch(at(0.0), id(0), START, 64);
    arrive(&mut world, &mut lines, 0.2, 2, 1);
    assert_eq!(world.merging.stable().candidate(id(1)), Some(id(0)));
    arrive(&mut world, &mut lines, 0.4, 3, 2);
    assert_eq!(world.merging.stable().candidate(id(2)), None, "it came true");
    world.dispatch(at(0.5), id(0), START + 128, 64);
    assert_eq!(world.next(id(0)), None);
    arrive(&mut world, &mut lines, 0.6, 1, 3);
    let sets = world.merging.sets();
    assert_eq!((sets.users(id(0)), sets.users(id(1))), (1, 2), "P3 has not asked yet");
    assert_eq!(world.queues[1].queued, [START + 64, START + 192]);
    assert_eq!(world.next(id(1)), Some(START + 192), "0 forwards against 256 for 128 backwards");
    arrive(&mut world, &mut lines, 1.1, 3, 5);
    let sets = world.merging.sets();
    assert_eq!((sets.users(id(0)), sets.users(id(1))), (0, 3), "spec/bfq D-9: Q1 idles for nobody");
    assert!(world.queues[0].queued.is_empty());
    world.expire(id(0));
    assert_eq!(
        lines,
        [
            "0.0 P1 Q1 nobody_close",
            "0.2 P2 Q2 alone",
            "0.4 P3 Q3 -> Q1 close",
            "0.6 P1 Q1 -> Q2 close",
            "1.1 P3 follows to Q2",
        ]
    );
    assert_eq!(world.map(), "222");
    assert_eq!(world.merging.counters().redirections, 3);
    let left: Vec<u64> = world.queues.iter().flat_map(|queue| queue.queued.clone()).collect();
    assert_eq!(left, [START + 64, START + 192, START + 320], "two of five went to the device");
}

#[test]
fn three_cooperating_readers_with_weirs_rules() {
    let mut world = World::new(Settings::WEIR);
    let mut lines = Vec::new();
    arrive(&mut world, &mut lines, 0.0, 1, 0);
    world.dispatch(at(0.0), id(0), START, 64);
    arrive(&mut world, &mut lines, 0.2, 2, 1);
    arrive(&mut world, &mut lines, 0.4, 3, 2);
    world.dispatch(at(0.5), id(0), START + 64, 64);
    arrive(&mut world, &mut lines, 0.6, 1, 3);
    world.dispatch(at(1.0), id(0), START + 128, 64);
    arrive(&mut world, &mut lines, 1.1, 3, 5);
    world.dispatch(at(1.5), id(0), START + 192, 64);
    assert_eq!(
        lines,
        [
            "0.0 P1 Q1 alone",
            "0.2 P2 Q2 -> Q1 close",
            "0.4 P3 Q3 -> Q1 close",
            "0.6 P1 Q1 alone",
            "1.1 P3 Q1 alone",
        ],
        "one stream from P2's first request on, in the order of the disk"
    );
    assert_eq!(world.map(), "111");
    assert_eq!(world.merging.sets().users(id(0)), 3);
    assert_eq!(world.merging.counters().redirections, 2);
    assert_eq!(world.merging.stable().candidate(id(1)), None);
}

#[test]
fn d9_a_queue_in_service_that_merges_away_has_nobody_to_idle_for() {
    for (rules, users) in [(Rules::Kernel, 1), (Rules::Weir, 0)] {
        let mut world = World::new(Settings { rules, ..Settings::WEIR });
        for process in 0..3 {
            world.open(at(0.0), TRAITS);
            world.insert(at(0.0), id(process), START + 100_000 * u64::from(process));
        }
        world.dispatch(at(0.0), id(0), START, 64);
        let third = world.insert(at(0.1), id(2), START + 64);
        assert_eq!(third, "Q3 -> Q1 close");
        world.dispatch(at(0.2), id(0), START + 64, 64);
        let first = world.insert(at(0.3), id(0), START + 100_064);
        assert_eq!(first, "Q1 -> Q2 close");
        assert_eq!(world.merging.sets().users(id(0)), users, "P3 moved too: {rules:?}");
    }
}

/// Requests of a merged queue stay in it, and have no queue that is close to them.
#[test]
fn a_queue_that_only_drains_is_no_target() {
    for (rules, reason) in [(Rules::Kernel, "same_set"), (Rules::Weir, "no_process")] {
        let mut world = World::new(Settings { rules, ..Settings::WEIR });
        for process in 0..3 {
            world.open(at(0.0), TRAITS);
            world.insert(at(0.0), id(process), START + 100_000 * u64::from(process));
        }
        world.dispatch(at(0.0), id(0), START, 64);
        assert_eq!(world.insert(at(0.1), id(2), START + 64), "Q3 -> Q1 close");
        let fourth = world.open(at(0.2), TRAITS);
        world.insert(at(0.2), fourth, START + 400_000);
        // What Q3 had before it merged, far from everything else.
        let left = START + 200_000;
        let near_left = world.insert(at(0.3), fourth, left + 64);
        assert_eq!(near_left, "Q4 no_process", "{rules:?}");

        // Q1 merges into Q2 while P3 may still have to move. P2 then comes close to Q1's head.
        assert_eq!(world.insert(at(0.4), id(0), START + 100_064), "Q1 -> Q2 close");
        assert_eq!(world.insert(at(0.5), id(1), START + 128), format!("Q2 {reason}"));
    }
}

/// Two streams with requests all the time, far from each other. The second then asks near the head of the first.
struct Streams {
    settings: Settings,
    first: QueueFacts,
    second: QueueFacts,
}

impl Streams {
    /// When each was first served since it restarted; `None` if it was not.
    fn new(settings: Settings, first: Option<f64>, second: Option<f64>) -> Streams {
        let facts = |index, served: Option<f64>| {
            let mut start = Start::NEW;
            if let Some(millis) = served {
                start.serve(at(millis));
            }
            QueueFacts { queue: id(index), traits: TRAITS, seeky: false, busy: true, start }
        };
        Streams { settings, first: facts(0, first), second: facts(1, second) }
    }

    /// P2 asks 2000 sectors from P1's head: once with P1 in service, once with P1 waiting nearby, to the same end.
    fn ask(&self, now: weir_engine::Instant) -> Result<(), Refusal> {
        let head = Position(5000 * SECTOR);
        let place = Position(7000 * SECTOR);
        let ends = [Some(head), None].map(|last_end| {
            let mut merging = weir_engine::merge_internals::Merging::<()>::new(self.settings);
            // Long before, so that only cooperation is in play.
            merging.open(at(-2000.0), id(0), TRAITS, false);
            merging.open(at(-1000.0), id(1), TRAITS, false);
            let in_service = Some(ServedQueue { facts: self.first, last_end });
            let device = Device { queueing_flash: false, busy_queues: 2, in_service };
            let evidence =
                Evidence { just_created: false, insertions: 100, boosts_throughput: true };
            let ask = Ask { queue: id(1), facts: self.second, at: place, evidence };
            let mut looked = 0;
            let end = merging.check(now, &ask, &device, || {
                looked += 1;
                last_end.is_none().then_some(self.first)
            });
            match end {
                Check::Merge(merge) => {
                    assert_eq!((merge.from, merge.to), (id(1), id(0)));
                    assert_eq!(merge.kind, Kind::Cooperation);
                    Ok(())
                }
                Check::Stay(Some(reason)) => {
                    assert_eq!(looked == 0, reason == Refusal::TooLate, "no search when late");
                    assert_eq!(merging.counters().refused(reason), 1);
                    Err(reason)
                }
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(ends[0], ends[1]);
        ends[0]
    }
}

#[test]
fn unrelated_processes() {
    for settings in [Settings::KERNEL, Settings::WEIR] {
        for (millis, first, second, end) in [
            (90.0, Some(0.0), Some(8.0), Ok(())),
            (100.0, Some(0.0), Some(8.0), Ok(())),
            (101.0, Some(0.0), Some(8.0), Err(Refusal::TargetTooLate)),
            (108.0, Some(0.0), Some(8.0), Err(Refusal::TargetTooLate)),
            (150.0, Some(0.0), Some(8.0), Err(Refusal::TooLate)),
            (600.0, Some(0.0), None, Err(Refusal::TargetTooLate)),
            (920.0, None, None, Ok(())),
            (920.0, Some(901.0), None, Ok(())),
            (1001.0, Some(901.0), Some(921.0), Ok(())),
            (1002.0, Some(901.0), Some(921.0), Err(Refusal::TargetTooLate)),
            (1022.0, Some(901.0), Some(921.0), Err(Refusal::TooLate)),
        ] {
            let streams = Streams::new(settings, first, second);
            assert_eq!(streams.ask(at(millis)), end, "{millis} ms, {settings:?}");
            let unlimited = Settings { merge_window: MergeWindow::Unlimited, ..settings };
            let streams = Streams { settings: unlimited, ..streams };
            assert_eq!(streams.ask(at(millis)), Ok(()), "{millis} ms before 2017");
        }
        let streams = Streams::new(settings, Some(0.0), Some(8.0));
        assert_eq!(streams.ask(at(100.0)), Ok(()));
        let just_after = at(100.0).plus_nanos(1);
        assert_eq!(streams.ask(just_after), Err(Refusal::TargetTooLate), "a nanosecond later");
        let closed = Settings { merge_window: MergeWindow::Closed, ..settings };
        let streams = Streams { settings: closed, ..streams };
        let now = at(0.0);
        let facts = streams.second;
        let device = Device { queueing_flash: false, busy_queues: 2, in_service: None };
        let found = weir_engine::merge_internals::cooperation::find(
            &closed,
            now,
            &facts,
            Position(0),
            &device,
            || panic!("nobody is looked for when the window is closed"),
        );
        assert_eq!(found, Err(Refusal::Closed));
    }
}

/// Four processes of the sqlite benchmark, created 50 ms apart: each writes 8 random sectors every 30 ms for 900 ms.
/// One line for each merge and each cancelled one: process, insertion, time and seeks seen so far.
fn sqlite(settings: Settings, queueing_flash: bool, lifetime_ms: u64) -> (Vec<String>, World) {
    let mut world = World::new(settings);
    world.queueing_flash = queueing_flash;
    let mut lines = Vec::new();
    // The last 32 requests of each queue, one bit each, set for a jump.
    let mut history = [1u32; 4];
    let mut events: Vec<(u64, u32, u64)> = (0..4)
        .flat_map(|process| {
            (0..=lifetime_ms / 30).map(move |k| (50 * process + 30 * k, k, process))
        })
        .map(|(millis, k, process)| (millis, process as u32, k))
        .collect();
    events.sort_unstable();
    for (millis, process, k) in events {
        let now = at(millis as f64);
        if k == 0 {
            world.open(now, TRAITS);
        }
        let own = id(process);
        let to = world.merging.representative(own).unwrap();
        let bits = &mut history[to.index as usize];
        let seeky = bits.count_ones() > 19;
        let queue = &mut world.queues[to.index as usize];
        queue.seeky = seeky;
        // A disk that queues commands is faster alone with a queue that is sequential, or is taken for it.
        queue.boosts = !seeky && !queueing_flash;
        queue.start.serve(now);
        let seeks = bits.count_ones();
        *bits = *bits << 1 | u32::from(k > 0);
        // No queue is near: positions are a million sectors apart, and in no order.
        let sector = (k * 7 + u64::from(process) * 3) % 64 * 1_000_000;
        let story = world.insert(now, own, sector);
        if story.contains("->") || story.contains("cancelled") {
            lines.push(format!("P{process} k={k} t={millis} {seeks} seeks: {story}"));
        }
        world.queues[to.index as usize].queued.clear();
        world.position_tree.remove(to);
    }
    (lines, world)
}

#[test]
fn short_lived_processes_and_the_second_time() {
    let (before, world) = sqlite(Settings::KERNEL_BEFORE_2021, false, 900);
    assert_eq!(
        before,
        [
            "P1 k=7 t=260 7 seeks: Q2 cancelled",
            "P2 k=7 t=310 7 seeks: Q3 cancelled",
            "P3 k=7 t=360 7 seeks: Q4 cancelled",
        ]
    );
    assert_eq!(world.map(), "1234");

    let at_600_ms = [
        "P1 k=21 t=680 21 seeks: Q2 -> Q1 stable",
        "P2 k=21 t=730 21 seeks: Q3 -> Q1 stable",
        "P3 k=21 t=780 21 seeks: Q4 -> Q1 stable",
    ];
    for settings in [Settings::KERNEL, Settings::WEIR] {
        let (lines, mut world) = sqlite(settings, false, 900);
        assert_eq!(lines, at_600_ms);
        assert_eq!(world.map(), "1111");
        world.merging.part(at(1000.0), id(0), |id, _| panic!("{id:?} left"));
        world.merging.part_if_due(at(1000.0), id(1), |id, _| panic!("{id:?} left"));
        assert_eq!(world.map(), "1111", "flows of one task are not parted");
        assert!(world.merging.may_be_raised(id(0)), "and may be raised together");
    }

    // Even with the times of before 2021, looking again finds out as soon as there is enough to see (spec/bfq D-2).
    let stable = Some(StableTimes::KERNEL_BEFORE_2021);
    let (lines, world) = sqlite(Settings { stable, ..Settings::WEIR }, false, 900);
    assert_eq!(
        lines,
        [
            "P1 k=20 t=650 20 seeks: Q2 -> Q1 stable",
            "P2 k=20 t=700 20 seeks: Q3 -> Q1 stable",
            "P3 k=20 t=750 20 seeks: Q4 -> Q1 stable",
        ]
    );
    assert_eq!(world.merging.counters().stable_postponed, 3 * 13, "from k=7 to k=19");
}

#[test]
fn short_lived_queues_merge_late_only_on_queueing_devices() {
    for settings in [Settings::KERNEL, Settings::WEIR] {
        let (lines, world) = sqlite(settings, false, 590);
        assert_eq!((lines, world.map()), (Vec::new(), "1234".to_owned()));
        let (_, world) = sqlite(settings, true, 60);
        assert_eq!(world.map(), "1111");
        assert_eq!(world.merging.counters().stable_at_creation, 3);
    }
}

#[test]
fn stable_merging_can_be_turned_off() {
    let off = Settings { stable: None, ..Settings::WEIR };
    for flash in [false, true] {
        let (lines, world) = sqlite(off, flash, 900);
        assert_eq!((lines, world.map()), (Vec::new(), "1234".to_owned()));
    }
}

#[test]
fn d3_a_mark_ends_with_its_pair() {
    for (rules, parts) in [(Rules::Kernel, false), (Rules::Weir, true)] {
        let mut world = World::new(Settings { rules, ..Settings::WEIR });
        world.queueing_flash = true;
        world.open(at(0.0), TRAITS);
        world.open(at(1.0), TRAITS);
        assert_eq!(world.map(), "11");
        // The second moves to another cgroup, so the first is alone, and then cooperates with a third.
        world.merging.change(id(1), Traits { group: 5, ..TRAITS }, |_, _| {});
        assert_eq!(world.map(), "12");
        world.queueing_flash = false;
        world.open(at(2000.0), TRAITS);
        world.insert(at(2000.0), id(2), START);
        world.dispatch(at(2000.0), id(2), START, 64);
        world.queues[1].busy = true;
        assert_eq!(world.insert(at(2001.0), id(0), START + 64), "Q1 -> Q3 close");
        world.merging.part(at(2100.0), id(2), |_, _| {});
        let left = world.merging.part_if_due(at(2100.0), id(0), |_, _| {}).is_some();
        let alone = world.merging.representative(id(0)) == Some(id(0));
        assert_eq!((alone, left), (parts, false), "{rules:?}");
    }
}

#[test]
fn d3_in_a_set_that_goes_on_a_mark_ends_with_its_last_partner() {
    for (partners, parted) in [(1, "1234"), (2, "1214")] {
        let mut world = World::new(Settings::WEIR);
        world.queueing_flash = true;
        // P1 and its partners were created together. P4 joins them for being close, and P2 ends.
        for process in 0..3 {
            let traits = Traits { level: if process > partners { 7 } else { 4 }, ..TRAITS };
            world.open(at(f64::from(process)), traits);
        }
        world.queueing_flash = false;
        let fourth = world.open(at(5000.0), TRAITS);
        world.insert(at(5000.0), id(0), START);
        world.dispatch(at(5000.0), id(0), START, 64);
        assert_eq!(world.insert(at(5001.0), fourth, START + 64), "Q4 -> Q1 close");
        world.merging.change(id(1), Traits { group: 9, ..TRAITS }, |_, _| {});
        assert!(world.merging.sets().members(id(0)) > 1, "the set goes on");
        assert_eq!(world.merging.may_be_raised(id(0)), partners == 2);
        world.merging.part(at(5100.0), id(0), |_, _| {});
        assert_eq!(world.map(), parted, "{partners} partners");
    }
}

#[test]
fn d26_a_seeky_set_parts_at_once_or_one_by_one() {
    for rules in [Rules::Weir, Rules::Kernel] {
        let mut world = World::new(Settings { rules, ..Settings::WEIR });
        world.open(at(0.0), TRAITS);
        world.insert(at(0.0), id(0), START);
        world.dispatch(at(0.0), id(0), START, 64);
        for process in 1..4 {
            world.open(at(0.0), TRAITS);
            // For the kernel, which wants to see a second busy queue.
            world.queues[process as usize].busy = true;
            assert!(world.insert(at(1.0), id(process), START + 64).ends_with("-> Q1 close"));
        }
        assert_eq!(world.merging.stable().anchor(0), Some(id(0)));
        let mut back = Vec::new();
        let left = world.merging.part(at(50.0), id(0), |id, state| back.push((id.index, state)));
        if rules == Rules::Kernel {
            assert_eq!((world.map().as_str(), left.restored), ("1111", 0));
            // The first to ask is the one whose queue all of them use: a successor takes over.
            let left = world.merging.part_if_due(at(51.0), id(0), |id, state| {
                back.push((id.index, state));
            });
            assert_eq!(left.unwrap().successor, Some(id(1)));
            assert_eq!(world.map(), "1222", "those who are quiet stay together");
            for process in 1..4 {
                let restore =
                    |id: weir_engine::merge_internals::QueueId, state| back.push((id.index, state));
                world.merging.part_if_due(at(52.0), id(process), restore);
            }
        }
        assert_eq!(world.map(), "1234");
        back.sort_unstable();
        assert_eq!(back, [(0, 0), (1, 1), (2, 2), (3, 3)], "{rules:?}");
        assert_eq!(world.merging.stable().anchor(0), None, "its processes have left it");
    }
}

#[test]
fn a_merge_in_the_other_direction_cancels_a_pending_one() {
    for rules in [Rules::Weir, Rules::Kernel] {
        let mut world = World::new(Settings { rules, ..Settings::WEIR });
        for process in 0..2 {
            world.open(at(0.0), TRAITS);
            world.insert(at(0.0), id(process), START + 100_000 * u64::from(process));
            world.queues[process as usize].boosts = false;
        }
        world.dispatch(at(0.0), id(1), START + 100_000, 64);
        assert_eq!(world.insert(at(1.0), id(0), START + 100_064), "Q1 -> Q2 close");
        assert_eq!(world.merging.stable().candidate(id(1)), Some(id(0)));
        assert_eq!(world.insert(at(700.0), id(1), START + 100_128), "Q2 cancelled");
        assert_eq!(world.merging.stable().candidate(id(1)), None);
    }
}

#[test]
fn a_split_queue_is_judged_by_new_evidence_only() {
    let mut world = World::new(Settings::WEIR);
    for process in 0..2 {
        world.open(at(0.0), TRAITS);
        world.insert(at(0.0), id(process), START + 100_000 * u64::from(process));
        world.queues[process as usize].boosts = false;
    }
    let third = world.open(at(0.0), Traits { level: 5, ..TRAITS });
    world.insert(at(0.0), third, START + 300_000);
    world.dispatch(at(0.0), third, START + 300_000, 64);
    assert_eq!(world.insert(at(1.0), id(1), START + 300_064), "Q2 -> Q3 close");
    world.merging.part(at(500.0), third, |_, _| {});
    assert_eq!(world.map(), "123");
    assert_eq!(world.merging.stable().candidate(id(1)), Some(id(0)));
    for (millis, story) in
        [(601.0, "Q2 target_too_late"), (1100.0, "Q2 target_too_late"), (1100.1, "Q2 -> Q1 stable")]
    {
        assert_eq!(world.insert(at(millis), id(1), START + 300_064), story, "{millis} ms");
    }
}

#[test]
fn the_anchor_follows_its_queue() {
    let mut world = World::new(Settings::WEIR);
    let traits = TRAITS;
    world.open(at(-1000.0), traits);
    world.insert(at(-1000.0), id(0), START);
    world.dispatch(at(0.0), id(0), START, 64);
    world.open(at(0.0), traits);
    assert_eq!(world.merging.stable().anchor(0), Some(id(1)));
    assert_eq!(world.insert(at(1.0), id(1), START + 64), "Q2 -> Q1 close");
    assert_eq!(world.merging.stable().anchor(0), Some(id(0)));
    world.merging.close(id(1), |_, _| {});
    assert_eq!(world.merging.stable().anchor(0), None, "a process left it");
}

#[test]
fn settings_change_while_queues_are_merged() {
    let mut world = World::new(Settings::WEIR);
    world.open(at(0.0), TRAITS);
    world.insert(at(0.0), id(0), START);
    world.dispatch(at(0.0), id(0), START, 64);
    let window = MergeWindow::For(Duration::from_millis(10));
    world.merging.reconfigure(Settings { merge_window: window, ..Settings::KERNEL });
    world.open(at(0.0), TRAITS);
    assert_eq!(world.merging.settings().rules, Rules::Weir, "the rules stay");
    assert_eq!(world.insert(at(11.0), id(1), START + 64), "Q2 target_too_late");
    assert_eq!(world.insert(at(10.0), id(1), START + 64), "Q2 -> Q1 close");
}
