//! Counters that belong together, behind a sequence lock.

use crate::atomic::{AtomicU64, Ordering, fence, spin_loop};

/// `N` counters that one thread updates and others read, each update as a whole.
///
/// With 7 counters they fill a line of cache.
#[repr(C)]
#[derive(Debug)]
pub struct Counters<const N: usize> {
    /// Odd during an update.
    sequence: AtomicU64,
    values: [AtomicU64; N],
}

/// Times that a reader tries again. An update takes nanoseconds, unless its thread is interrupted in the midst of it.
const TRIES_MAX: u32 = 1 << 16;

impl<const N: usize> Default for Counters<N> {
    fn default() -> Counters<N> {
        Counters {
            sequence: AtomicU64::new(0),
            values: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const N: usize> Counters<N> {
    /// Changes the counters as a whole. By one thread at a time: of two at once, one may be lost.
    #[inline]
    pub fn update(&self, change: impl FnOnce(&mut [u64; N])) {
        let before = self.load();
        let mut values = before;
        change(&mut values);
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // What follows is not seen before the odd number is.
        fence(Ordering::Release);
        for ((shared, value), before) in self.values.iter().zip(values).zip(before) {
            if value != before {
                shared.store(value, Ordering::Relaxed);
            }
        }
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Adds to one counter.
    #[inline]
    pub fn add(&self, index: usize, by: u64) {
        self.add_each([(index, by)]);
    }

    /// Adds to some counters, as a whole: cheaper than [`Counters::update`], which loads all. By one thread at a time.
    #[inline]
    pub fn add_each<const K: usize>(&self, sums: [(usize, u64); K]) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (index, by) in sums {
            let counter = &self.values[index];
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// The counters, all of one moment. Where the writer's thread was interrupted in the midst of an update, and stays so for a
    /// millisecond, each by itself.
    pub fn read(&self) -> [u64; N] {
        for _ in 0..TRIES_MAX {
            if let Some(values) = self.try_read() {
                return values;
            }
            spin_loop();
        }
        self.load()
    }

    /// The counters, unless they are being updated.
    pub fn try_read(&self) -> Option<[u64; N]> {
        let before = self.sequence.load(Ordering::Acquire);
        let values = self.load();
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(values)
    }

    /// The counters as the writer sees them: each by itself, on other threads.
    #[inline]
    pub fn load(&self) -> [u64; N] {
        core::array::from_fn(|index| self.values[index].load(Ordering::Relaxed))
    }
}
