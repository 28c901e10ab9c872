//! Flushes that wait until all earlier writes are on the device.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use weir_engine::Instant;

use super::{Block, Reason, State};

/// Flush under way.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    pub(super) token: u64,
    /// Owner whose client flushes.
    pub(super) owner: u32,
    pub(super) blocks: Range<u64>,
    /// Last stamp it waits for.
    pub(super) stamp: u64,
    /// Stamp up to which failures have been reported to its client.
    pub(super) seen: u64,
    /// When it came.
    pub(super) since: Instant,
    /// All blocks before this one have been written.
    cursor: u64,
    /// All blocks before this one have been written or chosen.
    unchosen: u64,
}

/// Block that a flush waits for and that is not chosen yet.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) at: u64,
    /// The block's owner.
    pub(super) owner: u32,
    /// Of the flush: its owner, blocks, stamp and token.
    pub(super) asker: u32,
    pub(super) blocks: Range<u64>,
    pub(super) stamp: u64,
    pub(super) token: u64,
}

/// All flushes under way, by stamp. Each scans its blocks once, and looks at one block after each completion.
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
        since: Instant,
    ) -> Barrier {
        let start = blocks.start;
        Barrier { token, owner, blocks, stamp, seen, since, cursor: start, unchosen: start }
    }

    fn waits_for(&self, at: u64, block: &Block) -> bool {
        self.blocks.contains(&at) && block.since <= self.stamp
    }
}

impl Barriers {
    pub(super) fn add(&mut self, barrier: Barrier) {
        self.waiting.push(barrier);
    }

    /// Passes the flushes that wait for nothing any more. Nothing is added behind a flush's cursor, since blocks that are
    /// written again are younger than the flush.
    pub(super) fn release_passed(&mut self, blocks: &BTreeMap<u64, Block>) {
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
        // The last flush has the largest stamp.
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

    /// Fails the flushes that wait for a block which could not be written.
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
