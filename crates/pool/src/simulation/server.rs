//! Simulated server: a clock of its own rate, the process that runs its part of the pools, and the engine's rates.

use weir_engine::{Dimension, Instant};

use crate::share::{Claim, divide};
use crate::{Grant, PoolSettings, Pools, Rates, ServerSettings, Usage};

/// A clock that began at some time and runs at some rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) offset_ns: u64,
    pub(super) ppm: i64,
}

impl Clock {
    pub(super) fn at(self, now: u64) -> Instant {
        let now = now as i64;
        let ahead = now * self.ppm / 1_000_000;
        Instant::from_nanos((now + ahead) as u64 + self.offset_ns)
    }

    /// The first time at which it shows `at`.
    pub(super) fn when(self, at: Instant) -> u64 {
        let own = at.as_nanos().saturating_sub(self.offset_ns) as i64;
        let mut now = (own * 1_000_000 / (1_000_000 + self.ppm) - 2).max(0) as u64;
        while self.at(now) < at {
            now += 1;
        }
        now
    }
}

/// What a server's clients want of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) rate: u64,
    pub(super) clients: u32,
}

/// What the engine was told of a pool, and ends by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct InEngine {
    pub(super) rates: Rates,
    pub(super) until: Instant,
    pub(super) then: Rates,
    /// Servers that were known to share the pool.
    pub(super) members: u64,
    /// Whether it goes on in a new table with what it let go after a lease: that is over and above the others' rates still.
    pub(super) is_cut_off: bool,
}

impl InEngine {
    pub(super) fn is_leased(&self, at: Instant) -> bool {
        at < self.until
    }

    pub(super) fn rates(&self, at: Instant) -> Rates {
        if self.is_leased(at) { self.rates } else { self.then }
    }
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u64,
    pub(super) pools: Pools,
    pub(super) engine: Vec<InEngine>,
}

impl Process {
    pub(super) fn start(
        now: Instant,
        number: u64,
        server: usize,
        lease_ms: u32,
        pools: &[PoolSettings],
    ) -> Process {
        let settings =
            ServerSettings { name: format!("server{server:03}"), incarnation: number, lease_ms };
        let engine = pools.iter().map(|pool| InEngine {
            rates: pool.nothing(),
            until: now,
            then: pool.nothing(),
            members: 1,
            is_cut_off: false,
        });
        Process {
            number,
            engine: engine.collect(),
            pools: Pools::new(now, settings, pools.to_vec()).expect("settings that can be"),
        }
    }

    pub(super) fn apply(&mut self, at: Instant, grant: Grant, members: u64) {
        let Grant { pool, rates, until, then } = grant;
        let before = self.engine[pool];
        let was_cut_off = !before.is_leased(at) || before.is_cut_off;
        let is_cut_off = was_cut_off && self.pools.is_learning();
        let members = if is_cut_off { before.members } else { members };
        self.engine[pool] = InEngine { rates, until, then, members, is_cut_off };
    }

    /// Tells what clients used, and whether they waited.
    pub(super) fn tell_usage(&mut self, at: Instant, wants: &[Want]) {
        for (pool, want) in wants.iter().enumerate() {
            let rates = self.engine[pool].rates(at);
            let used = Rates::from_fn(|dimension| want.rate.min(rates[dimension]));
            let is_held = Dimension::ALL.map(|dimension| want.rate > rates[dimension]);
            let clients = if is_held.contains(&true) { want.clients } else { 0 };
            self.pools.handle_usage(at, pool, Usage { used, is_held, clients });
        }
    }
}

/// Parts that servers of these wants have in the end, where some want all and the others nothing.
pub(super) fn ideal(pool: &PoolSettings, dimension: Dimension, wants: &[Want]) -> Vec<u64> {
    let claims = wants.iter().map(|want| {
        let is_hungry = want.rate == Rates::NO_LIMIT;
        let clients = if is_hungry { want.clients.max(1) } else { 1 };
        let weight = u64::from(clients) * u64::from(pool.weight);
        Claim { weight, demand: if is_hungry { u64::MAX } else { 1 } }
    });
    let claims: Vec<Claim> = claims.collect();
    divide(pool.limit[dimension], pool.floor[dimension], &claims)
}
