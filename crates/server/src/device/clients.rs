//! Clients: a share is a peer's, however many connections it opens.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};

use rustix::net::getpeername;
use weir_engine::{CgroupId, Change, ClientId, Instant, TaskId};
use weir_nbd::ExportId;
use weir_recording::RecordedEngine;

use super::client_limits::{self, JoinError};
use super::export_paths::Place;
use super::quota::{CgroupQuota, ClientQuota, Memory, MemoryAccount};
use weir_uring::peer_process;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Peer {
    /// A process on this machine, through a Unix socket.
    Process(i32),
    /// A machine, through TCP: any port of it.
    Address(IpAddr),
    /// A virtual machine, or the host of this one, through vsock: its CID.
    Vsock(u32),
    /// Nothing is known; each such connection is a client of its own.
    Unknown(u64),
}

impl Peer {
    /// Asks the socket. `serial` makes the unknown ones differ.
    pub(crate) fn of(socket: BorrowedFd<'_>, serial: u64) -> Peer {
        let address = getpeername(socket).ok().flatten();
        match address.map(std::net::SocketAddr::try_from) {
            Some(Ok(address)) => Peer::Address(address.ip().to_canonical()),
            _ => match (peer_process(socket), vsock_peer(socket)) {
                (Some(process), _) => Peer::Process(process.get()),
                (None, Some(cid)) => Peer::Vsock(cid),
                // In another PID namespace all processes look alike from here: each connection for itself.
                (None, None) => Peer::Unknown(serial),
            },
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Process(process) => write!(f, "process {process}"),
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Vsock(cid) => write!(f, "vsock {cid}"),
            Peer::Unknown(_) => f.write_str("unknown"),
        }
    }
}

/// The CID at the other end, of a socket of vsock.
fn vsock_peer(socket: BorrowedFd<'_>) -> Option<u32> {
    let address = socket2::SockRef::from(&socket).peer_addr().ok()?;
    address.as_vsock_address().map(|(cid, _)| cid)
}

/// The clients with connections. O(log clients) to join and to leave.
#[derive(Default)]
pub(super) struct Clients {
    open: BTreeMap<ClientKey, Client>,
    /// What the clients of each cgroup hold together; gone with the last of them.
    tenants: BTreeMap<CgroupId, Weak<CgroupQuota>>,
    account: MemoryAccount,
}

/// A client: the cgroup of its exports and its peer, and of one with a limit of its own the export that says so.
type ClientKey = (CgroupId, Option<ExportId>, Peer);

struct Client {
    id: ClientId,
    connections: u32,
    quota: Rc<ClientQuota>,
    /// The cgroup that has its limit.
    limit: Option<CgroupId>,
    /// The task of write-back that it waits for, once there was any.
    write_back: Option<TaskId>,
}

/// What a connection joins.
pub(super) struct Joining<'p> {
    /// The cgroup of its export.
    pub(super) cgroup: CgroupId,
    pub(super) export: ExportId,
    pub(super) place: &'p Place,
    /// Cgroups that there may be.
    pub(super) cgroups_max: usize,
}

/// A connection's place among its client's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// That of its export.
    pub(super) cgroup: CgroupId,
    /// The export whose limit for each client it has.
    limited_by: Option<ExportId>,
    /// The cgroup of that limit.
    limit: Option<CgroupId>,
    peer: Peer,
    pub(super) task: TaskId,
    /// The task that it had before it got a limit: requests may be left in it.
    former: Option<TaskId>,
}

impl Member {
    fn key(&self) -> ClientKey {
        (self.cgroup, self.limited_by, self.peer)
    }

    /// The cgroup that its requests are counted in.
    pub(super) fn counted_in(&self) -> CgroupId {
        self.limit.unwrap_or(self.cgroup)
    }

    pub(super) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// The same, of a connection that was `before` until now.
    pub(super) fn after(self, before: Member) -> Member {
        Member { former: Some(before.task), ..self }
    }

    /// All tasks that may hold requests of it.
    pub(super) fn tasks(&self) -> impl Iterator<Item = TaskId> + use<> {
        self.former.into_iter().chain([self.task])
    }
}

