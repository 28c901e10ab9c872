//! One request on its way up, and the rings it waits in.

use std::collections::VecDeque;

use super::GroupId;
use super::profile::{Profile, Remainder};

/// Names a submitted bio; ids are given in the order of submission, from 0.
pub type BioId = usize;

/// Reads or writes; they never share anything but a group's `disptime`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes and discards.
    Write,
}

impl Direction {
    /// Reads, then writes.
    pub const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// Flags of a bio; none by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// Metadata or swap.
    pub meta: bool,
    /// A later piece of a bio that has already passed the whole tree.
    pub remainder: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bio {
    pub(super) id: BioId,
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) flags: Flags,
    /// The group it waits in has had its bytes already; cleared when it leaves the group.
    pub(super) bytes_paid_here: bool,
}

impl Bio {
    pub(super) fn owes_no_bytes(&self) -> bool {
        self.flags.remainder || self.bytes_paid_here
    }
}

/// Where the bios of a qnode came from: the group itself or a child that passed them up.
pub(super) type Source = GroupId;

/// The bios of one source, in order of arrival.
#[derive(Clone, Debug)]
struct Qnode {
    source: Source,
    /// Bios that owe no bytes here, in a profile that queues them separately; they go first.
    for_ios: VecDeque<Bio>,
    bios: VecDeque<Bio>,
}

/// The sources that wait in one direction of one group, in the order of their turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring(VecDeque<Qnode>);

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|qnode| qnode.for_ios.len() + qnode.bios.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a bio that owes no bytes waits behind another.
    pub(super) fn has_for_ios(&self) -> bool {
        self.0.iter().any(|qnode| !qnode.for_ios.is_empty())
    }

    pub(super) fn push(&mut self, profile: &Profile, source: Source, bio: Bio) {
        if !self.0.iter().any(|qnode| qnode.source == source) {
            self.0.push_back(Qnode { source, for_ios: VecDeque::new(), bios: VecDeque::new() });
        }
        for qnode in &mut self.0 {
            if qnode.source == source {
                let apart = profile.remainder == Remainder::IoAheadOfBytes;
                if apart && bio.owes_no_bytes() {
                    qnode.for_ios.push_back(bio);
                } else {
                    qnode.bios.push_back(bio);
                }
            }
        }
    }

    /// The source whose turn it is.
    pub(super) fn head(&self) -> Option<Bio> {
        let qnode = self.0.front()?;
        qnode.for_ios.front().or(qnode.bios.front()).copied()
    }

    /// Takes the head; its source goes to the end of the ring if it has more.
    pub(super) fn pop(&mut self) -> Option<Bio> {
        let mut qnode = self.0.pop_front()?;
        let bio = qnode.for_ios.pop_front().or_else(|| qnode.bios.pop_front());
        if !qnode.for_ios.is_empty() || !qnode.bios.is_empty() {
            self.0.push_back(qnode);
        }
        bio
    }

    /// Puts the head back after a check that paid its bytes: it waits for its I/O only, from now on.
    pub(super) fn head_has_paid_bytes(&mut self) {
        if let Some(qnode) = self.0.front_mut()
            && qnode.for_ios.is_empty()
            && let Some(mut bio) = qnode.bios.pop_front()
        {
            bio.bytes_paid_here = true;
            qnode.for_ios.push_back(bio);
        }
    }
}
