//! Another scheduler, or other settings of it, while requests wait.

use proptest::prelude::*;
use weir_engine::settings::BfqSettings;
use weir_engine::stats::Expiration;
use weir_engine::{
    Change, ChangeError, Dispatch, Engine, Extent, Instant, Op, Outcome, Request, SchedulerKind,
    TaskId, Weight,
};

use crate::support::{self, task};

const ZERO: Instant = Instant::ZERO;

fn engine(scheduler: SchedulerKind, depth: u32) -> Engine {
    support::engine(support::config(scheduler, depth))
}

fn submit(engine: &mut Engine, now: Instant, task: TaskId, tag: u64, gib: u64) {
    support::submit(engine, now, Request { tag, ..support::read(task, gib << 30, 4096) });
}

fn switch(engine: &mut Engine, now: Instant, scheduler: SchedulerKind) {
    engine.reconfigure(now, Change::SetScheduler(scheduler)).expect("always allowed");
    engine.check().expect("a sound engine");
}

fn tune(engine: &mut Engine, text: &str) -> Result<(), ChangeError> {
    let settings = support::settings_of(engine.bfq_settings(), text);
    engine.reconfigure(ZERO, Change::SetBfq(settings))
}

/// Tags in the order of dispatch, one at a time on a device that takes no time, but that waits for some.
fn drain(engine: &mut Engine, mut now: Instant) -> Vec<u64> {
    let mut tags = Vec::new();
    loop {
        match engine.poll_dispatch(now) {
            Some(Dispatch { ticket, request, .. }) => {
                engine.complete(now, ticket, Outcome::Done);
                tags.push(request.tag);
            }
            None if engine.device().ready == 0 => return tags,
            None => {
                now = engine.poll_timeout().expect("a reason to wait");
                engine.handle_timeout(now);
            }
        }
    }
}

#[test]
fn queued_requests_keep_their_order_across_a_switch() {
    let mut engine = engine(SchedulerKind::Bfq, 1);
    let root = engine.root();
    let [a, b] = [(); 2].map(|()| task(&mut engine, root));
    // By position it would be 3, 2, 1 and 6, 5, 4.
    for (ms, task, tag, gib) in
        [(0, a, 1, 30), (1, b, 4, 60), (1, a, 2, 20), (2, b, 5, 50), (3, a, 3, 10), (4, b, 6, 40)]
    {
        submit(&mut engine, Instant::from_millis(ms), task, tag, gib);
    }
    let now = Instant::from_millis(5);
    switch(&mut engine, now, SchedulerKind::None);
    assert_eq!(drain(&mut engine, now), [1, 4, 2, 5, 3, 6]);
}

#[test]
fn ages_survive_a_switch() {
    let mut engine = engine(SchedulerKind::None, 1);
    let root = engine.root();
    let task = task(&mut engine, root);
    submit(&mut engine, ZERO, task, 1, 90);
    let late = Instant::from_millis(125);
    for (tag, gib) in [(2, 1), (3, 2)] {
        submit(&mut engine, late, task, tag, gib);
    }
    switch(&mut engine, late, SchedulerKind::Bfq);
    // The first is too old by then, wherever it is.
    assert_eq!(drain(&mut engine, late), [1, 2, 3]);
}

#[test]
fn requests_in_flight_complete_at_the_new_scheduler() {
    for (old, new) in [
        (SchedulerKind::None, SchedulerKind::Bfq),
        (SchedulerKind::Bfq, SchedulerKind::None),
        (SchedulerKind::Bfq, SchedulerKind::Bfq),
    ] {
        let mut engine = engine(old, 3);
        let root = engine.root();
        let [a, b] = [(); 2].map(|()| task(&mut engine, root));
        for (task, tag) in [(a, 1), (a, 2), (b, 3), (b, 4), (a, 5)] {
            submit(&mut engine, ZERO, task, tag, tag);
        }
        let out = [(); 3].map(|()| engine.poll_dispatch(ZERO).expect("room at the device"));
        switch(&mut engine, ZERO, new);
        assert_eq!(engine.device().in_flight, 3);
        for (number, Dispatch { ticket, .. }) in out.into_iter().enumerate() {
            // There, back and there again while the rest is still out.
            switch(&mut engine, ZERO, old);
            switch(&mut engine, ZERO, new);
            engine.complete(Instant::from_millis(number as u64), ticket, Outcome::Done);
            engine.check().expect("a sound engine");
        }
        let mut rest = drain(&mut engine, Instant::from_millis(9));
        rest.sort_unstable();
        assert_eq!(rest.len(), 2, "{old:?} to {new:?}: {rest:?}");
        engine.close_task(a);
        engine.check().expect("a sound engine");
    }
}

