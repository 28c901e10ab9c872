//! The checker is tested with the throttle it describes: its records pass, and each kind of tampering is noticed.

use proptest::prelude::*;
use weir_model::pace::{
    CgroupId, ClientId, Event, Limiter, Log, ROOT, Rate, Rates, Request, RequestId, TaskId,
    Throttle, check_log,
};

const MS: u64 = 1_000_000;

/// Runs `inputs` through the model and records everything, until nothing waits.
fn run(inputs: &[(u64, Event)]) -> Log {
    let mut throttle = Throttle::new();
    let mut log = Log::new();
    let mut inputs = inputs.iter().peekable();
    let mut now = 0;
    loop {
        while let Some((at, event)) = inputs.next_if(|(at, _)| *at <= now) {
            assert!(*at == now, "inputs are in order");
            throttle.apply(now, event);
            log.push((now, event.clone()));
        }
        while let Some(event) = throttle.poll(now) {
            log.push((now, event));
        }
        let deadline = throttle.deadline(now);
        log.push((now, Event::Drained { deadline }));
        let next_input = inputs.peek().map(|(at, _)| *at);
        match deadline.into_iter().chain(next_input).min() {
            Some(next) => now = next,
            None => return log,
        }
    }
}

fn request(id: u64, task: usize, bytes: u64) -> Request {
    Request {
        id: RequestId(id),
        task: TaskId(task),
        direction: 0,
        bytes,
        ios: 1,
        metadata: false,
        part_paid: false,
    }
}

fn reads(bytes: Option<Rate>, ios: Option<Rate>) -> [Rates; 3] {
    [Rates { bytes, ios, limiter: Limiter::Pace, whole: false }, Rates::default(), Rates::default()]
}

fn open(task: usize, client: usize, cgroup: usize) -> (u64, Event) {
    let (task, client, cgroup) = (TaskId(task), ClientId(client), CgroupId(cgroup));
    (0, Event::Open { task, client, cgroup })
}

fn create(cgroup: usize, parent: usize, weight: u64) -> (u64, Event) {
    let (cgroup, parent) = (CgroupId(cgroup), CgroupId(parent));
    (0, Event::Create { cgroup, parent, weight })
}

fn limit(at: u64, cgroup: usize, rates: [Rates; 3]) -> (u64, Event) {
    (at, Event::Limit { cgroup: CgroupId(cgroup), rates: Box::new(rates) })
}

fn dispatches(log: &Log) -> Vec<(u64, u64)> {
    let dispatch = |(at, event): &(u64, Event)| match event {
        Event::Dispatch(id) => Some((*at, id.0)),
        _ => None,
    };
    log.iter().filter_map(dispatch).collect()
}

/// Twelve reads at 0 in each of two cgroups of weights 100 and 300, below one with 1000 I/Os a second.
fn two_siblings() -> Log {
    let mut inputs = vec![
        create(1, 0, 100),
        create(2, 1, 100),
        create(3, 1, 300),
        limit(0, 1, reads(None, Some(Rate::ios(1000, 1, 1)))),
        open(1, 1, 2),
        open(2, 2, 3),
    ];
    for id in 0..24 {
        inputs.push((0, Event::Submit(request(id, 1 + id as usize % 2, 4096))));
    }
    run(&inputs)
}

#[test]
fn the_published_job_waits_six_milliseconds() {
    // riops=100 with a burst of 1 and 4 ms of thinking (spec/throttle 3): 0->0, 4->10, 14->20, 24->30.
    let mut throttle = Throttle::new();
    for (at, event) in
        [create(1, 0, 100), limit(0, 1, reads(None, Some(Rate::ios(100, 1, 1)))), open(1, 1, 1)]
    {
        throttle.apply(at, &event);
    }
    let (mut now, mut waits) = (0, Vec::new());
    for id in 0..5 {
        let submitted = now;
        throttle.apply(now, &Event::Submit(request(id, 1, 4096)));
        while throttle.poll(now).is_none() {
            now = throttle.deadline(now).expect("one waits");
        }
        waits.push((submitted / MS, now / MS));
        now += 4 * MS;
    }
    assert_eq!(waits, [(0, 0), (4, 10), (14, 20), (24, 30), (34, 40)]);
}

