//! Maker of the requests of a pass over the files, one by one.

use std::cmp::Ordering;

use super::marks::Marks;
use super::permute::shuffled;
use super::plain::Plain;
use super::plan::{Cover, Place, Plan, READ, RandomPlace, Region, TRIM, WRITE, Zones};
use super::{Access, Step};
use crate::random::Random;
use crate::{FileService, Mix};

/// No request of this direction so far.
const NOWHERE: u64 = u64::MAX;

/// Position of a process in its files.
///
/// Fields of a plain job come first, for the others are spread over memory.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Maker {
    pub(super) random: Random,
    pub(super) plain: Option<Plain>,
    /// As `random` was at the start.
    first: Random,
    files: Box<[FileState]>,
    /// Files in use, in the order they were opened.
    open: Vec<u32>,
    /// Place in `open`, and steps before it changes.
    turn: usize,
    turn_left: u32,
    /// Requests before an offset is drawn again.
    offset_left: u32,
    writes: u64,
    /// Files that were opened in this pass.
    opened: u32,
    is_synced: bool,
    due: Ordering,
}

/// Position in one file. Offsets count from the start of the region or zone.
#[derive(Debug, Clone, Default)]
struct FileState {
    /// End and start of the last request of each direction.
    ends: [u64; 3],
    begins: [u64; 3],
    /// Position of each direction in its permutation, and the permutation's key.
    indices: [u64; 3],
    key: u64,
    /// Whether the last request trimmed what is now to be written.
    is_trimmed: bool,
    marks: Marks,
    /// Start of the present zone in the region, and bytes moved in it.
    zone: u64,
    zone_bytes: u64,
}

impl FileState {
    /// Forgets what was touched of the region or zone.
    fn begin(&mut self, random: &mut Random) {
        self.ends = [0; 3];
        self.begins = [NOWHERE; 3];
        self.indices = [0; 3];
        self.key = random.word();
        self.is_trimmed = false;
        self.marks.clear();
    }

    /// A random block of those with marks; as in fio, the next free one where it was touched, so that requests fill
    /// gaps from their start. O(log blocks).
    fn draw_free(&self, random: &mut Random, blocks: u64) -> Option<u64> {
        let free = |from| self.marks.next_free(from).filter(|block| *block < blocks);
        free(random.below(blocks)).or_else(|| free(0))
    }

    /// The next block of the permutation whose mark is free; for blocks that are longer than a mark.
    fn walk_free(
        &mut self,
        direction: usize,
        blocks: u64,
        mark: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        while self.indices[direction] < blocks {
            let block = shuffled(self.key, blocks, self.indices[direction]);
            self.indices[direction] += 1;
            if self.marks.is_free(mark(block)) {
                return Some(block);
            }
        }
        None
    }
}

impl Maker {
    pub(super) fn new(plan: &Plan, seed: u64) -> Maker {
        let random = Random::new(seed);
        let marks = |region: &Region| match &plan.place {
            Place::Random(place) => match place.cover {
                Cover::Marks { unit } => {
                    Marks::new(region.mapped(plan.zones.as_ref()).div_ceil(unit))
                }
                _ => Marks::default(),
            },
            _ => Marks::default(),
        };
        let files = plan
            .regions
            .iter()
            .map(|region| FileState { marks: marks(region), ..FileState::default() })
            .collect();
        let mut maker = Maker {
            first: random.clone(),
            random,
            plain: None,
            files,
            open: Vec::new(),
            due: Ordering::Equal,
            opened: 0,
            turn: 0,
            turn_left: 0,
            offset_left: 0,
            writes: 0,
            is_synced: false,
        };
        maker.begin_pass(plan);
        maker
    }

    pub(super) fn begin_pass(&mut self, plan: &Plan) {
        if plan.is_same_each_pass {
            self.random = self.first.clone();
        }
        for file in &mut self.files {
            file.begin(&mut self.random);
            (file.zone, file.zone_bytes) = (0, 0);
        }
        self.opened = self.files.len().min(plan.open_files) as u32;
        self.open.clear();
        self.open.extend(0..self.opened);
        self.turn = self.open.len() - 1;
        self.turn_left = 0;
        self.offset_left = 0;
        self.plain = Plain::of(plan, self.files[0].key);
    }