#[test]
fn a_client_whose_requests_were_withdrawn_still_gets_turns() {
    let mut engine = engine(SchedulerKind::None, 1);
    let root = engine.root();
    let task = task(&mut engine, root);
    submit(&mut engine, ZERO, task, 1, 1);
    // Its place in the order of turns stays behind.
    engine.withdraw_next(ZERO, task).expect("it waits");
    switch(&mut engine, ZERO, SchedulerKind::Bfq);
    switch(&mut engine, ZERO, SchedulerKind::None);
    submit(&mut engine, ZERO, task, 2, 1);
    assert_eq!(drain(&mut engine, ZERO), [2]);
}

/// A request that waits alone is in no list; every call works all the same.
#[test]
fn a_lone_queued_request_is_found_by_every_call() {
    let mut engine = engine(SchedulerKind::None, 1);
    let root = engine.root();
    let [a, b] = [(); 2].map(|()| task(&mut engine, root));
    submit(&mut engine, ZERO, a, 1, 0);
    assert_eq!(engine.withdraw_next(ZERO, a).map(|request| request.tag), Some(1));
    engine.check().expect("a sound engine");
    // The place of the withdrawn request is kept until its turn.
    for (tag, task) in [(2, b), (3, a)] {
        submit(&mut engine, ZERO, task, tag, 0);
    }
    assert_eq!(drain(&mut engine, ZERO), [3, 2]);
    submit(&mut engine, ZERO, a, 4, 0);
    engine.withdraw_next(ZERO, a).expect("it waits");
    assert_eq!(engine.poll_dispatch(ZERO), None);
    for (tag, task) in [(5, b), (6, a)] {
        submit(&mut engine, ZERO, task, tag, 0);
    }
    assert_eq!(drain(&mut engine, ZERO), [5, 6]);
    submit(&mut engine, ZERO, b, 7, 0);
    switch(&mut engine, ZERO, SchedulerKind::Bfq);
    assert_eq!(drain(&mut engine, ZERO), [7]);
}

#[test]
fn weights_count_from_the_switch_on() {
    let mut engine = engine(SchedulerKind::None, 1);
    let root = engine.root();
    let tasks = [("a", 100), ("b", 300)].map(|(name, weight)| {
        let cgroup = engine.create_cgroup(root, name).expect("a name of its own");
        let weight = Weight::new(weight).expect("a weight");
        engine.reconfigure(ZERO, Change::SetWeight { cgroup, weight }).expect("live");
        task(&mut engine, cgroup)
    });
    let mut now = ZERO;
    let mut at = 0;
    let mut submit = |engine: &mut Engine, now, task| {
        at += 64 << 10;
        let extent = Extent::new(at, 64 << 10);
        engine.submit(now, Request::new(task, Op::Read, extent, 0)).expect("room");
    };
    for task in tasks.repeat(8) {
        submit(&mut engine, now, task);
    }
    let mut served = |engine: &mut Engine, turns: u32| {
        let mut served = [0_u32; 2];
        for _ in 0..turns {
            let Dispatch { ticket, request, .. } = engine.poll_dispatch(now).expect("work");
            now = now.plus_nanos(500_000);
            engine.complete(now, ticket, Outcome::Done);
            served[usize::from(request.task == tasks[1])] += 1;
            submit(engine, now, request.task);
        }
        served
    };
    assert_eq!(served(&mut engine, 1_000), [500, 500], "turns");
    switch(&mut engine, ZERO, SchedulerKind::Bfq);
    let [a, b] = served(&mut engine, 40_000);
    assert!((29_500..30_500).contains(&b), "{a} to {b}");
    switch(&mut engine, ZERO, SchedulerKind::None);
    let [a, b] = served(&mut engine, 1_000);
    assert!(a.abs_diff(b) <= 1, "{a} to {b}");
}

#[test]
fn settings_made_before_a_switch_apply_to_bfq() {
    let mut engine = engine(SchedulerKind::None, 1);
    let root = engine.root();
    let task = task(&mut engine, root);
    tune(&mut engine, "fifo_expire_sync=10").expect("allowed");
    switch(&mut engine, ZERO, SchedulerKind::Bfq);
    assert_eq!(engine.bfq_settings().fifo_expire_sync().as_millis(), 10);
    let two = |engine: &mut Engine, at: u64| {
        let (first, then) = (Instant::from_millis(at), Instant::from_millis(at + 10));
        submit(engine, first, task, 1, 90);
        submit(engine, then, task, 2, 1);
        drain(engine, then)
    };
    assert_eq!(two(&mut engine, 0), [1, 2], "10 ms are too old");
    tune(&mut engine, "fifo_expire_sync=1s").expect("allowed");
    let near = two(&mut engine, 10_000);
    assert_eq!(near, [2, 1], "they are not any more");
}

#[test]
fn merge_rules_cannot_change_while_bfq_is_active() {
    let mut engine = engine(SchedulerKind::Bfq, 1);
    assert_eq!(tune(&mut engine, "merge_rules=kernel"), Err(ChangeError::MergeRules));
    assert_eq!(engine.bfq_settings(), BfqSettings::DEFAULT);
    switch(&mut engine, ZERO, SchedulerKind::None);
    tune(&mut engine, "merge_rules=kernel").expect("nobody decides by them");
    switch(&mut engine, ZERO, SchedulerKind::Bfq);
    tune(&mut engine, "merge_rules=kernel slice_idle=0").expect("the same rules");
}

