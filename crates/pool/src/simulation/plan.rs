//! Plan of a simulated world, drawn from a seed.

use weir_engine::Dimension;

use crate::random::Random;
use crate::{OnLoss, PoolSettings, Rates};

impl Random {
    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times in 1,000.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// What may go wrong in a world. Each of the first four is one that a strict pool withstands, and so does a shared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Servers are cut off, hang, die, return, come and go. The store keeps its promise.
    Servers,
    /// The store loses its table; servers are cut off, hang and die.
    LostAndCutOff,
    /// The store loses its table; servers die and return.
    LostAndRestarted,
    /// The store goes back to a table of some time ago; servers hang and die.
    Restored,
    /// The store forgets its last writes, as after a failover without them, beside everything above. For a shared pool.
    Forgetful,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    CutOff {
        server: usize,
        for_ns: u64,
    },
    Hang {
        server: usize,
        for_ns: u64,
    },
    Crash {
        server: usize,
        restarts_after_ns: Option<u64>,
    },
    Join {
        server: usize,
    },
    Leave {
        server: usize,
    },
    StoreDown {
        for_ns: u64,
    },
    StoreEmptied,
    /// The store goes back to what it had so long ago.
    StoreRestored {
        age_ns: u64,
    },
}

/// One seed of so many has 500 servers, and takes a minute.
const SEEDS_A_CROWD: u64 = 10_000;

/// A world, its faults and when they come.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) family: Family,
    pub(super) servers: usize,
    /// Servers that join later; the last ones.
    pub(super) late: usize,
    pub(super) lease_ms: u32,
    pub(super) pools: Vec<PoolSettings>,
    /// One way to the store takes about this.
    pub(super) way_ns: u64,
    /// Messages that are lost, of 1,000, and that take much longer.
    pub(super) lost: u64,
    pub(super) slow: u64,
    /// Steps of a server, of 1,000, in which it hangs for a while.
    pub(super) hangs: u64,
    /// Clock rates are off by up to so many millionths.
    pub(super) drift_ppm: u64,
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) faults_end_ns: u64,
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let servers = match random.below(64) {
            _ if seed % SEEDS_A_CROWD == SEEDS_A_CROWD - 1 => 500,
            0..60 => random.between(3, 8),
            60..63 => random.between(9, 20),
            _ => random.between(20, 40),
        };
        Plan::of(&mut random, servers as usize)
    }

    /// A world of so many servers.
    pub(super) fn of(random: &mut Random, servers: usize) -> Plan {
        let family = match random.below(8) {
            0..3 => Family::Servers,
            3 => Family::LostAndCutOff,
            4..6 => Family::LostAndRestarted,
            6 => Family::Restored,
            _ => Family::Forgetful,
        };
        let on_loss = match family {
            Family::Forgetful => OnLoss::Share,
            _ => random.pick(&[OnLoss::Strict, OnLoss::Strict, OnLoss::Share, OnLoss::Keep]),
        };
        // A table takes about 100 swaps a second: see docs/decisions/070.
        let lease_ms = random.between(600, 6000).max(servers as u64 * 60) as u32;
        let lease_ns = u64::from(lease_ms) * 1_000_000;
        let is_crowd = servers > 50;
        let pools = if is_crowd { 1 } else { random.between(1, 3) };
        let pools = (0..pools).map(|number| draw_pool(random, number, on_loss));
        let pools = pools.collect();
        let is_restored = family == Family::Restored;
        let leases = if is_crowd && !is_restored { 12 } else { 20 };
        let faults_end_ns = leases * lease_ns;
        let late = match family {
            Family::Servers => random.below(servers as u64 / 2) as usize,
            _ => 0,
        };
        // The first lease and a half are for the first table. Where the store goes back, all servers have read it before, and
        // see that it has before any starts again.
        let (first, last) = if is_restored { (10, 14) } else { (4, leases) };
        let mut faults = Vec::new();
        for server in servers - late..servers {
            faults.push((random.below(faults_end_ns), Fault::Join { server }));
        }
        for _ in 0..random.between(2, 10) {
            let fault = draw_fault(random, family, servers, lease_ns);
            faults.push((random.between(first * lease_ns, last * lease_ns), fault));
        }
        faults.sort_by_key(|&(at, _)| at);
        Plan {
            family,
            servers,
            late,
            lease_ms,
            pools,
            // A quarter of the time, at most, is between a read and the swap after it.
            way_ns: random.between(10_000, (lease_ns / 240).min(lease_ns / (48 * servers as u64))),
            lost: random.pick(&[0, 0, 10, 100]),
            slow: random.pick(&[0, 0, 10, 50]),
            hangs: match family {
                // What hangs for long is cut off: see the families.
                Family::LostAndRestarted => 0,
                _ => random.pick(&[0, 0, 5, 30]),
            },
            drift_ppm: random.pick(&[0, 100, 1000, 1000]),
            faults,
            faults_end_ns,
        }
    }
}

fn draw_pool(random: &mut Random, number: u64, on_loss: OnLoss) -> PoolSettings {
    let mut limit = Rates::UNLIMITED;
    for _ in 0..random.between(1, 2) {
        let dimension = random.pick(&Dimension::ALL);
        limit[dimension] = match random.below(8) {
            0 => random.between(1, 10),
            1..6 => random.between(100, 100_000),
            _ => random.between(1 << 20, 1 << 34),
        }
        .min(dimension.largest());
    }
    let floor = random.below(3);
    let floor = Rates::from_fn(|_| floor);
    let weight = random.pick(&[100, 100, 1, 300]);
    PoolSettings { name: format!("pool{number}"), limit, floor, weight, on_loss }
}

fn draw_fault(random: &mut Random, family: Family, servers: usize, lease_ns: u64) -> Fault {
    let server = random.below(servers as u64) as usize;
    let for_ns = random.between(1_000_000, 4 * lease_ns);
    let cut_off = Fault::CutOff { server, for_ns };
    let hang = Fault::Hang { server, for_ns };
    let restart = Fault::Crash { server, restarts_after_ns: Some(for_ns) };
    let crash = Fault::Crash { server, restarts_after_ns: None };
    let down = Fault::StoreDown { for_ns };
    match family {
        Family::Servers => random.pick(&[
            cut_off,
            cut_off,
            hang,
            hang,
            restart,
            restart,
            crash,
            down,
            Fault::Leave { server },
        ]),
        Family::LostAndCutOff => {
            random.pick(&[Fault::StoreEmptied, Fault::StoreEmptied, cut_off, hang, crash, down])
        }
        Family::LostAndRestarted => {
            random.pick(&[Fault::StoreEmptied, Fault::StoreEmptied, restart, restart, crash])
        }
        Family::Restored => {
            // Older than what any server that is there can have missed.
            let age_ns = random.between(2 * lease_ns, 4 * lease_ns);
            let hang = Fault::Hang { server, for_ns: for_ns / 4 };
            random.pick(&[Fault::StoreRestored { age_ns }, hang, crash])
        }
        Family::Forgetful => {
            let age_ns = random.between(1, lease_ns);
            random.pick(&[
                Fault::StoreRestored { age_ns },
                Fault::StoreRestored { age_ns },
                Fault::StoreEmptied,
                cut_off,
                hang,
                restart,
                crash,
                down,
            ])
        }
    }
}
