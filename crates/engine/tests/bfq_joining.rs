//! Requests that lie side by side go to the device as one (spec/bfq 4.3).

use weir_engine::settings::BfqSettings;
use weir_engine::{
    Change, Class, Dispatch, Engine, Extent, Instant, Op, Outcome, Request, SchedulerKind, TaskId,
};

use crate::support::{self, bfq, submit};

const ZERO: Instant = Instant::ZERO;

fn task(engine: &mut Engine) -> TaskId {
    let root = engine.root();
    support::task(engine, root)
}

fn read(task: TaskId, page: u64) -> Request {
    Request::new(task, Op::Read, Extent::new(page << 12, 4096), page)
}

/// What goes to the device next as one, by tags; completed at once where `completes`.
fn run(engine: &mut Engine, completes: bool) -> Vec<u64> {
    let mut run: Vec<Dispatch> = engine.poll_dispatch(ZERO).into_iter().collect();
    if !run.is_empty() {
        run.extend(std::iter::from_fn(|| engine.poll_joined(ZERO)));
    }
    let tags = run.iter().map(|dispatch| dispatch.request.tag).collect();
    for dispatch in run.into_iter().filter(|_| completes) {
        engine.complete(ZERO, dispatch.ticket, Outcome::Done);
        engine.check().expect("a sound engine");
    }
    engine.check().expect("a sound engine");
    tags
}

#[test]
fn adjacent_requests_are_dispatched_as_one() {
    // In front, behind and between what waits already; a gap before the last.
    let mut engine = bfq(1);
    let task = task(&mut engine);
    for page in [10, 12, 9, 11, 14] {
        submit(&mut engine, ZERO, read(task, page));
    }
    assert_eq!(run(&mut engine, true), [9, 10, 11, 12]);
    assert_eq!(run(&mut engine, true), [14]);
    assert_eq!(run(&mut engine, true), [0; 0]);
    assert_eq!(engine.bfq_stats().coalesced, 3, "three went with another");
}

#[test]
fn joined_requests_count_as_one_towards_the_depth() {
    let mut engine = bfq(2);
    let task = task(&mut engine);
    for page in 0..8 {
        submit(&mut engine, ZERO, read(task, page));
    }
    assert_eq!(run(&mut engine, false), [0, 1, 2, 3], "half of them, for there is room for two");
    assert_eq!(run(&mut engine, false), [4, 5, 6, 7]);
    assert_eq!(engine.device().in_flight, 8);
    submit(&mut engine, ZERO, read(task, 8));
    assert_eq!(run(&mut engine, false), [0; 0], "the window is full");
}

#[test]
fn requests_are_not_joined_while_the_device_has_room() {
    let mut engine = bfq(8);
    let task = task(&mut engine);
    for page in 0..8 {
        submit(&mut engine, ZERO, read(task, page));
    }
    for page in 0..8 {
        assert_eq!(run(&mut engine, false), [page]);
    }
}

#[test]
fn only_requests_of_one_kind_and_flow_are_joined() {
    let (first, second) = (0, 1);
    let write = |task| Request::new(task, Op::Write, Extent::new(4096, 4096), second);
    let flush = |task| Request::new(task, Op::Flush, Extent::default(), second);
    let metadata = |task| Request { class: Class::Metadata, ..read(task, second) };
    let discard = |task| Request::new(task, Op::Discard, Extent::new(4096, 4096), second);
    let long = |task| Request::new(task, Op::Read, Extent::new(4096, 512 << 10), second);
    let other: [&dyn Fn(TaskId) -> Request; 5] = [&write, &flush, &metadata, &discard, &long];
    for (number, other) in other.into_iter().enumerate() {
        let mut engine = bfq(1);
        let task = task(&mut engine);
        submit(&mut engine, ZERO, read(task, first));
        submit(&mut engine, ZERO, other(task));
        let runs = [run(&mut engine, true), run(&mut engine, true)];
        assert!(runs.iter().all(|run| run.len() == 1), "{number}: {runs:?}");
    }
    // Nor what is of another client, unless both have become one flow.
    for (merge_window, expected) in [("off", &[first][..]), ("100", &[first, second])] {
        let mut engine = bfq(1);
        let text = format!("merge_window={merge_window}");
        let settings = weir_text::parse_bfq(&text, BfqSettings::DEFAULT).expect("a setting");
        engine.reconfigure(ZERO, Change::SetBfq(settings)).expect("the same rules");
        let tasks = [(); 2].map(|()| task(&mut engine));
        submit(&mut engine, ZERO, read(tasks[0], first));
        submit(&mut engine, ZERO, read(tasks[1], second));
        assert_eq!(run(&mut engine, true), expected, "{text}");
    }
}

#[test]
fn a_run_ends_where_another_request_comes_between() {
    let mut engine = bfq(1);
    let task = task(&mut engine);
    for page in 0..3 {
        submit(&mut engine, ZERO, read(task, page));
    }
    let head = engine.poll_dispatch(ZERO).expect("a request");
    engine.withdraw_next(ZERO, task).expect("the second");
    assert_eq!(engine.poll_joined(ZERO), None, "it would leave a hole");
    engine.complete(ZERO, head.ticket, Outcome::Done);
    engine.reconfigure(ZERO, Change::SetScheduler(SchedulerKind::None)).expect("known");
    assert_eq!(run(&mut engine, true), [2]);
}