    #[inline]
    pub(super) fn make(&mut self, plan: &Plan) -> Option<Step> {
        if let Some(plain) = &mut self.plain {
            if let Some(step) = plain.next(&mut self.random) {
                return Some(step);
            }
            self.files[0].indices[0] = plain.index;
        }
        self.make_any(plan)
    }

    fn make_any(&mut self, plan: &Plan) -> Option<Step> {
        loop {
            let file = self.choose_file(plan)?;
            // fio chooses the file first: it syncs the file whose turn it is, and ends its turn.
            if plan.is_syncing
                && let Some(data_only) = self.sync_due(plan)
            {
                self.is_synced = true;
                return Some(Step::Sync { file, data_only });
            }
            let zone;
            let region = match &plan.zones {
                None => &plan.regions[file as usize],
                Some(zones) => {
                    zone = self.zone(plan, zones, file);
                    &zone
                }
            };
            let direction = self.choose_direction(plan, file);
            if let Some((at, bytes)) = self.place_or_begin(plan, region, file, direction) {
                let state = &mut self.files[file as usize];
                state.begins[direction] = at;
                state.ends[direction] = at + bytes;
                state.is_trimmed = direction == TRIM && plan.mix == Mix::TrimWrite;
                state.zone_bytes += bytes;
                self.is_synced = false;
                self.writes += u64::from(direction == WRITE);
                let access = [Access::Read, Access::Write, Access::Trim][direction];
                let offset = region.start + at;
                return Some(Step::Io { access, file, offset, len: bytes as u32 });
            }
            self.finish_file(plan);
        }
    }

    #[inline]
    fn choose_file(&mut self, plan: &Plan) -> Option<u32> {
        if self.open.len() <= 1 {
            return self.open.first().copied();
        }
        if self.turn_left == 0 {
            self.turn_left = plan.service_requests;
            self.turn = match plan.service {
                FileService::RoundRobin if self.turn + 1 < self.open.len() => self.turn + 1,
                FileService::RoundRobin | FileService::Sequential => 0,
                FileService::Random => self.random.below(self.open.len() as u64) as usize,
            };
        }
        self.turn_left -= 1;
        Some(self.open[self.turn])
    }

    /// The file whose turn it is has no room; the next that is not open yet takes its place at the end of the round.
    #[cold]
    fn finish_file(&mut self, plan: &Plan) {
        let turn = if self.open.len() == 1 { 0 } else { self.turn };
        self.open.remove(turn);
        if (self.opened as usize) < plan.regions.len() {
            self.open.push(self.opened);
            self.opened += 1;
        }
        // The next turn is of the file that moved up to this place.
        self.turn = if turn == 0 { self.open.len().saturating_sub(1) } else { turn - 1 };
        self.turn_left = 0;
    }

    /// Whether a sync is due, and of the data only. fio looks before each request, reads included, so that in a mix
    /// the reads after a write that was due are followed by syncs as well.
    fn sync_due(&self, plan: &Plan) -> Option<bool> {
        let is_due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
        if self.is_synced || self.writes == 0 {
            None
        } else if is_due(plan.fsync) {
            Some(false)
        } else {
            is_due(plan.fdatasync).then_some(true)
        }
    }

    #[inline]
    fn choose_direction(&mut self, plan: &Plan, file: u32) -> usize {
        match plan.mix {
            Mix::Read => READ,
            Mix::Write => WRITE,
            Mix::Trim => TRIM,
            Mix::ReadWrite => self.choose_mixed(plan),
            Mix::TrimWrite => {
                let state = &self.files[file as usize];
                let is_drawn = !matches!(plan.place, Place::Sequential { .. });
                // As in fio, writes shorter than the trims catch up with them.
                let is_written = is_drawn || state.begins[TRIM] == state.begins[WRITE];
                if is_written && !state.is_trimmed { TRIM } else { WRITE }
            }
        }
    }

