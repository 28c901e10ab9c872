//! The record of a run.

use std::fmt;

use super::{CgroupId, ClientId, Nanos, Rates, RequestId, TaskId};

/// Events in order, each with its time. Times never decrease.
pub type Log = Vec<(Nanos, Event)>;

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A cgroup was created, unlimited.
    Create {
        /// The new one.
        cgroup: CgroupId,
        /// Where it stands.
        parent: CgroupId,
        /// Its share among its siblings.
        weight: u64,
    },
    /// A cgroup's share among its siblings has changed.
    Reweigh {
        /// Which.
        cgroup: CgroupId,
        /// The new weight.
        weight: u64,
    },
    /// A cgroup's limits have changed: on reads, on writes, and on both together.
    Limit {
        /// Which.
        cgroup: CgroupId,
        /// The new ones.
        rates: Box<[Rates; 3]>,
    },
    /// A cgroup stands elsewhere now, with everything below and waiting in it.
    Move {
        /// Which.
        cgroup: CgroupId,
        /// The new parent.
        parent: CgroupId,
    },
    /// A cgroup is removed; its requests belong to its parent.
    Remove {
        /// Which.
        cgroup: CgroupId,
    },
    /// A task was opened.
    Open {
        /// The new one.
        task: TaskId,
        /// Whose.
        client: ClientId,
        /// Where the client is.
        cgroup: CgroupId,
    },
    /// A request came.
    Submit(Request),
    /// A request was dispatched, and has paid the rest of its price.
    Dispatch(RequestId),
    /// A request that goes on waiting paid some instalments.
    Pay {
        /// Which.
        id: RequestId,
        /// Bytes of them.
        bytes: u64,
        /// I/Os of them, in the unit of the limits.
        ios: u64,
    },
    /// A waiting request was taken back.
    Withdraw(RequestId),
    /// The caller asked until there was nothing more to dispatch, and was told when to ask again.
    Drained {
        /// When.
        deadline: Option<Nanos>,
    },
}

/// A request, as far as limits care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name, never used before.
    pub id: RequestId,
    /// The asker.
    pub task: TaskId,
    /// 0 for reads, 1 for writes.
    pub direction: usize,
    /// Bytes charged.
    pub bytes: u64,
    /// I/Os charged, in the unit of the limits.
    pub ios: u64,
    /// It overtakes data at every limit and leaves a debt.
    pub metadata: bool,
    /// It has paid some instalments, and is charged the rest.
    pub part_paid: bool,
}

impl Request {
    /// The rest after a payment.
    pub(super) fn after(self, (bytes, ios): (u64, u64)) -> Request {
        Request { bytes: self.bytes - bytes, ios: self.ios - ios, part_paid: true, ..self }
    }
}

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When it showed.
    pub at: Nanos,
    /// The place in the log.
    pub event: usize,
    /// Number or name of the property.
    pub promise: &'static str,
    /// The finding, and the expectation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {} ns: {}: {}", self.event, self.at, self.promise, self.what)
    }
}

impl std::error::Error for Violation {}
