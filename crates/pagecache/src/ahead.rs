//! Read-ahead: detection of sequential readers, and their windows.
//!
//! In Linux each open file remembers one place. The cache here knows owner and file of a read, not the descriptor. So it
//! remembers several places for each owner and file, and a read belongs to the one it fits.

/// Pages of the largest usual window, and of the largest request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) window: u64,
    pub(super) request: u64,
}

/// Most windows of one reader in one file; the least recently used is dropped.
const WINDOWS_MAX: usize = 8;

/// Recent ends of reads, by which the second read of a sequence is found.
const RECENT_MAX: usize = 4;

/// Pages read for a sequential reader: `len` from `start` on, of which the last `ahead` were not asked for yet. When
/// the reader comes to the first of these (the mark), the next window is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    start: u64,
    len: u64,
    ahead: u64,
    used: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    fn mark(&self) -> u64 {
        self.end() - self.ahead
    }
}

/// Advice on access to a file (`posix_fadvise`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// None: the order is detected.
    #[default]
    Normal,
    /// Sequential: windows are twice as large.
    Sequential,
    /// Random: no read-ahead.
    Random,
}

/// Reads of one owner in one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Reader {
    pub(super) advice: Advice,
    windows: Vec<Window>,
    /// Pages after the last of recent reads.
    recent: Vec<u64>,
    clock: u64,
}

impl Reader {
    /// A read of the pages from `first` to before `end` arrives. Returns whether it continues an earlier one, or
    /// begins in that one's last page.
    pub(super) fn arrives(&mut self, first: u64, end: u64) -> bool {
        let before = self.recent.iter().position(|&at| at == first || at == first + 1);
        match before {
            Some(before) => {
                self.recent.remove(before);
            }
            None if self.recent.len() == RECENT_MAX => {
                self.recent.remove(0);
            }
            None => {}
        }
        self.recent.push(end);
        before.is_some()
    }

    /// The largest window for a read of `want` pages: at least as many, up to the block layer's largest request
    /// (Linux since 4.10).
    fn window_max(&self, want: u64, sizes: Sizes) -> u64 {
        let usual = match self.advice {
            Advice::Sequential => sizes.window.saturating_mul(2),
            Advice::Normal | Advice::Random => sizes.window,
        };
        usual.max(want.min(sizes.request))
    }

    /// The reader wants `want` pages from `page`, which is not cached. Returns the pages to read now, `page` first.
    pub(super) fn misses(
        &mut self,
        page: u64,
        want: u64,
        in_order: bool,
        sizes: Sizes,
    ) -> (u64, u64) {
        let max = self.window_max(want, sizes);
        let known = self.windows.iter().position(|window| window.end() == page);
        let is_random = known.is_none() && page > 0 && !in_order && want <= max;
        if is_random || self.advice == Advice::Random {
            return (page, page.saturating_add(want));
        }
        let (len, ahead) = match known {
            Some(at) => {
                let len = next(self.windows[at].len, max);
                (len, len)
            }
            None => {
                let len = first(want, max);
                (len, if len > want { len - want } else { len })
            }
        };
        let mut window = Window { start: page, len, ahead, used: 0 };
        if ahead == len {
            // The mark would be this very page: read the next window at once, as far as both fit into one.
            let more = next(len, max);
            if len + more <= max {
                (window.len, window.ahead) = (len + more, more);
            } else {
                (window.len, window.ahead) = (max, max / 2);
            }
        }
        self.put(known, window);
        (page, window.end())
    }

    /// The reader, which wants `want` pages from `first` on, comes to those before `end`. Returns the pages to read
    /// ahead now if the mark of a window is among them.
    pub(super) fn passes(
        &mut self,
        first: u64,
        end: u64,
        want: u64,
        sizes: Sizes,
    ) -> Option<(u64, u64)> {
        if self.advice == Advice::Random {
            return None;
        }
        let max = self.window_max(want, sizes);
        let marked = |window: &Window| (first..end).contains(&window.mark());
        let at = self.windows.iter().position(marked)?;
        let last = self.windows[at];
        let len = next(last.len, max);
        let window = Window { start: last.end(), len, ahead: len, used: 0 };
        self.put(Some(at), window);
        Some((window.start, window.end()))
    }

    /// There was memory only for the pages before `end`: the latest window ends there.
    pub(super) fn cut(&mut self, end: u64) {
        let Some(window) = self.windows.iter_mut().max_by_key(|window| window.used) else { return };
        if window.start < end && end < window.end() {
            window.len = end - window.start;
            window.ahead = window.ahead.min(window.len);
        }
    }

    fn put(&mut self, known: Option<usize>, window: Window) {
        self.clock += 1;
        let window = Window { used: self.clock, ..window };
        let oldest = || {
            let oldest = self.windows.iter().enumerate().min_by_key(|(_, window)| window.used);
            (self.windows.len() == WINDOWS_MAX).then(|| oldest.map_or(0, |(at, _)| at))
        };
        match known.or_else(oldest) {
            Some(at) => self.windows[at] = window,
            None => self.windows.push(window),
        }
    }
}

