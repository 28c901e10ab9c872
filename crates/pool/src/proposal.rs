//! Proposal: the table that this server would have next, and what it would hold then.

use std::collections::BTreeSet;

use weir_engine::{Dimension, Instant};

use crate::rates::Rates;
use crate::settings::{OnLoss, PoolSettings, ServerSettings};
use crate::share::{Claim, divide};
use crate::sightings::{Sightings, patience_ns};
use crate::table::{Epoch, Presence, Row, Server, Table};

/// A lost server for which nothing is kept is taken out of the table after so many of its leases.
const LEASES_UNTIL_REMOVED: u64 = 20;

/// Rates of one pool: until the lease ends, and from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) rates: Rates,
    pub(crate) then: Rates,
}

impl Held {
    #[must_use]
    pub(crate) fn min(self, other: Held) -> Held {
        Held { rates: self.rates.min(other.rates), then: self.then.min(other.then) }
    }
}

/// What this server could use of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    pub(crate) demand: Rates,
    pub(crate) weight: u64,
}

/// A pool, as it is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) settings: &'a PoolSettings,
    pub(crate) need: Need,
    /// What the engine lets go now.
    pub(crate) lets_go: Rates,
}

/// Facts that a proposal is made of.
pub(crate) struct Facts<'a> {
    pub(crate) now: Instant,
    pub(crate) server: &'a ServerSettings,
    /// The table as it was read; none where the store has none.
    pub(crate) read: Option<&'a Table>,
    /// Whether what was read is no continuation of what this server knew, so that it begins a new life of the table.
    pub(crate) begins_life: bool,
    /// The last life that this server knows of.
    pub(crate) epoch_max: Epoch,
    /// The table of a life before, that this server still knows.
    pub(crate) memory: Option<&'a Table>,
    /// Since when this life of the table is known.
    pub(crate) life_since: Instant,
    pub(crate) sightings: &'a Sightings,
    /// Servers to be taken out.
    pub(crate) forgotten: &'a BTreeSet<String>,
}

/// Makes the next table; and for each of `pools`, in their order, what this server holds once the table is in the store.
/// O(table + pools × servers × log servers).
pub(crate) fn propose(facts: &Facts<'_>, pools: &[Asked<'_>]) -> (Table, Vec<Held>) {
    let mut table = begin(facts);
    let own = table.ensure_server(&facts.server.name);
    table.generation += 1;
    table.servers[own as usize] = Server {
        name: facts.server.name.as_str().into(),
        incarnation: facts.server.incarnation,
        seq: table.generation,
        lease_ms: facts.server.lease_ms,
        presence: Presence::Live,
    };
    table.retain_rows(own, |name| {
        pools.binary_search_by(|pool| pool.settings.name.as_str().cmp(name)).is_ok()
    });
    let mut held = Vec::with_capacity(pools.len());
    for pool in pools {
        let (row, holds) = own_row(facts, &table, own, pool);
        table.set_row(&pool.settings.name, row);
        held.push(holds);
    }
    (table, held)
}

/// The same without this server, for one that leaves.
pub(crate) fn propose_leave(facts: &Facts<'_>) -> Table {
    let mut table = begin(facts);
    if let Some(own) = table.server(&facts.server.name) {
        table.remove_server(own);
    }
    table.generation += 1;
    table
}

/// What was read, with what is known of other servers.
fn begin(facts: &Facts<'_>) -> Table {
    let mut table = facts.read.cloned().unwrap_or_default();
    if facts.begins_life {
        table.epoch = Epoch::after(table.epoch.max(facts.epoch_max), facts.server.incarnation);
        table.is_learning = true;
        for server in &mut table.servers {
            server.presence = Presence::Remembered;
        }
    }
    if let Some(memory) = facts.memory {
        table.remember(memory);
    }
    for name in facts.forgotten {
        if let Some(at) = table.server(name) {
            table.remove_server(at);
        }
    }
    review_presence(facts, &mut table);
    let longest = table.servers.iter().map(|server| server.lease_ms).max().unwrap_or(0);
    let longest = longest.max(facts.server.lease_ms);
    if facts.now.nanos_since(facts.life_since) >= patience_ns(longest) {
        table.is_learning = false;
    }
    table
}

