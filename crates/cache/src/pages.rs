//! The bytes: blocks of memory by their place on the device.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::valid::{BLOCK, Valid};

/// Blocks of memory kept for the next ones, so that a steady stream of writes allocates none.
const SPARE_MAX: usize = 1024;

/// The bytes that the cache has and the device may lack.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Page>,
    spare: Vec<Box<[u8]>>,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8]>,
    /// `None`: all of them.
    valid: Option<Valid>,
}

impl Page {
    /// The first run of bytes that are there, inside `within`, which is not empty.
    fn first_run(&self, within: Range<usize>) -> Option<Range<usize>> {
        self.valid.as_ref().map_or(Some(within.clone()), |valid| valid.first_run(within))
    }
}

/// The parts of a range of bytes by the blocks that they lie in: the block, which of its bytes, and where they begin in the
/// range. Nothing for an empty range.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let end = offset + len;
    blocks(offset, len).map(move |block| {
        let base = block * BLOCK as u64;
        let inside = offset.max(base)..end.min(base + BLOCK as u64);
        let range = (inside.start - base) as usize..(inside.end - base) as usize;
        (block, range, (inside.start - offset) as usize)
    })
}

/// The blocks that a range of bytes touches.
pub(crate) fn blocks(offset: u64, len: u64) -> Range<u64> {
    let block = BLOCK as u64;
    if len == 0 { 0..0 } else { offset / block..(offset + len).div_ceil(block) }
}

impl Pages {
    /// Takes bytes. O(log blocks) for each block.
    pub(crate) fn put(&mut self, offset: u64, bytes: &[u8]) {
        for (block, range, from) in parts(offset, bytes.len() as u64) {
            let spare = &mut self.spare;
            let page = self.pages.entry(block).or_insert_with(|| Page {
                bytes: spare.pop().unwrap_or_else(|| vec![0; BLOCK].into_boxed_slice()),
                valid: (range.len() < BLOCK).then(Valid::none),
            });
            page.bytes[range.clone()].copy_from_slice(&bytes[from..from + range.len()]);
            if let Some(valid) = &mut page.valid {
                valid.insert(range);
                if valid.is_full() {
                    page.valid = None;
                }
            }
        }
    }

    /// Fills `into` with the bytes at `offset`, if all of them are there; else what it holds is not said.
    pub(crate) fn get(&self, offset: u64, into: &mut [u8]) -> bool {
        parts(offset, into.len() as u64).all(|(block, range, from)| {
            let page = self.pages.get(&block);
            let page = page.filter(|page| page.first_run(range.clone()) == Some(range.clone()));
            page.is_some_and(|page| {
                into[from..from + range.len()].copy_from_slice(&page.bytes[range]);
                true
            })
        })
    }

    /// Calls `each` with every run of bytes that are there, in order, within a range: where it is, and the bytes. Runs end
    /// with their block.
    pub(crate) fn for_each(&self, offset: u64, len: u64, mut each: impl FnMut(u64, &[u8])) {
        let end = offset + len;
        for (&block, page) in self.pages.range(blocks(offset, len)) {
            let base = block * BLOCK as u64;
            let mut at = (offset.max(base) - base) as usize;
            let stop = (end.min(base + BLOCK as u64) - base) as usize;
            while at < stop
                && let Some(run) = page.first_run(at..stop)
            {
                at = run.end;
                each(base + run.start as u64, &page.bytes[run]);
            }
        }
    }

    /// The first run of bytes that are there within a range, over blocks.
    pub(crate) fn first_run(&self, offset: u64, len: u64) -> Option<Range<u64>> {
        let end = offset + len;
        let mut found: Option<Range<u64>> = None;
        for (&block, page) in self.pages.range(blocks(offset, len)) {
            let base = block * BLOCK as u64;
            let within = offset.max(base) - base..end.min(base + BLOCK as u64) - base;
            let run = page.first_run(within.start as usize..within.end as usize);
            let run = run.map(|run| base + run.start as u64..base + run.end as u64);
            match (&mut found, run) {
                (None, run) => found = run,
                (Some(found), Some(run)) if run.start == found.end => found.end = run.end,
                (Some(_), _) => break,
            }
            if found.as_ref().is_some_and(|found| found.end < base + within.end) {
                break;
            }
        }
        found
    }

    /// Forgets the bytes of a range; fills `emptied` with the blocks of which nothing is left.
    pub(crate) fn clear(&mut self, offset: u64, len: u64, emptied: &mut Vec<u64>) {
        emptied.clear();
        let end = offset + len;
        for (&block, page) in self.pages.range_mut(blocks(offset, len)) {
            let base = block * BLOCK as u64;
            let range =
                (offset.max(base) - base) as usize..(end.min(base + BLOCK as u64) - base) as usize;
            let valid = page.valid.get_or_insert_with(Valid::all);
            valid.remove(range);
            if valid.is_empty() {
                emptied.push(block);
            }
        }
        for &block in &*emptied {
            self.remove(block);
        }
    }

    /// Forgets a block.
    pub(crate) fn remove(&mut self, block: u64) {
        if let Some(page) = self.pages.remove(&block)
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(page.bytes);
        }
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        self.pages.contains_key(&block)
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 5 * BLOCK + 100;

    proptest! {
        /// Against an array of bytes that are there or not.
        #[test]
        fn pages_are_an_array(
            calls in prop::collection::vec((0..SIZE, 0..2 * BLOCK, any::<bool>()), 1..30),
            asked in (0..SIZE, 0..3 * BLOCK),
        ) {
            let mut pages = Pages::default();
            let mut plain: Vec<Option<u8>> = vec![None; SIZE];
            for (number, (start, len, is_put)) in calls.into_iter().enumerate() {
                let range = start..(start + len).min(SIZE);
                if is_put {
                    let bytes: Vec<u8> = range.clone().map(|at| (at + number) as u8).collect();
                    pages.put(start as u64, &bytes);
                    plain[range.clone()].iter_mut().zip(bytes).for_each(|(to, byte)| *to = Some(byte));
                } else {
                    let mut emptied = Vec::new();
                    pages.clear(start as u64, range.len() as u64, &mut emptied);
                    plain[range].fill(None);
                    prop_assert!(emptied.iter().all(|&block| !pages.has(block)));
                }
            }
            let there = plain.chunks(BLOCK).filter(|block| block.iter().any(Option::is_some)).count();
            prop_assert_eq!(pages.len(), there);
            let range = asked.0..(asked.0 + asked.1).min(SIZE);
            let (offset, len) = (range.start as u64, range.len() as u64);
            let mut into = vec![0; range.len()];
            let all: Option<Vec<u8>> = plain[range.clone()].iter().copied().collect();
            prop_assert_eq!(pages.get(offset, &mut into), all.is_some());
            if let Some(all) = all {
                prop_assert_eq!(into, all);
            }
            let mut seen = vec![None; range.len()];
            pages.for_each(offset, len, |at, bytes| {
                for (index, &byte) in bytes.iter().enumerate() {
                    seen[(at - offset) as usize + index] = Some(byte);
                }
            });
            prop_assert_eq!(&seen, &plain[range.clone()]);
            let first = range.clone().find(|&at| plain[at].is_some()).map(|start| {
                let end = (start..range.end).find(|&at| plain[at].is_none()).unwrap_or(range.end);
                start as u64..end as u64
            });
            prop_assert_eq!(pages.first_run(offset, len), first);
        }
    }
}
