//! Invariants of the throttle, looked at by [`crate::Engine::check`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ensure::ensure;
use crate::requests::Stage;
use crate::stats::Charge;
use crate::throttle::client::WaitingTurns;
use crate::throttle::eligibility::weight_of;
use crate::throttle::fair_queue::Source;
use crate::throttle::{Context, Throttle};
use crate::tree::{NO_CGROUP, ROOT};
use crate::types::{Direction, Instant};

impl Throttle {
    /// Looks for contradictions. O(everything).
    pub(crate) fn check(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        check_instalments(self, cx)?;
        check_leases(self, cx)?;
        check_lists(self, cx)?;
        let cgroups: Vec<u32> = cx.tree.cgroups.iter().map(|(index, _)| index).collect();
        for cgroup in cgroups {
            check_limits(self, cx, cgroup)?;
            for direction in Direction::BOTH {
                let time = self.limit_time(cgroup, cx.now).at;
                check_waiting(self, cx, time, cgroup, direction)
                    .map_err(|what| format!("cgroup {cgroup}, {direction:?}: {what}"))?;
            }
        }
        check_clients(self, cx)
    }
}

/// Each lease is of a cgroup that exists, and has not ended.
fn check_leases(throttle: &Throttle, cx: &Context<'_>) -> Result<(), String> {
    ensure(throttle.leases.is_consistent(), || "a lease is in one table only".into())?;
    let tracks_time = throttle.is_steered() || !throttle.leases.is_empty();
    ensure(throttle.tracks_time == tracks_time, || format!("time is tracked: {tracks_time}"))?;
    ensure(throttle.lease_end(cx.now).is_none(), || "a lease has ended and counts".into())?;
    let mut cgroups = throttle.leases.cgroups();
    ensure(cgroups.all(|cgroup| cx.tree.cgroups.get(cgroup).is_some()), || {
        "a lease is of a cgroup that is gone".into()
    })
}

