//! Options of a job, with fio's defaults.

use std::sync::Arc;
use std::time::Duration;

use super::value::KbBase;
use super::workload::{
    Amount, BlockSize, ExitWhat, FadviseHint, FileService, IoEngine, LatencyTarget, Mix, Order,
    Pattern, PerDirection, PrioClass, RandomDistribution, RateProcess, ReplaySkip, RwSequencer,
    Split, SteadyState, Submission, SubmitMode, Sync, ThinkBlocks, UnifiedReporting,
};

/// Options of a job: its section's over those of the `[global]`s above it over fio's defaults.
///
/// None means that fio has no default. Cloning is cheap: texts and lists are shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `rw`: sequential reads by default.
    pub pattern: Pattern,
    /// `rw_sequencer`.
    pub rw_sequencer: RwSequencer,
    /// `rwmixread`, and 100 less `rwmixwrite`: 50 by default; the later of the two wins.
    pub read_percent: u8,
    /// `percentage_random`: 100 by default.
    pub percentage_random: PerDirection<u8>,
    /// `random_distribution`.
    pub random_distribution: RandomDistribution,
    /// `norandommap`; also set by every distribution but the uniform one.
    pub no_random_map: bool,
    /// `randseed`.
    pub rand_seed: Option<u64>,
    /// `randrepeat`: true by default.
    pub rand_repeat: bool,
    /// `allrandrepeat`.
    pub all_rand_repeat: bool,

    pub(super) bs: PerDirection<u64>,
    pub(super) bs_range: PerDirection<Option<(u64, u64)>>,
    pub(super) bs_split: PerDirection<Option<Arc<[Split]>>>,
    /// `blockalign`: random offsets are multiples of it; of the smallest block by default.
    pub block_align: PerDirection<Option<u64>>,
    /// `bs_unaligned`.
    pub block_unaligned: bool,
    /// `size`: of the region, and of the I/O unless [`Options::io_size`] is set; all of the file by default.
    pub size: Option<Amount>,
    /// `io_size`.
    pub io_size: Option<Amount>,
    /// `filesize`: smallest and largest, in bytes.
    pub file_size: Option<(u64, u64)>,
    /// `fill_device`: write until the device is full.
    pub fill_device: bool,
    /// `offset`: where the region begins.
    pub offset: Amount,
    /// `offset_increment`: added once for each clone before this one.
    pub offset_increment: Amount,
    /// `offset_align`: unit to which an offset in percent is rounded; None is the smallest block.
    pub offset_align: Option<u64>,
    /// `zonemode=strided`: one zone of the file after the other.
    pub is_strided: bool,
    /// `zonesize`: bytes moved in a zone before the next one. None only without [`Options::is_strided`].
    pub zone_size: Option<u64>,
    /// `zonerange`: bytes of a zone; `zonesize` by default.
    pub zone_range: Option<u64>,
    /// `zoneskip`: bytes between zones.
    pub zone_skip: u64,
    /// `number_ios`: requests after which the job ends.
    pub number_ios: Option<u64>,
    /// `loops`: at least 1.
    pub loops: u32,

    pub(super) filename: Option<Arc<str>>,
    pub(super) filename_format: Arc<str>,
    /// `directory` of the files.
    pub directory: Option<Arc<str>>,
    /// `nrfiles`: at least 1.
    pub nr_files: u32,
    /// `openfiles`: files in use at a time; all by default.
    pub open_files: Option<u32>,
    /// `file_service_type`.
    pub file_service: FileService,
    /// Requests to a file before the next one (`file_service_type=random:8`): 1 by default.
    pub file_service_requests: u32,
    /// `overwrite`: the file exists before it is written.
    pub overwrite: bool,
    /// `create_only`: lay the files out, and make no request.
    pub create_only: bool,

    /// `ioengine`.
    pub engine: IoEngine,
    /// `iodepth` as written; see [`Options::depth`].
    pub iodepth: u32,
    /// `iodepth_batch`: requests submitted at once, 1 to `iodepth`.
    pub iodepth_batch: u32,
    /// `iodepth_batch_complete_min`: completions waited for at once, 0 (none) to `iodepth`.
    pub iodepth_batch_complete_min: u32,
    /// `iodepth_batch_complete_max`: completions taken at once, at least the minimum.
    pub iodepth_batch_complete_max: u32,
    /// `iodepth_low`: level at which the queue is filled again, 1 to `iodepth`.
    pub iodepth_low: u32,
    /// `io_submit_mode`.
    pub submit_mode: SubmitMode,
    /// `serialize_overlap`: requests for the same bytes wait for each other.
    pub serialize_overlap: bool,
    /// `direct`, and not `buffered`: past the page cache.
    pub direct: bool,
    /// `invalidate`: drop the file's pages before the start. True by default.
    pub invalidate: bool,
    /// `fadvise_hint`: by the pattern by default.
    pub fadvise_hint: FadviseHint,
    /// `pre_read`: read the files into the page cache before the start.
    pub pre_read: bool,
    /// `sync`.
    pub sync: Sync,
    /// `fsync`: after every so many writes; 0 is never.
    pub fsync: u32,
    /// `fdatasync`: the same without metadata.
    pub fdatasync: u32,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,

    /// `rate`: bytes a second; None is no limit.
    pub rate: PerDirection<Option<u64>>,
    /// `rate_min`: bytes a second below which the job fails.
    pub rate_min: PerDirection<Option<u64>>,
    /// `rate_iops`: requests a second; None is no limit. Never together with [`Options::rate`].
    pub rate_iops: PerDirection<Option<u64>>,
    /// `rate_iops_min`.
    pub rate_iops_min: PerDirection<Option<u64>>,
    /// `rate_process`.
    pub rate_process: RateProcess,
    /// `rate_cycle`: the window in which minima are checked; 1 s by default.
    pub rate_cycle: Duration,
    /// `rate_ignore_thinktime`: do not catch up after thinking.
    pub rate_ignore_thinktime: bool,
    /// `thinktime` and its relatives.
    pub thinktime: Thinktime,
    /// `max_latency`: a request above it ends the job.
    pub max_latency: Option<Duration>,
    /// `latency_target` and its relatives: the job searches for the depth that keeps a latency.
    pub latency_target: LatencyTarget,

    /// `startdelay`: least and most; each clone draws one between.
    pub start_delay: (Duration, Duration),
    /// `runtime`.
    pub runtime: Option<Duration>,
    /// `time_based`: start over until [`Options::runtime`] is up. False without a runtime, as in fio.
    pub time_based: bool,
    /// `ramp_time`: runs, unreported, before the runtime.
    pub ramp_time: Duration,
    /// `steadystate`: ends when its rate is steady; None without a `steadystate_duration`, as in fio.
    pub steady_state: Option<SteadyState>,
    /// `steadystate_duration`, in whole seconds.
    pub steady_duration: Duration,
    /// `steadystate_ramp_time`: rates at the beginning that do not count.
    pub steady_ramp: Duration,
    /// `numjobs`: clones, 1 to [`super::JOBS_MAX`].
    pub numjobs: u32,
    /// `stonewall`: starts a new [`super::Job::stage`].
    pub stonewall: bool,
    /// `new_group`: starts a new [`super::Job::group`].
    pub new_group: bool,
    /// `wait_for`: the name; [`super::Job::wait_for`] has the jobs.
    pub wait_for: Option<Arc<str>>,
    /// `exitall`: when the first of the jobs ends, others do; as in fio it applies to all jobs of a file.
    pub exitall: bool,
    /// `exitall_on_error`: others end when this one fails.
    pub exitall_on_error: bool,
    /// `exit_what`: which jobs end with this one.
    pub exit_what: ExitWhat,
    /// `flow`: weight among the jobs of one `flow_id`; None is no flow control.
    pub flow: Option<u32>,
    /// `flow_id`.
    pub flow_id: u32,
    /// `flow_sleep`: how long a job ahead of the others waits; 0 is to look again at once.
    pub flow_sleep: Duration,

    /// `prio`: 0 (first) to 7.
    pub prio: Option<u8>,
    /// `prioclass`.
    pub prioclass: Option<PrioClass>,
    /// `cgroup`.
    pub cgroup: Option<Arc<str>>,
    /// `cgroup_weight`: 100 to 1000.
    pub cgroup_weight: Option<u16>,

    /// `read_iolog`: the trace to replay instead of making requests.
    pub read_iolog: Option<Arc<str>>,
    /// `replay_no_stall`: as fast as the order allows.
    pub replay_no_stall: bool,
    /// `replay_redirect`: one device for all.
    pub replay_redirect: Option<Arc<str>>,
    /// `replay_scale`: offsets are divided by it; 1 by default.
    pub replay_scale: u32,
    /// `replay_align`: a power of two that offsets are rounded to.
    pub replay_align: Option<u64>,
    /// `replay_time_scale`: percent of the trace's own speed; 100 by default.
    pub replay_time_scale: u32,
    /// `replay_skip`.
    pub replay_skip: ReplaySkip,

    /// `verify`: the method. Its checks do not matter here; reading written blocks again does.
    pub verify: Option<Arc<str>>,
    /// `do_verify`: read all of it after the writes. True by default.
    pub do_verify: bool,
    /// `verify_only`: read what an earlier run wrote.
    pub verify_only: bool,
    /// `verify_backlog`: read after so many written blocks.
    pub verify_backlog: Option<u64>,
    /// `verify_backlog_batch`: blocks read at a time; as many as the backlog by default.
    pub verify_backlog_batch: Option<u64>,

    /// `name`: name in reports instead of the section's.
    pub(super) name: Option<Arc<str>>,
    /// `group_reporting`: one row for the jobs of a group.
    pub group_reporting: bool,
    /// `unified_rw_reporting`.
    pub unified_rw_reporting: UnifiedReporting,

    pub(super) kb_base: KbBase,
}

