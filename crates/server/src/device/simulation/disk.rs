//! Simulated disk: bytes with a volatile cache, requests that take effect in pieces and in any order, failures, crashes.

use std::ops::Range;

use weir_uring::{Durability, IoBuf, SyncFailures};

use super::checker::{UNIT, fill, values};
use super::rng::Rng;

const EIO: i32 = 5;
const ENXIO: i32 = 6;
const ENOSPC: i32 = 28;

/// A unit's content and how many changes it is from the beginning.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Content {
    value: u64,
    version: u64,
}

#[derive(Debug)]
pub(super) struct Disk {
    current: Vec<Content>,
    durable: Vec<Content>,
    /// Changes that a failed flush has thrown away: they never become durable.
    dropped: Vec<u64>,
    /// The last change of each unit whose request has ended.
    ended: Vec<Content>,
    version: u64,
    pub(super) sync_failures: SyncFailures,
    pub(super) is_gone: bool,
}

/// A request at the disk.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) token: u64,
    pub(super) work: Work,
    /// The units that have taken effect already.
    done: Vec<(u64, Content)>,
    /// Units that will take effect at the end.
    left: Vec<(u64, u64)>,
    is_durable: bool,
}

#[derive(Debug)]
pub(super) enum Work {
    Read { offset: u64, buffer: IoBuf, is_early: bool },
    Write { buffer: IoBuf },
    Zero,
    Flush { dirty: Vec<(u64, Content)> },
    Prefetch,
}

impl Disk {
    pub(super) fn new(units: usize) -> Disk {
        let empty = vec![Content::default(); units];
        let (current, durable) = (empty.clone(), empty.clone());
        let (dropped, ended) = (vec![0; units], empty);
        let sync_failures = SyncFailures::default();
        Disk { current, durable, dropped, ended, version: 0, sync_failures, is_gone: false }
    }

    pub(super) fn units(&self) -> usize {
        self.current.len()
    }

    pub(super) fn read(
        &self,
        offset: u64,
        mut buffer: IoBuf,
        token: u64,
        rng: &mut Rng,
    ) -> Request {
        let is_early = rng.chance(500);
        if is_early {
            self.copy(offset, &mut buffer);
        }
        Request::new(token, Work::Read { offset, buffer, is_early })
    }

    pub(super) fn write(
        &mut self,
        offset: u64,
        buffer: IoBuf,
        durability: Durability,
        token: u64,
        rng: &mut Rng,
    ) -> Request {
        let first = offset / UNIT;
        let values = values(&buffer).map(|value| value.expect("writes are of whole units"));
        let units = values.enumerate().map(|(at, value)| (first + at as u64, value)).collect();
        self.change(units, Work::Write { buffer }, durability, token, rng)
    }

    /// Zeroes, or a trim, which may leave some units as they are.
    pub(super) fn zero(
        &mut self,
        units: Range<u64>,
        is_trim: bool,
        durability: Durability,
        token: u64,
        rng: &mut Rng,
    ) -> Request {
        let is_all = !is_trim || rng.chance(500);
        let units = units.filter(|_| is_all || rng.chance(500)).map(|unit| (unit, 0)).collect();
        self.change(units, Work::Zero, durability, token, rng)
    }

    fn change(
        &mut self,
        units: Vec<(u64, u64)>,
        work: Work,
        durability: Durability,
        token: u64,
        rng: &mut Rng,
    ) -> Request {
        let mut request = Request::new(token, work);
        request.is_durable = durability == Durability::Durable;
        request.left = units;
        // Sectors take effect now or at the end, each on its own.
        let early = rng.pick(&[0, 0, 500, 1000]);
        self.apply_some(&mut request, early, rng);
        request
    }

    fn apply_some(&mut self, request: &mut Request, per_mille: u64, rng: &mut Rng) {
        for (unit, value) in std::mem::take(&mut request.left) {
            if per_mille < 1000 && !rng.chance(per_mille) {
                request.left.push((unit, value));
                continue;
            }
            self.version += 1;
            let content = Content { value, version: self.version };
            self.current[unit as usize] = content;
            request.done.push((unit, content));
        }
    }

    pub(super) fn flush(&self, token: u64) -> Request {
        let dirty = self.current.iter().zip(&self.durable).enumerate();
        let dirty = dirty
            .filter(|(_, (current, durable))| current.version > durable.version)
            .map(|(unit, (current, _))| (unit as u64, *current))
            .filter(|&(unit, current)| self.dropped[unit as usize] < current.version)
            .collect();
        Request::new(token, Work::Flush { dirty })
    }

    pub(super) fn prefetch(token: u64) -> Request {
        Request::new(token, Work::Prefetch)
    }

