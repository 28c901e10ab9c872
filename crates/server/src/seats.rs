//! Seats: the connections that a server, one client and one export may have.
//!
//! A connection takes a seat when it is accepted, and one of its export when it has chosen it; both are free again when it
//! is closed, whichever device's thread has it by then. The lock is taken when connections come and go, never for a request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_nbd::ExportId;

use crate::device::Peer;
use crate::presence::Presence;

/// All seats of a server.
#[derive(Debug)]
pub(crate) struct Seats {
    max: u32,
    per_client_max: u32,
    taken: Mutex<Taken>,
    presence: Presence,
}

#[derive(Debug, Default)]
struct Taken {
    all: u32,
    by_client: BTreeMap<Peer, u32>,
    by_export: BTreeMap<ExportId, u32>,
}

/// One connection's seat.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    peer: Peer,
    export: Option<ExportId>,
}

/// What has no seat left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoSeat {
    /// The server.
    Server,
    /// The client.
    Client,
    /// The export.
    Export,
}

impl Seats {
    pub(crate) fn new(max: u32, per_client_max: u32) -> Seats {
        Seats { max, per_client_max, taken: Mutex::default(), presence: Presence::default() }
    }

    /// Connections to `export`.
    pub(crate) fn taken_of(&self, export: ExportId) -> u32 {
        self.taken().by_export.get(&export).copied().unwrap_or_default()
    }

    /// A seat for a connection of `peer`. O(log clients).
    pub(crate) fn take(self: &Arc<Seats>, peer: Peer) -> Result<Seat, NoSeat> {
        let mut taken = self.taken();
        let of_client = taken.by_client.get(&peer).copied().unwrap_or_default();
        if of_client >= self.per_client_max {
            return Err(NoSeat::Client);
        }
        if taken.all >= self.max {
            return Err(NoSeat::Server);
        }
        taken.all += 1;
        *taken.by_client.entry(peer).or_default() += 1;
        self.presence.enter();
        Ok(Seat { seats: Arc::clone(self), peer, export: None })
    }

    /// Waits until the last seat is free again; not before one was taken.
    pub(crate) async fn all_left(&self) {
        self.presence.all_left().await;
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Numbers are right whatever ended in a panic elsewhere.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Takes a seat of `export`, of which there are `max`. O(log exports).
    pub(crate) fn choose(&mut self, export: ExportId, max: u32) -> Result<(), NoSeat> {
        let mut taken = self.seats.taken();
        let of_export = taken.by_export.entry(export).or_default();
        if *of_export >= max {
            return Err(NoSeat::Export);
        }
        *of_export += 1;
        self.export = Some(export);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.presence.leave();
        let mut taken = self.seats.taken();
        taken.all -= 1;
        if let Some(of_client) = taken.by_client.get_mut(&self.peer) {
            *of_client -= 1;
            if *of_client == 0 {
                taken.by_client.remove(&self.peer);
            }
        }
        if let Some(export) = self.export
            && let Some(of_export) = taken.by_export.get_mut(&export)
        {
            *of_export -= 1;
            if *of_export == 0 {
                taken.by_export.remove(&export);
            }
        }
    }
}

impl NoSeat {
    /// What the client is told.
    pub(crate) fn words(self) -> &'static str {
        match self {
            NoSeat::Server => "the server has as many connections as it may have",
            NoSeat::Client => "this client has as many connections as one may have",
            NoSeat::Export => "the export has as many connections as it may have",
        }
    }
}

impl fmt::Display for NoSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_and_an_export_have_a_part_of_the_seats() {
        let seats = Arc::new(Seats::new(5, 3));
        let take = |process| seats.take(Peer::Process(process));
        let mut first: Vec<Seat> = (0..3).map(|_| take(1).unwrap()).collect();
        assert_eq!(take(1).unwrap_err(), NoSeat::Client);
        let mut second: Vec<Seat> = (0..2).map(|_| take(2).unwrap()).collect();
        assert_eq!(take(3).unwrap_err(), NoSeat::Server);
        assert_eq!(first[0].choose(ExportId(0), 2), Ok(()));
        assert_eq!(second[0].choose(ExportId(0), 2), Ok(()));
        assert_eq!(first[1].choose(ExportId(0), 2), Err(NoSeat::Export));
        assert_eq!(first[1].choose(ExportId(1), 5), Ok(()), "another one has seats");
        drop(second);
        assert_eq!(first[2].choose(ExportId(0), 2), Ok(()));
        assert!(take(3).is_ok());
        drop(first);
        let taken = seats.taken();
        assert!(taken.all == 0 && taken.by_client.is_empty());
        assert!(taken.by_export.is_empty());
    }
}