/// Pauses between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thinktime {
    /// `thinktime`: 0 is no pauses, whatever the others say.
    pub pause: Duration,
    /// `thinktime_spin`: the part of the pause spent computing.
    pub spin: Duration,
    /// `thinktime_blocks`: requests between pauses, at least 1.
    pub blocks: u32,
    /// `thinktime_blocks_type`.
    pub blocks_type: ThinkBlocks,
    /// `thinktime_iotime`: pause also after so much time of I/O; 0 is never.
    pub io_time: Duration,
}

impl Options {
    /// Whether requests of any direction have a rate.
    pub fn has_rates(&self) -> bool {
        self.rate.iter().chain(self.rate_iops.iter()).any(Option::is_some)
    }

    /// Most requests in flight: `iodepth`, or 1 for synchronous engines.
    pub fn depth(&self) -> u32 {
        if self.is_synchronous() && self.submit_mode == SubmitMode::Inline {
            1
        } else {
            self.iodepth
        }
    }

    /// Whether the engine waits for each request. `sg` does so on a block device (`SG_IO`), and not on `/dev/sg0`.
    pub fn is_synchronous(&self) -> bool {
        let is_block = |names: &str| !names.split(':').any(|name| name.starts_with("/dev/sg"));
        match self.engine {
            IoEngine::Sg => self.filename.as_deref().is_some_and(is_block),
            engine => engine.is_synchronous(),
        }
    }

