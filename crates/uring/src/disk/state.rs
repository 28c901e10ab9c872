//! The ring's side of its devices.

use std::io;

use super::info::DiskInfo;
use super::memory::Memory;

/// Where the bytes are.
pub(crate) enum Store {
    /// Behind a descriptor of the ring.
    File(u32),
    /// Here.
    Memory(Memory),
}

/// One attached device.
pub(crate) struct State {
    pub(crate) store: Store,
    info: DiskInfo,
}

/// All attached devices, by index.
#[derive(Default)]
pub(crate) struct Disks {
    states: Vec<State>,
}

impl Disks {
    pub(crate) fn insert(&mut self, store: Store, info: DiskInfo) -> u32 {
        self.states.push(State { store, info });
        self.states.len() as u32 - 1
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut State {
        &mut self.states[index as usize]
    }
}

impl State {
    /// Whether `offset..offset + len` may be read: `InvalidInput` outside the device.
    pub(crate) fn check_read(&self, offset: u64, len: u64) -> io::Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Whether it may be written: `StorageFull` outside the device, `ReadOnlyFilesystem` if nothing may be.
    pub(crate) fn check_write(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.info.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.check_read(offset, len).map_err(|_| io::ErrorKind::StorageFull.into())
    }
}