/// The first window for a read of `want` pages: a few times as many for small reads, the largest for large ones. With
/// 32 pages at most: 4 for 1, 8 for 4, 16 for 8, 32 from 9 on.
fn first(want: u64, max: u64) -> u64 {
    let len = want.min(max).next_power_of_two();
    match len {
        _ if len.saturating_mul(32) <= max => len * 4,
        _ if len.saturating_mul(4) <= max => len * 2,
        _ => max,
    }
}

/// The window after one of `len` pages: four times as large while it is tiny, then twice, up to the largest.
fn next(len: u64, max: u64) -> u64 {
    match len {
        _ if len.saturating_mul(16) < max => len * 4,
        _ if len.saturating_mul(2) <= max => len * 2,
        _ => max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 32;
    const SIZES: Sizes = Sizes { window: MAX, request: 10 * MAX };

    /// Reads `count` times `want` pages in order from `page` on. Returns each window as the page at which it was
    /// read, its start and its length.
    fn in_order(reader: &mut Reader, mut page: u64, want: u64, count: u64) -> Vec<(u64, u64, u64)> {
        let mut cached = page;
        let mut seen = Vec::new();
        for _ in 0..count {
            let goes_on = reader.arrives(page, page + want);
            while cached < page + want {
                let (start, end) =
                    reader.misses(cached.max(page), page + want - cached, goes_on, SIZES);
                seen.push((cached.max(page), start, end - start));
                cached = end;
            }
            while let Some((start, end)) = reader.passes(page, page + want, want, SIZES) {
                seen.push((page, start, end - start));
                cached = end;
            }
            page += want;
        }
        seen
    }

    #[test]
    fn windows_double_up_to_the_largest() {
        let seen = in_order(&mut Reader::default(), 0, 1, 80);
        assert_eq!(
            seen,
            [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)]
        );
        let seen = in_order(&mut Reader::default(), 0, 4, 20);
        assert_eq!(seen, [(0, 0, 8), (4, 8, 16), (8, 24, 32), (24, 56, 32), (56, 88, 32)]);
        // As large as the window itself: the mark is in the middle of the first.
        let seen = in_order(&mut Reader::default(), 0, 32, 3);
        assert_eq!(seen, [(0, 0, 32), (0, 32, 32), (32, 64, 32), (64, 96, 32)]);
    }

    #[test]
    fn a_single_read_is_random_and_a_second_one_makes_it_sequential() {
        let mut reader = Reader::default();
        let seen = in_order(&mut reader, 1000, 1, 4);
        assert_eq!(seen, [(1000, 1000, 1), (1001, 1001, 4), (1002, 1005, 8)]);
        for want in [1, MAX, MAX + 1, 10 * MAX] {
            let mut reader = Reader::default();
            for page in [7, 7_000, 70_000, 7_000_000] {
                assert!(!reader.arrives(page, page + want));
                assert_eq!(reader.misses(page, want, false, SIZES), (page, page + want));
            }
        }
    }

    /// As Linux 6.18 reads from a disk that takes 1,280 KiB at once.
    #[test]
    fn long_reads_have_long_windows() {
        let seen = in_order(&mut Reader::default(), 0, 8 * MAX, 2);
        assert_eq!(seen, [(0, 0, 256), (0, 256, 256), (256, 512, 256)]);
        // Longer than one request: sequential, wherever it is.
        let mut reader = Reader::default();
        assert!(!reader.arrives(7, 7 + 16 * MAX));
        assert_eq!(reader.misses(7, 16 * MAX, false, SIZES), (7, 7 + 10 * MAX));
    }

    #[test]
    fn advice_doubles_windows_or_switches_them_off() {
        let mut reader = Reader { advice: Advice::Sequential, ..Reader::default() };
        assert_eq!(in_order(&mut reader, 0, 16, 4), [(0, 0, 32), (16, 32, 64), (32, 96, 64)]);
        let mut reader = Reader { advice: Advice::Random, ..Reader::default() };
        assert_eq!(in_order(&mut reader, 0, 16, 3), [(0, 0, 16), (16, 16, 16), (32, 32, 16)]);
    }

    #[test]
    fn interleaved_sequential_readers_are_told_apart() {
        let mut reader = Reader::default();
        let mut ends = [0; 3];
        for step in 0..40 {
            for (stream, end) in ends.iter_mut().enumerate() {
                let page = stream as u64 * 1_000_000 + 5 + step;
                let goes_on = reader.arrives(page, page + 1);
                if page >= *end {
                    *end = reader.misses(page, 1, goes_on, SIZES).1;
                }
                if let Some((_, until)) = reader.passes(page, page + 1, 1, SIZES) {
                    *end = until;
                }
            }
        }
        for (stream, end) in ends.into_iter().enumerate() {
            assert!(end > stream as u64 * 1_000_000 + 5 + 40 + 16, "{stream} is at {end}");
        }
    }

    #[test]
    fn window_sizes_are_those_of_the_documents() {
        assert_eq!(
            [1, 2, 3, 4, 8, 9, 16, 100].map(|want| first(want, 32)),
            [4, 4, 8, 8, 16, 32, 32, 32]
        );
        assert_eq!([1, 2, 4, 16, 17, 32].map(|len| next(len, 32)), [4, 4, 8, 32, 32, 32]);
        // A window of one page, and one that is no power of two.
        assert_eq!((first(1, 1), next(1, 1)), (1, 1));
        assert_eq!((first(1, 7), first(3, 7), next(2, 7)), (2, 7, 4));
    }
}