    /// Direction by the shares of the mix. As in fio, if the drawn direction waits for its rate and the other waits
    /// less, it is the other, unless its share is none.
    #[inline]
    fn choose_mixed(&mut self, plan: &Plan) -> usize {
        let (drawn, other) = match plan.read_below {
            Some(below) if self.random.word() < below => (READ, WRITE),
            Some(_) => (WRITE, READ),
            None if plan.is_all_reads => return READ,
            None => return WRITE,
        };
        let is_later = if drawn == READ { Ordering::Greater } else { Ordering::Less };
        if self.due == is_later { other } else { drawn }
    }

    pub(super) fn steer(&mut self, due: Ordering) {
        self.due = due;
    }

    /// The zone of a file whose turn it is, ready for a request. O(units of a zone / 64) where it begins.
    ///
    /// As in fio, zones go on behind the region to the file's end and begin again there; each begins untouched, and
    /// does so again when all of its range has been moved.
    fn zone(&mut self, plan: &Plan, zones: &Zones, file: u32) -> Region {
        let state = &mut self.files[file as usize];
        let region = &plan.regions[file as usize];
        // A trimmed block is written before anything else.
        if !state.is_trimmed {
            if state.zone_bytes >= zones.turn {
                state.zone_bytes = 0;
                let next = state.zone.saturating_add(zones.stride);
                let is_within = next < region.file_bytes - region.start;
                state.zone = if is_within { next } else { 0 };
            }
            if state.zone_bytes.is_multiple_of(zones.range) {
                state.begin(&mut self.random);
            }
            for end in &mut state.ends {
                *end = if *end >= zones.range { 0 } else { *end };
            }
        }
        region.zone(plan, zones, state.zone)
    }

    /// As [`Maker::place`]; a random zone that was touched as a whole begins again.
    #[inline]
    fn place_or_begin(
        &mut self,
        plan: &Plan,
        region: &Region,
        file: u32,
        direction: usize,
    ) -> Option<(u64, u64)> {
        let place = self.place(plan, region, file, direction);
        let is_whole = plan.zones.is_some_and(|zones| region.bytes == zones.range);
        if place.is_some() || !is_whole || matches!(plan.place, Place::Sequential { .. }) {
            return place;
        }
        self.files[file as usize].begin(&mut self.random);
        self.place(plan, region, file, direction)
    }

    /// Offset in the region, and length; None when it has no more room.
    #[inline]
    fn place(
        &mut self,
        plan: &Plan,
        region: &Region,
        file: u32,
        direction: usize,
    ) -> Option<(u64, u64)> {
        let state = &mut self.files[file as usize];
        let sizes = &plan.sizes[direction];
        let at = match &plan.place {
            Place::Once => {
                // One permutation for all directions: each block is read or written, once.
                let index = state.indices[0];
                let blocks = region.blocks[direction];
                if index == blocks {
                    return None;
                }
                state.indices[0] += 1;
                shuffled(state.key, blocks, index) * plan.align[direction]
            }
            Place::Anywhere => self.random.below(region.blocks[direction]) * plan.align[direction],
            Place::Sequential { skip } => follow(state, region, direction, *skip)?,
            Place::Random(place) => return self.place_random(plan, place, region, file, direction),
        };
        let bytes = sizes.draw(&mut self.random, region.reach - at)?;
        Some((at, bytes))
    }

