//! Which parts of a region have been touched, a bit each.

/// A bit for each unit of a region.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Box<[u64]>);

impl Marks {
    /// None of `units` touched.
    pub(super) fn new(units: u64) -> Marks {
        Marks(vec![0; units.div_ceil(64) as usize].into())
    }

    /// All untouched again.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(super) fn is_free(&self, unit: u64) -> bool {
        self.0[(unit / 64) as usize] >> (unit % 64) & 1 == 0
    }

    /// How many of the `count` units from `first` on are free in a row, from the first.
    pub(super) fn free_run(&self, first: u64, count: u64) -> u64 {
        (0..count).find(|more| !self.is_free(first + more)).unwrap_or(count)
    }

    /// Touches `count` units. Those beyond the last are a part of a unit at the region's end, which is never drawn.
    pub(super) fn touch(&mut self, first: u64, count: u64) {
        for unit in first..first + count {
            if let Some(word) = self.0.get_mut((unit / 64) as usize) {
                *word |= 1 << (unit % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn runs() {
        let mut marks = Marks::new(130);
        assert_eq!(marks.free_run(0, 130), 130);
        marks.touch(60, 10);
        assert_eq!(marks.free_run(0, 130), 60);
        assert_eq!(marks.free_run(60, 5), 0);
        assert_eq!(marks.free_run(70, 60), 60);
        marks.touch(120, 1000);
        assert_eq!(marks.free_run(70, 60), 50);
        marks.clear();
        assert_eq!(marks.free_run(0, 130), 130);
    }
}
