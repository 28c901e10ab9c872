//! History of a device: requests by their times, and the values of a byte that they allow.

/// What an operation does to the bytes of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// They have this value.
    Is(u8),
    /// They have any value.
    Anything,
}

/// One write of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Cells: the first, and the one after the last.
    pub(crate) cells: std::ops::Range<usize>,
    effect: Effect,
    began: u64,
    /// When it was answered; never if it has failed, so that it may have come to pass at any time, or not.
    ended: Option<u64>,
    is_durable: bool,
    /// Per cell: a read that ended then has seen it, so it had come to pass.
    seen: Vec<Option<u64>>,
}

/// All writes since the beginning, with the one that was there before.
pub(crate) struct History {
    pub(crate) writes: Vec<Write>,
}

impl Write {
    fn covers(&self, cell: usize) -> bool {
        self.cells.contains(&cell)
    }

    /// When it had come to pass in a cell.
    fn effective(&self, cell: usize) -> Option<u64> {
        let seen = self.seen[cell - self.cells.start];
        self.ended.into_iter().chain(seen).min()
    }
}

impl History {
    pub(crate) fn new(cells: usize, value: u8) -> History {
        let first = Write {
            cells: 0..cells,
            effect: Effect::Is(value),
            began: 0,
            ended: Some(0),
            is_durable: true,
            seen: vec![None; cells],
        };
        History { writes: vec![first] }
    }

    pub(crate) fn begin(
        &mut self,
        now: u64,
        cells: std::ops::Range<usize>,
        effect: Effect,
    ) -> usize {
        let seen = vec![None; cells.len()];
        self.writes.push(Write { cells, effect, began: now, ended: None, is_durable: false, seen });
        self.writes.len() - 1
    }

    pub(crate) fn end(&mut self, now: u64, write: usize, is_durable: bool) {
        self.writes[write].ended = Some(now);
        self.writes[write].is_durable = is_durable;
    }

    /// A flush of a range of cells that began at `began` has ended well.
    pub(crate) fn flushed(&mut self, began: u64, cells: &std::ops::Range<usize>) {
        for write in &mut self.writes {
            let is_inside = cells.start <= write.cells.start && write.cells.end <= cells.end;
            write.is_durable |= is_inside && write.ended.is_some_and(|ended| ended < began);
        }
    }

    /// Writes that may be what a cell shows: those which no other, that must have come later, hides.
    fn visible(&self, cell: usize, is_settled: impl Fn(&Write) -> bool) -> Vec<usize> {
        let there: Vec<usize> =
            (0..self.writes.len()).filter(|&index| self.writes[index].covers(cell)).collect();
        let is_hidden = |index: usize| {
            let Some(passed) = self.writes[index].effective(cell) else { return false };
            there.iter().any(|&other| {
                let other = &self.writes[other];
                is_settled(other) && passed < other.began
            })
        };
        there.iter().copied().filter(|&index| !is_hidden(index)).collect()
    }

    /// A read from `began` to `ended` has found `value` in a cell.
    pub(crate) fn check_read(&mut self, began: u64, ended: u64, cell: usize, value: u8) {
        let visible =
            self.visible(cell, |write| write.effective(cell).is_some_and(|passed| passed < began));
        let shows = |index: &&usize| match self.writes[**index].effect {
            Effect::Is(it) => it == value,
            Effect::Anything => true,
        };
        let found: Vec<usize> = visible.iter().filter(shows).copied().collect();
        assert!(!found.is_empty(), "cell {cell} reads {value}, of {:?}", self.tell(&visible));
        if let [only] = found[..]
            && self.writes[only].effect == Effect::Is(value)
        {
            let write = &mut self.writes[only];
            let seen = &mut write.seen[cell - write.cells.start];
            *seen = Some(seen.map_or(ended, |before| before.min(ended)));
        }
    }

    /// After a loss of power a cell has `value`.
    pub(crate) fn check_kept(&self, cell: usize, value: u8) {
        let visible = self.visible(cell, |write| write.is_durable);
        let shows = |&index: &usize| match self.writes[index].effect {
            Effect::Is(it) => it == value,
            Effect::Anything => true,
        };
        assert!(
            visible.iter().any(shows),
            "cell {cell} kept {value}, of {:?}",
            self.tell(&visible)
        );
    }

    fn tell(&self, writes: &[usize]) -> Vec<&Write> {
        writes.iter().map(|&index| &self.writes[index]).collect()
    }
}
