//! Settings of a server and of its pools.

use crate::format::NAME_BYTES_MAX;
use crate::rates::Rates;

/// The server that takes part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Its name in the table, of its own and the same after a restart. The host sees to it that no other process has it.
    pub name: String,
    /// A random number of this process.
    pub incarnation: u64,
    /// How long what it holds counts without a write. A refresh comes six times in it. All servers of a table should have
    /// the same: a sixth of it is also how long a demand takes to be seen.
    pub lease_ms: u32,
}

/// One limit over all servers that have a pool of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// Its name in the table.
    pub name: String,
    /// What all servers may let go together. The same on all of them.
    pub limit: Rates,
    /// What each of them has at least, as far as the limit goes round.
    pub floor: Rates,
    /// Weight of a client here beside one on another server; 100 if there is nothing to say.
    pub weight: u32,
    /// What this server does once its lease has ended.
    pub on_loss: OnLoss,
}

/// What a server lets go once its lease has ended, because it could not write for as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnLoss {
    /// An equal part of the limit, but no more than it held; the others keep that free. All together never let more go than
    /// the limit. What is kept free for a server that does not come back, is so until it is forgotten.
    Strict,
    /// An equal part of the limit, which the others do not keep free: each server that is cut off adds that much.
    Share,
    /// What it held, which the others keep free.
    Keep,
    /// Anything.
    Open,
    /// These limits, which the others do not keep free.
    Limits(Rates),
}

/// Rates once a lease has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fallback {
    /// Of the server itself.
    pub(crate) rates: Rates,
    /// Kept free by the others; no more than granted.
    pub(crate) reserved: Rates,
}

impl PoolSettings {
    /// Rates after the lease of a server that holds `granted`, one of `members`.
    pub(crate) fn fallback(&self, granted: Rates, members: usize) -> Fallback {
        let members = members.max(1) as u64;
        let part = Rates::from_fn(|dimension| match self.limit[dimension] {
            Rates::NO_LIMIT => Rates::NO_LIMIT,
            limit => limit / members,
        });
        let nothing = Rates::from_fn(|dimension| match granted[dimension] {
            Rates::NO_LIMIT => Rates::NO_LIMIT,
            _ => 0,
        });
        match self.on_loss {
            OnLoss::Strict => Fallback { rates: part.min(granted), reserved: part.min(granted) },
            OnLoss::Share => Fallback { rates: part, reserved: nothing },
            OnLoss::Keep => Fallback { rates: granted, reserved: granted },
            OnLoss::Open => Fallback { rates: Rates::UNLIMITED, reserved: nothing },
            OnLoss::Limits(rates) => Fallback { rates, reserved: nothing },
        }
    }

    /// Rates of a server that has never read a table.
    pub(crate) fn before_first_table(&self) -> Rates {
        let nothing = self.fallback(self.nothing(), 1).rates;
        match self.on_loss {
            OnLoss::Share => self.floor.min(self.limit),
            OnLoss::Strict | OnLoss::Keep | OnLoss::Open | OnLoss::Limits(_) => nothing,
        }
    }

    /// Nothing, in each dimension that it limits.
    pub(crate) fn nothing(&self) -> Rates {
        Rates::from_fn(|dimension| match self.limit[dimension] {
            Rates::NO_LIMIT => Rates::NO_LIMIT,
            _ => 0,
        })
    }
}

/// Why settings cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A name cannot be written.
    #[error("{name:?} has {bytes} bytes, a name has 1 to {NAME_BYTES_MAX}", bytes = name.len())]
    Name {
        /// The name.
        name: String,
    },
    /// Two pools have one name.
    #[error("pool {name:?} is there twice")]
    PoolTwice {
        /// The name.
        name: String,
    },
    /// A lease is no time, or so short that a sixth of it is.
    #[error("a lease of {lease_ms} ms is too short, at least {LEASE_MS_MIN} are needed")]
    Lease {
        /// The lease.
        lease_ms: u32,
    },
    /// A weight is 0.
    #[error("pool {name:?}: a weight of 0 is none")]
    Weight {
        /// The pool.
        name: String,
    },
}

/// Shortest lease: a sixth of it is 10 ms, some round trips to a store.
pub const LEASE_MS_MIN: u32 = 60;

fn check_name(name: &str) -> Result<(), SettingsError> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(SettingsError::Name { name: name.into() }),
    }
}

impl ServerSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        check_name(&self.name)?;
        match self.lease_ms {
            LEASE_MS_MIN.. => Ok(()),
            lease_ms => Err(SettingsError::Lease { lease_ms }),
        }
    }
}

impl PoolSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        check_name(&self.name)?;
        match self.weight {
            0 => Err(SettingsError::Weight { name: self.name.clone() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::Dimension;

    use super::*;

    #[test]
    fn each_policy_falls_back_and_reserves_as_it_says() {
        let riops = |rate| Rates::UNLIMITED.with(Dimension::Riops, rate);
        let free = Rates::NO_LIMIT;
        for (on_loss, granted, falls_to, reserved) in [
            (OnLoss::Strict, 700, 300, 300),
            (OnLoss::Strict, 20, 20, 20),
            (OnLoss::Share, 700, 300, 0),
            (OnLoss::Share, 20, 300, 0),
            (OnLoss::Keep, 700, 700, 700),
            (OnLoss::Open, 700, free, 0),
            (OnLoss::Limits(riops(50)), 700, 50, 0),
        ] {
            let settings = PoolSettings {
                name: "p".into(),
                limit: riops(900),
                floor: riops(1),
                weight: 100,
                on_loss,
            };
            let fallback = settings.fallback(riops(granted), 3);
            assert_eq!(fallback.rates[Dimension::Riops], falls_to, "{on_loss:?} {granted}");
            assert_eq!(fallback.reserved[Dimension::Riops], reserved, "{on_loss:?} {granted}");
            assert_eq!(fallback.reserved[Dimension::Wbps], free, "it is not limited");
        }
    }
}