/// Each task lists exactly its requests that wait.
fn check_lists(throttle: &mut Throttle, cx: &mut Context<'_>) -> Result<(), String> {
    ensure(throttle.ready.is_empty(), || "the scheduler does not have all that is ready".into())?;
    let tasks: Vec<u32> = cx.tree.tasks.iter().map(|(task, _)| task).collect();
    for task in tasks {
        for direction in Direction::BOTH {
            let list = throttle.tasks[task].dir(direction).waiting;
            let mut walked: Vec<u32> = list.iter(cx.requests).collect();
            walked.sort_unstable();
            let waiting = cx.requests.iter().filter(|(_, record)| {
                record.task() == task
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

/// Nearest limits follow from the parent.
fn check_limits(throttle: &Throttle, cx: &Context<'_>, cgroup: u32) -> Result<(), String> {
    let node = &throttle.cgroups[cgroup];
    let above = match cx.tree.cgroups[cgroup].parent {
        NO_CGROUP => [NO_CGROUP; 2],
        parent => Direction::BOTH.map(|direction| throttle.nearest_limit(parent, direction)),
    };
    let limiters =
        Direction::BOTH.iter().filter(|&&direction| node.limiter(direction).is_some()).count();
    let has_rw_limit = |direction| node.dir(direction).has_rw_limit == node.rw_limit.is_some();
    ensure(Direction::BOTH.into_iter().all(has_rw_limit), || "half a limit on both".into())?;
    ensure(node.rw_limit.is_none() || limiters == 2, || {
        format!("cgroup {cgroup} has a limit on both directions, and {limiters} limiters")
    })?;
    let limits = Direction::BOTH.map(|direction| node.dir(direction).parent_limit);
    ensure(limits == above, || format!("limits above cgroup {cgroup}: {limits:?}"))
}

/// What requests have paid that still wait is booked, and every cgroup knows of it whose limit they may be next at.
fn check_instalments(throttle: &Throttle, cx: &Context<'_>) -> Result<(), String> {
    let mut part_paid = [Charge::default(); 2];
    for (index, record) in cx.requests.iter().filter(|(_, record)| record.is_part_paid) {
        let direction = record.request.op.direction();
        let whole = throttle.prices.cost(&record.request);
        ensure(record.stage == Stage::Waiting && record.cost != whole, || {
            format!("request {index} is {:?}, part paid, and owes {:?}", record.stage, record.cost)
        })?;
        part_paid[direction.index()].add(whole.less(record.cost));
        let mut at = cx.tree.tasks[record.task()].cgroup;
        loop {
            let node = &throttle.cgroups[at];
            ensure(node.dir(direction).has_part_paid, || {
                format!("cgroup {at} does not know that request {index} is part paid")
            })?;
            let is_active =
                node.queue(direction).is_some_and(|queue| queue.source_state.is_active());
            if !is_active {
                break;
            }
            at = cx.tree.cgroups[at].parent;
        }
    }
    ensure(part_paid == throttle.part_paid, || {
        format!("part paid {part_paid:?}, booked {:?}", throttle.part_paid)
    })
}

/// A cgroup below which something waits is active in its parent or has a deadline; and nothing waits that may go.
fn check_waiting(
    throttle: &mut Throttle,
    cx: &mut Context<'_>,
    now: Instant,
    cgroup: u32,
    direction: Direction,
) -> Result<(), String> {
    let (sources, weight) = active_sources(throttle, cx, cgroup, direction);
    let Some(queue) = throttle.cgroups[cgroup].queue(direction) else {
        return ensure(sources == 0, || format!("{sources} sources are active without a queue"));
    };
    ensure(sources == queue.fair_queue.len(), || {
        format!("{sources} sources are active, {} counted", queue.fair_queue.len())
    })?;
    ensure(weight == queue.fair_queue.weight(), || {
        format!("the weights of {sources} sources are {weight}, not {}", queue.fair_queue.weight())
    })?;
    ensure(queue.fair_queue.entries().count() as u32 >= sources, || "an entry is missing".into())?;
    let is_active = queue.source_state.is_active();
    let has_to_parent = throttle.slices.head(cgroup, direction).is_some();
    let is_slice = throttle.is_slice(cgroup, direction);
    let node = &throttle.cgroups[cgroup];
    let timer = node.dir(if is_slice { Direction::Read } else { direction }).timer;
    let has_limiter = node.limiter(direction).is_some();
    if node.dir(direction).parent_limit == NO_CGROUP {
        ensure(!is_active && !has_to_parent, || "it is active, and no limit is above".into())?;
        ensure(sources == 0 || (has_limiter && timer.fires_at().is_some()), || {
            format!("{sources} sources wait for nothing")
        })?;
        return Ok(());
    }
    let has_head = has_to_parent || (sources > 0 && !is_slice);
    ensure(!is_active || has_head, || "it is active with nothing to give".into())?;
    if sources > 0 && (is_slice || !is_active) {
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
fn active_sources(
    throttle: &Throttle,
    cx: &Context<'_>,
    cgroup: u32,
    direction: Direction,
) -> (u32, u64) {
    let clients = cx.tree.clients.iter().filter(|&(index, client)| {
        let state = throttle.clients[index].dir(direction).source_state;
        client.cgroup == cgroup && state.is_active()
    });
    let children = cx.tree.cgroups.iter().filter(|&(index, child)| {
        let queue = throttle.cgroups[index].queue(direction);
        child.parent == cgroup && queue.is_some_and(|queue| queue.source_state.is_active())
    });
    let clients = clients.map(|(client, _)| Source::Client(client));
    let sources = clients.chain(children.map(|(child, _)| Source::Cgroup(child)));
    sources.fold((0, 0), |(count, weight), source| (count + 1, weight + weight_of(cx.tree, source)))
}

/// A client waits for limits exactly while a task of it does, and its next request can be found.
fn check_clients(throttle: &mut Throttle, cx: &mut Context<'_>) -> Result<(), String> {
    let clients: Vec<u32> = cx.tree.clients.iter().map(|(index, _)| index).collect();
    for index in clients {
        for direction in Direction::BOTH {
            let tasks = cx.tree.tasks.iter().filter(|&(task, of)| {
                of.client == index && !throttle.tasks[task].dir(direction).waiting.is_empty()
            });
            let waiting: Vec<u32> = tasks.map(|(task, _)| task).collect();
            let dir = throttle.clients[index].dir(direction);
            let (list, is_active) = (dir.turns, dir.source_state.is_active());
            let mut links = WaitingTurns { tasks: &mut throttle.tasks, direction };
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
        let top = throttle.top_source(ROOT, direction);
        ensure(!matches!(top, Some(Source::Cgroup(ROOT))), || "the root is below itself".into())?;
    }
    Ok(())
}
