//! Application of an option's text to its field.

use std::sync::Arc;

use super::JOBS_MAX;
use super::error::ValueError;
use super::options::Options;
use super::shapes::{
    amount_or_none, block, distribution, engine, file_service, not_zero, pattern, positive,
    power_of_two, priority_class, replay_skip, splits, steady_state, verify, zone_mode,
};
use super::value::{
    KbBase, amount, boolean, bytes, directions, float, percentage, range, small, time, word,
};
use super::workload::{
    ExitWhat, FadviseHint, RateProcess, RwSequencer, SubmitMode, Sync, ThinkBlocks,
    UnifiedReporting,
};

const SECOND_US: u64 = 1_000_000;
const MILLISECOND_US: u64 = 1_000;

/// Sets the field of `key`, a main name. None if it is no typed option.
///
/// Flags may stand alone; all others need a value.
pub(super) fn apply(
    options: &mut Options,
    key: &str,
    value: Option<&str>,
) -> Option<Result<(), ValueError>> {
    if let Some(flag) = flag(options, key) {
        return Some(match value {
            None => {
                *flag = true;
                Ok(())
            }
            // fio takes any number for a flag, and all but 0 for "set".
            Some(value) => bytes(value, KbBase::Binary).map(|value| *flag = value != 0),
        });
    }
    // An unknown key must not ask for a value first.
    let text = value.unwrap_or_default();
    let result = valued(options, key, text)?;
    Some(if text.is_empty() { Err(ValueError::Missing) } else { result })
}

fn flag<'a>(options: &'a mut Options, key: &str) -> Option<&'a mut bool> {
    Some(match key {
        "norandommap" | "softrandommap" => &mut options.no_random_map,
        "bs_unaligned" => &mut options.block_unaligned,
        "time_based" => &mut options.time_based,
        "stonewall" => &mut options.stonewall,
        "new_group" => &mut options.new_group,
        "exitall" => &mut options.exitall,
        "exitall_on_error" => &mut options.exitall_on_error,
        "verify_only" => &mut options.verify_only,
        "group_reporting" => &mut options.group_reporting,
        _ => return None,
    })
}

fn set<T>(slot: &mut T, parsed: Result<T, ValueError>) -> Result<(), ValueError> {
    parsed.map(|value| *slot = value)
}

