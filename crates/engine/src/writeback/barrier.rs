//! Flushes that wait until what was written before them is on the device.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::{Block, Reason, State};

/// One flush.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    pub(super) token: u64,
    /// Who asks.
    pub(super) owner: u32,
    pub(super) blocks: Range<u64>,
    /// It waits for what was written no later than this.
    pub(super) stamp: u64,
    /// The failures up to this stamp have been reported to whoever asks.
    pub(super) seen: u64,
    /// Nothing before this block is waited for any more.
    cursor: u64,
    /// Nothing before this block is waited for and still to be chosen.
    unchosen: u64,
}

/// A block that a flush waits for and that is still to be chosen.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) at: u64,
    /// The block's owner.
    pub(super) owner: u32,
    /// The flush: its asker, its blocks, its stamp, its token.
    pub(super) asker: u32,
    pub(super) blocks: Range<u64>,
    pub(super) stamp: u64,
    pub(super) token: u64,
}

/// The flushes under way. Each goes through its blocks once, and looks at one of them whenever something has ended.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    waiting: Vec<Barrier>,
    passed: VecDeque<(Barrier, Result<(), Reason>)>,
}

impl Barrier {
    pub(super) fn new(
        token: u64,
        owner: u32,
        blocks: Range<u64>,
        stamp: u64,
        seen: u64,
    ) -> Barrier {
        let start = blocks.start;
        Barrier { token, owner, blocks, stamp, seen, cursor: start, unchosen: start }
    }

    fn waits_for(&self, at: u64, block: &Block) -> bool {
        self.blocks.contains(&at) && block.since <= self.stamp
    }
}

impl Barriers {
    pub(super) fn add(&mut self, barrier: Barrier) {
        self.waiting.push(barrier);
    }

    /// Lets pass whatever waits for nothing any more. What a flush waits for never grows behind its cursor: a block that
    /// is written anew is younger than it.
    pub(super) fn settle(&mut self, blocks: &BTreeMap<u64, Block>) {
        let passed = &mut self.passed;
        self.waiting.retain_mut(|barrier| {
            let mut rest = blocks.range(barrier.cursor..barrier.blocks.end);
            let first = rest.find(|(_, block)| block.since <= barrier.stamp);
            match first {
                Some((&at, _)) => barrier.cursor = at,
                None => passed.push_back((barrier.clone(), Ok(()))),
            }
            first.is_some()
        });
    }

    /// Whether any flush waits for a block.
    pub(super) fn wait_for(&self, at: u64, block: &Block) -> bool {
        // They stand in the order of their stamps.
        let youngest = self.waiting.last().map_or(0, |barrier| barrier.stamp);
        block.since <= youngest && self.waiting.iter().any(|barrier| barrier.waits_for(at, block))
    }

    /// The next block that a flush waits for and that is still to be chosen, the oldest flush first; none of a flush whose
    /// next is of an owner that `may_go` does not let go. Each flush goes through its blocks once: O(flushes) beside that.
    pub(super) fn next_wanted(
        &mut self,
        blocks: &BTreeMap<u64, Block>,
        may_go: impl Fn(u32) -> bool,
    ) -> Option<Wanted> {
        self.waiting.iter_mut().find_map(|barrier| {
            let end = barrier.blocks.end;
            if barrier.unchosen >= end {
                return None;
            }
            let stamp = barrier.stamp;
            let mut rest = blocks.range(barrier.unchosen..end);
            let next = rest
                .find(|(_, block)| block.since <= stamp && block.state == State::Dirty)
                .map(|(&at, block)| (at, block.owner));
            barrier.unchosen = next.map_or(end, |(at, _)| at);
            let (at, owner) = next.filter(|&(_, owner)| may_go(owner))?;
            let Barrier { token, owner: asker, ref blocks, .. } = *barrier;
            Some(Wanted { at, owner, asker, blocks: blocks.clone(), stamp, token })
        })
    }

    /// A block is to be chosen again by the flushes that wait for it.
    pub(super) fn want(&mut self, at: u64, block: &Block) {
        for barrier in &mut self.waiting {
            if barrier.waits_for(at, block) {
                barrier.unchosen = barrier.unchosen.min(at);
            }
        }
    }

    /// Whether a flush that waits for a block has gone past it without choosing it.
    pub(super) fn overlook(&self, at: u64, block: &Block) -> bool {
        self.waiting.iter().any(|barrier| barrier.waits_for(at, block) && barrier.unchosen > at)
    }

    /// A block could not be written: whoever waits for it is told now.
    pub(super) fn fail(&mut self, at: u64, block: &Block, reason: Reason) {
        let passed = &mut self.passed;
        self.waiting.retain(|barrier| {
            let has_failed = barrier.waits_for(at, block);
            if has_failed {
                passed.push_back((barrier.clone(), Err(reason)));
            }
            !has_failed
        });
    }

    /// The next flush that waits no more, and why something that it waited for has failed.
    pub(super) fn poll_passed(&mut self) -> Option<(Barrier, Result<(), Reason>)> {
        self.passed.pop_front()
    }
}
