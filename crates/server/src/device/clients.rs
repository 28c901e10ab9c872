//! Clients: a share is a peer's, however many connections it opens.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};

use rustix::net::getpeername;
use weir_engine::{CgroupId, ClientId, Engine, OpenError, TaskId};

use super::quota::{CgroupQuota, ClientQuota, Memory, MemoryAccount};
use weir_uring::peer_process;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Peer {
    /// A process on this machine, through a Unix socket.
    Process(i32),
    /// A machine, through TCP: any port of it.
    Address(IpAddr),
    /// Nothing is known; each such connection is a client of its own.
    Unknown(u64),
}

impl Peer {
    /// Asks the socket. `serial` makes the unknown ones differ.
    pub(crate) fn of(socket: BorrowedFd<'_>, serial: u64) -> Peer {
        let address = getpeername(socket).ok().flatten();
        match address.map(std::net::SocketAddr::try_from) {
            Some(Ok(address)) => Peer::Address(address.ip().to_canonical()),
            _ => match peer_process(socket) {
                Some(process) => Peer::Process(process.get()),
                // In another PID namespace all processes look alike from here: each connection for itself.
                None => Peer::Unknown(serial),
            },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Process(process) => write!(f, "process {process}"),
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Unknown(_) => f.write_str("unknown"),
        }
    }
}

/// The clients with connections. O(log clients) to join and to leave.
#[derive(Default)]
pub(super) struct Clients {
    open: BTreeMap<(CgroupId, Peer), Client>,
    /// What the clients of each cgroup hold together; gone with the last of them.
    tenants: BTreeMap<CgroupId, Weak<CgroupQuota>>,
    account: MemoryAccount,
}

struct Client {
    id: ClientId,
    connections: u32,
    quota: Rc<ClientQuota>,
    /// The task of write-back that it waits for, once there was any.
    write_back: Option<TaskId>,
}

/// A connection's place among its client's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) cgroup: CgroupId,
    peer: Peer,
    pub(super) task: TaskId,
}

impl Clients {
    /// Opens a task for a connection of `peer` in `cgroup`, and the client if this is its first; gives what all of its
    /// connections hold, too.
    pub(super) fn join(
        &mut self,
        engine: &mut Engine,
        cgroup: CgroupId,
        peer: Peer,
    ) -> Result<(Member, Rc<ClientQuota>), OpenError> {
        let client = match self.open.entry((cgroup, peer)) {
            Entry::Occupied(client) => client.into_mut(),
            Entry::Vacant(place) => {
                let id = engine.open_client(cgroup)?;
                let tenant = self.tenants.entry(cgroup).or_default();
                let shared = tenant.upgrade().unwrap_or_else(|| {
                    let opened = self.account.open();
                    *tenant = Rc::downgrade(&opened);
                    opened
                });
                let quota = shared.open();
                place.insert(Client { id, connections: 0, quota, write_back: None })
            }
        };
        let member = Member { cgroup, peer, task: engine.open_task(client.id)? };
        client.connections += 1;
        Ok((member, Rc::clone(&client.quota)))
    }

    /// Closes a connection's task, and the client with its last one. Requests at the device go on.
    pub(super) fn leave(&mut self, engine: &mut Engine, member: Member) {
        engine.close_task(member.task);
        let key = (member.cgroup, member.peer);
        if let Some(client) = self.open.get_mut(&key) {
            client.connections -= 1;
            if client.connections == 0 {
                // What is under way goes on.
                if let Some(task) = client.write_back {
                    engine.close_task(task);
                }
                engine.close_client(client.id);
                self.open.remove(&key);
                // Requests at the device may hold memory of a client that has gone, so a cgroup may be found empty later
                // only. Looked for when that has doubled the table.
                if self.tenants.len() > 2 * self.open.len() {
                    self.tenants.retain(|_, tenant| tenant.strong_count() > 0);
                }
            }
        }
    }

    /// The task of write-back that the client of `member` waits for: so it is in the same flow as the client's own requests,
    /// and stays when a connection goes. `None` when there is no room for it.
    pub(super) fn write_back_task(
        &mut self,
        engine: &mut Engine,
        member: Member,
    ) -> Option<TaskId> {
        let client = self.open.get_mut(&(member.cgroup, member.peer))?;
        if client.write_back.is_none() {
            client.write_back = engine.open_task(client.id).ok();
        }
        client.write_back
    }

    /// Bytes of memory that the requests of all clients hold.
    pub(super) fn held(&self, memory: Memory) -> usize {
        self.account.held(memory)
    }

    /// Connections of each cgroup itself.
    pub(super) fn connections(&self) -> BTreeMap<CgroupId, u32> {
        let mut counts = BTreeMap::new();
        for ((cgroup, _), client) in &self.open {
            *counts.entry(*cgroup).or_default() += client.connections;
        }
        counts
    }
}
