//! Requests with several parts: reads, and writes with FUA.

use alloc::vec::Vec;

use super::Command;

/// Requests by number; numbers are reused.
#[derive(Clone, Default, Debug)]
pub(super) struct Reads {
    slots: Vec<Read>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    serial: u64,
    id: u64,
    /// Parts that have not crossed their channel, or are not in the flash.
    parts: u32,
}

impl Reads {
    /// Adds a read of this many parts; returns its number.
    pub(super) fn add(&mut self, command: Command, parts: u32) -> u32 {
        let read = Read { serial: command.serial, id: command.id, parts };
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = read;
            return number;
        }
        self.slots.push(read);
        self.slots.len() as u32 - 1
    }

    /// Ends one part; returns the order of submission and the id if it was the last.
    pub(super) fn cross(&mut self, number: u32) -> Option<(u64, u64)> {
        let read = &mut self.slots[number as usize];
        read.parts -= 1;
        if read.parts > 0 {
            return None;
        }
        let ended = (read.serial, read.id);
        self.free.push(number);
        Some(ended)
    }
}