/// Marks servers that have not written, and takes out those that have not for long and hold nothing.
fn review_presence(facts: &Facts<'_>, table: &mut Table) {
    let is_still = |server: &Server, leases| facts.sightings.is_still(facts.now, server, leases);
    for at in (0..table.servers.len() as u32).rev() {
        let server = &table.servers[at as usize];
        if *server.name == *facts.server.name {
            continue;
        }
        match server.presence {
            Presence::Live if is_still(server, 1) => table.lose(at),
            Presence::Lost if is_still(server, LEASES_UNTIL_REMOVED) && table.holds_nothing(at) => {
                table.remove_server(at);
            }
            _ => {}
        }
    }
}

fn own_row(facts: &Facts<'_>, table: &Table, own: u32, pool: &Asked<'_>) -> (Row, Held) {
    let Asked { settings, need, lets_go } = pool;
    let rows = table.rows(&settings.name);
    let others = || rows.iter().filter(|row| row.server != own);
    let presence = |row: &Row| table.servers[row.server as usize].presence;
    // What a remembered server holds is known roughly: where it counts, no rate rises before it is back.
    let waits_for_remembered = matches!(settings.on_loss, OnLoss::Strict | OnLoss::Keep)
        && others().any(|row| presence(row) == Presence::Remembered);
    let may_rise = !table.is_learning && !waits_for_remembered;

    let mut granted = settings.nothing();
    for dimension in settings.limit.limited() {
        let limit = settings.limit[dimension];
        // A server that limits no such dimension has nothing of it.
        let of = |row: &Row| match row.granted[dimension] {
            Rates::NO_LIMIT => 0,
            rate => rate,
        };
        let mut kept = 0u64;
        let mut taken = 0u64;
        let mut claims = Vec::with_capacity(rows.len() + 1);
        let mut place = 0;
        for row in others() {
            let server = &table.servers[row.server as usize];
            let is_gone = match server.presence {
                Presence::Live => false,
                Presence::Lost => true,
                Presence::Remembered => facts.sightings.is_still(facts.now, server, 1),
            };
            let holds = match is_gone {
                false => of(row),
                true if row.granted[dimension] == Rates::NO_LIMIT => 0,
                true => row.reserved[dimension],
            };
            taken = taken.saturating_add(holds);
            if is_gone {
                kept = kept.saturating_add(holds);
            } else if row.granted[dimension] != Rates::NO_LIMIT {
                if row.server < own {
                    place += 1;
                }
                claims.push(Claim { weight: row.weight, demand: row.demand[dimension] });
            }
        }
        claims.insert(place, Claim { weight: need.weight, demand: need.demand[dimension] });
        let floor = match settings.floor[dimension] {
            Rates::NO_LIMIT => 0,
            floor => floor,
        };
        let target = divide(limit.saturating_sub(kept), floor, &claims)[place];
        let mut rate = target.min(limit.saturating_sub(taken));
        if !may_rise {
            rate = rate.min(lets_go[dimension]);
        }
        // A limit of the engine is at most this, and so is one in a table.
        granted[dimension] = rate.min(Dimension::largest(dimension));
    }
    let members = others().count() + 1;
    let fallback = settings.fallback(granted, members);
    let Need { demand, weight } = *need;
    let demand = Rates::from_fn(|dimension| match granted[dimension] {
        Rates::NO_LIMIT => Rates::NO_LIMIT,
        _ => demand[dimension],
    });
    let row = Row { server: own, weight, granted, reserved: fallback.reserved, demand };
    (row, Held { rates: granted, then: fallback.rates })
}
