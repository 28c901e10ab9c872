//! Pages of the cache, their states, and the order in which they are evicted.
//!
//! Pages lie in runs: neighbours of one file in one state are one entry, so a gigabyte written in order is one, and a
//! gigabyte read at random at worst as many as it has pages. A run takes some 60 bytes, 90 where the next is half a megabyte
//! away, and 210 where it is 16 away.

use std::collections::BTreeMap;

use super::places::{Place, Places};
use super::slots::Slots;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Under read. `ahead` if no reader had asked for it when it was requested.
    Reading {
        io: u64,
        ahead: bool,
    },
    /// As on the disk. `ahead` if it was read ahead and no reader has asked for it since.
    Clean {
        ahead: bool,
    },
    Dirty {
        owner: u32,
    },
    /// Under writeback. `again` if it was written meanwhile, and is dirty after that.
    Writing {
        io: u64,
        owner: u32,
        again: bool,
    },
}

/// The rest of a run from a page on, or of a gap without cached pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) state: Option<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Evicted {
    pub(super) pages: u64,
    /// Of these, pages read ahead and never asked for.
    pub(super) unused: u64,
}

#[derive(Debug, Clone)]
struct Run {
    file: u32,
    /// Pages; fits because [`super::Settings`] bounds the memory.
    len: u32,
    start: u64,
    state: State,
    /// Neighbours in the order of eviction, of clean runs.
    before: u32,
    after: u32,
}

impl Run {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// All cached pages of all files. Calls are O(log n) in the number of runs for each run that they change.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    runs: Slots<Run>,
    /// First pages of all runs, of dirty ones, and of those under writeback.
    places: Places,
    dirty: Places,
    writing: Places,
    /// Dirty pages of each file that has some.
    dirty_of: BTreeMap<u32, u64>,
    /// Pages of each owner that are dirty or under writeback.
    held_by: BTreeMap<u32, u64>,
    /// Clean runs, least recently used first; within a run the lower page goes first.
    oldest: u32,
    newest: u32,
    /// Pages: all, and by state.
    cached: u64,
    clean_pages: u64,
    dirty_pages: u64,
    writing_pages: u64,
}

impl Pages {
    pub(super) const fn new() -> Pages {
        Pages {
            runs: Slots::new(),
            places: Places::new(),
            dirty: Places::new(),
            writing: Places::new(),
            dirty_of: BTreeMap::new(),
            held_by: BTreeMap::new(),
            oldest: NONE,
            newest: NONE,
            cached: 0,
            clean_pages: 0,
            dirty_pages: 0,
            writing_pages: 0,
        }
    }

    pub(super) fn cached(&self) -> u64 {
        self.cached
    }

    pub(super) fn clean(&self) -> u64 {
        self.clean_pages
    }

