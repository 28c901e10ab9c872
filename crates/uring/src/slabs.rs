//! Slabs of a region: arithmetic only, no memory.

/// Bytes in a slab: the unit in which memory goes from one size class to another and is registered with a ring.
pub(crate) const SLAB: usize = 1 << 20;

/// Chunk sizes inside a slab. Anything larger takes whole slabs, side by side.
///
/// NBD clients ask for 4 KiB to 256 KiB mostly; a factor of four between classes wastes at most three quarters of a
/// chunk and keeps the number of half-used slabs small.
const CLASSES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

const CHUNKS_MAX: usize = SLAB / CLASSES[0];
const WORDS: usize = CHUNKS_MAX / 64;

/// A piece of the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    /// First byte, relative to the region.
    pub(crate) offset: usize,
    /// Bytes, after rounding up.
    pub(crate) len: usize,
}

/// The state of every slab of a region.
pub(crate) struct Slabs {
    slabs: Vec<Slab>,
    /// Per class, slabs of that class that have a free chunk; the last one is used next.
    open: [Vec<u32>; CLASSES.len()],
    in_use: usize,
}

struct Slab {
    state: State,
    /// Chunks taken, or 1 for the slabs of a run.
    used: u16,
    /// One bit a chunk, set when free; meaningful in `State::Class` only.
    free: [u64; WORDS],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Class(u8),
    RunStart { slabs: u32 },
    RunRest,
}

/// Bytes that a chunk for `len` bytes takes.
pub(crate) fn rounded(len: usize) -> usize {
    let class = CLASSES.into_iter().find(|&class| len <= class);
    class.unwrap_or_else(|| len.next_multiple_of(SLAB))
}

impl Slabs {
    /// `count` empty slabs.
    pub(crate) fn new(count: usize) -> Slabs {
        let slabs = (0..count).map(|_| Slab { state: State::Empty, used: 0, free: [0; WORDS] });
        // Every list can hold every slab, so that handing out memory never allocates.
        let open = std::array::from_fn(|_| Vec::with_capacity(count));
        Slabs { slabs: slabs.collect(), open, in_use: 0 }
    }

    /// Takes a chunk for `len` bytes, or `None` when there is no room now.
    pub(crate) fn take(&mut self, len: usize) -> Option<Chunk> {
        let chunk = match CLASSES.iter().position(|&class| len <= class) {
            Some(class) => self.take_small(class),
            None => self.take_run(len.div_ceil(SLAB)),
        }?;
        self.in_use += chunk.len;
        Some(chunk)
    }

    /// Gives back the chunk that starts at `offset`.
    pub(crate) fn give_back(&mut self, offset: usize) {
        let index = offset / SLAB;
        match self.slabs[index].state {
            State::Class(class) => self.give_back_small(index, class as usize, offset % SLAB),
            State::RunStart { slabs } => {
                for slab in &mut self.slabs[index..index + slabs as usize] {
                    (slab.state, slab.used) = (State::Empty, 0);
                }
                self.in_use -= slabs as usize * SLAB;
            }
            State::Empty | State::RunRest => unreachable!("no chunk starts at {offset}"),
        }
    }