    fn place_random(
        &mut self,
        plan: &Plan,
        place: &RandomPlace,
        region: &Region,
        file: u32,
        direction: usize,
    ) -> Option<(u64, u64)> {
        let state = &mut self.files[file as usize];
        let sizes = &plan.sizes[direction];
        let is_turn = self.offset_left == 0;
        self.offset_left = if is_turn { place.requests_per_offset } else { self.offset_left } - 1;
        if plan.mix == Mix::TrimWrite && direction == WRITE {
            // The same bytes, whatever the size of writes.
            return Some((state.begins[TRIM], state.ends[TRIM] - state.begins[TRIM]));
        }
        let percent = place.percent[direction];
        let follows =
            if is_turn { percent < 100 && self.random.below(100) >= percent.into() } else { true };
        let followed = if !follows {
            None
        } else if !is_turn && place.is_identical {
            Some(if state.begins[direction] == NOWHERE { 0 } else { state.begins[direction] })
        } else {
            follow(state, region, direction, 0)
        };
        // A request that follows may run over touched blocks; at the region's end, a new offset is drawn.
        if let Some(at) = followed
            && let Some(bytes) = sizes.draw(&mut self.random, region.reach - at)
        {
            if let Cover::Marks { unit } = place.cover {
                touch(&mut state.marks, unit, at, bytes);
            }
            return Some((at, bytes));
        }
        let blocks = region.blocks[direction];
        let align = plan.align[direction];
        match place.cover {
            Cover::None => {
                let at =
                    place.distribution.draw(&mut self.random, direction, blocks, align) * align;
                Some((at, sizes.draw(&mut self.random, region.reach - at)?))
            }
            Cover::Permutation => {
                let index = state.indices[0];
                if index == blocks {
                    return None;
                }
                state.indices[0] += 1;
                let at = shuffled(state.key, blocks, index) * align;
                Some((at, sizes.draw(&mut self.random, region.reach - at)?))
            }
            Cover::Marks { unit } => {
                let at = if align == unit {
                    state.draw_free(&mut self.random, blocks)? * align
                } else {
                    state.walk_free(direction, blocks, |block| block * align / unit)? * align
                };
                let bytes = sizes.draw(&mut self.random, region.reach - at)?;
                // Cut where the next touched block begins.
                let free = state.marks.free_run(at / unit, bytes.div_ceil(unit)) * unit;
                let bytes = bytes.min(free);
                touch(&mut state.marks, unit, at, bytes);
                Some((at, bytes))
            }
        }
    }
}

fn touch(marks: &mut Marks, unit: u64, at: u64, bytes: u64) {
    let first = at / unit;
    marks.touch(first, (at + bytes).div_ceil(unit) - first);
}

/// End of the last request of this direction, and `skip` bytes further; None at the region's end.
///
/// As in fio, a walk backwards goes on at the region's end, and one forwards that would leave the file at its start.
/// A walk ends exactly at the file's end, or where it leaves a region within a longer file.
#[inline]
fn follow(state: &FileState, region: &Region, direction: usize, skip: i64) -> Option<u64> {
    let end = state.ends[direction];
    if region.start + end >= region.file_bytes {
        return None;
    }
    if skip == 0 || end == 0 {
        return Some(end).filter(|end| *end < region.reach);
    }
    let at = match end.checked_add_signed(skip) {
        Some(at) if at >= region.file_bytes => 0,
        Some(at) => at,
        None if skip < 0 => region.bytes.saturating_sub(skip.unsigned_abs()),
        None => 0,
    };
    Some(at).filter(|at| *at < region.reach)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_plain_job_makes_the_same_requests_as_the_general_maker() {
        for (options, is_plain) in [
            ("rw=randread\nbs=4k\nsize=1m\nnorandommap\n", true),
            ("rw=randwrite\nbs=3k\nba=1k\nsize=100k\nnorandommap\n", true),
            ("rw=randread\nbs=4k\nsize=100k\noffset=8k\n", true),
            ("rw=randread\nbs=4k\nsize=100k\nrandrepeat=0\n", true),
            ("rw=randtrim\nbs=8k\nsize=1m\n", true),
            ("rw=randwrite\nbs=4k\nsize=100k\nfsync=3\n", false),
            ("rw=randrw\nbs=4k\nsize=100k\n", false),
            ("rw=read\nbs=4k\nsize=100k\n", false),
            ("rw=randread\nbsrange=4k-16k\nsize=100k\nnorandommap\n", false),
        ] {
            let text = format!("[job]\nfilename=disk\n{options}");
            let jobs = crate::parse("test.fio", text.as_bytes(), &BTreeMap::new());
            let plan = Plan::new(&jobs.expect(options).jobs[0], &[2 << 20], 7).expect(options);
            let mut short = Maker::new(&plan, 7);
            let mut long = short.clone();
            assert_eq!(short.plain.is_some(), is_plain, "{options}");
            let mut passes = 0;
            for _ in 0..2000 {
                let step = short.make(&plan);
                assert_eq!(step, long.make_any(&plan), "{options}");
                if step.is_none() {
                    assert_eq!((short.make(&plan), long.make_any(&plan)), (None, None));
                    passes += 1;
                    short.begin_pass(&plan);
                    long.begin_pass(&plan);
                }
            }
            assert!(passes > 2 || options.contains("norandommap"), "{options}: {passes}");
        }
    }
}
