//! Clients of the engine: a process each, with a task, for as long as it makes requests.

use std::collections::HashMap;

use weir_engine::{CgroupId, ClientId, Engine, Instant, TaskId};

use crate::identity::Caller;

/// After which time without a request a process is forgotten.
const QUIET_NS: u64 = 10_000_000_000;

/// Most processes at once. A further one shares a client with all others that found no room in its cgroup.
const CLIENTS_MAX: usize = 16_384;

#[derive(Debug)]
struct Client {
    client: ClientId,
    task: TaskId,
    /// Requests in the engine, or being carried out.
    inside: u32,
    used_at: Instant,
}

/// The processes that make requests, each in a cgroup; 0 for requests of unknown ones.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: HashMap<(u32, CgroupId), Client>,
    swept_at: Option<Instant>,
}

/// A client that has one request more, until [`Clients::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientKey(u32, CgroupId);

impl Clients {
    /// The task of a caller, with one more request inside.
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine,
        caller: Caller,
        now: Instant,
    ) -> (ClientKey, TaskId) {
        self.sweep(engine, now);
        let is_full = self.known.len() >= CLIENTS_MAX;
        let mut key = (caller.process, caller.cgroup);
        if is_full && !self.known.contains_key(&key) {
            key.0 = 0;
        }
        let client = self.known.entry(key).or_insert_with(|| {
            let client = engine.open_client(caller.cgroup).expect("cgroups of a mount stay");
            let task = engine.open_task(client).expect("the client was just opened");
            Client { client, task, inside: 0, used_at: now }
        });
        client.inside += 1;
        client.used_at = now;
        (ClientKey(key.0, key.1), client.task)
    }

    /// A request is over.
    pub(crate) fn done(&mut self, key: ClientKey) {
        if let Some(client) = self.known.get_mut(&(key.0, key.1)) {
            client.inside -= 1;
        }
    }

    /// Closes clients that were quiet for long, at most once in that time, or whenever there are too many.
    fn sweep(&mut self, engine: &mut Engine, now: Instant) {
        let swept_at = *self.swept_at.get_or_insert(now);
        if now.nanos_since(swept_at) < QUIET_NS {
            return;
        }
        self.swept_at = Some(now);
        self.known.retain(|_, client| {
            let stays = client.inside > 0 || now.nanos_since(client.used_at) < QUIET_NS;
            if !stays {
                engine.close_task(client.task);
                engine.close_client(client.client);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::Config;

    use super::*;

    #[test]
    fn a_quiet_process_is_forgotten_and_one_with_a_request_inside_is_not() {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let mut clients = Clients::default();
        let cgroup = engine.root();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let mut begin = |process, now| clients.begin(&mut engine, Caller { process, cgroup }, now);
        let (quiet, first) = begin(1, at(0));
        let (_, second) = begin(2, at(0));
        assert_ne!(first, second);
        clients.done(quiet);
        let mut begin =
            |process, now| clients.begin(&mut engine, Caller { process, cgroup }, now).1;
        let third = begin(3, at(20));
        assert_eq!(begin(2, at(20)), second);
        assert_ne!(begin(1, at(20)), first);
        assert_eq!(begin(3, at(20)), third);
        assert_eq!(clients.known.len(), 3);
    }
}