fn valued(options: &mut Options, key: &str, text: &str) -> Option<Result<(), ValueError>> {
    let o = options;
    let base = o.kb_base;
    let shared = || -> Option<Arc<str>> { Some(text.into()) };
    let count = |min| small(text, base, min, u32::MAX);
    Some(match key {
        "name" => set(&mut o.name, Ok(shared())),
        "filename" => set(&mut o.filename, Ok(shared())),
        "directory" => set(&mut o.directory, Ok(shared())),
        "filename_format" => set(&mut o.filename_format, Ok(text.into())),
        "nrfiles" => set(&mut o.nr_files, count(1)),
        "openfiles" => set(&mut o.open_files, count(0).map(|count| Some(count).filter(|n| *n > 0))),
        "file_service_type" => file_service(text, base).map(|(service, requests)| {
            o.file_service = service;
            o.file_service_requests = requests;
        }),
        "overwrite" => set(&mut o.overwrite, boolean(text)),
        "create_only" => set(&mut o.create_only, boolean(text)),

        "rw" => set(&mut o.pattern, pattern(text, base)),
        "rw_sequencer" => set(
            &mut o.rw_sequencer,
            word(
                text,
                &[("sequential", RwSequencer::Sequential), ("identical", RwSequencer::Identical)],
            ),
        ),
        "rwmixread" => set(&mut o.read_percent, percentage(text, 0)),
        "rwmixwrite" => set(&mut o.read_percent, percentage(text, 0).map(|writes| 100 - writes)),
        "percentage_random" => {
            directions(text, &mut o.percentage_random, |text| percentage(text, 0))
        }
        "random_distribution" => set(&mut o.random_distribution, distribution(text, base)),
        "randseed" => set(&mut o.rand_seed, bytes(text, base).map(Some)),
        "randrepeat" => set(&mut o.rand_repeat, boolean(text)),
        "allrandrepeat" => set(&mut o.all_rand_repeat, boolean(text)),

        "bs" => directions(text, &mut o.bs, |text| block(text, base)),
        "bsrange" => directions(text, &mut o.bs_range, |text| {
            range(text, |text| block(text, base)).map(Some)
        }),
        "bssplit" => directions(text, &mut o.bs_split, |text| splits(text, base).map(Some)),
        "ba" => directions(text, &mut o.block_align, |text| block(text, base).map(Some)),
        "size" => set(&mut o.size, amount_or_none(text, base)),
        "io_size" => set(&mut o.io_size, amount_or_none(text, base)),
        "filesize" => set(&mut o.file_size, range(text, |text| block(text, base)).map(Some)),
        "fill_device" => set(&mut o.fill_device, boolean(text)),
        "offset" => set(&mut o.offset, amount(text, base)),
        "offset_increment" => set(&mut o.offset_increment, amount(text, base)),
        "offset_align" => set(&mut o.offset_align, bytes(text, base).map(positive)),
        "zonemode" => set(&mut o.is_strided, zone_mode(text)),
        "zonesize" => set(&mut o.zone_size, bytes(text, base).map(positive)),
        "zonerange" => set(&mut o.zone_range, bytes(text, base).map(positive)),
        "zoneskip" => set(&mut o.zone_skip, bytes(text, base)),
        "number_ios" => set(&mut o.number_ios, bytes(text, base).map(positive)),
        "loops" => set(&mut o.loops, count(1)),

        "ioengine" => set(&mut o.engine, engine(text)),
        "iodepth" => set(&mut o.iodepth, count(1)),
        "iodepth_batch" => set(&mut o.iodepth_batch, count(0)),
        "iodepth_batch_complete_min" => set(&mut o.iodepth_batch_complete_min, count(0)),
        "iodepth_batch_complete_max" => set(&mut o.iodepth_batch_complete_max, count(0)),
        "iodepth_low" => set(&mut o.iodepth_low, count(0)),
        "io_submit_mode" => set(
            &mut o.submit_mode,
            word(text, &[("inline", SubmitMode::Inline), ("offload", SubmitMode::Offload)]),
        ),
        "serialize_overlap" => set(&mut o.serialize_overlap, boolean(text)),
        "direct" => set(&mut o.direct, boolean(text)),
        "buffered" => set(&mut o.direct, boolean(text).map(|buffered| !buffered)),
        "invalidate" => set(&mut o.invalidate, boolean(text)),
        "fadvise_hint" => set(
            &mut o.fadvise_hint,
            word(
                text,
                &[
                    ("0", FadviseHint::None),
                    ("1", FadviseHint::Pattern),
                    ("random", FadviseHint::Random),
                    ("sequential", FadviseHint::Sequential),
                ],
            ),
        ),
        "pre_read" => set(&mut o.pre_read, boolean(text)),
        "sync" => set(
            &mut o.sync,
            word(
                text,
                &[
                    ("none", Sync::None),
                    ("0", Sync::None),
                    ("sync", Sync::Sync),
                    ("1", Sync::Sync),
                    ("dsync", Sync::Dsync),
                ],
            ),
        ),
        "fsync" => set(&mut o.fsync, count(0)),
        "fdatasync" => set(&mut o.fdatasync, count(0)),
        "end_fsync" => set(&mut o.end_fsync, boolean(text)),
        "fsync_on_close" => set(&mut o.fsync_on_close, boolean(text)),

        "rate" => directions(text, &mut o.rate, |text| bytes(text, base).map(positive)),
        "rate_min" => directions(text, &mut o.rate_min, |text| bytes(text, base).map(positive)),
        "rate_iops" => directions(text, &mut o.rate_iops, |text| bytes(text, base).map(positive)),
        "rate_iops_min" => {
            directions(text, &mut o.rate_iops_min, |text| bytes(text, base).map(positive))
        }
        "rate_process" => set(
            &mut o.rate_process,
            word(text, &[("linear", RateProcess::Linear), ("poisson", RateProcess::Poisson)]),
        ),
        "rate_cycle" => set(&mut o.rate_cycle, time(text, MILLISECOND_US)),
        "rate_ignore_thinktime" => set(&mut o.rate_ignore_thinktime, boolean(text)),
        "thinktime" => set(&mut o.thinktime.pause, time(text, 1)),
        "thinktime_spin" => set(&mut o.thinktime.spin, time(text, 1)),
        "thinktime_blocks" => set(&mut o.thinktime.blocks, count(1)),
        "thinktime_blocks_type" => set(
            &mut o.thinktime.blocks_type,
            word(text, &[("complete", ThinkBlocks::Complete), ("issue", ThinkBlocks::Issue)]),
        ),
        "thinktime_iotime" => set(&mut o.thinktime.io_time, time(text, SECOND_US)),
        "max_latency" => set(&mut o.max_latency, time(text, 1).map(not_zero)),
        "latency_target" => set(&mut o.latency_target.time, time(text, 1)),
        "latency_window" => set(&mut o.latency_target.window, time(text, 1)),
        "latency_percentile" => set(&mut o.latency_target.percentile, float(text, 0, 100)),
        "latency_run" => set(&mut o.latency_target.runs_on, boolean(text)),

        "startdelay" => set(&mut o.start_delay, range(text, |text| time(text, SECOND_US))),
        "runtime" => set(&mut o.runtime, time(text, SECOND_US).map(not_zero)),
        "ramp_time" => set(&mut o.ramp_time, time(text, SECOND_US)),
        "steadystate" => set(&mut o.steady_state, steady_state(text, base).map(Some)),
        "steadystate_duration" => set(&mut o.steady_duration, time(text, SECOND_US)),
        "steadystate_ramp_time" => set(&mut o.steady_ramp, time(text, SECOND_US)),
        "numjobs" => set(&mut o.numjobs, small(text, base, 1, JOBS_MAX as u32)),
        "wait_for" => set(&mut o.wait_for, Ok(shared())),
        "exit_what" => set(
            &mut o.exit_what,
            word(
                text,
                &[
                    ("group", ExitWhat::Group),
                    ("stonewall", ExitWhat::Stonewall),
                    ("all", ExitWhat::All),
                ],
            ),
        ),
        "flow" => set(&mut o.flow, small(text, base, 0, 1000).map(|n| Some(n).filter(|n| *n > 0))),
        "flow_id" => set(&mut o.flow_id, count(0)),
        "flow_sleep" => set(&mut o.flow_sleep, time(text, 1)),

        "prio" => set(&mut o.prio, small(text, base, 0, 7).map(|prio| Some(prio as u8))),
        "prioclass" => set(&mut o.prioclass, priority_class(text).map(Some)),
        "cgroup" => set(&mut o.cgroup, Ok(shared())),
        "cgroup_weight" => set(
            &mut o.cgroup_weight,
            small(text, base, 100, 1000).map(|weight| Some(weight as u16)),
        ),

        "read_iolog" => set(&mut o.read_iolog, Ok(shared())),
        "replay_no_stall" => set(&mut o.replay_no_stall, boolean(text)),
        "replay_redirect" => set(&mut o.replay_redirect, Ok(shared())),
        "replay_scale" => set(&mut o.replay_scale, count(1)),
        "replay_align" => set(&mut o.replay_align, power_of_two(text, base)),
        "replay_time_scale" => set(&mut o.replay_time_scale, count(1)),
        "replay_skip" => set(&mut o.replay_skip, replay_skip(text)),

        "verify" => set(&mut o.verify, verify(text)),
        "do_verify" => set(&mut o.do_verify, boolean(text)),
        "verify_backlog" => set(&mut o.verify_backlog, bytes(text, base).map(positive)),
        "verify_backlog_batch" => set(&mut o.verify_backlog_batch, bytes(text, base).map(positive)),

        "unified_rw_reporting" => set(
            &mut o.unified_rw_reporting,
            word(
                text,
                &[
                    ("none", UnifiedReporting::None),
                    ("0", UnifiedReporting::None),
                    ("mixed", UnifiedReporting::Mixed),
                    ("1", UnifiedReporting::Mixed),
                    ("both", UnifiedReporting::Both),
                    ("2", UnifiedReporting::Both),
                ],
            ),
        ),
        "kb_base" => {
            set(&mut o.kb_base, word(text, &[("1024", KbBase::Binary), ("1000", KbBase::Decimal)]))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::typed_options;
    use super::*;

    #[test]
    fn every_typed_option_has_a_field() {
        for name in typed_options() {
            assert!(apply(&mut Options::default(), name, Some("1")).is_some(), "{name}");
        }
        assert!(apply(&mut Options::default(), "thread", None).is_none());
    }
}
