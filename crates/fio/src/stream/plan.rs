//! Plan of a job and its files: all that stays the same while it runs.

use super::distribution::{Distribution, Heap, Zipf, pareto_power};
use super::error::StreamError;
use super::size::Sizes;
use crate::random::{Random, splitmix64};
use crate::{
    Amount, FileService, Job, Mix, Options, Order, PerDirection, RandomDistribution, RwSequencer,
};

/// Indices of reads, writes and trims in arrays.
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const TRIM: usize = 2;

/// Most units that are marked one by one, over all files of a job: 8 MiB of bits. Above it a job whose requests vary
/// in length runs without a map, as fio does where it has no memory for one (`softrandommap`).
const MARKS_MAX: u64 = 1 << 26;

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) regions: Box<[Region]>,
    pub(super) zones: Option<Zones>,
    pub(super) mix: Mix,
    pub(super) place: Place,
    pub(super) sizes: [Sizes; 3],
    /// The shortest, by direction.
    pub(super) block_min: [u64; 3],
    /// Random offsets are multiples of it.
    pub(super) align: [u64; 3],
    /// A random word below it makes a request of a mix a read; None where all or none are.
    pub(super) read_below: Option<u64>,
    pub(super) is_all_reads: bool,
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) is_syncing: bool,
    pub(super) service: FileService,
    pub(super) service_requests: u32,
    pub(super) open_files: usize,
    /// Whether files are synced when a loop's requests are made.
    pub(super) syncs_at_end: bool,
    /// Bytes and requests of a loop, and the number of loops.
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) loops: u32,
    /// Whether passes over the region repeat until `bytes` are made.
    pub(super) is_repeating: bool,
    pub(super) is_endless: bool,
    /// Whether each pass draws the same numbers.
    pub(super) is_same_each_pass: bool,
    pub(super) block_max: u64,
    pub(super) verify: Option<VerifyPlan>,
}

/// The part of a file that the job uses, or a zone of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Latest end of a request, from the start: the region's end, unless requests of a zone run into the next.
    pub(super) reach: u64,
    pub(super) file_bytes: u64,
    /// Places where the smallest block fits, by direction.
    pub(super) blocks: [u64; 3],
}

/// The zones of `zonemode=strided`, from a region's start to its file's end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zones {
    /// Bytes moved in one before the next one's turn.
    pub(super) turn: u64,
    /// Bytes of each; the last of a file may be cut.
    pub(super) range: u64,
    /// From the start of one to that of the next.
    pub(super) stride: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Each block once, by the permutation. The plain case of random requests.
    Once,
    /// Any block. The plain case of random requests without a map.
    Anywhere,
    /// Where the last one of the direction ended, and so much further.
    Sequential {
        skip: i64,
    },
    Random(Box<RandomPlace>),
}

