//! Flusher: order of writeback, and expiry of old dirty pages.

use std::collections::{BTreeMap, BTreeSet};

use super::pages::Pages;

/// Pages of one file that the flusher writes before the next file: 4 MiB, as Linux at least.
const VISIT_PAGES: u64 = 1024;

/// A pass through a file, up to the end of its dirty pages when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pass {
    cursor: u64,
    end: u64,
    began_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DirtyFile {
    /// Files take turns in this order.
    turn: u64,
    /// No page has been dirty for longer, except in a pass that has begun.
    since_ns: u64,
    /// Expired: it is written even below the limits.
    due: bool,
    pass: Option<Pass>,
}

/// Neighbouring dirty pages of one owner, to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) file: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) owner: u32,
}

/// Files with dirty pages, by age and by turn.
#[derive(Debug, Clone)]
pub(super) struct Flusher {
    expire_ns: u64,
    interval_ns: u64,
    files: BTreeMap<u32, DirtyFile>,
    /// By turn: all of them, and those that are due.
    turns: BTreeSet<(u64, u32)>,
    due: BTreeSet<(u64, u32)>,
    /// By age: those that are not due yet.
    ages: BTreeSet<(u64, u32)>,
    last_turn: u64,
    /// The present file, and pages that may still be written of it in this visit.
    visit: Option<(u32, u64)>,
    timer_ns: Option<u64>,
}

impl Flusher {
    pub(super) const fn new(expire_ns: u64, interval_ns: u64) -> Flusher {
        Flusher {
            expire_ns,
            interval_ns,
            files: BTreeMap::new(),
            turns: BTreeSet::new(),
            due: BTreeSet::new(),
            ages: BTreeSet::new(),
            last_turn: 0,
            visit: None,
            timer_ns: None,
        }
    }

    /// Next time to look for expired data. None while nothing is dirty.
    pub(super) fn timer_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    /// A file has dirty pages, possibly since `since_ns`.
    pub(super) fn note(&mut self, now_ns: u64, file: u32, since_ns: u64) {
        if let Some(known) = self.files.get_mut(&file) {
            if since_ns < known.since_ns {
                if !known.due {
                    self.ages.remove(&(known.since_ns, file));
                    self.ages.insert((since_ns, file));
                }
                known.since_ns = since_ns;
            }
            return;
        }
        self.last_turn += 1;
        let turn = self.last_turn;
        self.files.insert(file, DirtyFile { turn, since_ns, due: false, pass: None });
        self.turns.insert((turn, file));
        self.ages.insert((since_ns, file));
        if self.timer_ns.is_none() && self.interval_ns > 0 {
            self.timer_ns = Some(now_ns.saturating_add(self.interval_ns));
        }
    }

    pub(super) fn forget(&mut self, file: u32) {
        let Some(gone) = self.files.remove(&file) else { return };
        self.turns.remove(&(gone.turn, file));
        self.due.remove(&(gone.turn, file));
        self.ages.remove(&(gone.since_ns, file));
        if self.files.is_empty() {
            self.timer_ns = None;
        }
    }

    /// Marks expired files, if it is time.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if self.timer_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        self.timer_ns = Some(now_ns.saturating_add(self.interval_ns));
        let Some(oldest_ns) = now_ns.checked_sub(self.expire_ns) else { return };
        while let Some(&(since_ns, file)) =
            self.ages.first().filter(|(at_ns, _)| *at_ns <= oldest_ns)
        {
            self.ages.remove(&(since_ns, file));
            let expired = self.files.get_mut(&file).expect("files by age are dirty");
            // From the beginning again: pages behind a pass that has begun may be as old.
            (expired.due, expired.pass) = (true, None);
            self.due.insert((expired.turn, file));
        }
    }

    /// The next pages to write, at most `chunk`: of a file that is due, or of any if there is `too_much`. Before the
    /// next call the caller puts them under writeback, and calls [`Flusher::forget`] if the file has no more.
    pub(super) fn next(
        &mut self,
        now_ns: u64,
        pages: &Pages,
        too_much: bool,
        chunk: u64,
    ) -> Option<Portion> {
        loop {
            let (file, left) = self.choose(too_much)?;
            let at = self.files.get_mut(&file).expect("only dirty files are chosen");
            let begin = || Pass { cursor: 0, end: pages.dirty_end(file), began_ns: now_ns };
            let pass = at.pass.get_or_insert_with(begin);
            let found = pages.next_dirty(file, pass.cursor).filter(|found| found.0 < pass.end);
            let Some((start, end, owner)) = found else {
                let began_ns = pass.began_ns;
                self.finish(file, began_ns);
                continue;
            };
            let end = end.min(start.saturating_add(chunk));
            pass.cursor = end;
            let left = left.saturating_sub(end - start);
            self.visit = Some((file, left));
            if left == 0 {
                self.requeue(file);
            }
            return Some(Portion { file, start, end, owner });
        }
    }

    /// The file to write, and pages of it in this visit.
    fn choose(&self, too_much: bool) -> Option<(u32, u64)> {
        let may = |file: u32| self.files.get(&file).is_some_and(|file| file.due || too_much);
        if let Some(visit) = self.visit.filter(|&(file, _)| may(file)) {
            return Some(visit);
        }
        let next = self.due.first().or(if too_much { self.turns.first() } else { None });
        next.map(|&(_, file)| (file, VISIT_PAGES))
    }

    /// A pass is over. Pages that are dirty now became so after it began.
    fn finish(&mut self, file: u32, began_ns: u64) {
        self.requeue(file);
        let at = self.files.get_mut(&file).expect("it was visited");
        self.due.remove(&(at.turn, file));
        self.ages.remove(&(at.since_ns, file));
        *at = DirtyFile { since_ns: began_ns, due: false, pass: None, ..*at };
        self.ages.insert((began_ns, file));
    }

    /// Ends the visit: this file has its next turn after all others.
    fn requeue(&mut self, file: u32) {
        self.visit = None;
        let at = self.files.get_mut(&file).expect("it was visited");
        self.turns.remove(&(at.turn, file));
        let was_due = self.due.remove(&(at.turn, file));
        self.last_turn += 1;
        at.turn = self.last_turn;
        self.turns.insert((at.turn, file));
        if was_due {
            self.due.insert((at.turn, file));
        }
    }

    /// Invariants besides those of [`Pages::check`].
    pub(super) fn check(&self, dirty_files: &BTreeSet<u32>) -> Result<(), String> {
        if !self.files.keys().eq(dirty_files) {
            return Err(format!("{dirty_files:?} are dirty, the flusher knows {:?}", self.files));
        }
        for (&file, at) in &self.files {
            let lists = (
                self.turns.contains(&(at.turn, file)),
                self.due.contains(&(at.turn, file)),
                self.ages.contains(&(at.since_ns, file)),
            );
            if lists != (true, at.due, !at.due) {
                return Err(format!("file {file}: {at:?} is listed as {lists:?}"));
            }
        }
        if self.turns.len() != self.files.len()
            || self.due.len() + self.ages.len() != self.files.len()
        {
            return Err(format!("lists have files that are not dirty: {self:?}"));
        }
        if self.timer_ns.is_some() == (self.files.is_empty() || self.interval_ns == 0) {
            return Err(format!("{} dirty files, timer {:?}", self.files.len(), self.timer_ns));
        }
        Ok(())
    }
}
