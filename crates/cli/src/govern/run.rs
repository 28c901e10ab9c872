//! The governor's loop: all disks, twenty times a second, until a signal.

use std::path::Path;

use sd_notify::NotifyState;

use super::governed::{GovernedDisk, Tick};
use super::metrics;
use super::plan::Plan;
use super::state_dir::{StateDir, replace};
use crate::clock;
use crate::failure::Failure;
use crate::signals::{self, Stop};

/// Time between two samples: a newcomer is seen in three of them.
const TICK_NS: u64 = 50_000_000;
/// Ticks between two messages to the service manager.
const TELL_TICKS: u64 = 20;
/// Ticks between two files of metrics: scrapes are rarer.
const METRICS_TICKS: u64 = 100;

pub(super) fn run(
    plan: Plan,
    states: Option<StateDir>,
    metrics_file: Option<&Path>,
) -> Result<(), Failure> {
    // Before the first write, so that no signal ends this without putting limits back.
    let stop = Stop::listen()?;
    if plan.tree.interface() == weir_govern::kernel::Interface::V1 {
        tracing::info!(
            "cgroup v1: buffered writes are not limited, and each cgroup's limits are its own alone"
        );
    }
    let mut disks = Vec::new();
    for planned in plan.disks {
        let (tree, sysfs) = (&plan.tree, &plan.sysfs);
        disks.push(GovernedDisk::start(planned, tree, sysfs, states.clone(), clock::now_ns())?);
    }
    let names: Vec<&str> = disks.iter().map(GovernedDisk::name).collect();
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("governs {}", names.join(", ")))]);
    let governed = govern(&mut disks, &stop, metrics_file);
    if let Some(number) = stop.signal() {
        tracing::info!(signal = signals::name(number), "ending: limits are put back");
    }
    tell(&[NotifyState::Stopping]);
    let ended: Vec<Result<(), Failure>> = disks.into_iter().map(GovernedDisk::end).collect();
    if let Some(path) = metrics_file {
        // Old values would stay for ever.
        let _ = std::fs::remove_file(path);
    }
    governed.and(ended.into_iter().collect())
}

/// Until a signal, or until no disk is left.
fn govern(
    disks: &mut Vec<GovernedDisk>,
    stop: &Stop,
    metrics_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut next_ns = clock::now_ns();
    let mut ticks: u64 = 0;
    while stop.signal().is_none() && !disks.is_empty() {
        let now_ns = clock::now_ns();
        let mut gone = Vec::new();
        for (index, disk) in disks.iter_mut().enumerate() {
            if disk.tick(now_ns)? == Tick::Gone {
                gone.push(index);
            }
        }
        for index in gone.into_iter().rev() {
            disks.remove(index).drop_gone();
        }
        ticks += 1;
        if ticks.is_multiple_of(TELL_TICKS) {
            tell(&[NotifyState::Watchdog]);
        }
        if let Some(path) = metrics_file.filter(|_| ticks.is_multiple_of(METRICS_TICKS)) {
            let statuses: Vec<_> = disks.iter().filter_map(GovernedDisk::status).collect();
            if let Err(error) = replace(path, &metrics::text(&statuses), false) {
                tracing::warn!(%error, "{}: metrics cannot be written", path.display());
            }
        }
        // Samples that are late are not made up for.
        next_ns = (next_ns + TICK_NS).max(clock::now_ns());
        clock::sleep_until(next_ns);
    }
    Ok(())
}

/// Without a service manager nothing is sent.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}
