//! Invariants of the whole cache.

use std::collections::{BTreeMap, BTreeSet};

use super::PageCache;
use super::operation::Step;
use super::pages::State;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// See [`PageCache::check`].
pub(super) fn check(cache: &PageCache) -> Result<(), String> {
    cache.pages.check()?;
    let dirty_files: BTreeSet<u32> = cache
        .pages
        .all()
        .filter(|(_, run)| matches!(run.state, Some(State::Dirty { .. })))
        .map(|(file, _)| file)
        .collect();
    cache.flusher.check(&dirty_files)?;
    check_limits(cache)?;
    check_requests(cache)?;
    check_operations(cache)
}

fn check_limits(cache: &PageCache) -> Result<(), String> {
    let (pages, limits) = (&cache.pages, &cache.limits);
    ensure(pages.cached() <= limits.memory, || {
        format!("{} pages cached, {} allowed", pages.cached(), limits.memory)
    })?;
    let dirty = pages.dirty() + pages.writing();
    ensure(dirty <= limits.dirty, || format!("{dirty} pages dirty, {} allowed", limits.dirty))?;
    let held = cache.pages.all().filter_map(|(_, run)| match run.state {
        Some(State::Dirty { owner } | State::Writing { owner, .. }) => {
            Some((owner, run.end - run.start))
        }
        _ => None,
    });
    let held = held.fold(BTreeMap::<u32, u64>::new(), |mut held, (owner, pages)| {
        *held.entry(owner).or_default() += pages;
        held
    });
    for (owner, pages_held) in held {
        ensure(pages_held == pages.held_by(owner), || {
            format!("owner {owner} holds {pages_held} pages, counted {}", pages.held_by(owner))
        })?;
        // With `Owner::Last` a writer may be given pages of others.
        let bounded = cache.owner == super::Owner::Last || pages_held <= limits.dirty_owner;
        ensure(bounded, || format!("owner {owner} holds {pages_held} pages"))?;
    }
    ensure(cache.flushing <= limits.depth, || format!("{} by the flusher", cache.flushing))?;
    let too_much = pages.dirty() > limits.background && cache.flushing < limits.depth;
    ensure(!too_much, || format!("{} pages dirty and the flusher rests", pages.dirty()))
}

/// Pages and requests name each other.
fn check_requests(cache: &PageCache) -> Result<(), String> {
    let (mut under_way, mut waiting_ahead) = (0, 0);
    for (file, run) in cache.pages.all() {
        let (io, reads) = match run.state {
            Some(State::Reading { io, ahead }) => {
                waiting_ahead += if ahead { run.end - run.start } else { 0 };
                (io, true)
            }
            Some(State::Writing { io, .. }) => (io, false),
            Some(State::Clean { ahead: true }) => {
                waiting_ahead += run.end - run.start;
                continue;
            }
            _ => continue,
        };
        under_way += run.end - run.start;
        let known = cache.ios.get(&io).ok_or_else(|| format!("{run:?}: no such request"))?;
        let fits = known.file == file && known.start <= run.start && run.end <= known.end;
        let is_read = known.cause == super::disk::Cause::Reader;
        ensure(fits && is_read == reads, || format!("file {file}, {run:?} is not of {known:?}"))?;
    }
    let booked: u64 = cache.ios.values().map(|io| io.end - io.start).sum();
    ensure(booked == under_way, || format!("{booked} pages requested, {under_way} under way"))?;
    let counters = &cache.counters;
    let ahead = counters.ahead_used_pages + counters.ahead_unused_pages + waiting_ahead;
    ensure(ahead == counters.ahead_pages, || {
        format!("{ahead} pages read ahead and accounted for: {counters:?}")
    })
}

/// Each operation waits in one place, for something that happens.
fn check_operations(cache: &PageCache) -> Result<(), String> {
    ensure(cache.ready.is_empty(), || format!("{:?} could go on", cache.ready))?;
    cache.sharing.check(cache.room())?;
    let no_memory = cache.starved.is_empty() || !cache.is_memory();
    ensure(no_memory, || format!("{:?} wait though there is memory", cache.starved))?;
    let somebody_waits = cache.sharing.is_on() || !cache.starved.is_empty();
    ensure(!somebody_waits || !cache.ios.is_empty(), || "nothing is under way".into())?;
    for (index, op) in cache.ops.iter() {
        let count = |waiters: &[u32]| waiters.iter().filter(|&&waiter| waiter == index).count();
        let awaits: usize = cache.ios.values().map(|io| count(&io.waiters)).sum();
        ensure(awaits == op.awaits as usize, || format!("{op:?} is awaited for by {awaits}"))?;
        let queues = cache.sharing.waiting().chain(cache.starved.iter().copied());
        let queued = queues.filter(|&at| at == index).count();
        let places = match op.step {
            Step::Reading | Step::Writing => awaits + queued,
            Step::Syncing | Step::Flushing => awaits.min(1) + queued,
        };
        ensure(places == 1, || format!("{op:?} waits for {awaits} requests, in {queued} queues"))?;
    }
    Ok(())
}