    /// Pages that are dirty and not under writeback.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty_pages
    }

    /// Pages under writeback, those written meanwhile included.
    pub(super) fn writing(&self) -> u64 {
        self.writing_pages
    }

    pub(super) fn dirty_of(&self, file: u32) -> u64 {
        self.dirty_of.get(&file).copied().unwrap_or(0)
    }

    /// Pages of one owner that are dirty or under writeback.
    pub(super) fn held_by(&self, owner: u32) -> u64 {
        self.held_by.get(&owner).copied().unwrap_or(0)
    }

    /// The rest of the run that `page` is in, or the gap up to the next.
    pub(super) fn at(&self, file: u32, page: u64) -> Stretch {
        if let Some(here) = self.covering(file, page) {
            let state = Some(self.runs[here.run].state);
            return Stretch { start: page, end: here.end(), state };
        }
        let next = self.places.first_from(file, page);
        Stretch { start: page, end: next.map_or(u64::MAX, |next| next.start), state: None }
    }

    /// The first page, from `page` on, at which a run begins.
    pub(super) fn next_cached(&self, file: u32, page: u64) -> Option<u64> {
        let here = self.at(file, page);
        if here.state.is_some() {
            return Some(page);
        }
        (here.end < u64::MAX).then_some(here.end)
    }

    /// The first dirty pages of a file from `from` on, up to the end of their run.
    pub(super) fn next_dirty(&self, file: u32, from: u64) -> Option<(u64, u64, u32)> {
        let Stretch { start, end, state } = self.first_of(&self.dirty, file, from)?;
        let Some(State::Dirty { owner }) = state else {
            unreachable!("only dirty runs are listed")
        };
        Some((start, end, owner))
    }

    /// The first dirty pages of one owner, with their file. O(dirty runs).
    pub(super) fn first_dirty_of(&self, owner: u32) -> Option<(u32, u64, u64)> {
        self.dirty.iter().find_map(|index| {
            let run = &self.runs[index];
            (run.state == State::Dirty { owner }).then(|| (run.file, run.start, run.end()))
        })
    }

    /// End of the dirty pages of a file; 0 if it has none.
    pub(super) fn dirty_end(&self, file: u32) -> u64 {
        self.dirty.last_to(file, u64::MAX).map_or(0, Place::end)
    }

    /// The first pages under writeback from `from` on, up to the end of their run.
    pub(super) fn next_writing(&self, file: u32, from: u64) -> Option<Stretch> {
        self.first_of(&self.writing, file, from)
    }

    fn first_of(&self, list: &Places, file: u32, from: u64) -> Option<Stretch> {
        let here = list.last_to(file, from).filter(|here| here.end() > from);
        let here = here.or_else(|| list.first_from(file, from))?;
        let state = Some(self.runs[here.run].state);
        Some(Stretch { start: here.start.max(from), end: here.end(), state })
    }

    /// Sets the state of the pages from `start` to before `end`; `None` forgets them. Clean pages count as just used.
    pub(super) fn set(&mut self, file: u32, start: u64, end: u64, state: Option<State>) {
        debug_assert!(start < end, "pages {start} to {end}");
        let mut left = self.places.last_to(file, start);
        if let Some(Place { run: index, .. }) =
            left.filter(|here| (here.start, here.end()) == (start, end))
        {
            // The usual case: a whole run.
            self.leave_state(index);
            let Some(state) = state else { return self.forget(index) };
            self.runs[index].state = state;
            return self.enter_state(index);
        }
        let mut right = self.places.first_from(file, start);
        if left.is_some_and(|left| left.end() > start)
            || right.is_some_and(|right| right.start < end)
        {
            self.clear(file, start, end);
            left = self.places.last_to(file, start);
            right = self.places.first_from(file, start);
        }
        let Some(state) = state else { return };
        let len = u32::try_from(end - start).expect("memory is less than 2^32 pages");
        let run = self.runs.insert(Run { file, len, start, state, before: NONE, after: NONE });
        self.places.insert(file, Place { start, len, run });
        self.count(file, state, u64::from(len));
        self.enlist(run, NONE);
        let left = left.filter(|left| left.end() == start);
        let right = right.filter(|right| right.start == end);
        self.join(run, left, right);
    }

    fn clear(&mut self, file: u32, start: u64, end: u64) {
        self.split(file, start);
        self.split(file, end);
        while let Some(Place { run, .. }) =
            self.places.first_from(file, start).filter(|place| place.start < end)
        {
            self.leave_state(run);
            self.forget(run);
        }
    }

    /// Evicts up to `pages` clean pages, least recently used first.
    pub(super) fn evict(&mut self, pages: u64) -> Evicted {
        let mut gone = Evicted::default();
        while gone.pages < pages && self.oldest != NONE {
            let run = &self.runs[self.oldest];
            let (file, start, end) = (run.file, run.start, run.end());
            let end = end.min(start + (pages - gone.pages));
            gone.unused +=
                if run.state == (State::Clean { ahead: true }) { end - start } else { 0 };
            gone.pages += end - start;
            self.set(file, start, end, None);
        }
        gone
    }

    // Details.

    fn covering(&self, file: u32, page: u64) -> Option<Place> {
        self.places.last_to(file, page).filter(|place| place.end() > page)
    }

    /// Splits a run at `page`.
    fn split(&mut self, file: u32, page: u64) {
        let Some(left) = self.covering(file, page).filter(|left| left.start < page) else { return };
        let len = (left.end() - page) as u32;
        self.resize(left.run, left.len - len);
        let right = Run { len, start: page, ..self.runs[left.run].clone() };
        let run = self.runs.insert(right);
        self.places.insert(file, Place { start: page, len, run });
        self.enlist(run, left.run);
    }

    fn resize(&mut self, index: u32, len: u32) {
        let run = &mut self.runs[index];
        run.len = len;
        self.places.resize(run.file, run.start, len);
        match run.state {
            State::Dirty { .. } => self.dirty.resize(run.file, run.start, len),
            State::Writing { .. } => self.writing.resize(run.file, run.start, len),
            State::Reading { .. } | State::Clean { .. } => {}
        }
    }

    /// Adds a run to the lists and sums of its state, as just used.
    fn enter_state(&mut self, index: u32) {
        let run = &self.runs[index];
        let (file, start, end) = (run.file, run.start, run.end());
        self.count(file, run.state, end - start);
        self.enlist(index, NONE);
        let left = start.checked_sub(1).and_then(|page| self.covering(file, page));
        let right = self.places.get(file, end);
        self.join(index, left, right);
    }

    /// Removes a run from the lists and sums of its state.
    fn leave_state(&mut self, index: u32) {
        self.delist(index);
        let run = &self.runs[index];
        self.discount(run.file, run.state, u64::from(run.len));
    }

    fn forget(&mut self, index: u32) {
        let run = self.runs.remove(index);
        self.places.remove(run.file, run.start);
    }

    /// Joins a run with equal neighbours. Clean runs must also follow each other in the order of eviction.
    fn join(&mut self, mut index: u32, left: Option<Place>, right: Option<Place>) {
        if let Some(left) = left.filter(|left| self.are_alike(left.run, index)) {
            self.absorb(left.run, index);
            index = left.run;
        }
        if let Some(right) = right.filter(|right| self.are_alike(index, right.run)) {
            self.absorb(index, right.run);
        }
    }

    /// Whether two runs are equal, of which the right one begins where the left one ends.
    fn are_alike(&self, left: u32, right: u32) -> bool {
        let (a, b) = (&self.runs[left], &self.runs[right]);
        let in_turn = !matches!(a.state, State::Clean { .. }) || a.after == right;
        a.state == b.state && in_turn
    }

    fn absorb(&mut self, left: u32, right: u32) {
        self.delist(right);
        let len = self.runs[right].len;
        self.forget(right);
        self.resize(left, self.runs[left].len + len);
    }

    /// Adds a run to the list of its state: a clean one behind `left`, or at the end if there is none.
    fn enlist(&mut self, index: u32, left: u32) {
        let run = &self.runs[index];
        let place = Place { start: run.start, len: run.len, run: index };
        match run.state {
            State::Reading { .. } => {}
            State::Dirty { .. } => self.dirty.insert(run.file, place),
            State::Writing { .. } => self.writing.insert(run.file, place),
            State::Clean { .. } => {
                let before = if left == NONE { self.newest } else { left };
                let after = match before {
                    NONE => std::mem::replace(&mut self.oldest, index),
                    _ => std::mem::replace(&mut self.runs[before].after, index),
                };
                match after {
                    NONE => self.newest = index,
                    _ => self.runs[after].before = index,
                }
                let run = &mut self.runs[index];
                (run.before, run.after) = (before, after);
            }
        }
    }

    fn delist(&mut self, index: u32) {
        let run = &self.runs[index];
        match run.state {
            State::Reading { .. } => {}
            State::Dirty { .. } => self.dirty.remove(run.file, run.start),
            State::Writing { .. } => self.writing.remove(run.file, run.start),
            State::Clean { .. } => {
                let (before, after) = (run.before, run.after);
                match before {
                    NONE => self.oldest = after,
                    _ => self.runs[before].after = after,
                }
                match after {
                    NONE => self.newest = before,
                    _ => self.runs[after].before = before,
                }
            }
        }
    }

    fn count(&mut self, file: u32, state: State, pages: u64) {
        self.cached += pages;
        if let State::Dirty { owner } | State::Writing { owner, .. } = state {
            *self.held_by.entry(owner).or_insert(0) += pages;
        }
        match state {
            State::Reading { .. } => {}
            State::Clean { .. } => self.clean_pages += pages,
            State::Writing { .. } => self.writing_pages += pages,
            State::Dirty { .. } => {
                self.dirty_pages += pages;
                *self.dirty_of.entry(file).or_insert(0) += pages;
            }
        }
    }

    fn discount(&mut self, file: u32, state: State, pages: u64) {
        self.cached -= pages;
        if let State::Dirty { owner } | State::Writing { owner, .. } = state {
            let left = self.held_by.get_mut(&owner).expect("counted when it became dirty");
            *left -= pages;
            if *left == 0 {
                self.held_by.remove(&owner);
            }
        }
        match state {
            State::Reading { .. } => {}
            State::Clean { .. } => self.clean_pages -= pages,
            State::Writing { .. } => self.writing_pages -= pages,
            State::Dirty { .. } => {
                self.dirty_pages -= pages;
                let left = self.dirty_of.get_mut(&file).expect("counted when it became dirty");
                *left -= pages;
                if *left == 0 {
                    self.dirty_of.remove(&file);
                }
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, Stretch)> {
        self.places.iter().map(|index| {
            let run = &self.runs[index];
            (run.file, Stretch { start: run.start, end: run.end(), state: Some(run.state) })
        })
    }

    /// Invariants. O(n log n).
    pub(super) fn check(&self) -> Result<(), String> {
        let mut seen = Pages::new();
        let mut last: Option<(u32, u64)> = None;
        let mut clean_runs = 0;
        for index in self.places.iter() {
            let run = &self.runs[index];
            let (file, start) = (run.file, run.start);
            let place = Some(Place { start, len: run.len, run: index });
            if self.places.get(file, start) != place || run.len == 0 {
                return Err(format!("file {file}: page {start} does not lead to {run:?}"));
            }
            if last.is_some_and(|last| (file, start) < last) {
                return Err(format!("file {file}: two runs hold page {start}"));
            }
            last = Some((file, run.end()));
            seen.count(file, run.state, u64::from(run.len));
            let lists = (self.dirty.get(file, start), self.writing.get(file, start));
            let wanted = match run.state {
                State::Dirty { .. } => (place, None),
                State::Writing { .. } => (None, place),
                _ => (None, None),
            };
            if lists != wanted {
                return Err(format!("file {file}: {run:?} is listed as {lists:?}"));
            }
            clean_runs += usize::from(matches!(run.state, State::Clean { .. }));
        }
        let books = (self.cached, self.clean_pages, self.dirty_pages, self.writing_pages);
        let counted = (seen.cached, seen.clean_pages, seen.dirty_pages, seen.writing_pages);
        if books != counted || self.dirty_of != seen.dirty_of {
            return Err(format!("pages {counted:?}, booked {books:?}"));
        }
        let [places, dirty, writing] =
            [&self.places, &self.dirty, &self.writing].map(Places::count);
        if places != self.runs.len() || dirty + writing > places {
            return Err(format!("{} runs, {places} places", self.runs.len()));
        }
        let (mut at, mut before, mut listed) = (self.oldest, NONE, 0);
        while at != NONE {
            let run = &self.runs[at];
            if run.before != before || !matches!(run.state, State::Clean { .. }) {
                return Err(format!("{run:?} is among the clean, after {before}"));
            }
            listed += 1;
            (before, at) = (at, run.after);
        }
        if (listed, before) != (clean_runs, self.newest) {
            return Err(format!("{clean_runs} clean runs, {listed} listed up to {before}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Option<State> = Some(State::Clean { ahead: false });

    fn dirty(owner: u32) -> Option<State> {
        Some(State::Dirty { owner })
    }

    /// All runs as `start-end` with a letter for the state.
    fn picture(pages: &Pages) -> String {
        pages.check().unwrap();
        let runs = pages.all().map(|(file, run)| {
            let letter = match run.state.unwrap() {
                State::Reading { .. } => "r".into(),
                State::Clean { ahead: false } => "c".into(),
                State::Clean { ahead: true } => "a".into(),
                State::Dirty { owner } => format!("d{owner}"),
                State::Writing { .. } => "w".into(),
            };
            format!("{file}:{}-{}{letter}", run.start, run.end)
        });
        runs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn neighbours_in_one_state_are_one_run() {
        let mut pages = Pages::new();
        for page in 0..1000 {
            pages.set(1, page, page + 1, dirty(7));
        }
        assert_eq!(picture(&pages), "1:0-1000d7");
        pages.set(1, 10, 20, dirty(8));
        assert_eq!(picture(&pages), "1:0-10d7 1:10-20d8 1:20-1000d7");
        pages.set(1, 5, 30, dirty(7));
        assert_eq!(picture(&pages), "1:0-1000d7");
        pages.set(2, 1000, 1001, dirty(7));
        pages.set(1, 0, 999, None);
        assert_eq!(picture(&pages), "1:999-1000d7 2:1000-1001d7");
        assert_eq!((pages.dirty_of(1), pages.dirty_of(2), pages.dirty_of(3)), (1, 1, 0));
        assert_eq!((pages.dirty_end(1), pages.dirty_end(3)), (1000, 0));
    }

    #[test]
    fn the_least_recently_used_page_is_evicted_first() {
        let mut pages = Pages::new();
        pages.set(1, 0, 10, CLEAN);
        pages.set(1, 10, 20, CLEAN);
        assert_eq!(picture(&pages), "1:0-20c");
        // Use of a page in the middle splits the run.
        pages.set(1, 5, 6, CLEAN);
        assert_eq!(picture(&pages), "1:0-5c 1:5-6c 1:6-20c");
        assert_eq!(pages.evict(7), Evicted { pages: 7, unused: 0 });
        assert_eq!(picture(&pages), "1:5-6c 1:8-20c");
        // Reading it all in order makes it one again.
        for page in 5..20 {
            pages.set(1, page, page + 1, CLEAN);
        }
        assert_eq!(picture(&pages), "1:5-20c");
        pages.set(1, 20, 22, Some(State::Clean { ahead: true }));
        pages.set(1, 22, 23, dirty(1));
        assert_eq!(pages.evict(100), Evicted { pages: 17, unused: 2 });
        assert_eq!(picture(&pages), "1:22-23d1");
    }

    #[test]
    fn dirty_pages_are_found_by_file_and_owner() {
        let mut pages = Pages::new();
        pages.set(1, 3, 6, dirty(1));
        pages.set(1, 6, 8, dirty(2));
        pages.set(1, 0, 3, CLEAN);
        pages.set(2, 0, 1, dirty(1));
        let writing = Some(State::Writing { io: 9, owner: 1, again: false });
        pages.set(1, 4, 5, writing);
        assert_eq!(pages.next_dirty(1, 0), Some((3, 4, 1)));
        assert_eq!(pages.next_dirty(1, 4), Some((5, 6, 1)));
        assert_eq!(pages.next_dirty(1, 7), Some((7, 8, 2)));
        assert_eq!(pages.next_dirty(1, 8), None);
        let stretch = Stretch { start: 4, end: 5, state: writing };
        assert_eq!(pages.next_writing(1, 0), Some(stretch));
        assert_eq!(pages.next_writing(1, 5), None);
        assert_eq!(pages.at(1, 9), Stretch { start: 9, end: u64::MAX, state: None });
        assert_eq!(pages.at(1, 1), Stretch { start: 1, end: 3, state: CLEAN });
        assert_eq!((pages.next_cached(2, 0), pages.next_cached(2, 1)), (Some(0), None));
    }
}