impl Clients {
    /// Opens a task for a connection of `peer`, and the client if this is its first, which holds a part of `quota` if that
    /// is there; gives what all of its connections hold, too.
    pub(super) fn join(
        &mut self,
        engine: &mut RecordedEngine,
        now: Instant,
        peer: Peer,
        joining: &Joining<'_>,
        quota: Option<&Rc<ClientQuota>>,
    ) -> Result<(Member, Rc<ClientQuota>), JoinError> {
        let &Joining { cgroup, export, place, .. } = joining;
        // A client stays where it is while it has connections, also when its limit has been lifted.
        let limited = (cgroup, Some(export), peer);
        let has_limit = !place.client_max.is_none() || self.open.contains_key(&limited);
        let limited_by = has_limit.then_some(export);
        let client = match self.open.entry((cgroup, limited_by, peer)) {
            Entry::Occupied(client) => client.into_mut(),
            Entry::Vacant(vacant) => {
                let limit = limited_by
                    .map(|_| client_limits::create(engine, now, peer, joining))
                    .transpose()?;
                let id = engine.open_client(limit.unwrap_or(cgroup))?;
                let quota = quota.cloned().unwrap_or_else(|| {
                    let tenant = self.tenants.entry(cgroup).or_default();
                    let shared = tenant.upgrade().unwrap_or_else(|| {
                        let opened = self.account.open();
                        *tenant = Rc::downgrade(&opened);
                        opened
                    });
                    shared.open()
                });
                vacant.insert(Client { id, connections: 0, quota, limit, write_back: None })
            }
        };
        let (task, limit) = (engine.open_task(client.id)?, client.limit);
        let member = Member { cgroup, limited_by, limit, peer, task, former: None };
        client.connections += 1;
        Ok((member, Rc::clone(&client.quota)))
    }

    /// Closes a connection's task, and the client with its last one, with its limit: the cgroup that had it, if this was the
    /// last. Requests at the device go on.
    pub(super) fn leave(
        &mut self,
        engine: &mut RecordedEngine,
        now: Instant,
        member: Member,
    ) -> Option<CgroupId> {
        engine.close_task(member.task);
        let key = member.key();
        let client = self.open.get_mut(&key)?;
        client.connections -= 1;
        if client.connections > 0 {
            return None;
        }
        // What is under way goes on.
        if let Some(task) = client.write_back {
            engine.close_task(task);
        }
        engine.close_client(client.id);
        let limit = client.limit;
        if let Some(cgroup) = limit {
            // It may have been removed, with the cgroup above it.
            let _ = engine.reconfigure(now, Change::Remove { cgroup });
        }
        self.open.remove(&key);
        // Requests at the device may hold memory of a client that has gone, so a cgroup may be found empty later
        // only. Looked for when that has doubled the table.
        if self.tenants.len() > 2 * self.open.len() {
            self.tenants.retain(|_, tenant| tenant.strong_count() > 0);
        }
        limit
    }

    /// The cgroups that have the limits of clients of `export`. O(clients).
    pub(super) fn limits_of(&self, export: ExportId) -> Vec<CgroupId> {
        let of_export = self.open.iter().filter(|((_, limited, _), _)| *limited == Some(export));
        of_export.filter_map(|(_, client)| client.limit).collect()
    }

    /// The cgroups below `cgroup` that have the limits of clients. O(clients).
    pub(super) fn limits_below(&self, cgroup: CgroupId) -> Vec<CgroupId> {
        let below = self.open.iter().filter(|((above, ..), _)| *above == cgroup);
        below.filter_map(|(_, client)| client.limit).collect()
    }

    /// The task of write-back that the client of `member` waits for: so it is in the same flow as the client's own requests,
    /// and stays when a connection goes. `None` when there is no room for it.
    pub(super) fn write_back_task(
        &mut self,
        engine: &mut RecordedEngine,
        member: Member,
    ) -> Option<TaskId> {
        let client = self.open.get_mut(&member.key())?;
        if client.write_back.is_none() {
            client.write_back = engine.open_task(client.id).ok();
        }
        client.write_back
    }

    /// Bytes of memory that the requests of all clients hold.
    pub(super) fn held(&self, memory: Memory) -> usize {
        self.account.held(memory)
    }

    #[cfg(test)]
    /// Connections of each cgroup itself.
    pub(super) fn connections(&self) -> BTreeMap<CgroupId, u32> {
        let mut counts = BTreeMap::new();
        for ((cgroup, ..), client) in &self.open {
            *counts.entry(client.limit.unwrap_or(*cgroup)).or_default() += client.connections;
        }
        counts
    }
}