    /// How requests are submitted. Linux serves buffered requests of libaio inside `io_submit`; glibc serves one
    /// request of a descriptor at a time. Each thread of `io_submit_mode=offload` has descriptors and a context of
    /// its own.
    pub fn submission(&self) -> Submission {
        match self.engine {
            _ if self.submit_mode == SubmitMode::Offload => Submission::Parallel,
            IoEngine::Libaio if !self.direct => Submission::Blocking,
            IoEngine::Posixaio => Submission::OnePerFile,
            _ => Submission::Parallel,
        }
    }

    /// Whether trims are blocking calls (`BLKDISCARD`), as fio 3.33 makes those of all kernel engines.
    pub fn is_trim_blocking(&self) -> bool {
        let is_kernels =
            matches!(self.engine, IoEngine::Libaio | IoEngine::Posixaio | IoEngine::IoUring);
        is_kernels && self.submit_mode == SubmitMode::Inline
    }

    /// Sizes of requests. `bssplit` goes before `bsrange`, and that before `bs`.
    pub fn block_size(&self) -> PerDirection<BlockSize> {
        let one =
            |bs: u64, range: Option<(u64, u64)>, split: &Option<Arc<[Split]>>| match (split, range)
            {
                (Some(splits), _) => BlockSize::Split(splits.clone()),
                (None, Some((min, max))) => BlockSize::Range { min, max },
                (None, None) => BlockSize::Fixed(bs),
            };
        PerDirection {
            read: one(self.bs.read, self.bs_range.read, &self.bs_split.read),
            write: one(self.bs.write, self.bs_range.write, &self.bs_split.write),
            trim: one(self.bs.trim, self.bs_range.trim, &self.bs_split.trim),
        }
    }

