//! Limits of single clients: a cgroup for each client of an export with `client_max`, below the export's, from its first
//! connection to its last.

use std::sync::Arc;

use tracing::warn;
use weir_config::CLIENT_PREFIX;
use weir_engine::{
    CgroupId, Change, ChangeError, CreateError, Instant, Limits, OpenError, PerDimension,
};
use weir_nbd::ExportId;
use weir_recording::RecordedEngine;

use super::clients::{Joining, Peer};
use super::export_paths::Place;
use super::reactor::{DeviceIo, Reactor};
use super::request::Origin;
use super::waits::Replies;
use crate::exports::ExportPlace;

/// Longest part of an export's name in the name of a client's cgroup, in bytes.
const EXPORT_NAME_MAX: usize = 128;

/// Why a client cannot be let in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(
        "its limit needs a cgroup, and there are {there} of {max}: raise `max_cgroups` of [server]"
    )]
    TooManyCgroups { there: usize, max: usize },
}

/// Makes a cgroup for a client, with its limits.
pub(super) fn create(
    engine: &mut RecordedEngine,
    now: Instant,
    peer: Peer,
    joining: &Joining<'_>,
) -> Result<CgroupId, JoinError> {
    let (there, max) = (engine.cgroup_count() as usize, joining.cgroups_max);
    if there >= max {
        return Err(JoinError::TooManyCgroups { there, max });
    }
    let name = name(peer, &joining.place.name);
    let cgroup = match engine.create_cgroup(joining.cgroup, &name) {
        // Names of exports are cut, so those of two may look alike.
        Err(CreateError::Exists) => {
            let ExportId(number) = joining.export;
            engine.create_cgroup(joining.cgroup, &format!("{name} #{number}"))?
        }
        made => made?,
    };
    set(engine, now, cgroup, joining.place.client_max)?;
    Ok(cgroup)
}

/// Sets the limits of a client's cgroup.
pub(super) fn set(
    engine: &mut RecordedEngine,
    now: Instant,
    cgroup: CgroupId,
    max: PerDimension,
) -> Result<(), ChangeError> {
    let limits = Limits { max, ..Limits::default() };
    engine.reconfigure(now, Change::SetLimits { cgroup, limits })
}

/// `client:process 4711 of db`.
fn name(peer: Peer, export: &str) -> String {
    let peer = match peer {
        Peer::Unknown(serial) => format!("unknown {serial}"),
        known => known.to_string(),
    };
    let mut end = export.len().min(EXPORT_NAME_MAX);
    while !export.is_char_boundary(end) {
        end -= 1;
    }
    match export[..end].replace('/', "_") {
        default if default.is_empty() => format!("{CLIENT_PREFIX}{peer}"),
        export => format!("{CLIENT_PREFIX}{peer} of {export}"),
    }
}

impl Reactor {
    /// Lets connections to an export in, or puts it elsewhere. Limits of its clients hold for those that are there, too.
    /// O(clients + connections) where it has any.
    pub(super) fn serve_export(&mut self, now: Instant, place: ExportPlace) {
        let (export, client_max) = (place.export, place.client_max);
        let before = self.io.export_paths.insert(place);
        if before.is_none_or(|before| before.client_max == client_max) {
            return;
        }
        for cgroup in self.io.clients.limits_of(export) {
            // One that has been removed keeps the limits that it had.
            let _ = set(&mut self.engine, now, cgroup, client_max);
        }
        if !client_max.is_none() {
            self.limit_connected(now, export);
        }
    }

    /// Gives clients of `export` cgroups of their own that have none. What their connections have inside stays where it is.
    fn limit_connected(&mut self, now: Instant, export: ExportId) {
        let connected = self.io.connections.iter().filter(|(_, connection)| {
            connection.socket.is_some()
                && connection.bound.is_some_and(|bound| bound.is_unlimited(export))
        });
        let connected: Vec<usize> = connected.map(|(key, _)| key).collect();
        for key in connected {
            let Some(place) = self.io.export_paths.of(export).cloned() else { return };
            if let Err(error) = self.limit_connection(now, key, export, &place) {
                let peer = self.io.connections[key].peer;
                warn!(device = self.io.name, export = place.name, %peer, %error, "client left without its limit");
            }
        }
    }

