//! Segments of the read buffer: the one being read ahead, and earlier ones.

use alloc::vec::Vec;

use super::geometry::Geometry;

/// Reading ahead: `from` begins to pass at `time`, and everything since `start` is in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) start: u64,
    pub(super) from: u64,
    pub(super) time: u128,
    /// Reading stops here.
    pub(super) limit: u64,
}

impl Ahead {
    /// When the heads have read up to the limit.
    pub(super) fn stopped(&self, geometry: &Geometry) -> u128 {
        let count = self.limit.saturating_sub(self.from);
        geometry.pass(self.time, geometry.track(self.from), self.from, count)
    }

    /// The first sector that has not passed at `now`.
    pub(super) fn reached(&self, geometry: &Geometry, now: u128) -> u64 {
        geometry.reached(self.time, self.from, self.limit, now)
    }
}

/// Finished segments, as first and end, the most recently used first.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    left: Vec<(u64, u64)>,
    count: usize,
}

impl Segments {
    /// `count` of them.
    pub(super) fn new(count: usize) -> Segments {
        Segments { left: Vec::with_capacity(count), count }
    }

    /// Ends the current segment at `now`.
    pub(super) fn leave(&mut self, ahead: Ahead, geometry: &Geometry, now: u128) {
        let end = ahead.reached(geometry, now);
        if self.count == 0 || end <= ahead.start {
            return;
        }
        self.left.truncate(self.count - 1);
        self.left.insert(0, (ahead.start, end));
    }

    /// The segment with a sector.
    pub(super) fn find(&self, lba: u64) -> Option<(u64, u64)> {
        self.left.iter().copied().find(|(first, end)| *first <= lba && lba < *end)
    }

    /// The segment with a sector, marked as used.
    pub(super) fn touch(&mut self, lba: u64) {
        let found = self.left.iter().position(|(first, end)| *first <= lba && lba < *end);
        if let Some(index) = found {
            self.left[..=index].rotate_right(1);
        }
    }

    /// Invalidates written sectors.
    pub(super) fn forget(&mut self, lba: u64, sectors: u64) {
        self.left.retain(|(first, end)| *end <= lba || lba + sectors <= *first);
    }
}