    /// Bytes taken, after rounding up.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    fn take_small(&mut self, class: usize) -> Option<Chunk> {
        let index = match self.open[class].last() {
            Some(&index) => index as usize,
            None => self.open_slab(class)?,
        };
        let slab = &mut self.slabs[index];
        let word =
            slab.free.iter().position(|&word| word != 0).expect("an open slab has a free chunk");
        let bit = slab.free[word].trailing_zeros() as usize;
        slab.free[word] &= slab.free[word] - 1;
        slab.used += 1;
        if usize::from(slab.used) == SLAB / CLASSES[class] {
            self.open[class].pop();
        }
        Some(Chunk {
            offset: index * SLAB + (word * 64 + bit) * CLASSES[class],
            len: CLASSES[class],
        })
    }

    fn give_back_small(&mut self, index: usize, class: usize, inside: usize) {
        let slab = &mut self.slabs[index];
        let chunk = inside / CLASSES[class];
        debug_assert_eq!(slab.free[chunk / 64] & 1 << (chunk % 64), 0, "given back twice");
        slab.free[chunk / 64] |= 1 << (chunk % 64);
        if usize::from(slab.used) == SLAB / CLASSES[class] {
            self.open[class].push(index as u32);
        }
        slab.used -= 1;
        self.in_use -= CLASSES[class];
    }

    /// Makes an unused slab one of `class`. A slab that lost its last chunk stays with its class until here, because
    /// the next request is most likely of the same size.
    fn open_slab(&mut self, class: usize) -> Option<usize> {
        let index = self.find_run(1)?;
        self.detach(index);
        let chunks = SLAB / CLASSES[class];
        let slab = &mut self.slabs[index];
        slab.state = State::Class(class as u8);
        slab.free = std::array::from_fn(|word| match chunks.saturating_sub(word * 64) {
            0 => 0,
            64.. => u64::MAX,
            some => (1 << some) - 1,
        });
        self.open[class].push(index as u32);
        Some(index)
    }

    fn take_run(&mut self, count: usize) -> Option<Chunk> {
        let start = self.find_run(count)?;
        for index in start..start + count {
            self.detach(index);
            self.slabs[index].state = State::RunRest;
            self.slabs[index].used = 1;
        }
        self.slabs[start].state = State::RunStart { slabs: count as u32 };
        Some(Chunk { offset: start * SLAB, len: count * SLAB })
    }

    /// The first `count` unused slabs in a row: memory that was used before is used again before more is touched.
    fn find_run(&self, count: usize) -> Option<usize> {
        let mut row = 0;
        for (index, slab) in self.slabs.iter().enumerate() {
            row = if slab.used == 0 { row + 1 } else { 0 };
            if row == count {
                return Some(index + 1 - count);
            }
        }
        None
    }

    /// Takes an unused slab away from the class that kept it.
    fn detach(&mut self, index: usize) {
        if let State::Class(class) = self.slabs[index].state {
            self.open[class as usize].retain(|&open| open as usize != index);
            self.slabs[index].state = State::Empty;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_to_classes_and_runs() {
        let mut slabs = Slabs::new(40);
        let table = [
            (0, 4 << 10),
            (4096, 4 << 10),
            (4097, 16 << 10),
            (65_536, 64 << 10),
            (65_537, 256 << 10),
            (262_145, 1 << 20),
            ((1 << 20) + 1, 2 << 20),
            (32 << 20, 32 << 20),
        ];
        for (asked, given) in table {
            assert_eq!(slabs.take(asked).unwrap().len, given, "{asked} bytes");
            assert_eq!(rounded(asked), given, "{asked} bytes");
        }
    }

    #[test]
    fn memory_moves_between_classes() {
        let mut slabs = Slabs::new(2);
        let small: Vec<Chunk> = (0..512).map(|_| slabs.take(4096).unwrap()).collect();
        assert_eq!(slabs.take(1), None);
        assert_eq!(slabs.take(SLAB), None);
        // One chunk of the second slab stays: only the first can become something else.
        for chunk in &small[..511] {
            slabs.give_back(chunk.offset);
        }
        assert_eq!(slabs.take(2 * SLAB), None);
        let large = slabs.take(SLAB).unwrap();
        assert_eq!(large.offset, 0);
        slabs.give_back(large.offset);
        slabs.give_back(small[511].offset);
        assert_eq!(slabs.take(2 * SLAB).unwrap().offset, 0);
        assert_eq!(slabs.in_use(), 2 * SLAB);
    }

    /// Random calls against the plainest possible record of what is taken.
    #[test]
    fn live_chunks_never_overlap() {
        let mut slabs = Slabs::new(12);
        let mut live: Vec<Chunk> = Vec::new();
        let mut seed = 1u64;
        let mut random = move |below: usize| {
            // Knuth's linear congruential generator (MMIX): reproducible, good enough in its upper bits.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut refused = 0;
        for _ in 0..if cfg!(miri) { 500 } else { 20_000 } {
            if random(5) < 3 {
                let len = [100, 4096, 9000, 60_000, 200_000, 900_000, 2 << 20, 3 << 20][random(8)];
                match slabs.take(len) {
                    Some(chunk) => {
                        assert!(chunk.len >= len && chunk.offset + chunk.len <= 12 * SLAB);
                        let clash = live.iter().find(|other| {
                            chunk.offset < other.offset + other.len
                                && other.offset < chunk.offset + chunk.len
                        });
                        assert_eq!(clash, None, "{chunk:?}");
                        live.push(chunk);
                    }
                    None => refused += 1,
                }
            } else if !live.is_empty() {
                let chunk = live.swap_remove(random(live.len()));
                slabs.give_back(chunk.offset);
            }
            assert_eq!(slabs.in_use(), live.iter().map(|chunk| chunk.len).sum::<usize>());
        }
        assert!(cfg!(miri) || refused > 0, "the region was never full");
        for chunk in live.drain(..) {
            slabs.give_back(chunk.offset);
        }
        assert_eq!(slabs.take(12 * SLAB), Some(Chunk { offset: 0, len: 12 * SLAB }));
    }
}
