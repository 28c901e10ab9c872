//! Table of a store: servers, and for each pool what each of them holds.

use weir_engine::Dimension;

use crate::rates::Rates;

/// One value in the store, for any number of pools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table {
    /// The table's life; another one after the store had lost it.
    pub(crate) epoch: Epoch,
    /// Writes in this life.
    pub(crate) generation: u64,
    /// A new life in which no rate rises yet, because servers may hold what is not written here.
    pub(crate) is_learning: bool,
    /// By name.
    pub(crate) servers: Vec<Server>,
    /// By name, each with a row at least.
    pub(crate) pools: Vec<PoolRows>,
}

/// A life of a table: a number above that of all lives that its first writer knew, and below it a number of that writer.
/// Two writers that knew the same lives have begun two lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Epoch(pub(crate) u64);

impl Epoch {
    pub(crate) fn after(self, incarnation: u64) -> Epoch {
        let number = (self.number() + 1).min(u64::from(u32::MAX));
        Epoch(number << 32 | u64::from(incarnation as u32))
    }

    fn number(self) -> u64 {
        self.0 >> 32
    }

    /// Whether it was begun after all lives up to `known`, as far as that can be told.
    pub(crate) fn is_later_than(self, known: Epoch) -> bool {
        self.number() > known.number()
    }
}

/// A server that shares pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    pub(crate) name: Box<str>,
    /// Number of its process.
    pub(crate) incarnation: u64,
    /// Generation that it wrote last.
    pub(crate) seq: u64,
    /// How long its rates hold without a write.
    pub(crate) lease_ms: u32,
    pub(crate) presence: Presence,
}

/// Whether a server writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    Live,
    /// It has not written for longer than its lease, and holds what is reserved for it.
    Lost,
    /// Others remember it from before the store lost its table. It holds what it held then, or less.
    Remembered,
}

/// Rows of one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PoolRows {
    pub(crate) name: Box<str>,
    /// By server.
    pub(crate) rows: Vec<Row>,
}

/// What one server has of one pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// Its place in [`Table::servers`].
    pub(crate) server: u32,
    /// Clients that wait for the limit, times its weight; at least 1.
    pub(crate) weight: u64,
    /// It never lets more go than this. No limit in dimensions that the pool does not limit, as in those below.
    pub(crate) granted: Rates,
    /// What stays free for it once it is lost; in no dimension more than granted.
    pub(crate) reserved: Rates,
    /// What it could use; [`Rates::NO_LIMIT`] while something waits for the limit.
    pub(crate) demand: Rates,
}

impl Row {
    /// Dimensions that the row is about.
    pub(crate) fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        self.granted.limited()
    }
}

impl Table {
    /// Place of a server.
    pub(crate) fn server(&self, name: &str) -> Option<u32> {
        self.servers.binary_search_by(|server| (*server.name).cmp(name)).ok().map(|at| at as u32)
    }

    /// The place of a server, which is added if it is not there. O(rows) then, since places after it move.
    pub(crate) fn ensure_server(&mut self, name: &str) -> u32 {
        match self.servers.binary_search_by(|server| (*server.name).cmp(name)) {
            Ok(at) => at as u32,
            Err(at) => {
                let server = Server {
                    name: name.into(),
                    incarnation: 0,
                    seq: self.generation,
                    lease_ms: 1,
                    presence: Presence::Live,
                };
                self.servers.insert(at, server);
                let rows = self.pools.iter_mut().flat_map(|pool| &mut pool.rows);
                rows.filter(|row| row.server >= at as u32).for_each(|row| row.server += 1);
                at as u32
            }
        }
    }

    /// Removes a server and its rows. O(rows).
    pub(crate) fn remove_server(&mut self, at: u32) {
        self.servers.remove(at as usize);
        for pool in &mut self.pools {
            pool.rows.retain(|row| row.server != at);
            pool.rows.iter_mut().filter(|row| row.server > at).for_each(|row| row.server -= 1);
        }
        self.pools.retain(|pool| !pool.rows.is_empty());
    }

    /// Rows of a pool; none where it is not there.
    pub(crate) fn rows(&self, pool: &str) -> &[Row] {
        let found = self.pools.binary_search_by(|rows| (*rows.name).cmp(pool));
        found.map_or(&[], |at| &self.pools[at].rows)
    }

    /// Adds or replaces a row.
    pub(crate) fn set_row(&mut self, pool: &str, row: Row) {
        let at = match self.pools.binary_search_by(|rows| (*rows.name).cmp(pool)) {
            Ok(at) => at,
            Err(at) => {
                self.pools.insert(at, PoolRows { name: pool.into(), rows: Vec::new() });
                at
            }
        };
        let rows = &mut self.pools[at].rows;
        match rows.binary_search_by_key(&row.server, |row| row.server) {
            Ok(at) => rows[at] = row,
            Err(at) => rows.insert(at, row),
        }
    }

    /// Removes rows of the server at `server` in pools that are not `kept`.
    pub(crate) fn retain_rows(&mut self, server: u32, kept: impl Fn(&str) -> bool) {
        for pool in &mut self.pools {
            if !kept(&pool.name) {
                pool.rows.retain(|row| row.server != server);
            }
        }
        self.pools.retain(|pool| !pool.rows.is_empty());
    }

    /// The server at `at` is lost: it holds what is reserved for it, or less.
    pub(crate) fn lose(&mut self, at: u32) {
        self.servers[at as usize].presence = Presence::Lost;
        let rows = self.pools.iter_mut().flat_map(|pool| &mut pool.rows);
        for row in rows.filter(|row| row.server == at) {
            row.granted = row.reserved;
        }
    }

    /// Whether nothing is reserved for the server at `at`.
    pub(crate) fn holds_nothing(&self, at: u32) -> bool {
        let mut rows = self.pools.iter().flat_map(|pool| &pool.rows);
        rows.all(|row| row.server != at || row.dimensions().all(|of| row.granted[of] == 0))
    }

    /// Adds what `other`, of an earlier life, has and this table has not, or has older: servers, as remembered, with their
    /// rows.
    pub(crate) fn remember(&mut self, other: &Table) {
        for (from, server) in other.servers.iter().enumerate() {
            let known = self.server(&server.name).map(|at| &self.servers[at as usize]);
            // A server that has written in this life knows better.
            if known.is_some_and(|known| {
                known.presence != Presence::Remembered || known.seq >= server.seq
            }) {
                continue;
            }
            let at = self.ensure_server(&server.name);
            self.servers[at as usize] = Server { presence: Presence::Remembered, ..server.clone() };
            self.generation = self.generation.max(server.seq);
            for pool in &other.pools {
                if let Some(&row) = pool.rows.iter().find(|row| row.server == from as u32) {
                    self.set_row(&pool.name, Row { server: at, ..row });
                }
            }
        }
    }
}
