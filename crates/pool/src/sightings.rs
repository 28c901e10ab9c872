//! Sightings: when, by this server's clock, each server was last seen to write.
//!
//! No clock of another server is compared with ours, only how long nothing moves by our own. A lease is waited for half as
//! long again, which covers clocks that run at other rates.

use std::collections::BTreeMap;

use weir_engine::Instant;

use crate::table::{Server, Table};

/// One and a half of a lease, in nanoseconds.
pub(crate) fn patience_ns(lease_ms: u32) -> u64 {
    u64::from(lease_ms) * 1_500_000
}

/// By server.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    seen: BTreeMap<Box<str>, Seen>,
    /// When a table was read last.
    read: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    seq: u64,
    moved: Instant,
}

impl Sightings {
    /// A table was read. After a pause longer than `gap_ns` all servers are as if just seen: what they wrote meanwhile is not
    /// known, nor whether they could.
    pub(crate) fn note(&mut self, now: Instant, table: &Table, gap_ns: u64) {
        let was_away = self.read.is_none_or(|read| now.nanos_since(read) > gap_ns);
        self.read = Some(now);
        let mut before = std::mem::take(&mut self.seen);
        for server in &table.servers {
            let still = before.remove(&server.name);
            let still = still.filter(|seen| seen.seq == server.seq && !was_away);
            let moved = still.map_or(now, |seen| seen.moved);
            self.seen.insert(server.name.clone(), Seen { seq: server.seq, moved });
        }
    }

    /// Whether a server has not written for `leases` and a half of its leases.
    pub(crate) fn is_still(&self, now: Instant, server: &Server, leases: u64) -> bool {
        let Some(seen) = self.seen.get(&server.name) else { return false };
        let lease_ns = u64::from(server.lease_ms) * 1_000_000;
        let longer_ns = (leases - 1).saturating_mul(lease_ns);
        let still_ns = now.nanos_since(seen.moved);
        seen.seq == server.seq && still_ns >= patience_ns(server.lease_ms).saturating_add(longer_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Presence;

    fn table(seq: u64) -> Table {
        let server = Server {
            name: "a".into(),
            incarnation: 1,
            seq,
            lease_ms: 1000,
            presence: Presence::Live,
        };
        Table { generation: seq, servers: vec![server], ..Table::default() }
    }

    #[test]
    fn a_server_is_still_after_a_lease_and_a_half_that_were_watched() {
        let (gap_ns, ms) = (500_000_000, Instant::from_millis);
        let mut sightings = Sightings::default();
        for at in (0..=1400).step_by(200) {
            sightings.note(ms(at), &table(7), gap_ns);
        }
        assert!(!sightings.is_still(ms(1499), &table(7).servers[0], 1));
        assert!(sightings.is_still(ms(1500), &table(7).servers[0], 1));
        assert!(!sightings.is_still(ms(1500), &table(7).servers[0], 20));
        assert!(!sightings.is_still(ms(1500), &table(8).servers[0], 1), "it has written");
        // We were away ourselves, as all may have been.
        sightings.note(ms(9000), &table(7), gap_ns);
        assert!(!sightings.is_still(ms(9000), &table(7).servers[0], 1));
        sightings.note(ms(9400), &table(8), gap_ns);
        assert!(!sightings.is_still(ms(10_800), &table(8).servers[0], 1));
    }
}
