//! Index of runs of pages, by file and first page.
//!
//! Random I/O begins runs at every other page; a search tree with an entry for each would be large, and walked several
//! times for each request. So the tree has an entry for each group of neighbouring blocks, and a block has a bit for each
//! of its pages. The length of a run is here, too: a look at what is beside a page, mostly nothing, need not fetch runs
//! from elsewhere in memory.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::slots::Slots;

/// Pages of a block.
const PAGES: u64 = 256;
const WORDS: usize = PAGES as usize / 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) len: u32,
    pub(super) run: u32,
}

impl Place {
    pub(super) fn end(self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// The runs that begin in a block.
#[derive(Debug, Clone, Default)]
struct Block {
    /// A bit for each page where one begins.
    begins: [u64; WORDS],
    /// Index and length of each, in order.
    runs: Vec<(u32, u32)>,
}

impl Block {
    /// Runs that begin before `page` of the block.
    fn rank(&self, page: u64) -> usize {
        let (word, bit) = ((page / 64) as usize, page % 64);
        let whole: u32 = self.begins[..word].iter().map(|word| word.count_ones()).sum();
        let rest = self.begins[word] & ((1 << bit) - 1);
        (whole + rest.count_ones()) as usize
    }

    fn is_begin(&self, page: u64) -> bool {
        self.begins[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// The `nth` run, which begins at `page` of block `number`.
    fn place(&self, number: u64, page: u64, nth: usize) -> Place {
        let (run, len) = self.runs[nth];
        Place { start: number * PAGES + page, len, run }
    }

    /// The last run that begins at `page` or before.
    fn last_to(&self, number: u64, page: u64) -> Option<Place> {
        let (word, bit) = ((page / 64) as usize, page % 64);
        let here = self.begins[word] & (u64::MAX >> (63 - bit));
        let nth = self.rank(page) + usize::from(self.is_begin(page));
        let mut words = std::iter::once(here).chain(self.begins[..word].iter().rev().copied());
        let (back, bits) = (0..).zip(&mut words).find(|&(_, bits)| bits != 0)?;
        let last = (word as u64 - back) * 64 + u64::from(bits.ilog2());
        Some(self.place(number, last, nth - 1))
    }

    /// The first run that begins at `page` or after.
    fn first_from(&self, number: u64, page: u64) -> Option<Place> {
        let (word, bit) = ((page / 64) as usize, page % 64);
        let here = self.begins[word] & (u64::MAX << bit);
        let mut words = std::iter::once(here).chain(self.begins[word + 1..].iter().copied());
        let (on, bits) = (0..).zip(&mut words).find(|&(_, bits)| bits != 0)?;
        let first = (word as u64 + on) * 64 + u64::from(bits.trailing_zeros());
        Some(self.place(number, first, self.rank(page)))
    }

    fn flip(&mut self, page: u64) {
        self.begins[(page / 64) as usize] ^= 1 << (page % 64);
    }
}

/// Blocks of a group.
const BLOCKS: u64 = 64;

/// Neighbouring blocks.
#[derive(Debug, Clone)]
struct Group {
    used: u64,
    blocks: [u32; BLOCKS as usize],
}

impl Group {
    const EMPTY: Group = Group { used: 0, blocks: [0; BLOCKS as usize] };

    fn get(&self, place: u64) -> Option<u32> {
        (self.used >> place & 1 == 1).then(|| self.blocks[place as usize])
    }

    fn put(&mut self, place: u64, block: u32) {
        self.used |= 1 << place;
        self.blocks[place as usize] = block;
    }

    fn clear(&mut self, place: u64) {
        self.used &= !(1 << place);
    }

    /// The last block before `place`, which may be [`BLOCKS`].
    fn before(&self, place: u64) -> Option<(u64, u32)> {
        let bits = self.used & 1_u64.checked_shl(place as u32).unwrap_or(0).wrapping_sub(1);
        let last = bits.checked_ilog2()?;
        Some((last.into(), self.blocks[last as usize]))
    }

    /// The first block from `place` on, which may be [`BLOCKS`].
    fn from(&self, place: u64) -> Option<(u64, u32)> {
        let bits = self.used & u64::MAX.checked_shl(place as u32).unwrap_or(0);
        let first = bits.trailing_zeros();
        (bits != 0).then(|| (first.into(), self.blocks[first as usize]))
    }
}

/// Runs of pages of each file, without overlaps.
///
/// Calls are O(log n) in the number of groups, and O(1) in the block of the last call. A run takes some fourteen
/// bytes where there are many in a block, a hundred where it is alone there, and 400 where it is alone in a group.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Groups by file and number; neither they nor blocks are ever empty.
    index: BTreeMap<(u32, u64), u32>,
    groups: Slots<Group>,
    blocks: Slots<Block>,
    /// The last block used: a request looks at a page, then beside it.
    near: Cell<Option<((u32, u64), u32)>>,
}

impl Places {
    pub(super) const fn new() -> Places {
        Places {
            index: BTreeMap::new(),
            groups: Slots::new(),
            blocks: Slots::new(),
            near: Cell::new(None),
        }
    }

    fn find(&self, key: (u32, u64)) -> Option<u32> {
        if let Some((near, block)) = self.near.get()
            && near == key
        {
            return Some(block);
        }
        let (file, number) = key;
        let group = *self.index.get(&(file, number / BLOCKS))?;
        let block = self.groups[group].get(number % BLOCKS)?;
        self.near.set(Some((key, block)));
        Some(block)
    }

    fn block_before(&self, file: u32, number: u64) -> Option<(u64, u32)> {
        let (mut group, place) = (number / BLOCKS, number % BLOCKS);
        let here = self.index.get(&(file, group));
        let here = here.and_then(|&here| self.groups[here].before(place));
        let (place, block) = here.or_else(|| {
            let (key, &other) = self.index.range((file, 0)..(file, group)).next_back()?;
            group = key.1;
            self.groups[other].before(BLOCKS)
        })?;
        Some((group * BLOCKS + place, block))
    }

    fn block_after(&self, file: u32, number: u64) -> Option<(u64, u32)> {
        let (mut group, place) = (number / BLOCKS, number % BLOCKS);
        let here = self.index.get(&(file, group));
        let here = here.and_then(|&here| self.groups[here].from(place + 1));
        let (place, block) = here.or_else(|| {
            let (key, &other) = self.index.range((file, group + 1)..=(file, u64::MAX)).next()?;
            group = key.1;
            self.groups[other].from(0)
        })?;
        Some((group * BLOCKS + place, block))
    }

    pub(super) fn get(&self, file: u32, page: u64) -> Option<Place> {
        let number = page / PAGES;
        let block = &self.blocks[self.find((file, number))?];
        let page = page % PAGES;
        block.is_begin(page).then(|| block.place(number, page, block.rank(page)))
    }

    /// The last run of a file that begins at `page` or before.
    pub(super) fn last_to(&self, file: u32, page: u64) -> Option<Place> {
        let number = page / PAGES;
        let here = self.find((file, number));
        let here = here.and_then(|block| self.blocks[block].last_to(number, page % PAGES));
        here.or_else(|| {
            let (number, block) = self.block_before(file, number)?;
            self.blocks[block].last_to(number, PAGES - 1)
        })
    }

    /// The first run of a file that begins at `page` or after.
    pub(super) fn first_from(&self, file: u32, page: u64) -> Option<Place> {
        let number = page / PAGES;
        let here = self.find((file, number));
        let here = here.and_then(|block| self.blocks[block].first_from(number, page % PAGES));
        here.or_else(|| {
            let (number, block) = self.block_after(file, number)?;
            self.blocks[block].first_from(number, 0)
        })
    }

    pub(super) fn insert(&mut self, file: u32, place: Place) {
        let Place { start: page, len, run } = place;
        let key = (file, page / PAGES);
        let block = self.find(key).unwrap_or_else(|| {
            let block = self.blocks.insert(Block::default());
            let (number, groups) = (key.1, &mut self.groups);
            let group = self.index.entry((file, number / BLOCKS));
            let group = *group.or_insert_with(|| groups.insert(Group::EMPTY));
            groups[group].put(number % BLOCKS, block);
            block
        });
        let block = &mut self.blocks[block];
        let page = page % PAGES;
        debug_assert!(!block.is_begin(page), "nothing begins there");
        block.runs.insert(block.rank(page), (run, len));
        block.flip(page);
    }

    /// Changes the length of the run that begins at `page`. Panics if none does.
    pub(super) fn resize(&mut self, file: u32, page: u64, len: u32) {
        let index = self.find((file, page / PAGES)).expect("something begins there");
        let block = &mut self.blocks[index];
        let page = page % PAGES;
        assert!(block.is_begin(page), "something begins there");
        let nth = block.rank(page);
        block.runs[nth].1 = len;
    }

    /// Removes the run that begins at `page`. Panics if none does.
    pub(super) fn remove(&mut self, file: u32, page: u64) {
        let key = (file, page / PAGES);
        let index = self.find(key).expect("something begins there");
        let block = &mut self.blocks[index];
        let page = page % PAGES;
        assert!(block.is_begin(page), "something begins there");
        block.runs.remove(block.rank(page));
        block.flip(page);
        if block.runs.is_empty() {
            self.blocks.remove(index);
            self.near.set(None);
            let number = key.1;
            let of_group = (file, number / BLOCKS);
            let group = self.index[&of_group];
            self.groups[group].clear(number % BLOCKS);
            if self.groups[group].used == 0 {
                self.groups.remove(group);
                self.index.remove(&of_group);
            }
        }
    }

    /// Indices of all runs, in order of file and page.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let groups = self.index.values().map(|&group| &self.groups[group]);
        let blocks = groups.flat_map(|group| (0..BLOCKS).filter_map(|place| group.get(place)));
        blocks.flat_map(|block| self.blocks[block].runs.iter().map(|&(run, _)| run))
    }

    /// O(blocks).
    pub(super) fn count(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.runs.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_agree_with_a_map() {
        let mut places = Places::new();
        let mut map: BTreeMap<(u32, u64), Place> = BTreeMap::new();
        let mut state = 1u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut most = 0;
        for step in 0..40_000 {
            let file = below(3) as u32;
            // Neighbouring blocks, some far off, and the last possible one.
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
                    let place = Place { start: page, len: step % 7, run: step };
                    places.insert(file, place);
                    map.insert(key, place);
                    if step % 3 == 0 {
                        places.resize(file, page, step);
                        map.insert(key, Place { len: step, ..place });
                    }
                }
            }
            if step % 4_000 == 3_999 {
                // Blocks become empty, too.
                for (file, page) in std::mem::take(&mut map).into_keys() {
                    places.remove(file, page);
                }
                assert!(places.index.is_empty());
                assert_eq!((places.groups.len(), places.blocks.len()), (0, 0));
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
                assert!(places.iter().eq(map.values().map(|place| place.run)));
                assert_eq!(places.count(), map.len());
            }
        }
        assert!(most > 1_000, "{most}");
    }
}
