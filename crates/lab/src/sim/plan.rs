//! Plan of a job: its options as the simulator needs them.

use std::sync::Arc;

use super::nanos;
use super::overlap::Overlapping;
use crate::scenario::Machine;
use weir_engine::Priority;
use weir_engine::settings::PriorityClass;
use weir_fio::stream::Access;
use weir_fio::{FadviseHint, IoEngine, Job, Mix, Options, Order, PrioClass, Submission};
use weir_pagecache::Advice;

/// Options that clones of a job share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) depth: u32,
    /// Level to which a full queue drains before it is filled again: at most `depth - 1`.
    pub(super) low: u32,
    /// Ended requests that the process takes at once.
    pub(super) batch: u32,
    pub(super) path: IoPath,
    /// Advice for its files, if it reads them through the page cache.
    pub(super) advice: Advice,
    pub(super) submission: Submission,
    /// Some requests end within the call that makes them, while the depth allows others beside them: those of
    /// [`Submission::Blocking`], and trims. Others that end meanwhile are taken when the queue is full.
    pub(super) has_calls: bool,
    /// `create_only`: the process ends before its first request.
    pub(super) creates_only: bool,
    /// `sync=`: a write ends when it is on the disk.
    pub(super) syncs_writes: bool,
    pub(super) runtime_ns: Option<u64>,
    pub(super) ramp_ns: u64,
    pub(super) is_time_based: bool,
    pub(super) loops: u32,
    pub(super) latency_max_ns: Option<u64>,
    /// Requests between pauses, or None where only time counts.
    pub(super) thinks_every: Option<u32>,
    pub(super) has_flow: bool,
    pub(super) forks: bool,
    /// `serialize_overlap`.
    pub(super) overlap: Option<Overlapping>,
    /// Only the depth matters to a request from its start to its end: it goes straight to the disk, and ends by
    /// itself.
    pub(super) is_plain: bool,
    pub(super) machine: Machine,
    pub(super) options: Arc<Options>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoPath {
    /// To the engine and the disk.
    Direct,
    /// Through the page cache.
    Cached,
    /// They end at once (`ioengine=null`).
    Nowhere,
}

impl Plan {
    pub(super) fn new(job: &Job, machine: Machine, forks: bool) -> Plan {
        let options = job.options.clone();
        let depth = options.depth().max(1);
        let path = match options.engine {
            IoEngine::Null => IoPath::Nowhere,
            // SCSI commands and NBD requests bypass the client's page cache.
            IoEngine::Nbd | IoEngine::Sg | IoEngine::Userspace { .. } => IoPath::Direct,
            _ if options.direct => IoPath::Direct,
            _ => IoPath::Cached,
        };
        let submission = options.submission();
        let has_trims = matches!(options.pattern.mix, Mix::Trim | Mix::TrimWrite);
        let has_blocking_trims = has_trims && options.is_trim_blocking();
        let mut plan = Plan {
            depth,
            advice: advice(&options, path),
            submission,
            has_calls: depth > 1 && (submission == Submission::Blocking || has_blocking_trims),
            creates_only: options.create_only,
            low: options.iodepth_low.clamp(1, depth).min(depth - 1),
            batch: options.iodepth_batch_complete_min.clamp(1, depth),
            path,
            syncs_writes: options.sync != weir_fio::Sync::None,
            runtime_ns: options.runtime.map(nanos),
            ramp_ns: nanos(options.ramp_time),
            is_time_based: options.time_based,
            loops: options.loops,
            latency_max_ns: options.max_latency.map(nanos),
            thinks_every: thinks_every(job),
            has_flow: options.flow.is_some(),
            forks,
            overlap: Overlapping::of(&options, depth),
            is_plain: false,
            machine,
            options,
        };
        plan.is_plain = plan.path == IoPath::Direct
            && plan.low + 1 == depth
            && plan.batch == 1
            && plan.submission == Submission::Parallel
            && !plan.has_calls
            && plan.latency_max_ns.is_none()
            && plan.overlap.is_none()
            && !(plan.syncs_writes || plan.has_flow);
        plan
    }

    pub(super) fn is_call(&self, access: Access) -> bool {
        self.has_calls && (self.submission == Submission::Blocking || access == Access::Trim)
    }

    /// Longest time from start to end: `u64::MAX` without a `runtime`.
    pub(super) fn lasts_ns(&self) -> u64 {
        let (least, most) = self.options.start_delay;
        let delay_ns = u64::try_from(most.max(least).as_nanos()).unwrap_or(u64::MAX);
        self.runtime_ns.map_or(u64::MAX, |runtime_ns| {
            runtime_ns.saturating_add(self.ramp_ns).saturating_add(delay_ns)
        })
    }
}

/// fio's advice for its files, which counts only for reads through the page cache.
fn advice(options: &Options, path: IoPath) -> Advice {
    let is_random = matches!(options.pattern.order, Order::Random { .. });
    match options.fadvise_hint {
        _ if path != IoPath::Cached => Advice::Normal,
        FadviseHint::None => Advice::Normal,
        FadviseHint::Random => Advice::Random,
        FadviseHint::Pattern if is_random => Advice::Random,
        FadviseHint::Sequential | FadviseHint::Pattern => Advice::Sequential,
    }
}

/// As in fio, `thinktime_iotime` leaves no count but one that the job names: the default of 1 would go before any
/// time.
fn thinks_every(job: &Job) -> Option<u32> {
    let think = job.options.thinktime;
    let is_named = think.blocks > 1 || job.said.iter().any(|(key, _)| key == "thinktime_blocks");
    (think.io_time.is_zero() || is_named).then_some(think.blocks.max(1))
}

/// Priority of a job's requests by `prio` and `prioclass`, as in fio 3.33: the default class is best effort, the default
/// level the first.
pub(super) fn priority(options: &Options) -> Priority {
    let class = match (options.prioclass, options.prio) {
        (None, None) | (Some(PrioClass::None), _) => return Priority::default(),
        (None | Some(PrioClass::BestEffort), _) => PriorityClass::BestEffort,
        (Some(PrioClass::RealTime), _) => PriorityClass::RealTime,
        (Some(PrioClass::Idle), _) => PriorityClass::Idle,
    };
    Priority::new(class, options.prio.unwrap_or(0)).unwrap_or_default()
}
