//! Invariants of the whole engine, looked at after every call by tests, the lab and fuzzers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::core::Core;
use crate::ensure::ensure;
use crate::requests::{Record, Stage};
use crate::stats::Charge;
use crate::tree::NO_CGROUP;
use crate::types::Instant;

/// See [`crate::Engine::check`].
pub(crate) fn check(core: &mut Core, now: Instant) -> Result<(), String> {
    check_books(core)?;
    check_counts(core)?;
    let cgroups: Vec<u32> = core.tree.cgroups.iter().map(|(index, _)| index).collect();
    for cgroup in cgroups {
        check_place(core, cgroup)?;
    }
    let (throttle, mut cx) = core.throttle(now);
    throttle.check(&mut cx)?;
    core.scheduler.check(&core.tree, &core.requests)
}

/// Charged is dispatched, and what is between the two is what is ready.
fn check_books(core: &Core) -> Result<(), String> {
    let audit = core.audit();
    ensure(audit.balances(), || format!("charged is not dispatched: {audit:?}"))?;
    let mut ready = [Charge::default(); 2];
    let has_begun = |record: &Record| record.cut.is_some_and(|cut| cut.has_begun);
    let waiting = core.requests.iter().map(|(_, record)| record);
    for record in waiting.filter(|record| record.stage == Stage::Ready && !has_begun(record)) {
        ready[record.request.op.direction().index()].add(record.cost);
    }
    ensure(ready == audit.ready, || format!("ready {ready:?}, booked {:?}", audit.ready))
}

/// Each request is in exactly one place, and the places are counted right.
fn check_counts(core: &mut Core) -> Result<(), String> {
    let count = |stage: fn(Stage) -> bool| {
        core.requests.iter().filter(|(_, record)| stage(record.stage)).count() as u32
    };
    let held = count(|stage| matches!(stage, Stage::Waiting | Stage::DispatchedToParent(_)));
    let counted = core.throttle.len();
    ensure(held == counted, || format!("{held} held, counted {counted}"))?;
    let ready = count(|stage| stage == Stage::Ready);
    ensure(ready == core.scheduler.len(), || format!("{ready} ready of {}", core.scheduler.len()))?;
    let out = count(|stage| stage == Stage::Dispatched);
    ensure(out == core.in_flight, || format!("{out} out, counted {}", core.in_flight))?;
    let joined = core.requests.iter().filter(|(_, record)| record.is_joined).count() as u32;
    ensure(joined == core.joined, || format!("{joined} joined, counted {}", core.joined))?;
    for (task, flow) in core.tree.tasks.iter() {
        let held = core.requests.iter().filter(|(_, record)| record.task() == task).count() as u32;
        ensure(held == flow.held, || format!("task {task} has {held}, counted {}", flow.held))?;
    }
    Ok(())
}

/// Depth and lists of children follow from the parents.
fn check_place(core: &Core, cgroup: u32) -> Result<(), String> {
    let node = &core.tree.cgroups[cgroup];
    let depth = match node.parent {
        NO_CGROUP => 0,
        parent => core.tree.cgroups[parent].depth + 1,
    };
    ensure(node.depth == depth, || format!("cgroup {cgroup} has depth {}", node.depth))?;
    let mut listed: Vec<u32> = node.children().collect();
    listed.sort_unstable();
    let below = core.tree.cgroups.iter().filter(|(_, child)| child.parent == cgroup);
    let below: Vec<u32> = below.map(|(index, _)| index).collect();
    ensure(listed == below, || format!("cgroup {cgroup} lists {listed:?}, not {below:?}"))
}