#[derive(Debug, Clone)]
pub(super) struct RandomPlace {
    pub(super) distribution: Distribution,
    pub(super) cover: Cover,
    /// Requests for each offset that is drawn.
    pub(super) requests_per_offset: u32,
    pub(super) is_identical: bool,
    /// Percent of the offsets that are drawn, by direction.
    pub(super) percent: [u8; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// None: any block may come again.
    None,
    /// The position in the permutation: all requests have one length and a drawn offset.
    Permutation,
    /// A bit for each so many bytes.
    Marks { unit: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct VerifyPlan {
    pub(super) backlog: Option<u64>,
    pub(super) batch: u64,
    /// In the order of offsets, each once; else in the order of the writes.
    pub(super) is_sorted: bool,
    /// `verify_only`: nothing is written, and what would have been is read.
    pub(super) is_only: bool,
}

impl Plan {
    pub(super) fn new(job: &Job, files: &[u64], seed: u64) -> Result<Plan, StreamError> {
        let options = &*job.options;
        let Options { pattern, file_service, .. } = options;
        let used = directions(pattern.mix);
        let sizes = by_direction(options.block_size())
            .map(|sizes| (Sizes::new(&sizes, options.block_unaligned), sizes.min(), sizes.max()));
        let block_max = used.iter().map(|d| sizes[*d].2).max().unwrap_or(0);
        if block_max > u64::from(u32::MAX) {
            return Err(StreamError::BlockTooLong { block: block_max, max: u32::MAX.into() });
        }
        let min = [0, 1, 2].map(|d: usize| sizes[d].1);
        let asked = by_direction(options.block_align);
        let align = [0, 1, 2].map(|d: usize| asked[d].unwrap_or(min[d]).max(1));
        let zones = Zones::of(options);
        let regions = regions(job, files, zones.as_ref(), used, min, align)?;
        zones_hold_a_block(options, zones.as_ref(), used, min)?;

        let total: u64 = regions.iter().fold(0, |sum, region| sum.saturating_add(region.bytes));
        let size = match options.size {
            Some(Amount::Bytes(size)) if !options.fill_device => size.min(total),
            _ => total,
        };
        let writes = matches!(pattern.mix, Mix::Write | Mix::ReadWrite | Mix::TrimWrite);
        let is_only = options.verify_only && writes;
        let is_endless = options.time_based && !is_only;
        let mapped: Vec<u64> = regions.iter().map(|region| region.mapped(zones.as_ref())).collect();
        let place =
            place(options, &sizes.each_ref().map(|(sizes, ..)| sizes), min, align, &mapped, seed);
        let is_syncing =
            writes && pattern.mix != Mix::TrimWrite && (options.fsync > 0 || options.fdatasync > 0);
        Ok(Plan {
            mix: pattern.mix,
            read_below: match options.read_percent {
                0 | 100.. => None,
                percent => Some(u64::MAX / 100 * u64::from(percent)),
            }
            .filter(|_| pattern.mix == Mix::ReadWrite),
            is_all_reads: options.read_percent >= 100,
            block_min: min,
            align,
            fsync: options.fsync.into(),
            fdatasync: options.fdatasync.into(),
            is_syncing: is_syncing && !is_only,
            service: *file_service,
            service_requests: options.file_service_requests.max(1),
            open_files: options.open_files.map_or(usize::MAX, |files| files.max(1) as usize),
            syncs_at_end: writes && !is_only && (options.end_fsync || options.fsync_on_close),
            bytes: match options.io_size {
                Some(amount) => amount.of(total).max(1),
                None => size,
            },
            requests: options.number_ios.unwrap_or(u64::MAX),
            loops: options.loops.max(1),
            is_repeating: options.io_size.is_some(),
            is_endless,
            is_same_each_pass: options.rand_repeat && !is_endless,
            block_max,
            verify: (writes && options.verify.is_some() && options.do_verify || is_only)
                // The end of the time ends the job: what was not read by then never is.
                .then(|| VerifyPlan {
                    backlog: options.verify_backlog,
                    batch: options.verify_backlog_batch.or(options.verify_backlog).unwrap_or(1),
                    // With rates, the writes of a mix depend on the times of requests.
                    is_sorted: is_sorted(pattern.order, &place, regions.len())
                        || pattern.mix == Mix::ReadWrite && options.has_rates(),
                    is_only,
                })
                .filter(|verify| !is_endless || verify.backlog.is_some()),
            sizes: sizes.map(|(sizes, ..)| sizes),
            regions,
            zones,
            place,
        })
    }

    pub(super) fn requests_max(&self) -> u64 {
        self.requests.saturating_mul(self.loops.into())
    }
}

impl Region {
    /// Bytes that may have to be marked one by one: its own, or those of a zone.
    pub(super) fn mapped(&self, zones: Option<&Zones>) -> u64 {
        zones.map_or(self.bytes, |zones| zones.range.min(self.file_bytes - self.start))
    }

    /// Its zone that begins `at` bytes behind its start, in one of `plan`.
    pub(super) fn zone(&self, plan: &Plan, zones: &Zones, at: u64) -> Region {
        let start = self.start + at;
        let rest = self.file_bytes - start;
        let bytes = zones.range.min(rest);
        // As in fio, a sequential request may run over the end; a drawn one stays within.
        let reach = if matches!(plan.place, Place::Sequential { .. }) { rest } else { bytes };
        let blocks = places(bytes, plan.block_min, plan.align);
        Region { start, bytes, reach, file_bytes: self.file_bytes, blocks }
    }
}

impl Zones {
    fn of(options: &Options) -> Option<Zones> {
        let turn = options.zone_size.filter(|_| options.is_strided)?;
        let range = options.zone_range.unwrap_or(turn);
        Some(Zones { turn, range, stride: range.saturating_add(options.zone_skip) })
    }
}

/// The seed of a job's numbers, different for each job and clone of a file.
pub fn job_seed(job: &Job, seed: u64) -> u64 {
    let mut state = job.options.rand_seed.unwrap_or(seed);
    let words = [job.line as u64, job.clone.into(), job.name.len() as u64];
    let name = job.name.bytes().map(u64::from);
    words.into_iter().chain(name).for_each(|word| {
        state = splitmix64(&mut state) ^ word;
    });
    splitmix64(&mut state)
}

/// The directions whose offsets a pattern draws.
fn directions(mix: Mix) -> &'static [usize] {
    match mix {
        Mix::Read => &[READ],
        Mix::Write => &[WRITE],
        Mix::Trim => &[TRIM],
        Mix::ReadWrite => &[READ, WRITE],
        Mix::TrimWrite => &[TRIM, WRITE],
    }
}

fn by_direction<T>(values: PerDirection<T>) -> [T; 3] {
    [values.read, values.write, values.trim]
}

fn regions(
    job: &Job,
    files: &[u64],
    zones: Option<&Zones>,
    used: &[usize],
    min: [u64; 3],
    align: [u64; 3],
) -> Result<Box<[Region]>, StreamError> {
    let options = &*job.options;
    if files.is_empty() {
        return Err(StreamError::NoFiles);
    }
    let region = |(file, bytes): (u32, u64)| {
        let start = job.offset(bytes);
        if start > bytes || (start == bytes && bytes > 0) {
            return Err(StreamError::OffsetBeyondFile { file, offset: start, bytes });
        }
        let rest = bytes - start;
        let length = match options.size {
            _ if options.fill_device => rest,
            None => rest,
            // With `filesize`, it says how much to do, not where; see fio's HOWTO.
            Some(Amount::Bytes(_)) if options.file_size.is_some() => rest,
            Some(Amount::Bytes(size)) => match size / files.len() as u64 {
                0 => rest,
                each => each,
            },
            Some(percent @ Amount::Percent(_)) => {
                let length = percent.of(bytes).min(rest);
                length - length % options.block_min().max(1)
            }
        };
        let end = start.saturating_add(length);
        if end > bytes {
            return Err(StreamError::RegionBeyondFile { file, end, bytes });
        }
        let block = used.iter().map(|d| min[*d]).max().unwrap_or(1);
        if block > length {
            return Err(StreamError::BlockBeyondRegion { file, block, region: length });
        }
        let mapped = zones.map_or(length, |zones| zones.range.min(length));
        zones_begin_within(options, file, mapped)?;
        let blocks = places(length, min, align);
        Ok(Region { start, bytes: length, reach: length, file_bytes: bytes, blocks })
    };
    (0..).zip(files.iter().copied()).map(region).collect()
}

/// Places in `bytes` where the smallest block fits, by direction.
fn places(bytes: u64, min: [u64; 3], align: [u64; 3]) -> [u64; 3] {
    [0, 1, 2].map(|d: usize| bytes.saturating_sub(min[d]) / align[d] + 1)
}

/// fio makes no request where random ones have no room in a zone.
fn zones_hold_a_block(
    options: &Options,
    zones: Option<&Zones>,
    used: &[usize],
    min: [u64; 3],
) -> Result<(), StreamError> {
    let Some(zones) = zones else { return Ok(()) };
    let block = used.iter().map(|d| min[*d]).max().unwrap_or(1);
    let is_random = matches!(options.pattern.order, Order::Random { .. });
    if is_random && block > zones.range {
        return Err(StreamError::BlockBeyondZone { block, zone: zones.range });
    }
    Ok(())
}

fn zones_begin_within(options: &Options, file: u32, region: u64) -> Result<(), StreamError> {
    let RandomDistribution::ZonedAbsolute(zones) = &options.random_distribution else {
        return Ok(());
    };
    for zones in zones.iter() {
        let mut begin = 0_u64;
        for zone in zones.iter() {
            if begin >= region && zone.access_percent > 0 {
                return Err(StreamError::ZoneBeyondRegion { file, begin, region });
            }
            begin = begin.saturating_add(zone.length);
        }
    }
    Ok(())
}

fn place(
    options: &Options,
    sizes: &[&Sizes; 3],
    min: [u64; 3],
    align: [u64; 3],
    mapped: &[u64],
    seed: u64,
) -> Place {
    let mix = options.pattern.mix;
    let requests_per_offset = match options.pattern.order {
        Order::Sequential { skip } => return Place::Sequential { skip },
        Order::Random { requests_per_offset } => requests_per_offset.max(1),
    };
    // A trimmed block is written where it was trimmed; nothing is drawn for the write.
    let drawn = if mix == Mix::TrimWrite { &[TRIM] } else { directions(mix) };
    let first = drawn[0];
    let is_identical = options.rw_sequencer == RwSequencer::Identical;
    let percent = by_direction(options.percentage_random);
    let all_drawn = drawn.iter().all(|d| percent[*d] >= 100);
    let is_alike =
        drawn.iter().all(|d| matches!(sizes[*d], Sizes::Fixed(bytes) if *bytes == min[first]));
    let is_unaligned = drawn.iter().any(|d| align[*d] != min[*d]);

    let unit = drawn.iter().fold(0, |unit, d| common_divisor(align[*d], unit));
    let units: u64 = mapped.iter().map(|bytes| bytes.div_ceil(unit)).fold(0, u64::saturating_add);
    // In fio, a distribution and `blockalign` each turn the map off.
    let cover = if options.no_random_map || is_unaligned {
        Cover::None
    } else if is_alike && all_drawn && (requests_per_offset == 1 || is_identical) {
        Cover::Permutation
    } else if units <= MARKS_MAX {
        Cover::Marks { unit }
    } else {
        Cover::None
    };
    let distribution = distribution(options, seed);
    if requests_per_offset == 1 && all_drawn && mix != Mix::TrimWrite {
        match (&cover, &distribution) {
            (Cover::Permutation, _) => return Place::Once,
            (Cover::None, Distribution::Uniform) => return Place::Anywhere,
            _ => {}
        }
    }
    Place::Random(Box::new(RandomPlace {
        distribution,
        cover,
        requests_per_offset,
        is_identical,
        percent,
    }))
}

fn distribution(options: &Options, seed: u64) -> Distribution {
    let mut random = Random::new(!seed);
    let heap = |random: &mut Random, center: Option<f64>| {
        let by_chance = random.fraction();
        Heap { center: center.unwrap_or(by_chance), key: random.word() }
    };
    match &options.random_distribution {
        RandomDistribution::Random => Distribution::Uniform,
        RandomDistribution::Zipf { theta, center } => {
            Distribution::Zipf { zipf: Zipf::new(*theta), heap: heap(&mut random, *center) }
        }
        RandomDistribution::Pareto { power, center } => {
            Distribution::Pareto { power: pareto_power(*power), heap: heap(&mut random, *center) }
        }
        RandomDistribution::Normal { deviation, center } => {
            Distribution::Normal { center: *center, deviation: deviation / 100.0 }
        }
        RandomDistribution::Zoned(zones) => {
            Distribution::Zoned { zones: by_direction(zones.clone()), absolute: false }
        }
        RandomDistribution::ZonedAbsolute(zones) => {
            Distribution::Zoned { zones: by_direction(zones.clone()), absolute: true }
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// With a map, and for one file written front to back, the order of the writes; else that of the offsets.
fn is_sorted(order: Order, place: &Place, files: usize) -> bool {
    match (order, place) {
        (Order::Sequential { skip }, _) => skip != 0 || files > 1,
        (_, Place::Random(random)) => random.cover == Cover::None,
        (_, Place::Anywhere) => true,
        _ => false,
    }
}
