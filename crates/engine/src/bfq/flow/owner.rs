//! Owner of a flow: a client, or a cgroup for its writeback.

use core::fmt;

use crate::requests::Requests;
use crate::tree::{Task, Tree};
use crate::types::Request;

/// Owner of a flow. Four bytes, since a million flows have one each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

/// [`Owner`] as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Synchronous requests of a client.
    Client(u32),
    /// Writeback of a cgroup.
    Writeback(u32),
}

const WRITEBACK: u32 = 1 << 31;

impl Owner {
    /// Owner of no flow.
    pub(crate) const NONE: Owner = Owner(u32::MAX);

    pub(crate) fn client(client: u32) -> Owner {
        assert!(client < WRITEBACK, "fewer than 2^31 clients");
        Owner(client)
    }

    pub(crate) fn writeback(cgroup: u32) -> Owner {
        assert!(cgroup < WRITEBACK - 1, "fewer than 2^31 - 1 cgroups");
        Owner(cgroup | WRITEBACK)
    }

    /// Owner of the flow for the request at `index`.
    // Inline on the hot path.
    #[inline(always)]
    pub(crate) fn of(tree: &Tree, requests: &Requests, index: u32) -> Owner {
        let record = &requests[index];
        Owner::of_task(&tree.tasks[record.task()], &record.request)
    }

    /// Owner of the flow for a request of `task`.
    #[inline(always)]
    pub(crate) fn of_task(task: &Task, request: &Request) -> Owner {
        match request.sync {
            true => Owner::client(task.client),
            false => Owner::writeback(task.cgroup),
        }
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & WRITEBACK {
            0 => Kind::Client(self.0),
            _ => Kind::Writeback(self.0 & !WRITEBACK),
        }
    }

    /// The client, if it is one.
    pub(crate) fn as_client(self) -> Option<u32> {
        match self.kind() {
            Kind::Client(client) => Some(client),
            Kind::Writeback(_) => None,
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}
