//! Table of all options of fio: typed, ignored or refused.

use super::elsewhere;
use super::error::Place;

/// An option that was accepted without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Its main name.
    pub option: &'static str,
    /// Why nothing is lost.
    pub reason: &'static str,
    /// Its first place.
    pub place: Place,
    /// How often the file has it.
    pub times: u32,
}

const DATA: &str = "what the bytes are does not matter";
pub(super) const LOGS: &str = "the lab has its own reports";
pub(super) const CPU: &str = "processors and memory are not simulated";
const FILES: &str = "files are laid out before the time that is measured";
pub(super) const PROCESS: &str = "how the job runs on the host does not matter";
pub(super) const VERIFYING: &str = "what is checked does not matter, only that it is read";
const ENGINE: &str = "engines differ in how requests arrive, not in their details";

/// Options accepted without effect, with the reason, by their main names.
const IGNORED: &[(&str, &[&str])] = &[
    (
        DATA,
        &[
            "zero_buffers",
            "refill_buffers",
            "scramble_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "dedupe_global",
            "write_hint",
        ],
    ),
    (
        LOGS,
        &[
            "description",
            "per_job_logs",
            "write_bw_log",
            "bwavgtime",
            "write_lat_log",
            "write_iops_log",
            "iopsavgtime",
            "log_entries",
            "log_avg_msec",
            "log_hist_msec",
            "log_hist_coarseness",
            "write_hist_log",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "block_error_percentiles",
            "stats",
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "disk_util",
            "gtod_reduce",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "unit_base",
            "write_iolog",
            "error_dump",
        ],
    ),
    (
        CPU,
        &[
            "mem",
            "iomem_align",
            "hugepage-size",
            "lockmem",
            "nice",
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "clocksource",
            "gtod_cpu",
            "thp",
        ],
    ),
    (
        FILES,
        &[
            "fallocate",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "allow_file_create",
            "allow_mounted_write",
            "unlink",
            "unlink_each_loop",
            "unique_filename",
            "lockfile",
        ],
    ),
    (
        PROCESS,
        &[
            "thread",
            "uid",
            "gid",
            "exec_prerun",
            "exec_postrun",
            "ignore_error",
            "continue_on_error",
            "cgroup_nodelete",
            "random_generator",
            "read_iolog_chunked",
            "atomic",
        ],
    ),
    ("the scheduler is the lab's to choose", &["ioscheduler"]),
    ("fio itself passes it over", &["flow_watermark"]),
    (
        VERIFYING,
        &[
            "verify_interval",
            "verify_offset",
            "verify_pattern",
            "verify_fatal",
            "verify_dump",
            "verify_async",
            "verify_async_cpus",
            "experimental_verify",
            "verify_state_load",
            "verify_state_save",
            "trim_verify_zero",
            "verifysort",
            "verifysort_nr",
        ],
    ),
    (
        ENGINE,
        &[
            "userspace_reap",
            "hipri",
            "hipri_percentage",
            "nowait",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "nonvectored",
            "uncached",
            "force_async",
            "libaio_vectored",
            "uri",
        ],
    ),
];

