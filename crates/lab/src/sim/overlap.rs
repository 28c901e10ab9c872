//! `serialize_overlap`: requests for the same bytes are never in flight together.

use std::collections::BTreeMap;

use weir_fio::{Mix, Options, SubmitMode};

/// Scope of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlapping {
    /// Requests of the process itself.
    Own,
    /// Requests of all jobs that submit from threads (`io_submit_mode=offload`).
    Shared,
}

impl Overlapping {
    /// None without the option, and, as in fio, where no race is possible: without writes or trims, or at depth 1.
    pub(super) fn of(options: &Options, depth: u32) -> Option<Overlapping> {
        let is_shared = options.submit_mode == SubmitMode::Offload;
        let can_race = is_shared || depth > 1 && options.pattern.mix != Mix::Read;
        (options.serialize_overlap && can_race).then_some(match is_shared {
            true => Overlapping::Shared,
            false => Overlapping::Own,
        })
    }
}

/// Ranges in flight of jobs with the option.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// First byte and the one after the last, on the disk; by process, or under None for the shared scope.
    ranges: BTreeMap<Option<u32>, Vec<(u64, u64)>>,
    waiting: Vec<u32>,
}

impl Overlaps {
    /// True if the request may go, which is in flight then. O(requests in flight).
    pub(super) fn enter(&mut self, process: u32, with: Overlapping, start: u64, len: u32) -> bool {
        let end = start + u64::from(len);
        let ranges = self.ranges.entry(key(process, with)).or_default();
        let is_clear = ranges.iter().all(|range| range.1 <= start || end <= range.0);
        if is_clear {
            ranges.push((start, end));
        } else if with == Overlapping::Shared && !self.waiting.contains(&process) {
            self.waiting.push(process);
        }
        is_clear
    }

    /// A request has ended. Processes that waited for others' are put into `freed`; they ask again.
    pub(super) fn leave(
        &mut self,
        process: u32,
        with: Overlapping,
        start: u64,
        len: u32,
        freed: &mut Vec<u32>,
    ) {
        let range = (start, start + u64::from(len));
        if let Some(ranges) = self.ranges.get_mut(&key(process, with))
            && let Some(at) = ranges.iter().position(|known| *known == range)
        {
            ranges.swap_remove(at);
        }
        freed.append(&mut self.waiting);
    }
}

fn key(process: u32, with: Overlapping) -> Option<u32> {
    (with == Overlapping::Own).then_some(process)
}
