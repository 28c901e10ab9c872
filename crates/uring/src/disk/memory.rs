//! A device in memory.

use std::io;

use crate::mapping::{Mapping, PAGE};

/// The bytes of a memory device. Parts never written take no memory.
pub(crate) struct Memory {
    bytes: Mapping,
}

impl Memory {
    pub(crate) fn new(size: u64) -> io::Result<Memory> {
        let len = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Memory { bytes: Mapping::new(len)? })
    }

    /// Copies from `offset`. The range was checked against the device's size.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let start = offset as usize;
        into.copy_from_slice(&self.bytes.bytes()[start..start + into.len()]);
    }

    /// Copies to `offset`. The range was checked against the device's size.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let start = offset as usize;
        self.bytes.bytes_mut()[start..start + from.len()].copy_from_slice(from);
    }

    /// Makes `len` bytes at `offset` read as zero and gives whole pages of them back. The range was checked.
    pub(crate) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let (start, end) = (offset as usize, (offset + len) as usize);
        let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        if first >= last {
            self.bytes.bytes_mut()[start..end].fill(0);
            return Ok(());
        }
        self.bytes.bytes_mut()[start..first].fill(0);
        self.bytes.bytes_mut()[last..end].fill(0);
        self.bytes.forget(first, last - first)
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
}
