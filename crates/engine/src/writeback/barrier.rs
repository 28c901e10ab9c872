//! Flushes that wait until what was written before them is on the device.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::Block;

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
}

/// The flushes under way. Each goes through its blocks once, and looks at one of them whenever something has ended.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    waiting: Vec<Barrier>,
    passed: VecDeque<(Barrier, bool)>,
}

impl Barrier {
    pub(super) fn new(
        token: u64,
        owner: u32,
        blocks: Range<u64>,
        stamp: u64,
        seen: u64,
    ) -> Barrier {
        let cursor = blocks.start;
        Barrier { token, owner, blocks, stamp, seen, cursor }
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
                None => passed.push_back((barrier.clone(), false)),
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

    /// A block could not be written: whoever waits for it is told now.
    pub(super) fn fail(&mut self, at: u64, block: &Block) {
        let passed = &mut self.passed;
        self.waiting.retain(|barrier| {
            let has_failed = barrier.waits_for(at, block);
            if has_failed {
                passed.push_back((barrier.clone(), true));
            }
            !has_failed
        });
    }

    /// The next flush that waits no more, and whether anything it waited for has failed.
    pub(super) fn poll_passed(&mut self) -> Option<(Barrier, bool)> {
        self.passed.pop_front()
    }
}
