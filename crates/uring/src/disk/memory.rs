//! A device in memory.

use std::io;
use std::ops::Range;

use crate::mapping::{Mapping, PAGE};

/// The bytes of a memory device. Pages never written take no memory, and reading them touches none.
///
/// The kernel would map its page of zeroes for them, but that takes it some microseconds for each page, and memory for its
/// tables: a device whose reads are spread over half a terabyte would have a gigabyte of them.
pub(crate) struct Memory {
    bytes: Mapping,
    /// The pages that may hold anything but zeroes.
    written: Pages,
}

impl Memory {
    pub(crate) fn new(size: u64) -> io::Result<Memory> {
        let len = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let bytes = Mapping::new(len)?;
        let written = Pages::new(bytes.len() / PAGE)?;
        Ok(Memory { bytes, written })
    }

    /// Copies from `offset`. The range was checked against the device's size.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut at = offset as usize;
        let mut left = into;
        while !left.is_empty() {
            let (part, rest) = left.split_at_mut(left.len().min(PAGE - at % PAGE));
            match self.written.has(at / PAGE) {
                true => part.copy_from_slice(&self.bytes.bytes()[at..at + part.len()]),
                false => part.fill(0),
            }
            (at, left) = (at + part.len(), rest);
        }
    }

    /// Copies to `offset`. The range was checked against the device's size.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let range = offset as usize..offset as usize + from.len();
        pages_of(&range).for_each(|page| self.written.add(page));
        self.bytes.bytes_mut()[range].copy_from_slice(from);
    }

    /// Has the kernel find memory for up to `most` pages of what is written soon, which takes it microseconds for each.
    /// Answers what it has not looked at. The range was checked against the device's size.
    pub(crate) fn warm(&mut self, range: Range<u64>, most: usize) -> Range<u64> {
        let mut found = 0;
        for page in pages_of(&(range.start as usize..range.end as usize)) {
            if self.written.has(page) {
                continue;
            }
            if found == most {
                return (page * PAGE) as u64..range.end;
            }
            found += 1;
            // As it reads already.
            self.bytes.bytes_mut()[page * PAGE] = 0;
            self.written.add(page);
        }
        range.end..range.end
    }

    /// Makes `len` bytes at `offset` read as zero and gives whole pages of them back. The range was checked.
    pub(crate) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let (start, end) = (offset as usize, (offset + len) as usize);
        let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last {
            self.clear(start..end);
            return Ok(());
        }
        self.clear(start..first);
        self.clear(last..end);
        self.bytes.forget(first, last - first)?;
        self.written.remove(first / PAGE..last / PAGE)
    }

    /// Zeroes less than a page on either side of a boundary.
    fn clear(&mut self, range: Range<usize>) {
        if pages_of(&range).any(|page| self.written.has(page)) {
            self.bytes.bytes_mut()[range].fill(0);
        }
    }
}

/// The numbers of the pages that bytes lie on.
fn pages_of(range: &Range<usize>) -> Range<usize> {
    match range.is_empty() {
        true => 0..0,
        false => range.start / PAGE..range.end.div_ceil(PAGE),
    }
}

/// A set of pages by number: a bit for each, in memory that costs nothing until touched.
struct Pages(Mapping);

impl Pages {
    fn new(count: usize) -> io::Result<Pages> {
        Ok(Pages(Mapping::new(count.div_ceil(8))?))
    }

    fn has(&self, page: usize) -> bool {
        self.0.bytes()[page / 8] >> (page % 8) & 1 != 0
    }

    fn add(&mut self, page: usize) {
        self.0.bytes_mut()[page / 8] |= 1 << (page % 8);
    }

    /// Bit by bit at the edges, and in between by giving the bits' own pages back.
    fn remove(&mut self, pages: Range<usize>) -> io::Result<()> {
        const EACH: usize = 8 * PAGE;
        let (first, last) = (pages.start.next_multiple_of(EACH), pages.end / EACH * EACH);
        if first >= last {
            self.remove_each(pages);
            return Ok(());
        }
        self.remove_each(pages.start..first);
        self.remove_each(last..pages.end);
        self.0.forget(first / 8, (last - first) / 8)
    }

    fn remove_each(&mut self, pages: Range<usize>) {
        for page in pages {
            if self.has(page) {
                self.0.bytes_mut()[page / 8] &= !(1 << (page % 8));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroing_touches_its_range_only() {
        let len = 4 * PAGE;
        for (offset, count) in
            [(0, len), (5, 10), (5, PAGE), (100, 2 * PAGE), (PAGE, PAGE), (len, 0)]
        {
            let mut memory = Memory::new(len as u64).unwrap();
            memory.write(0, &vec![7; len]);
            memory.zero(offset as u64, count as u64).unwrap();
            let mut found = vec![1; len];
            memory.read(0, &mut found);
            let wanted: Vec<u8> = (0..len)
                .map(|at| if (offset..offset + count).contains(&at) { 0 } else { 7 })
                .collect();
            assert!(found == wanted, "{count} bytes at {offset}");
        }
    }

    /// Whatever was written, warmed and zeroed in whichever order, it reads as an array of bytes would.
    #[test]
    #[cfg_attr(miri, ignore = "no madvise")]
    fn reads_what_was_written_last_or_zero() {
        // More than the bits of one page stand for.
        let len = 10 * PAGE * 8 * PAGE;
        let window = 5 * PAGE;
        let places = [0, 8 * PAGE * PAGE - 2 * PAGE, len - window];
        let mut memory = Memory::new(len as u64).unwrap();
        let mut mirrors = places.map(|_| vec![0u8; window]);
        let mut state = 1u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % bound
        };
        for round in 0..3000u32 {
            let which = below(3);
            let (place, mirror) = (places[which], &mut mirrors[which]);
            let at = below(window);
            let count = below(window - at) + 1;
            let offset = (place + at) as u64;
            match below(8) {
                0..4 => {
                    let bytes = vec![round as u8 | 1; count];
                    memory.write(offset, &bytes);
                    mirror[at..at + count].copy_from_slice(&bytes);
                }
                4 => {
                    let left = memory.warm(offset..offset + count as u64, 2);
                    assert_eq!(left.end, offset + count as u64);
                }
                5 | 6 => {
                    memory.zero(offset, count as u64).unwrap();
                    mirror[at..at + count].fill(0);
                }
                _ if round % 50 == 0 => {
                    memory.zero(0, len as u64).unwrap();
                    mirrors.iter_mut().for_each(|mirror| mirror.fill(0));
                }
                _ => {}
            }
            for (place, mirror) in places.iter().zip(&mirrors) {
                let mut found = vec![7; window];
                memory.read(*place as u64, &mut found);
                assert!(found == *mirror, "round {round} at {place}");
            }
        }
    }

    #[test]
    fn prefaulting_continues_where_it_stopped() {
        let mut memory = Memory::new(8 * PAGE as u64).unwrap();
        memory.write(PAGE as u64, &[1]);
        let page = PAGE as u64;
        let left = memory.warm(page / 2..6 * page, 2);
        assert_eq!(left, 3 * page..6 * page, "the first and the third; the second has memory");
        let left = memory.warm(left, 3);
        assert_eq!(left, 6 * page..6 * page);
        assert!(memory.written.has(0) && memory.written.has(5) && !memory.written.has(6));
    }
}