    /// Ends a request; its errno if it `fails`, and then the units that are not as asked.
    pub(super) fn finish(
        &mut self,
        request: &mut Request,
        fails: bool,
        rng: &mut Rng,
    ) -> Result<(), (i32, Vec<u64>)> {
        let errno = match &request.work {
            _ if self.is_gone => ENXIO,
            Work::Write { .. } => rng.pick(&[EIO, EIO, ENOSPC]),
            _ => EIO,
        };
        if fails || self.is_gone {
            // What it would have changed may have been changed, and what is not may be later requests' only.
            let mut lost: Vec<u64> = request.done.iter().map(|&(unit, _)| unit).collect();
            lost.extend(request.left.iter().map(|&(unit, _)| unit));
            self.apply_some(request, rng.pick(&[0, 500, 1000]), rng);
            if let Work::Flush { dirty } = &request.work {
                // The kernel forgets what it could not write: no later flush tells of it.
                self.sync_failures.count += 1;
                self.sync_failures.errno = errno;
                for &(unit, content) in dirty {
                    if self.ended[unit as usize].version >= content.version && rng.chance(500) {
                        self.dropped[unit as usize] = content.version;
                        lost.push(unit);
                    }
                }
            }
            return Err((errno, lost));
        }
        self.apply_some(request, 1000, rng);
        for &(unit, content) in &request.done {
            let ended = &mut self.ended[unit as usize];
            if content.version > ended.version {
                *ended = content;
            }
        }
        match &mut request.work {
            Work::Read { offset, buffer, is_early } if !*is_early => {
                let (offset, len) = (*offset as usize / UNIT as usize, buffer.len());
                let units = &self.current[offset..offset + len / UNIT as usize];
                copy(units, buffer);
            }
            Work::Flush { dirty } => {
                let dirty = std::mem::take(dirty);
                self.make_durable(&dirty);
            }
            _ => {}
        }
        if request.is_durable && matches!(request.work, Work::Zero) {
            // Zeroes and trims are made durable by a sync of all that has ended before, also where a later change has not.
            let ended = self.ended.iter().enumerate();
            let kept = ended.filter(|&(unit, content)| content.version > self.dropped[unit]);
            let kept: Vec<_> = kept.map(|(unit, content)| (unit as u64, *content)).collect();
            self.make_durable(&kept);
        } else if request.is_durable {
            let done = std::mem::take(&mut request.done);
            self.make_durable(&done);
        }
        Ok(())
    }

    fn make_durable(&mut self, units: &[(u64, Content)]) {
        for &(unit, content) in units {
            let durable = &mut self.durable[unit as usize];
            if content.version > durable.version {
                *durable = content;
            }
        }
    }

    fn copy(&self, offset: u64, bytes: &mut [u8]) {
        let first = (offset / UNIT) as usize;
        copy(&self.current[first..first + bytes.len() / UNIT as usize], bytes);
    }

    /// The first units from `unit` on, up to `end`, that are alike: all zero or none.
    pub(super) fn run(&self, unit: u64, end: u64) -> (u64, bool) {
        let is_data = |unit: u64| self.current[unit as usize].value != 0;
        let data = is_data(unit);
        let len = (unit..end).take_while(|&unit| is_data(unit) == data).count();
        (len as u64, data)
    }

    /// What is left after a loss of power, by unit.
    pub(super) fn crash(&self, rng: &mut Rng) -> Vec<u64> {
        let survives = rng.pick(&[0, 100, 500, 900, 1000]);
        let both = self.current.iter().zip(&self.durable);
        both.map(|(current, durable)| if rng.chance(survives) { current } else { durable })
            .map(|content| content.value)
            .collect()
    }
}

fn copy(units: &[Content], bytes: &mut [u8]) {
    for (unit, bytes) in units.iter().zip(bytes.chunks_exact_mut(UNIT as usize)) {
        fill(bytes, unit.value);
    }
}

impl Request {
    fn new(token: u64, work: Work) -> Request {
        Request { token, work, done: Vec::new(), left: Vec::new(), is_durable: false }
    }
}

#[cfg(test)]
mod tests {
    use weir_uring::BufferPool;

    use super::*;

    #[test]
    fn durable_zeroes_survive_beneath_a_write_that_has_not_ended() {
        let pool = BufferPool::new(1 << 20).unwrap();
        let filled = |value| {
            let mut buffer = pool.get(UNIT as usize).unwrap();
            fill(&mut buffer, value);
            buffer
        };
        for seed in 0..50 {
            let (mut disk, mut rng) = (Disk::new(1), Rng::new(seed));
            let mut old = disk.write(0, filled(1), Durability::Durable, 1, &mut rng);
            disk.finish(&mut old, false, &mut rng).unwrap();
            let mut zeroes = disk.zero(0..1, false, Durability::Durable, 2, &mut rng);
            let _later = disk.write(0, filled(2), Durability::Volatile, 3, &mut rng);
            disk.finish(&mut zeroes, false, &mut rng).unwrap();
            assert_ne!(disk.durable[0].value, 1, "seed {seed}");
        }
    }
}
