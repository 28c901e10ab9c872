//! Memory of an emulated disk: a sparse file.

use std::os::fd::OwnedFd;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SeekFrom, fallocate, fstat, ftruncate, memfd_create, seek,
};
use rustix::io::{Errno, Result, pread, pwrite};

/// The bytes of the disk. Written pages take memory.
///
/// A memfd, since the kernel keeps it sparse, frees the pages of holes and copies without a lock of ours. The caller checks
/// ranges.
#[derive(Debug)]
pub(crate) struct Store {
    file: OwnedFd,
    memory_max: u64,
}

/// Unit of a file's `st_blocks`.
const BLOCK: u64 = 512;

impl Store {
    /// All holes. `memory_max` bounds the memory of written pages.
    pub(crate) fn new(size: u64, memory_max: u64) -> Result<Store> {
        let file = memfd_create("weir-disk", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, size)?;
        Ok(Store { file, memory_max })
    }

    /// Copies from `offset`.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            match pread(&self.file, &mut into[done..], offset + done as u64) {
                // The range is inside the file, whose size never changes.
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Copies to `offset`. Fails with `NOSPC`, and writes nothing, beyond `memory_max`, which may be exceeded by one page.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let (taken, len) = (self.memory()?, from.len() as u64);
        // Overwriting is possible even when memory is used up.
        if taken + len > self.memory_max
            && taken + self.holes(offset, offset + len)? > self.memory_max
        {
            return Err(Errno::NOSPC);
        }
        let mut done = 0;
        while done < from.len() {
            match pwrite(&self.file, &from[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Zeroes `len` bytes at `offset`, and frees whole pages of them.
    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, hole, offset, len)
    }

    /// Begin of the first written page at or after `offset`; `NXIO` if there is none.
    pub(crate) fn data_from(&self, offset: u64) -> Result<u64> {
        seek(&self.file, SeekFrom::Data(offset))
    }

    /// Begin of the first hole at or after `offset`; the end of the disk is one.
    pub(crate) fn hole_from(&self, offset: u64) -> Result<u64> {
        seek(&self.file, SeekFrom::Hole(offset))
    }

    /// Bytes from `start` to `end` that are in holes.
    fn holes(&self, start: u64, end: u64) -> Result<u64> {
        let (mut at, mut sum) = (start, 0);
        while at < end {
            let hole = self.hole_from(at)?.min(end);
            at = match self.data_from(hole) {
                Ok(data) => data.min(end),
                Err(Errno::NXIO) => end,
                Err(error) => return Err(error),
            };
            sum += at - hole;
        }
        Ok(sum)
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> Result<u64> {
        // Never negative.
        Ok(fstat(&self.file)?.st_blocks as u64 * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 << 10;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, u64, u8),
        Zero(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0..=SIZE, 0..=SIZE).prop_map(|(a, b)| (a.min(b), a.max(b) - a.min(b)));
        (range, any::<Option<u8>>()).prop_map(|((offset, len), byte)| match byte {
            Some(byte) => Step::Write(offset, len, byte),
            None => Step::Zero(offset, len),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// The store against an array.
        #[test]
        fn what_was_written_last_is_read(steps in prop::collection::vec(step(), 1..20)) {
            let store = Store::new(SIZE, SIZE).unwrap();
            let mut model = vec![0; SIZE as usize];
            for step in steps {
                match step {
                    Step::Write(offset, len, byte) => {
                        store.write(offset, &vec![byte; len as usize]).unwrap();
                        model[offset as usize..(offset + len) as usize].fill(byte);
                    }
                    Step::Zero(offset, len) => {
                        store.zero(offset, len).unwrap();
                        model[offset as usize..(offset + len) as usize].fill(0);
                    }
                }
                let mut found = vec![1; SIZE as usize];
                store.read(0, &mut found).unwrap();
                prop_assert!(found == model);
            }
        }
    }

    #[test]
    fn memory_is_taken_by_what_was_written_and_given_back() {
        let store = Store::new(1 << 40, 1 << 20).unwrap();
        assert_eq!(store.memory(), Ok(0));
        store.write((1 << 40) - 512, &[1; 512]).unwrap();
        assert!(store.memory().unwrap() > 0);
        store.zero(0, 1 << 40).unwrap();
        assert_eq!(store.memory(), Ok(0));
    }

    #[test]
    fn a_full_memory_takes_no_more_but_changes() {
        let store = Store::new(1 << 30, 1 << 20).unwrap();
        store.write(0, &vec![1; 1 << 20]).unwrap();
        assert_eq!(store.write(1 << 20, &[2; 512]), Err(Errno::NOSPC));
        assert_eq!(store.write((1 << 20) - 512, &[2; 1024]), Err(Errno::NOSPC));
        store.write(4096, &[3; 4096]).unwrap();
        store.zero(8192, 8192).unwrap();
        store.write(1 << 20, &[4; 4096]).unwrap();
        let mut found = [0; 2];
        store.read((1 << 20) - 1, &mut found).unwrap();
        assert_eq!(found, [1, 4]);
    }

    #[test]
    fn data_and_holes_are_found() {
        let store = Store::new(1 << 30, 1 << 20).unwrap();
        assert_eq!(store.data_from(0), Err(Errno::NXIO));
        store.write(1 << 20, &[1; 4096]).unwrap();
        assert_eq!(store.data_from(0), Ok(1 << 20));
        let hole = store.hole_from(1 << 20).unwrap();
        // A page, which may be larger than 4 KiB.
        assert!(hole > 1 << 20 && hole <= 2 << 20);
        assert_eq!(store.hole_from(0), Ok(0));
    }
}
