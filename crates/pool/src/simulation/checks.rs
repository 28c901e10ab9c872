//! Checks of a simulated world: the sum of what all servers let go, and where rates converge to.

use weir_engine::Instant;

use super::server::{Process, Want, ideal};
use super::world::{Server, World};
use crate::OnLoss;

impl World {
    /// Looks at the sum of what all servers let go.
    pub(super) fn check(&mut self) {
        if self.violation.is_some() || self.now < self.lenient_until {
            return;
        }
        let running = self.servers.iter().filter_map(|server| {
            server.process.as_ref().map(|process| (server.clock.at(self.now), process))
        });
        let running: Vec<(Instant, &Process)> = running.collect();
        for (at, pool) in self.plan.pools.iter().enumerate() {
            for dimension in pool.limit.limited() {
                let limit = u128::from(pool.limit[dimension]);
                let (mut leased, mut ended, mut ended_max) = (0u128, 0u128, 0u128);
                for &(here, process) in &running {
                    let engine = &process.engine[at];
                    let rate = u128::from(engine.rates(here)[dimension]);
                    let floor = u128::from(pool.floor[dimension]).min(limit);
                    let part = (limit / u128::from(engine.members)).max(floor);
                    // A server that goes on in a new table has its part as one that is cut off does.
                    let beyond = match engine.is_leased(here) {
                        true if engine.is_cut_off => rate.saturating_sub(part),
                        true => rate,
                        false => 0,
                    };
                    leased += beyond;
                    ended += rate - beyond;
                    ended_max += part;
                }
                let is_fine = match pool.on_loss {
                    OnLoss::Share => leased <= limit && ended <= ended_max,
                    _ => leased + ended <= limit,
                };
                if !is_fine {
                    self.violation = Some(format!(
                        "{}: {leased} leased and {ended} after leases of a limit of {limit} {}",
                        pool.name,
                        dimension.key(),
                    ));
                }
            }
        }
    }

    pub(super) fn check_converged(&mut self) -> Result<(), String> {
        let live: Vec<&Server> =
            self.servers.iter().filter(|server| server.process.is_some()).collect();
        for (at, pool) in self.plan.pools.iter().enumerate() {
            if live.is_empty() {
                return Ok(());
            }
            let wants: Vec<Want> = live.iter().map(|server| server.wants[at]).collect();
            for dimension in pool.limit.limited() {
                let ideal = ideal(pool, dimension, &wants);
                let rates = live.iter().map(|server| {
                    let process = server.process.as_ref().expect("it is live");
                    process.engine[at].rates(server.clock.at(self.now))[dimension]
                });
                let rates: Vec<u64> = rates.collect();
                let is_near = |(&rate, &ideal): (&u64, &u64)| {
                    rate.abs_diff(ideal) <= live.len() as u64 + ideal / 100
                };
                let sum: u64 = rates.iter().sum();
                let limit = pool.limit[dimension];
                if !rates.iter().zip(&ideal).all(is_near) || sum < limit - limit / 1000 {
                    return Err(format!(
                        "at {} ms: {} {} of {limit}: {rates:?} after four refreshes, not {ideal:?}",
                        self.now / 1_000_000,
                        pool.name,
                        dimension.key(),
                    ));
                }
            }
        }
        Ok(())
    }
}
