//! Where things begin in files, in order.
//!
//! What is read or written at random begins at every other page, and a search tree with an entry for each page is large
//! and walked several times for each request. So the tree has an entry for a block of neighbouring pages, and a bit for
//! each page in it.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::slots::Slots;

/// Pages of a block.
const PAGES: u64 = 256;
const WORDS: usize = PAGES as usize / 64;

/// What begins in a block.
#[derive(Debug, Clone, Default)]
struct Block {
    /// A bit for each page where something does.
    begins: [u64; WORDS],
    /// What that is, in order.
    values: Vec<u32>,
}

impl Block {
    /// How many begin before `page` of the block.
    fn rank(&self, page: u64) -> usize {
        let (word, bit) = ((page / 64) as usize, page % 64);
        let whole: u32 = self.begins[..word].iter().map(|word| word.count_ones()).sum();
        let rest = self.begins[word] & ((1 << bit) - 1);
        (whole + rest.count_ones()) as usize
    }

    fn is_begin(&self, page: u64) -> bool {
        self.begins[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    fn flip(&mut self, page: u64) {
        self.begins[(page / 64) as usize] ^= 1 << (page % 64);
    }
}

/// A value for each page of each file at which something begins.
///
/// Every call is O(log n) in the number of blocks, and O(1) in the block of the call before. A value takes some
/// ten bytes where there are many in a block, and a hundred where it is alone.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// By file and number. None of them is empty.
    index: BTreeMap<(u32, u64), u32>,
    blocks: Slots<Block>,
    /// The block that was asked for last: one request asks for a page, then for what is beside it.
    near: Cell<Option<((u32, u64), u32)>>,
}

impl Places {
    pub(super) const fn new() -> Places {
        Places { index: BTreeMap::new(), blocks: Slots::new(), near: Cell::new(None) }
    }

    fn find(&self, key: (u32, u64)) -> Option<u32> {
        if let Some((near, block)) = self.near.get()
            && near == key
        {
            return Some(block);
        }
        let block = *self.index.get(&key)?;
        self.near.set(Some((key, block)));
        Some(block)
    }

    /// What begins at `page`.
    pub(super) fn get(&self, file: u32, page: u64) -> Option<u32> {
        let block = &self.blocks[self.find((file, page / PAGES))?];
        let page = page % PAGES;
        block.is_begin(page).then(|| block.values[block.rank(page)])
    }

    /// What begins last in a file, at `page` at the latest.
    pub(super) fn last_to(&self, file: u32, page: u64) -> Option<u32> {
        let number = page / PAGES;
        if let Some(block) = self.find((file, number)) {
            let block = &self.blocks[block];
            let page = page % PAGES;
            let count = block.rank(page) + usize::from(block.is_begin(page));
            if let Some(last) = count.checked_sub(1) {
                return Some(block.values[last]);
            }
        }
        let (_, &block) = self.index.range((file, 0)..(file, number)).next_back()?;
        self.blocks[block].values.last().copied()
    }

    /// What begins first in a file, at `page` at the earliest.
    pub(super) fn first_from(&self, file: u32, page: u64) -> Option<u32> {
        let number = page / PAGES;
        if let Some(block) = self.find((file, number)) {
            let block = &self.blocks[block];
            if let Some(&first) = block.values.get(block.rank(page % PAGES)) {
                return Some(first);
            }
        }
        let (_, &block) = self.index.range((file, number + 1)..=(file, u64::MAX)).next()?;
        self.blocks[block].values.first().copied()
    }

    /// `value` begins at `page`, where nothing did.
    pub(super) fn insert(&mut self, file: u32, page: u64, value: u32) {
        let key = (file, page / PAGES);
        let block = self.find(key).unwrap_or_else(|| {
            let block = self.blocks.insert(Block::default());
            self.index.insert(key, block);
            block
        });
        let block = &mut self.blocks[block];
        let page = page % PAGES;
        debug_assert!(!block.is_begin(page), "nothing begins there");
        block.values.insert(block.rank(page), value);
        block.flip(page);
    }

    /// Nothing begins at `page` any more. Panics if nothing did.
    pub(super) fn remove(&mut self, file: u32, page: u64) {
        let key = (file, page / PAGES);
        let index = self.find(key).expect("something begins there");
        let block = &mut self.blocks[index];
        let page = page % PAGES;
        assert!(block.is_begin(page), "something begins there");
        block.values.remove(block.rank(page));
        block.flip(page);
        if block.values.is_empty() {
            self.blocks.remove(index);
            self.index.remove(&key);
            self.near.set(None);
        }
    }

    /// All, in order of file and page.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.index.values().flat_map(|&block| self.blocks[block].values.iter().copied())
    }

    /// How many there are. O(blocks).
    pub(super) fn count(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.values.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a map of all would answer, whatever came and went.
    #[test]
    fn places_are_a_map() {
        let mut places = Places::new();
        let mut map: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        let mut state = 1u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut most = 0;
        for step in 0..40_000 {
            let file = below(3) as u32;
            // Blocks next to each other, some far off, and the last one that there can be.
            let page = match below(8) {
                0 => u64::MAX - below(300),
                1 => below(1 << 40),
                _ => below(2_000),
            };
            let key = (file, page);
            match map.get(&key) {
                Some(_) => {
                    places.remove(file, page);
                    map.remove(&key);
                }
                None => {
                    places.insert(file, page, step);
                    map.insert(key, step);
                }
            }
            if step % 4_000 == 3_999 {
                // Blocks become empty, too.
                for (file, page) in std::mem::take(&mut map).into_keys() {
                    places.remove(file, page);
                }
                assert!(places.index.is_empty() && places.blocks.len() == 0);
            }
            let at = (file, page.saturating_add(below(600)).saturating_sub(300));
            let wanted = map.get(&at).copied();
            assert_eq!(places.get(at.0, at.1), wanted, "{at:?}");
            let wanted = map.range((file, 0)..=at).next_back().map(|(_, &value)| value);
            assert_eq!(places.last_to(at.0, at.1), wanted, "{at:?}");
            let wanted = map.range(at..=(file, u64::MAX)).next().map(|(_, &value)| value);
            assert_eq!(places.first_from(at.0, at.1), wanted, "{at:?}");
            most = most.max(map.len());
            if step % 1_000 == 0 {
                assert!(places.iter().eq(map.values().copied()));
                assert_eq!(places.count(), map.len());
            }
        }
        assert!(most > 1_000, "{most}");
    }
}
