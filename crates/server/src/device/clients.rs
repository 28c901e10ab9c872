//! Which connections are one client: a share is a peer's, however many connections it opens.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use rustix::net::getpeername;
use weir_engine::{CgroupId, ClientId, Engine, OpenError, TaskId};
use weir_uring::peer_process;

/// Who is at the other end.
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

/// The clients with connections. O(log clients) to join and to leave.
#[derive(Default)]
pub(super) struct Clients {
    open: BTreeMap<(CgroupId, Peer), (ClientId, u32)>,
}

/// A connection's place among its client's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    cgroup: CgroupId,
    peer: Peer,
    pub(super) task: TaskId,
}

impl Clients {
    /// Opens a task for a connection of `peer` in `cgroup`, and the client if this is its first.
    pub(super) fn join(
        &mut self,
        engine: &mut Engine,
        cgroup: CgroupId,
        peer: Peer,
    ) -> Result<Member, OpenError> {
        let client = match self.open.get_mut(&(cgroup, peer)) {
            Some((client, connections)) => {
                *connections += 1;
                *client
            }
            None => {
                let client = engine.open_client(cgroup)?;
                self.open.insert((cgroup, peer), (client, 1));
                client
            }
        };
        Ok(Member { cgroup, peer, task: engine.open_task(client)? })
    }

    /// Closes a connection's task, and the client with its last one. Requests at the device go on.
    pub(super) fn leave(&mut self, engine: &mut Engine, member: Member) {
        engine.close_task(member.task);
        let key = (member.cgroup, member.peer);
        if let Some((client, connections)) = self.open.get_mut(&key) {
            *connections -= 1;
            if *connections == 0 {
                engine.close_client(*client);
                self.open.remove(&key);
            }
        }
    }

    /// Connections of each cgroup itself.
    pub(super) fn connections(&self) -> BTreeMap<CgroupId, u32> {
        let mut counts = BTreeMap::new();
        for ((cgroup, _), (_, connections)) in &self.open {
            *counts.entry(*cgroup).or_default() += connections;
        }
        counts
    }
}
