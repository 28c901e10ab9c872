//! Invariants of the whole engine, looked at after every call by tests, the lab and fuzzers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::core::Core;
use crate::ensure::ensure;
use crate::request::Direction;
use crate::requests::{Record, Stage};
use crate::stats::Charge;
use crate::throttle::Source;
use crate::time::Instant;
use crate::tree::{NO_CGROUP, ROOT, WaitingTurns};

/// See [`crate::Engine::check`].
pub(crate) fn check(core: &mut Core, now: Instant) -> Result<(), String> {
    check_books(core)?;
    check_counts(core)?;
    let cgroups: Vec<u32> = core.tree.cgroups.iter().map(|(index, _)| index).collect();
    for cgroup in cgroups {
        check_place(core, cgroup)?;
        for direction in Direction::BOTH {
            let time = core.limit_time(cgroup, now);
            check_waiting(core, time, cgroup, direction)
                .map_err(|what| format!("cgroup {cgroup}, {direction:?}: {what}"))?;
        }
    }
    check_clients(core)?;
    core.scheduler.check(&core.tree, &core.requests)
}

/// Charged is dispatched, and what is between the two is what is ready.
fn check_books(core: &Core) -> Result<(), String> {
    ensure(core.audit.balances(), || format!("charged is not dispatched: {:?}", core.audit))?;
    let mut ready = [Charge::default(); 2];
    let has_begun = |record: &Record| record.cut.is_some_and(|cut| cut.has_begun);
    let waiting = core.requests.iter().map(|(_, record)| record);
    for record in waiting.filter(|record| record.stage == Stage::Ready && !has_begun(record)) {
        ready[record.request.op.direction().index()].add(record.cost);
    }
    ensure(ready == core.audit.ready, || {
        format!("ready {ready:?}, booked {:?}", core.audit.ready)
    })?;
    check_instalments(core)
}

/// What requests have paid that still wait is booked, and every cgroup knows of it whose limit they may be next at.
fn check_instalments(core: &Core) -> Result<(), String> {
    let mut part_paid = [Charge::default(); 2];
    for (index, record) in core.requests.iter().filter(|(_, record)| record.is_part_paid) {
        let direction = record.request.op.direction();
        let whole = core.config.prices.cost(&record.request);
        ensure(record.stage == Stage::Waiting && record.cost != whole, || {
            format!("request {index} is {:?}, part paid, and owes {:?}", record.stage, record.cost)
        })?;
        part_paid[direction.index()].add(whole.less(record.cost));
        let mut at = core.tree.tasks[record.task].cgroup;
        loop {
            let node = &core.tree.cgroups[at];
            ensure(node.dir(direction).has_part_paid, || {
                format!("cgroup {at} does not know that request {index} is part paid")
            })?;
            let is_active =
                node.queue(direction).is_some_and(|queue| queue.source_state.is_active());
            if !is_active {
                break;
            }
            at = node.parent;
        }
    }
    ensure(part_paid == core.audit.part_paid, || {
        format!("part paid {part_paid:?}, booked {:?}", core.audit.part_paid)
    })
}

/// Each request is in exactly one place, and the places are counted right.
fn check_counts(core: &mut Core) -> Result<(), String> {
    let count = |stage: fn(Stage) -> bool| {
        core.requests.iter().filter(|(_, record)| stage(record.stage)).count() as u32
    };
    let held = count(|stage| matches!(stage, Stage::Waiting | Stage::DispatchedToParent(_)));
    ensure(held == core.throttled, || format!("{held} held, counted {}", core.throttled))?;
    let ready = count(|stage| stage == Stage::Ready);
    ensure(ready == core.scheduler.len(), || format!("{ready} ready of {}", core.scheduler.len()))?;
    let out = count(|stage| stage == Stage::Dispatched);
    ensure(out == core.in_flight, || format!("{out} out, counted {}", core.in_flight))?;
    let joined = core.requests.iter().filter(|(_, record)| record.is_joined).count() as u32;
    ensure(joined == core.joined, || format!("{joined} joined, counted {}", core.joined))?;
    for (task, flow) in core.tree.tasks.iter() {
        let held = core.requests.iter().filter(|(_, record)| record.task == task).count() as u32;
        ensure(held == flow.held, || format!("task {task} has {held}, counted {}", flow.held))?;
    }
    let tasks: Vec<u32> = core.tree.tasks.iter().map(|(task, _)| task).collect();
    for task in tasks {
        for direction in Direction::BOTH {
            let list = core.tree.tasks[task].dir(direction).waiting;
            let mut walked: Vec<u32> = list.iter(&mut core.requests).collect();
            walked.sort_unstable();
            let waiting = core.requests.iter().filter(|(_, record)| {
                record.task == task
                    && record.stage == Stage::Waiting
                    && record.request.op.direction() == direction
            });
            let waiting: Vec<u32> = waiting.map(|(index, _)| index).collect();
            ensure(walked == waiting, || {
                format!("task {task} lists {walked:?}, and {waiting:?} wait in it")
            })?;
        }
    }
    Ok(())
}

