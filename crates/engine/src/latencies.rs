//! Latencies of a cgroup's requests, read from the histograms in which they are counted.

use weir_counters::Histogram;

use crate::types::Direction;

/// What requests wait for inside the engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WaitCause {
    /// A limit of their own cgroup.
    OwnLimit,
    /// A limit of a cgroup above.
    OtherLimit,
    /// The turns of other clients at their nearest limit.
    OtherClients,
    /// A limit that was lifted meanwhile.
    LiftedLimit,
    /// Room at the device.
    Window,
    /// The device.
    Device,
}

impl WaitCause {
    /// All of them, in the order of their indices.
    pub const ALL: [WaitCause; 6] = [
        WaitCause::OwnLimit,
        WaitCause::OtherLimit,
        WaitCause::OtherClients,
        WaitCause::LiftedLimit,
        WaitCause::Window,
        WaitCause::Device,
    ];

    /// Name in statistics.
    pub const fn key(self) -> &'static str {
        match self {
            WaitCause::OwnLimit => "own_limit",
            WaitCause::OtherLimit => "other_limit",
            WaitCause::OtherClients => "other_clients",
            WaitCause::LiftedLimit => "lifted_limit",
            WaitCause::Window => "window",
            WaitCause::Device => "device",
        }
    }
}

/// Times of the requests of one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectionLatencies {
    /// From the submission of each to its completion.
    pub whole: Histogram,
    /// Of those that waited for it, by cause.
    causes: [Histogram; WaitCause::ALL.len()],
}

impl DirectionLatencies {
    /// How long requests waited for `cause`. Those that did not are not counted. A request that pays a limit in instalments
    /// counts with all of its wait at one limit; each piece of a long request counts at the device.
    pub fn cause(&self, cause: WaitCause) -> &Histogram {
        &self.causes[cause as usize]
    }

    pub(crate) fn cause_mut(&mut self, cause: WaitCause) -> &mut Histogram {
        &mut self.causes[cause as usize]
    }

    fn since(&self, before: &DirectionLatencies) -> DirectionLatencies {
        let causes = |at: usize| self.causes[at].since(&before.causes[at]);
        DirectionLatencies {
            whole: self.whole.since(&before.whole),
            causes: core::array::from_fn(causes),
        }
    }

    /// Adds the times of others.
    pub fn absorb(&mut self, other: &DirectionLatencies) {
        self.whole.absorb(&other.whole);
        self.causes.iter_mut().zip(&other.causes).for_each(|(mine, theirs)| mine.absorb(theirs));
    }
}

/// Times of the requests of a cgroup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    pub(crate) directions: [DirectionLatencies; 2],
}

impl Latencies {
    /// Those of one direction: reads, or all others.
    pub fn of(&self, direction: Direction) -> &DirectionLatencies {
        &self.directions[direction.index()]
    }

    /// What was counted since `before`, an earlier state of these.
    pub fn since(&self, before: &Latencies) -> Latencies {
        let pair = |d: usize| self.directions[d].since(&before.directions[d]);
        Latencies { directions: [pair(0), pair(1)] }
    }

    /// Adds the times of others.
    pub fn absorb(&mut self, other: &Latencies) {
        self.directions.iter_mut().zip(&other.directions).for_each(|(mine, of)| mine.absorb(of));
    }
}
