//! Write buffer of a flash disk, and the flushes that wait for it.

use alloc::collections::VecDeque;

use super::Command;

/// Room, the writes that wait for it, and the progress of the bytes before each flush.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    room: u64,
    waiting: VecDeque<Waiting>,
    /// Groups of bytes: before each flush under way, and after the last.
    epochs: VecDeque<Epoch>,
    /// Number of the first of them.
    first: u64,
    /// The group whose data goes to the flash next.
    leaving: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    /// Bytes without room yet.
    left: u64,
    epoch: u64,
}

/// Bytes by state: not yet in the buffer, in it, on their way to the flash.
#[derive(Clone, Copy, Default, Debug)]
struct Epoch {
    coming: u64,
    held: u64,
    leaving: u64,
    /// The flush that waits for them; nothing is added then.
    flush: Option<Command>,
}

/// A piece of a write that has room.
pub(super) struct Piece {
    pub(super) bytes: u64,
    pub(super) epoch: u64,
    /// The write, with its last piece.
    pub(super) last_of: Option<Command>,
}

impl Buffer {
    /// An empty one.
    pub(super) fn new(room: u64) -> Buffer {
        let epochs = VecDeque::from([Epoch::default()]);
        Buffer { room, waiting: VecDeque::new(), epochs, first: 0, leaving: 0 }
    }

    /// Adds a write.
    pub(super) fn push(&mut self, command: Command) {
        let epoch = self.first + self.epochs.len() as u64 - 1;
        if let Some(open) = self.epochs.back_mut() {
            open.coming += command.len;
        }
        self.waiting.push_back(Waiting { command, left: command.len, epoch });
    }

    /// Adds a flush, which waits for all earlier bytes.
    pub(super) fn close(&mut self, flush: Command) {
        if let Some(open) = self.epochs.back_mut() {
            open.flush = Some(flush);
        }
        self.epochs.push_back(Epoch::default());
    }

    /// The next piece of at most `unit` bytes that has room, first come, first served.
    pub(super) fn admit(&mut self, unit: u64) -> Option<Piece> {
        let first = self.waiting.front_mut()?;
        let bytes = first.left.min(unit).min(self.room);
        if bytes == 0 {
            return None;
        }
        (self.room, first.left) = (self.room - bytes, first.left - bytes);
        let (epoch, last_of) = (first.epoch, (first.left == 0).then_some(first.command));
        if last_of.is_some() {
            self.waiting.pop_front();
        }
        Some(Piece { bytes, epoch, last_of })
    }

    /// A piece is in the buffer.
    pub(super) fn fill(&mut self, epoch: u64, bytes: u64) {
        let epoch = self.epoch(epoch);
        (epoch.coming, epoch.held) = (epoch.coming - bytes, epoch.held + bytes);
    }

    /// Takes the next `unit` bytes for the flash, or less if a flush waits for them.
    pub(super) fn leave(&mut self, unit: u64) -> Option<(u64, u64)> {
        loop {
            let number = self.first + self.leaving as u64;
            let epoch = self.epochs.get_mut(self.leaving)?;
            let is_all_here = epoch.flush.is_some() && epoch.coming == 0;
            if epoch.held >= unit || (is_all_here && epoch.held > 0) {
                let bytes = epoch.held.min(unit);
                (epoch.held, epoch.leaving) = (epoch.held - bytes, epoch.leaving + bytes);
                return Some((number, bytes));
            }
            if !is_all_here {
                return None;
            }
            self.leaving += 1;
        }
    }

    /// Frees the room of bytes that have reached the flash.
    pub(super) fn left(&mut self, epoch: u64, bytes: u64) {
        self.room += bytes;
        self.epoch(epoch).leaving -= bytes;
    }

    /// Completed flushes, each once.
    pub(super) fn flushed(&mut self) -> Option<Command> {
        let epoch = self.epochs.front()?;
        let flush = epoch.flush.filter(|_| epoch.coming + epoch.held + epoch.leaving == 0)?;
        self.epochs.pop_front();
        self.first += 1;
        self.leaving = self.leaving.saturating_sub(1);
        Some(flush)
    }

    fn epoch(&mut self, number: u64) -> &mut Epoch {
        &mut self.epochs[(number - self.first) as usize]
    }
}