/// Depth and nearest limits follow from the parent.
fn check_place(core: &Core, cgroup: u32) -> Result<(), String> {
    let node = &core.tree.cgroups[cgroup];
    let (depth, above) = match node.parent {
        NO_CGROUP => (0, [NO_CGROUP; 2]),
        parent => (
            core.tree.cgroups[parent].depth + 1,
            Direction::BOTH.map(|direction| core.tree.nearest_limit(parent, direction)),
        ),
    };
    ensure(node.depth == depth, || format!("cgroup {cgroup} has depth {}", node.depth))?;
    let limiters =
        Direction::BOTH.iter().filter(|&&direction| node.limiter(direction).is_some()).count();
    let has_rw_limit = |direction| node.dir(direction).has_rw_limit == node.rw_limit.is_some();
    ensure(Direction::BOTH.into_iter().all(has_rw_limit), || "half a limit on both".into())?;
    ensure(node.rw_limit.is_none() || limiters == 2, || {
        format!("cgroup {cgroup} has a limit on both directions, and {limiters} limiters")
    })?;
    let limits = Direction::BOTH.map(|direction| node.dir(direction).parent_limit);
    ensure(limits == above, || format!("limits above cgroup {cgroup}: {limits:?}"))?;
    let mut listed: Vec<u32> = node.children().collect();
    listed.sort_unstable();
    let below = core.tree.cgroups.iter().filter(|(_, child)| child.parent == cgroup);
    let below: Vec<u32> = below.map(|(index, _)| index).collect();
    ensure(listed == below, || format!("cgroup {cgroup} lists {listed:?}, not {below:?}"))
}

/// A cgroup below which something waits is active in its parent or has a deadline; and nothing waits that may go.
fn check_waiting(
    core: &mut Core,
    now: Instant,
    cgroup: u32,
    direction: Direction,
) -> Result<(), String> {
    let (sources, weight) = active_sources(core, cgroup, direction);
    let Some(queue) = core.tree.cgroups[cgroup].queue(direction) else {
        return ensure(sources == 0, || format!("{sources} sources are active without a queue"));
    };
    ensure(sources == queue.fair_queue.len(), || {
        format!("{sources} sources are active, {} counted", queue.fair_queue.len())
    })?;
    ensure(weight == queue.fair_queue.weight(), || {
        format!("the weights of {sources} sources are {weight}, not {}", queue.fair_queue.weight())
    })?;
    ensure(queue.fair_queue.entries().count() as u32 >= sources, || "an entry is missing".into())?;
    let (is_active, has_to_parent) = (queue.source_state.is_active(), !queue.to_parent.is_empty());
    let is_hierarchical = core.is_hierarchical(cgroup, direction);
    let node = &core.tree.cgroups[cgroup];
    let timer = node.dir(if is_hierarchical { Direction::Read } else { direction }).timer;
    let has_limiter = node.limiter(direction).is_some();
    if node.dir(direction).parent_limit == NO_CGROUP {
        ensure(!is_active && !has_to_parent, || "it is active, and no limit is above".into())?;
        ensure(sources == 0 || (has_limiter && timer.fires_at().is_some()), || {
            format!("{sources} sources wait for nothing")
        })?;
        return Ok(());
    }
    let has_head = has_to_parent || (sources > 0 && !is_hierarchical);
    ensure(!is_active || has_head, || "it is active with nothing to give".into())?;
    if sources > 0 && (is_hierarchical || !is_active) {
        let at = timer.fires_at();
        ensure(at.is_some_and(|at| at >= now), || {
            format!("{sources} sources wait, it is not active, its deadline is {at:?} at {now:?}")
        })?;
    }
    ensure(!has_to_parent || is_active, || {
        "some were dispatched to the parent and it is not active".into()
    })
}

/// How many sources are active at `cgroup`, and their weights together.
fn active_sources(core: &Core, cgroup: u32, direction: Direction) -> (u32, u64) {
    let clients = core.tree.clients.iter().filter(|(_, client)| {
        client.cgroup == cgroup && client.dir(direction).source_state.is_active()
    });
    let children = core.tree.cgroups.iter().filter(|(_, child)| {
        child.parent == cgroup
            && child.queue(direction).is_some_and(|queue| queue.source_state.is_active())
    });
    let clients = clients.map(|(client, _)| Source::Client(client));
    let sources = clients.chain(children.map(|(child, _)| Source::Cgroup(child)));
    sources
        .fold((0, 0), |(count, weight), source| (count + 1, weight + core.tree.weight_of(source)))
}

/// A client waits for limits exactly while a task of it does, and its next request can be found.
fn check_clients(core: &mut Core) -> Result<(), String> {
    let clients: Vec<u32> = core.tree.clients.iter().map(|(index, _)| index).collect();
    for index in clients {
        for direction in Direction::BOTH {
            let tasks = core.tree.tasks.iter().filter(|(_, task)| {
                task.client == index && !task.dir(direction).waiting.is_empty()
            });
            let waiting: Vec<u32> = tasks.map(|(task, _)| task).collect();
            let dir = core.tree.clients[index].dir(direction);
            let (list, is_active) = (dir.turns, dir.source_state.is_active());
            let mut links = WaitingTurns { tasks: &mut core.tree.tasks, direction };
            let mut turns: Vec<u32> = list.iter(&mut links).collect();
            turns.sort_unstable();
            ensure(waiting == turns, || {
                format!("client {index}: {waiting:?} wait, {turns:?} have turns")
            })?;
            ensure(is_active != turns.is_empty(), || {
                format!("client {index} has turns {turns:?} and is wrongly active or not")
            })?;
        }
    }
    for direction in Direction::BOTH {
        let top = core.top_source(ROOT, direction);
        ensure(!matches!(top, Some(Source::Cgroup(ROOT))), || "the root is below itself".into())?;
    }
    Ok(())
}