#[test]
fn counters_outlive_the_scheduler_and_the_cgroup() {
    let mut engine = engine(SchedulerKind::Bfq, 1);
    // A new flow would not pay.
    tune(&mut engine, "low_latency=0").expect("a setting");
    let root = engine.root();
    let parent = engine.create_cgroup(root, "a").expect("a name");
    let child = engine.create_cgroup(parent, "b").expect("a name");
    let client = engine.open_client(child).expect("live");
    let task = engine.open_task(client).expect("live");
    let mut now = ZERO;
    // 4 KiB far apart, 8 ms each: a slot that pays for its time.
    for turn in 0..200_u64 {
        submit(&mut engine, now, task, turn, turn * 37 % 100);
        let Dispatch { ticket, .. } = engine.poll_dispatch(now).expect("work");
        now = now.plus_nanos(8_000_000);
        engine.complete(now, ticket, Outcome::Done);
        assert_eq!(engine.poll_dispatch(now), None);
        now = now.plus_nanos(16_000_000);
        engine.handle_timeout(now);
    }
    let stats = engine.bfq_stats();
    let ended: u64 = stats.expirations.iter().sum();
    assert!(stats.selections > 0 && stats.selections - ended <= 1, "{stats:?}");
    // Alone, it is waited for, in vain.
    assert!(stats.expirations[Expiration::TooIdle.index()] > 100, "{stats:?}");
    // For 8 ms, then for 2 each, since it jumps about; each wait ends by itself, before the timeout 16 ms later.
    assert_eq!(stats.idling_ns.iter().sum::<u64>(), 406_000_000, "{stats:?}");
    assert!(stats.time_charges > 100 && stats.time_charged_bytes > 1 << 20, "{stats:?}");
    let charged =
        |engine: &Engine, cgroup| engine.bfq_cgroup_stats(cgroup).expect("live").time_charged_bytes;
    for cgroup in [root, parent, child] {
        assert_eq!(charged(&engine, cgroup), stats.time_charged_bytes);
    }
    switch(&mut engine, now, SchedulerKind::None);
    assert_eq!(engine.bfq_stats().time_charged_bytes, stats.time_charged_bytes);
    engine.close_task(task);
    engine.close_client(client);
    engine.reconfigure(now, Change::Remove { cgroup: child }).expect("no children");
    assert_eq!(engine.bfq_cgroup_stats(child), None);
    switch(&mut engine, now, SchedulerKind::Bfq);
    assert_eq!(engine.bfq_stats().time_charged_bytes, stats.time_charged_bytes);
    assert_eq!(charged(&engine, root), stats.time_charged_bytes);
    let rows = engine.tree_stats();
    assert!(rows.iter().all(|row| row.bfq.time_charged_bytes == stats.time_charged_bytes));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After a switch to round robin each task's requests are served in the order of their submission.
    #[test]
    fn the_order_within_a_task_survives(
        arrivals in prop::collection::vec((0..6_usize, 0..64_u64, 0..20_u64), 1..80),
        before in 0..40_usize,
        switches in 1..4_usize,
    ) {
        let mut engine = engine(SchedulerKind::Bfq, 2);
        let root = engine.root();
        let clients = [(); 3].map(|()| engine.open_client(root).expect("live"));
        let tasks = [0, 0, 0, 1, 1, 2].map(|client: usize| {
            engine.open_task(clients[client]).expect("a live client")
        });
        let mut now = ZERO;
        for (tag, &(task, gib, ms)) in arrivals.iter().enumerate() {
            now = now.plus_nanos(ms * 1_000_000);
            submit(&mut engine, now, tasks[task], tag as u64, gib);
        }
        // Some have gone, by position, and two of those are still out.
        let mut gone = 0;
        let mut out = Vec::new();
        while gone < before {
            // The device may idle.
            now = engine.poll_timeout().map_or(now, |at| at.max(now));
            engine.handle_timeout(now);
            let Some(dispatch) = engine.poll_dispatch(now) else { break };
            out.push(dispatch.ticket);
            if out.len() == 2 {
                engine.complete(now, out.remove(0), Outcome::Done);
            }
            gone += 1;
        }
        for _ in 0..switches {
            switch(&mut engine, now, SchedulerKind::Bfq);
            switch(&mut engine, now, SchedulerKind::None);
        }
        out.into_iter().for_each(|ticket| {
            engine.complete(now, ticket, Outcome::Done);
        });
        let tags = drain(&mut engine, now);
        prop_assert_eq!(tags.len(), arrivals.len() - gone);
        for task in 0..tasks.len() {
            let of_task: Vec<u64> =
                tags.iter().copied().filter(|&tag| arrivals[tag as usize].0 == task).collect();
            prop_assert!(of_task.is_sorted(), "task {}: {:?}", task, of_task);
        }
    }
}