#[test]
fn siblings_share_by_weight() {
    let log = two_siblings();
    check_log(&log).expect("the model keeps its promises");
    let heavy = dispatches(&log).iter().take(16).filter(|(_, id)| id % 2 == 1).count();
    assert_eq!(heavy, 12);
}

/// The promise that `log` breaks after `tamper` has been at it.
fn broken(mut log: Log, tamper: impl Fn(&mut Log)) -> &'static str {
    tamper(&mut log);
    check_log(&log).expect_err("this log was tampered with").promise
}

/// Places of the dispatches in `log`.
fn places(log: &Log) -> Vec<usize> {
    (0..log.len()).filter(|&place| matches!(log[place].1, Event::Dispatch(_))).collect()
}

#[test]
fn tampering_is_noticed() {
    let log = two_siblings();
    let at = places(&log);
    let swap = |a: usize, b: usize| {
        let at = &at;
        move |log: &mut Log| {
            let (first, second) = (log[at[a]].1.clone(), log[at[b]].1.clone());
            log[at[a]].1 = second;
            log[at[b]].1 = first;
        }
    };
    // The picks: which of the two, so that the swaps below mean something.
    let picks: Vec<_> = dispatches(&log).iter().map(|(_, id)| id % 2).collect();
    assert_eq!(picks[..9], [0, 1, 1, 1, 1, 0, 1, 1, 1]);
    let check = |promise: &str, tamper: &dyn Fn(&mut Log)| {
        assert_eq!(broken(log.clone(), tamper), promise);
    };
    check("P4", &swap(1, 2));
    check("log", &|log| log[at[3]].0 -= 2 * MS);
    check("P5", &|log| log[at[3]].0 -= 1);
    check("work conservation", &|log| log[at[3] - 1].0 = log[at[3]].0);
    check("work conservation", &|log| {
        log.remove(at[3]);
    });
    check("P7", &|log| log[at[5]].1 = log[at[3]].1.clone());
    check("P7", &|log| log[at[5]].1 = Event::Dispatch(RequestId(99)));
    let drained = |place: usize, deadline: Option<u64>| {
        move |log: &mut Log| log[place].1 = Event::Drained { deadline }
    };
    check("P14", &drained(log.len() - 1, Some(u64::MAX)));
    check("P14", &drained(at[3] + 1, None));
    check("P14", &drained(at[3] + 1, Some(log[at[3]].0)));
    check("P6", &drained(at[3] + 1, Some(log[at[4]].0 + 1)));
}

#[test]
fn an_unfair_order_is_noticed() {
    // The light one first, as often as it can.
    let log = two_siblings();
    let at = places(&log);
    let mut order: Vec<u64> = dispatches(&log).iter().map(|(_, id)| *id).collect();
    order.sort_by_key(|id| (id % 2, *id));
    let promise = broken(log, |log| {
        for (&place, &id) in at.iter().zip(&order) {
            log[place].1 = Event::Dispatch(RequestId(id));
        }
    });
    assert_eq!(promise, "P12");
}

/// Twelve reads of 4 KiB at 0 from one client and as many writes of 8 KiB from three, below 1 MiB a second for both.
fn both_directions() -> Log {
    let joint = Rates { bytes: Some(Rate::bytes(1 << 20, 0, 8192)), ..Rates::default() };
    let mut inputs =
        vec![create(1, 0, 100), limit(0, 1, [Rates::default(), Rates::default(), joint])];
    inputs.extend([open(0, 0, 1), open(1, 1, 1), open(2, 2, 1), open(3, 3, 1)]);
    for id in 0..24 {
        let (task, direction) = if id % 2 == 0 { (0, 0) } else { (1 + id as usize / 2 % 3, 1) };
        let bytes = 4096 << direction;
        inputs.push((0, Event::Submit(Request { direction, ..request(id, task, bytes) })));
    }
    run(&inputs)
}

#[test]
fn reads_and_writes_share_by_who_waits_in_them() {
    let log = both_directions();
    check_log(&log).expect("the model keeps its promises");
    // One reader has a fourth: two of its reads for each writer's write.
    let reads = dispatches(&log).iter().take(15).filter(|(_, id)| id % 2 == 0).count();
    assert_eq!(reads, 6);
}

