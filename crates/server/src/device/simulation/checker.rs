//! Checker: which bytes a read may return and which must survive a crash, given what clients were answered.
//!
//! Bytes are tracked in units of [`UNIT`] bytes. Each write puts its own number into all of its units, so what is read
//! names the write that it came from. Instants are ticks: each event that a client sees has its own.
//!
//! - A read may return a write unless another one began after that one had ended, and ended before the read began.
//! - A trim brings back whatever was there before it, until something is written.
//! - After a crash the same holds, where only those writes count that a client was told are durable: by FUA, or by a flush
//!   that began after the write had ended, on a connection that had not been told of a failure of the write.
//! - After an orderly end all acknowledged writes count, unless the device failed them and a client was told.

use std::ops::Range;

/// Bytes that are tracked as one.
pub(super) const UNIT: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Not answered yet.
    Pending,
    Acked(u64),
    /// Failed, or the connection has gone: it may have happened, or not.
    Unknown,
}

#[derive(Clone, Debug)]
struct Write {
    /// What its units hold: its number, or 0 of a trim or zeroes.
    value: u64,
    export: usize,
    issued: u64,
    end: End,
    /// Whether a client was told that it survives a crash.
    is_durable: bool,
    /// When the device failed a part of it, if it did.
    failed: Option<u64>,
    /// Whether it may have been carried out without changing what is read, as a trim may.
    is_optional: bool,
}

#[derive(Debug)]
pub(super) struct Checker {
    tick: u64,
    writes: Vec<Write>,
    /// The writes of each unit, in the order in which they were issued.
    units: Vec<Vec<u32>>,
    /// When a flush last failed, on any connection: a failed sync may lose the bytes of any export, and the operator is
    /// told by the log.
    flush_failed: u64,
}

/// Which writes count as having happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counts {
    /// Those that are acknowledged and that the device has not failed: for reads.
    Acked,
    /// Those that must be on the device after an orderly end.
    Drained,
    /// Those that are durable: after a crash.
    Durable,
}

impl Checker {
    pub(super) fn new(units: usize) -> Checker {
        let initial = Write {
            value: 0,
            export: 0,
            issued: 0,
            end: End::Acked(0),
            is_durable: true,
            failed: None,
            is_optional: false,
        };
        Checker { tick: 1, writes: vec![initial], units: vec![vec![0]; units], flush_failed: 0 }
    }

    /// The next tick.
    pub(super) fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// A client sends a write; its number. `units` of the device, `is_zero` for zeroes and trims.
    pub(super) fn issue_write(
        &mut self,
        export: usize,
        units: Range<u64>,
        is_zero: bool,
        is_optional: bool,
    ) -> u32 {
        let issued = self.tick();
        let number = self.writes.len() as u32;
        let value = if is_zero { 0 } else { u64::from(number) };
        self.writes.push(Write {
            value,
            export,
            issued,
            end: End::Pending,
            is_durable: false,
            failed: None,
            is_optional,
        });
        for unit in units {
            self.units[unit as usize].push(number);
        }
        number
    }

    pub(super) fn ack_write(&mut self, write: u32, is_durable: bool) {
        let tick = self.tick();
        let write = &mut self.writes[write as usize];
        write.end = End::Acked(tick);
        write.is_durable |= is_durable;
    }

    /// A write has failed, or its answer will not come.
    pub(super) fn lose_write(&mut self, write: u32) {
        self.writes[write as usize].end = End::Unknown;
    }

    /// A flush was answered. It makes durable what had ended in its export before it was `issued`, but for what the device
    /// had failed before the connection began, `since` that tick, or before its last flush that `failed`.
    pub(super) fn ack_flush(&mut self, export: usize, issued: u64, since: u64, failed: u64) {
        for write in &mut self.writes {
            let End::Acked(acked) = write.end else { continue };
            // What the device failed before counts for connections that were there and were not told.
            let is_known = |failure| failure < since || failure < failed;
            let is_covered = write.export == export && acked < issued;
            if is_covered && !write.failed.is_some_and(is_known) {
                write.is_durable = true;
            }
        }
    }

    /// A flush was answered with a failure; the tick.
    pub(super) fn fail_flush(&mut self) -> u64 {
        let tick = self.tick();
        self.flush_failed = self.flush_failed.max(tick);
        tick
    }

    /// The answer to a flush is on its way to a client that has gone: it may be a failure, and the server takes it as told.
    pub(super) fn lose_flush(&mut self) {
        self.flush_failed = u64::MAX;
    }

    /// The device has failed to write `units`, or has lost them.
    pub(super) fn fail_device(&mut self, units: impl Iterator<Item = u64>) {
        let tick = self.tick();
        for unit in units {
            for &write in &self.units[unit as usize] {
                let write = &mut self.writes[write as usize];
                let is_told = |failed| self.flush_failed > failed;
                if write.end != End::Unknown && !write.failed.is_some_and(is_told) {
                    write.failed = Some(tick);
                }
            }
        }
    }

    /// Whether a read that was `issued` at a tick may find `value` in a unit.
    ///
    /// # Errors
    /// Which write should have been seen instead.
    pub(super) fn check(
        &self,
        unit: u64,
        value: u64,
        issued: u64,
        counts: Counts,
    ) -> Result<(), String> {
        let writes = || self.units[unit as usize].iter().map(|&write| &self.writes[write as usize]);
        let counts_as_done = |write: &&Write| match counts {
            _ if write.is_optional => None,
            Counts::Durable => match write.end {
                End::Acked(acked) if write.is_durable => Some(acked),
                _ => None,
            },
            Counts::Acked => match write.end {
                End::Acked(acked) if write.failed.is_none() => Some(acked),
                _ => None,
            },
            Counts::Drained => match write.end {
                End::Acked(acked) => {
                    let is_told = |failed| self.flush_failed > failed;
                    (write.is_durable || !write.failed.is_some_and(is_told)).then_some(acked)
                }
                _ => None,
            },
        };
        let mut missed = None;
        for candidate in writes().filter(|write| write.value == value && write.issued <= self.tick)
        {
            let ended = |write: &Write| match write.end {
                End::Acked(acked) => acked,
                End::Pending | End::Unknown => u64::MAX,
            };
            // After a trim, or beside one, anything may be read that was there before.
            let is_trimmed = |write: &&Write| write.is_optional && ended(write) > candidate.issued;
            let ends = std::iter::once(candidate).chain(writes().filter(is_trimmed)).map(ended);
            let end = ends.max().unwrap_or(u64::MAX);
            let newer = writes().find(|write| {
                write.issued > end && counts_as_done(write).is_some_and(|acked| acked < issued)
            });
            match newer {
                None => return Ok(()),
                Some(newer) => missed = Some((candidate, newer)),
            }
        }
        let offset = unit * UNIT;
        match missed {
            Some((older, newer)) => Err(format!(
                "bytes at {offset} are of {older:?}, and should be of {newer:?} or a later one"
            )),
            None => Err(format!("bytes at {offset} hold {value}, which was never written there")),
        }
    }
}

/// Fills `bytes` with the units of a write.
pub(super) fn fill(bytes: &mut [u8], value: u64) {
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// The values of the units in `bytes`; `None` where one is of two writes.
pub(super) fn values(bytes: &[u8]) -> impl Iterator<Item = Option<u64>> {
    bytes.chunks_exact(UNIT as usize).map(|unit| {
        let mut words = unit.chunks_exact(8);
        let first = words.next()?;
        words
            .all(|word| word == first)
            .then(|| u64::from_le_bytes(first.try_into().expect("8 bytes")))
    })
}