    /// The smallest request of the directions that the pattern uses, in bytes.
    pub fn block_min(&self) -> u64 {
        let PerDirection { read, write, trim } = self.block_size();
        match self.pattern.mix {
            Mix::Read => read.min(),
            Mix::Write => write.min(),
            Mix::Trim => trim.min(),
            Mix::ReadWrite => read.min().min(write.min()),
            Mix::TrimWrite => trim.min().min(write.min()),
        }
    }

    /// Brings options that depend on others into their range, as fio does at the end of a section.
    pub(super) fn settle(&mut self) {
        let depth = self.iodepth;
        let or_depth = |value: u32| if value == 0 { depth } else { value.min(depth) };
        self.iodepth_batch = or_depth(self.iodepth_batch);
        self.iodepth_low = or_depth(self.iodepth_low);
        self.iodepth_batch_complete_min = self.iodepth_batch_complete_min.min(depth);
        self.iodepth_batch_complete_max =
            self.iodepth_batch_complete_max.clamp(self.iodepth_batch_complete_min, depth);
        self.no_random_map |= self.random_distribution != RandomDistribution::Random;
        self.time_based &= self.runtime.is_some();
        self.steady_state = self.steady_state.filter(|_| self.steady_duration.as_secs() > 0);
        self.thinktime.spin = self.thinktime.spin.min(self.thinktime.pause);
    }
}

impl Default for Options {
    /// fio's defaults, from `--cmdhelp` of fio 3.33 on Linux.
    fn default() -> Options {
        Options {
            pattern: Pattern { mix: Mix::Read, order: Order::Sequential { skip: 0 } },
            rw_sequencer: RwSequencer::Sequential,
            read_percent: 50,
            percentage_random: PerDirection::all(100),
            random_distribution: RandomDistribution::Random,
            no_random_map: false,
            rand_seed: None,
            rand_repeat: true,
            all_rand_repeat: false,
            bs: PerDirection::all(4096),
            bs_range: PerDirection::all(None),
            bs_split: PerDirection::all(None),
            block_align: PerDirection::all(None),
            block_unaligned: false,
            size: None,
            io_size: None,
            file_size: None,
            fill_device: false,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: None,
            is_strided: false,
            zone_size: None,
            zone_range: None,
            zone_skip: 0,
            number_ios: None,
            loops: 1,
            filename: None,
            filename_format: "$jobname.$jobnum.$filenum".into(),
            directory: None,
            nr_files: 1,
            open_files: None,
            file_service: FileService::RoundRobin,
            file_service_requests: 1,
            overwrite: false,
            create_only: false,
            engine: IoEngine::Psync,
            iodepth: 1,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            iodepth_low: 0,
            submit_mode: SubmitMode::Inline,
            serialize_overlap: false,
            direct: false,
            invalidate: true,
            fadvise_hint: FadviseHint::Pattern,
            pre_read: false,
            sync: Sync::None,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            rate: PerDirection::all(None),
            rate_min: PerDirection::all(None),
            rate_iops: PerDirection::all(None),
            rate_iops_min: PerDirection::all(None),
            rate_process: RateProcess::Linear,
            rate_cycle: Duration::from_secs(1),
            rate_ignore_thinktime: false,
            thinktime: Thinktime {
                pause: Duration::ZERO,
                spin: Duration::ZERO,
                blocks: 1,
                blocks_type: ThinkBlocks::Complete,
                io_time: Duration::ZERO,
            },
            max_latency: None,
            latency_target: LatencyTarget::NONE,
            start_delay: (Duration::ZERO, Duration::ZERO),
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            steady_state: None,
            steady_duration: Duration::ZERO,
            steady_ramp: Duration::ZERO,
            numjobs: 1,
            stonewall: false,
            new_group: false,
            wait_for: None,
            exitall: false,
            exitall_on_error: false,
            exit_what: ExitWhat::Group,
            flow: None,
            flow_id: 0,
            flow_sleep: Duration::ZERO,
            prio: None,
            prioclass: None,
            cgroup: None,
            cgroup_weight: None,
            read_iolog: None,
            replay_no_stall: false,
            replay_redirect: None,
            replay_scale: 1,
            replay_align: None,
            replay_time_scale: 100,
            replay_skip: ReplaySkip::default(),
            verify: None,
            do_verify: true,
            verify_only: false,
            verify_backlog: None,
            verify_backlog_batch: None,
            name: None,
            group_reporting: false,
            unified_rw_reporting: UnifiedReporting::None,
            kb_base: KbBase::Binary,
        }
    }
}