    fn limit_connection(
        &mut self,
        now: Instant,
        key: usize,
        export: ExportId,
        place: &Place,
    ) -> Result<(), JoinError> {
        let io = &mut self.io;
        let connection = &mut io.connections[key];
        let Some(bound) = &mut connection.bound else { return Ok(()) };
        let before = bound.member;
        let joining = Joining { cgroup: before.cgroup, export, place, cgroups_max: io.cgroups_max };
        // Its requests hold a part of this quota already.
        let quota = Some(&connection.quota);
        let (member, _) =
            io.clients.join(&mut self.engine, now, connection.peer, &joining, quota)?;
        bound.member = member.after(before);
        let left = [&mut connection.outbox_replies, &mut connection.sending_replies];
        let inside_ns = left.into_iter().map(Replies::leave).sum();
        connection.waits.note_inside(inside_ns);
        connection.waits.disconnected();
        connection.waits = Arc::clone(io.published.waits_of(member.counted_in()));
        connection.waits.connected();
        io.clients.leave(&mut self.engine, now, before);
        let serial = connection.serial;
        for (_, pending) in io.requests.iter_mut() {
            let is_inside = pending.id.is_some() || pending.ticket.is_some();
            match &mut pending.origin {
                Origin::Client(client)
                    if is_inside && (client.connection, client.serial) == (key, serial) =>
                {
                    client.former.get_or_insert(before.counted_in());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl DeviceIo {
    /// The engine is done with a request: as long as it was inside as one of its connection's former cgroup, it counts there.
    pub(super) fn note_left_former(&mut self, now: Instant, origin: &mut Origin) {
        if let Origin::Client(client) = origin
            && let Some((former, inside_ns)) = client.left_former(now.as_nanos())
        {
            self.published.waits_of(former).note_inside(inside_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_driver::Device;
    use weir_engine::{
        Config, Dimension, Dispatch, Engine, Event, Extent, Op, Path, Request, TaskId,
    };

    use super::*;
    use crate::device::clients::{Clients, Member};

    /// Counts what comes to the device.
    struct Count(usize);

    impl Device for Count {
        fn issue(&mut self, _now: Instant, _dispatch: Dispatch) {
            self.0 += 1;
        }

        fn record(&mut self, _now: Instant, _event: Event) {}
    }

    /// An engine with the cgroup `/vm1`, and clients of exports of it.
    struct Tenant {
        engine: RecordedEngine,
        clients: Clients,
        cgroup: CgroupId,
        cgroups_max: usize,
    }

    impl Tenant {
        fn new(cgroups_max: usize) -> Tenant {
            let engine = Engine::new(Config::default(), Instant::ZERO);
            let mut engine = RecordedEngine::new(engine);
            let path = Path::parse("/vm1").expect("a path");
            let cgroup = engine.ensure_cgroup(&path).expect("it is made");
            Tenant { engine, clients: Clients::default(), cgroup, cgroups_max }
        }

        fn try_join(&mut self, process: i32, export: u32, riops: u64) -> Result<Member, JoinError> {
            let place = Place {
                name: format!("{}{export}", "x".repeat(200)),
                cgroup: Path::parse("/vm1").expect("a path"),
                client_max: match riops {
                    0 => PerDimension::NONE,
                    riops => PerDimension::NONE.with(Dimension::Riops, riops),
                },
            };
            let joining = Joining {
                cgroup: self.cgroup,
                export: ExportId(export),
                place: &place,
                cgroups_max: self.cgroups_max,
            };
            let peer = Peer::Process(process);
            let now = Instant::ZERO;
            let joined = self.clients.join(&mut self.engine, now, peer, &joining, None);
            joined.map(|(member, _)| member)
        }

        fn join(&mut self, process: i32, export: u32, riops: u64) -> Member {
            self.try_join(process, export, riops).expect("there is room")
        }

        /// How many of 20 reads go through at once.
        fn passed(&mut self, task: TaskId) -> usize {
            for number in 0..20 {
                let request = Request::new(task, Op::Read, Extent::new(number * 512, 512), 0);
                self.engine.submit(Instant::ZERO, request).expect("there is room");
            }
            let mut count = Count(0);
            self.engine.turn(Instant::ZERO, &mut count);
            count.0
        }
    }

    #[test]
    fn each_client_has_its_limit_over_all_its_connections() {
        let mut tenant = Tenant::new(100);
        let (one, again, other) =
            (tenant.join(1, 0, 20), tenant.join(1, 0, 20), tenant.join(2, 0, 20));
        // The burst of a limit of 20 a second.
        assert_eq!([one, again, other].map(|member| tenant.passed(member.task)), [4, 0, 4]);
        assert_eq!(tenant.clients.connections().len(), 2);
        let unlimited = tenant.join(1, 1, 0);
        assert_eq!(tenant.passed(unlimited.task), 20, "the limit is its export's");
        assert_eq!(tenant.engine.cgroup_count(), 2 + 2);
    }

    #[test]
    fn a_cgroup_of_a_client_goes_with_its_last_connection() {
        let mut tenant = Tenant::new(100);
        let members = [tenant.join(1, 0, 20), tenant.join(1, 0, 20)];
        let limit = members[0].counted_in();
        let path = tenant.engine.cgroup_path(limit).expect("it is there");
        assert!(path.starts_with("/vm1/client:process 1 of xxx"), "{path}");
        let [first, last] = members;
        let Tenant { engine, clients, .. } = &mut tenant;
        assert_eq!(clients.leave(engine, Instant::ZERO, first), None);
        assert_eq!(clients.leave(engine, Instant::ZERO, last), Some(limit));
        assert_eq!(engine.cgroup_count(), 2);
        assert!(clients.connections().is_empty());
    }

    #[test]
    fn exports_whose_names_are_cut_alike_have_limits_of_their_own() {
        let mut tenant = Tenant::new(100);
        let (one, other) = (tenant.join(1, 0, 20), tenant.join(1, 7, 20));
        let path = tenant.engine.cgroup_path(other.counted_in()).expect("it is there");
        assert!(path.ends_with("x #7"), "{path}");
        assert_eq!([one, other].map(|member| tenant.passed(member.task)), [4, 4]);
    }

    #[test]
    fn a_client_beyond_the_maximum_of_cgroups_is_refused() {
        let mut tenant = Tenant::new(3);
        tenant.join(1, 0, 20);
        let refused = tenant.try_join(2, 0, 20).expect_err("the third cgroup was the last");
        assert_eq!(refused, JoinError::TooManyCgroups { there: 3, max: 3 });
        tenant.join(1, 0, 20);
        tenant.join(2, 1, 0);
    }

    #[test]
    fn names_say_whose_limit_it_is() {
        for (peer, export, expected) in [
            (Peer::Process(4711), "db", "client:process 4711 of db"),
            (Peer::Address([10, 0, 0, 1].into()), "a/b", "client:10.0.0.1 of a_b"),
            (Peer::Unknown(7), "", "client:unknown 7"),
        ] {
            assert_eq!(name(peer, export), expected);
        }
        // Two bytes each, from the second byte on.
        let cut = name(Peer::Process(1), &format!("x{}", "ä".repeat(100)));
        assert_eq!(cut, format!("client:process 1 of x{}", "ä".repeat(63)));
    }
}