/// An option, its values that mean "not at all", and why it is refused with any other.
pub(super) type Refused = (&'static str, &'static [&'static str], &'static str);

/// Options refused with the reason, unless they have a value that means "not at all".
const REFUSED: &[Refused] = &[
    ("bs_is_seq_rand", &["0"], "lengths go by direction; write a job for each kind of places"),
    ("opendir", &[], "its files are found on the machine"),
    ("file_append", &["0"], "files do not grow"),
    ("write_barrier", &["0"], "the block layer has no barriers; fsync makes writes durable"),
    ("sync_file_range", &[], "only fsync and fdatasync write back on demand"),
    ("trim_percentage", &["0"], "trims among verified writes are not made"),
    ("trim_backlog", &["0"], "trims among verified writes are not made"),
    ("trim_backlog_batch", &["0"], "trims among verified writes are not made"),
    ("merge_blktrace_file", &[], "traces are replayed one by one"),
    ("merge_blktrace_scalars", &[], "traces are replayed one by one"),
    ("merge_blktrace_iters", &[], "traces are replayed one by one"),
    ("zonecapacity", &["0"], "zoned devices are not among the disks"),
    ("read_beyond_wp", &["0"], "zoned devices are not among the disks"),
    ("max_open_zones", &["0"], "zoned devices are not among the disks"),
    ("job_max_open_zones", &["0"], "zoned devices are not among the disks"),
    ("ignore_zone_limits", &["0"], "zoned devices are not among the disks"),
    ("zone_reset_threshold", &[], "zoned devices are not among the disks"),
    ("zone_reset_frequency", &[], "zoned devices are not among the disks"),
    ("profile", &[], "a profile makes jobs of its own, which are not in the file"),
    ("cmdprio_percentage", &["0"], "a job has one priority; split it in two"),
    ("cmdprio_class", &[], "a job has one priority; split it in two"),
    ("cmdprio", &[], "a job has one priority; split it in two"),
    ("cmdprio_bssplit", &[], "a job has one priority; split it in two"),
    ("cmd_type", &["nvme"], "only block requests are made"),
    ("readfua", &["0"], "requests carry no FUA flag; use sync=dsync"),
    ("writefua", &["0"], "requests carry no FUA flag; use sync=dsync"),
    ("sg_write_mode", &["write"], "only plain writes are made"),
    ("stream_id", &["0"], "only plain writes are made"),
];

/// Options with an effect, by their main names.
const TYPED: &[&str] = &[
    "name",
    "filename",
    "directory",
    "filename_format",
    "nrfiles",
    "openfiles",
    "file_service_type",
    "overwrite",
    "create_only",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "percentage_random",
    "random_distribution",
    "norandommap",
    "softrandommap",
    "randseed",
    "randrepeat",
    "allrandrepeat",
    "bs",
    "bsrange",
    "bssplit",
    "ba",
    "bs_unaligned",
    "size",
    "io_size",
    "filesize",
    "fill_device",
    "offset",
    "offset_increment",
    "offset_align",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "number_ios",
    "loops",
    "ioengine",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "io_submit_mode",
    "serialize_overlap",
    "direct",
    "buffered",
    "invalidate",
    "fadvise_hint",
    "pre_read",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "rate",
    "rate_min",
    "rate_iops",
    "rate_iops_min",
    "rate_process",
    "rate_cycle",
    "rate_ignore_thinktime",
    "thinktime",
    "thinktime_spin",
    "thinktime_blocks",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "max_latency",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "startdelay",
    "runtime",
    "time_based",
    "ramp_time",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "numjobs",
    "stonewall",
    "new_group",
    "wait_for",
    "exitall",
    "exitall_on_error",
    "exit_what",
    "flow",
    "flow_id",
    "flow_sleep",
    "prio",
    "prioclass",
    "cgroup",
    "cgroup_weight",
    "read_iolog",
    "replay_no_stall",
    "replay_redirect",
    "replay_scale",
    "replay_align",
    "replay_time_scale",
    "replay_skip",
    "verify",
    "do_verify",
    "verify_only",
    "verify_backlog",
    "verify_backlog_batch",
    "group_reporting",
    "unified_rw_reporting",
    "kb_base",
];

/// Second names of options.
const ALIASES: &[(&str, &str)] = &[
    // Not in its manual, but in its own example jobs.
    ("threads", "thread"),
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blockalign", "ba"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("io_limit", "io_size"),
    ("fill_fs", "fill_device"),
    ("fileoffset", "offset"),
    ("nr_files", "nrfiles"),
    ("timeout", "runtime"),
    ("iomem", "mem"),
    ("mem_align", "iomem_align"),
    ("ratemin", "rate_min"),
    ("ratecycle", "rate_cycle"),
    ("wait_for_previous", "stonewall"),
    ("disable_bw", "disable_bw_measurement"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
];

/// The main name of an option, if `name` is a second one.
pub fn alias_of(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, main)| *main)
}

/// The options with an effect.
pub fn typed_options() -> impl Iterator<Item = &'static str> {
    TYPED.iter().copied()
}

/// The options accepted without effect, each with the reason.
pub fn ignored_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lists = IGNORED.iter().chain(elsewhere::IGNORED);
    lists.flat_map(|(reason, names)| names.iter().map(|name| (*name, *reason)))
}

/// The options refused, each with the reason.
pub fn refused_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    refused().map(|(name, _, reason)| (*name, *reason))
}

fn refused() -> impl Iterator<Item = &'static Refused> {
    REFUSED.iter().chain(elsewhere::REFUSED)
}

pub(super) enum Fate {
    Ignored(&'static str, &'static str),
    Refused(&'static str, &'static str),
    Unknown,
}

pub(super) fn fate(name: &str, value: Option<&str>) -> Fate {
    if let Some((name, reason)) = ignored_options().find(|(ignored, _)| *ignored == name) {
        return Fate::Ignored(name, reason);
    }
    match refused().find(|(refused, ..)| *refused == name) {
        Some((name, neutral, _)) if value.is_some_and(|value| neutral.contains(&value)) => {
            Fate::Ignored(name, "this value switches it off")
        }
        Some((name, _, reason)) => Fate::Refused(name, reason),
        None => Fate::Unknown,
    }
}

/// All names, for spelling hints.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    typed_options()
        .chain(ignored_options().map(|(name, _)| name))
        .chain(refused_options().map(|(name, _)| name))
        .chain(ALIASES.iter().map(|(alias, _)| *alias))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_option_name_is_in_one_table() {
        let mut seen = BTreeSet::new();
        for name in names() {
            assert!(seen.insert(name), "{name}");
        }
        for (_, main) in ALIASES {
            assert!(seen.contains(main), "{main}");
        }
    }
}
