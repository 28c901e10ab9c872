//! Layout of the jobs' files on the disk.

use std::collections::BTreeMap;

use weir_fio::random::Random;
use weir_fio::stream::job_seed;
use weir_fio::{Amount, Files, IoEngine, Job, JobFile};

use crate::scenario::ScenarioError;

/// Alignment of files, as file systems place large ones.
const ALIGN: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileAt {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Its number among all files, and its id in the page cache.
    pub(super) id: u32,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) of_job: Vec<Vec<FileAt>>,
    /// Sizes by [`FileAt::id`].
    pub(super) sizes: Vec<u64>,
    /// Jobs without a size, which get the whole disk.
    pub(super) unsized_jobs: u32,
}

/// Lays files out one behind the other, in the order in which jobs name them. A device (`/dev/...`), an NBD export
/// and a file without a size are the whole disk.
///
/// Random sizes of `filesize` come from `seed`.
pub(super) fn lay_out(jobs: &JobFile, disk_bytes: u64, seed: u64) -> Result<Layout, ScenarioError> {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    // None is the whole disk.
    let mut sizes: Vec<Option<u64>> = Vec::new();
    let mut of_job = Vec::with_capacity(jobs.jobs.len());
    let mut unsized_jobs = 0;
    for job in &jobs.jobs {
        let named = file_names(job);
        let count = named.len() as u64;
        let mut bytes = if is_device(job, &named) { None } else { FileBytes::of(job, count, seed) };
        let asks_for_none = is_device(job, &named) || job.options.read_iolog.is_some();
        unsized_jobs += u32::from(bytes.is_none() && !asks_for_none);
        let mut files = Vec::with_capacity(named.len());
        for name in named {
            let size = bytes.as_mut().map(FileBytes::next);
            let key = if size.is_none() { String::new() } else { name };
            let at = *names.entry(key).or_insert_with(|| {
                sizes.push(Some(0));
                sizes.len() - 1
            });
            sizes[at] = match (sizes[at], size) {
                (Some(before), Some(now)) => Some(before.max(now)),
                _ => None,
            };
            files.push(at);
        }
        of_job.push(files);
    }
    let mut at = 0u64;
    let mut places = Vec::with_capacity(sizes.len());
    for (id, size) in sizes.iter().enumerate() {
        let id = id as u32;
        places.push(match *size {
            None => FileAt { start: 0, len: disk_bytes, id },
            Some(len) => {
                let start = at;
                at = at.saturating_add(len.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX));
                FileAt { start, len, id }
            }
        });
    }
    let files_bytes: u64 = sizes.iter().flatten().fold(0, |sum, &size| sum.saturating_add(size));
    let overlaps = places.iter().any(|file| file.start.saturating_add(file.len) > disk_bytes);
    if overlaps {
        return Err(ScenarioError::FilesTooLarge { files_bytes: files_bytes.max(at), disk_bytes });
    }
    let of_job =
        of_job.into_iter().map(|files| files.into_iter().map(|at| places[at]).collect()).collect();
    Ok(Layout { of_job, sizes: places.iter().map(|file| file.len).collect(), unsized_jobs })
}

fn is_device(job: &Job, names: &[String]) -> bool {
    job.options.engine == IoEngine::Nbd || names.iter().any(|name| name.starts_with("/dev/"))
}

fn file_names(job: &Job) -> Vec<String> {
    let count = match job.files() {
        Files::Named(names) => names.len() as u32,
        Files::Made { count, .. } => count,
    };
    let directory = job.options.directory.as_deref();
    (0..count)
        .filter_map(|index| job.file_name(index))
        .map(|name| match directory {
            Some(directory) if !name.starts_with('/') => format!("{directory}/{name}"),
            _ => name,
        })
        .collect()
}

#[derive(Debug)]
enum FileBytes {
    Alike(u64),
    /// Random, between the two of `filesize`, both included: multiples of `unit`, but not below the smaller.
    Between {
        least: u64,
        most: u64,
        unit: u64,
        random: Random,
    },
}

impl FileBytes {
    /// None if the job gives no size.
    fn of(job: &Job, count: u64, seed: u64) -> Option<FileBytes> {
        let options = &job.options;
        match (options.file_size, options.size) {
            (Some((least, most)), _) if least < most => {
                // Not the numbers of the job's requests.
                let random = Random::new(!job_seed(job, seed));
                Some(FileBytes::Between { least, most, unit: options.block_min().max(1), random })
            }
            (Some((_, most)), _) => Some(FileBytes::Alike(most)),
            (None, Some(Amount::Bytes(size))) => {
                Some(FileBytes::Alike(job.bytes_around((size / count.max(1)).max(1))))
            }
            (None, _) => None,
        }
    }

    fn next(&mut self) -> u64 {
        match self {
            FileBytes::Alike(bytes) => *bytes,
            FileBytes::Between { least, most, unit, random } => {
                let bytes = *least + random.below((*most - *least).saturating_add(1));
                (bytes - bytes % *unit).max(*least)
            }
        }
    }
}