#[test]
fn a_direction_that_takes_it_all_is_noticed() {
    let log = both_directions();
    let at = places(&log);
    let mut order: Vec<u64> = dispatches(&log).iter().map(|(_, id)| *id).collect();
    order.sort_by_key(|id| (id % 2, *id));
    let lengths = order.iter().map(|id| if id % 2 == 0 { 1 } else { 2 });
    let starts: Vec<u64> = lengths
        .scan(0, |sum, length| Some(std::mem::replace(sum, *sum + length)))
        .map(|sum| (sum * 4096 * 1000 * MS).div_ceil(1 << 20))
        .collect();
    let mut tampered = Log::new();
    tampered.extend(log[..at[0]].iter().cloned());
    for (place, (&id, &start)) in order.iter().zip(&starts).enumerate() {
        tampered.push((start, Event::Dispatch(RequestId(id))));
        let deadline = starts.get(place + 1).copied();
        tampered.push((start, Event::Drained { deadline }));
    }
    assert_eq!(check_log(&tampered).expect_err("all reads first").promise, "P12, joint");
}

#[test]
fn another_limiter_is_held_to_its_window() {
    let bounded = Rates {
        ios: Some(Rate::ios(10, 1, 1)),
        limiter: Limiter::Bounded { bytes: 0, ios: 2 },
        ..Rates::default()
    };
    let mut log: Log = vec![
        create(1, 0, 100),
        limit(0, 1, [bounded, Rates::default(), Rates::default()]),
        open(1, 1, 1),
    ];
    for id in 0..4 {
        log.push((0, Event::Submit(request(id, 1, 4096))));
    }
    for id in 0..3 {
        log.push((0, Event::Dispatch(RequestId(id))));
    }
    log.push((0, Event::Drained { deadline: Some(100 * MS) }));
    check_log(&log).expect("two and the largest are allowed at once");
    log.push((50 * MS, Event::Dispatch(RequestId(3))));
    assert_eq!(check_log(&log).expect_err("half an I/O too much").promise, "P1");
}

#[test]
fn a_request_under_no_limit_leaves_at_once() {
    let mut log = vec![open(1, 1, 0), (0, Event::Submit(request(0, 1, 4096)))];
    log.push((0, Event::Drained { deadline: Some(1) }));
    assert_eq!(check_log(&log).expect_err("it has stayed").promise, "P10");
}

#[test]
fn who_waited_beside_a_request_is_not_known_within_its_instant() {
    // The three reads that go at once are one batch to the checker. Before the last of them its client waits alone, so it
    // counts twice, and two large writes follow before it is the turn of reads again.
    let both = Rate::bytes(528 * 4096, 5 * 4096, u64::MAX);
    let both = Some(Rate { tolerance: 5 * 4096, ..both });
    let mut rates = [Rates::default(); 3];
    rates[2] = Rates { bytes: both, ios: None, limiter: Limiter::Pace, whole: false };
    let mut inputs = vec![create(1, 0, 1), limit(0, 1, rates)];
    inputs.extend([open(0, 0, 1), open(1, 1, 1), open(2, 2, 1)]);
    let large = 36_584;
    let requests = [
        (1, 0, 1, false),
        (1, 0, large - 1, false),
        (2, 0, 20_273, false),
        (1, 1, large, false),
        (1, 0, 1, true),
        (1, 0, 1, false),
        (0, 1, large, false),
        (0, 1, 1, false),
        (0, 1, 1, true),
    ];
    for (id, (task, direction, bytes, metadata)) in (0..).zip(requests) {
        let request = Request { direction, metadata, ..request(id, task, bytes) };
        inputs.push((0, Event::Submit(request)));
    }
    let log = run(&inputs);
    let went: Vec<u64> = dispatches(&log).into_iter().map(|(_, id)| id).collect();
    assert_eq!(went, [4, 8, 0, 2, 1, 6, 3, 5, 7]);
    assert_eq!(check_log(&log), Ok(()));
}

const CGROUPS: usize = 5;
const TASKS: usize = 8;

fn rate() -> impl Strategy<Value = Option<(u64, u64)>> {
    prop_oneof![Just(None), (1u64..2000, 1u64..8).prop_map(Some)]
}

/// Where I/Os are limited too, a request pays all at once: how an instalment that has none left to pay comes in between is
/// not what this throttle says.
fn rates() -> impl Strategy<Value = [Rates; 3]> {
    [(rate(), rate()), (rate(), rate()), (rate(), rate())].prop_map(|budgets| {
        budgets.map(|(bytes, ios)| Rates {
            bytes: bytes.map(|(rate, burst)| Rate {
                tolerance: burst * 4096,
                ..Rate::bytes(rate * 4096, burst * 4096, u64::MAX)
            }),
            ios: ios.map(|(rate, burst)| Rate::ios(rate, burst, 1)),
            limiter: Limiter::Pace,
            whole: false,
        })
    })
}

/// The same without limits on I/Os, and with bytes paid in instalments.
fn in_instalments(inputs: &mut Log) {
    for (_, event) in inputs {
        let Event::Limit { rates, .. } = event else { continue };
        for rates in rates.iter_mut() {
            rates.ios = None;
            rates.bytes = rates.bytes.map(|rate| {
                let instalment = 4096 + rate.per_second % 7 * 1024;
                Rate::bytes(rate.per_second, rate.burst, instalment)
            });
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let submit =
        (0..TASKS, 0..2usize, 1u64..65536, 0..20u8).prop_map(|(task, direction, bytes, dice)| {
            Event::Submit(Request {
                id: RequestId(0),
                task: TaskId(task),
                direction,
                bytes,
                ios: 1,
                metadata: dice == 0,
                part_paid: false,
            })
        });
    let cgroup = || (1..=CGROUPS).prop_map(CgroupId);
    prop_oneof![
        20 => submit,
        1 => (cgroup(), rates()).prop_map(|(cgroup, rates)| Event::Limit { cgroup, rates: Box::new(rates) }),
        1 => (cgroup(), 1u64..1000).prop_map(|(cgroup, weight)| Event::Reweigh { cgroup, weight }),
        1 => (0u64..60).prop_map(|id| Event::Withdraw(RequestId(id))),
        1 => Just(Event::Move { cgroup: CgroupId(CGROUPS), parent: ROOT }),
        1 => Just(Event::Remove { cgroup: CgroupId(CGROUPS - 1) }),
    ]
}

prop_compose! {
    fn scenario()(
        parents in prop::collection::vec(0..CGROUPS, CGROUPS),
        weights in prop::collection::vec(1u64..1000, CGROUPS),
        limits in prop::collection::vec(rates(), CGROUPS),
        homes in prop::collection::vec(0..=CGROUPS, TASKS / 2),
        events in prop::collection::vec((0u64..20 * MS, event()), 5..60),
    ) -> Log {
        let mut inputs = Vec::new();
        for cgroup in 1..=CGROUPS {
            inputs.push(create(cgroup, parents[cgroup - 1] % cgroup, weights[cgroup - 1]));
            inputs.push(limit(0, cgroup, limits[cgroup - 1]));
        }
        for task in 0..TASKS {
            inputs.push(open(task, task / 2, homes[task / 2]));
        }
        let (mut now, mut removed, mut submitted) = (0, false, Vec::new());
        for (number, (pause, event)) in events.into_iter().enumerate() {
            // Half of what happens happens at the same time as what is before it.
            now += if pause % 2 == 0 { pause } else { 0 };
            let event = match event {
                Event::Submit(request) => {
                    let id = RequestId(number as u64);
                    submitted.push(id);
                    Event::Submit(Request { id, ..request })
                }
                Event::Withdraw(_) | Event::Remove { .. } if removed => continue,
                Event::Remove { cgroup } => {
                    removed = true;
                    Event::Remove { cgroup }
                }
                other => other,
            };
            inputs.push((now, event));
        }
        inputs
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_model_keeps_its_promises(mut inputs in scenario()) {
        // Only what waits can be taken back.
        inputs.retain(|(_, event)| !matches!(event, Event::Withdraw(_)));
        prop_assert_eq!(check_log(&run(&inputs)), Ok(()));
        in_instalments(&mut inputs);
        let log = run(&inputs);
        prop_assert_eq!(check_log(&log), Ok(()));
    }
}
