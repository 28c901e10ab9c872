//! A server's part in the pools of one table: its calls, and the steps of a refresh.

mod learn;
mod messages;

use std::collections::{BTreeSet, VecDeque};

use weir_engine::{Dimension, Instant};

pub use self::messages::{Answer, Event, Grant, Request, RequestId, Revision, Store, Usage};
use crate::format::{self, SERVERS_MAX, TABLE_BYTES_MAX};
use crate::proposal::{self, Asked, Facts, Held, Need};
use crate::random::Random;
use crate::rates::Rates;
use crate::settings::{PoolSettings, ServerSettings, SettingsError};
use crate::sightings::Sightings;
use crate::table::{Epoch, Table};

/// Refreshes in a lease.
const REFRESHES: u64 = 6;
/// Swaps that are tried in one refresh; each can be refused because another server was faster.
const ATTEMPTS: u32 = 4;

#[derive(Debug)]
struct Pool {
    settings: PoolSettings,
    need: Need,
    /// What the engine was told.
    told: Held,
    /// Whether that is to be polled.
    is_news: bool,
}

/// The last state of the store that this server knows.
#[derive(Debug)]
struct Known {
    revision: Option<Revision>,
    table: Option<Table>,
}

#[derive(Debug)]
enum Step {
    Waiting {
        until: Instant,
    },
    /// A request to get is to be polled.
    Due,
    Getting {
        id: RequestId,
        sent: Instant,
    },
    /// A swap is to be polled, once the engine has what was told.
    Ready {
        read: Instant,
        swap: Swap,
        is_applied: bool,
    },
    Swapping {
        id: RequestId,
        sent: Instant,
        swap: Swap,
    },
    Left,
}

#[derive(Debug)]
struct Swap {
    table: Table,
    bytes: Vec<u8>,
    held: Vec<Held>,
}

/// A swap of which nothing was heard, and that may be done still.
#[derive(Debug)]
struct Unknown {
    epoch: Epoch,
    generation: u64,
    /// When the first of them was sent.
    sent: Instant,
}

/// One server's part in the pools of one table. See the [crate] for a picture and the rules.
///
/// The caller tells what happened (`handle_*`), then asks until the answer is none: [`Pools::poll_grant`], whose answers
/// it puts into the engine, [`Pools::handle_applied`], then [`Pools::poll_request`]. It calls [`Pools::handle_timeout`]
/// when [`Pools::poll_timeout`] says. Calls too early or too often are harmless.
#[derive(Debug)]
pub struct Pools {
    server: ServerSettings,
    /// By name.
    pools: Vec<Pool>,
    /// When what the engine was told ends.
    lease_end: Instant,
    known: Option<Known>,
    unknown: Option<Unknown>,
    sightings: Sightings,
    /// The last table of a life before the one in the store, until this server has told the others what it had.
    memory: Option<Table>,
    /// The life of the table that this server is to end, none for an empty store.
    ends_life: Option<Option<Epoch>>,
    /// The last life that is known of. A table of another one before it is an old one, whatever it says.
    epoch_max: Epoch,
    life_since: Instant,
    forgotten: BTreeSet<String>,
    is_leaving: bool,
    step: Step,
    refresh_began: Instant,
    attempts: u32,
    ids: u64,
    random: Random,
    events: VecDeque<Event>,
}

impl Pools {
    /// A server that has not read the table yet. The first grants are what it lets go until it has.
    ///
    /// # Errors
    /// [`SettingsError`] says what cannot be.
    pub fn new(
        now: Instant,
        server: ServerSettings,
        mut pools: Vec<PoolSettings>,
    ) -> Result<Pools, SettingsError> {
        server.check()?;
        pools.iter().try_for_each(PoolSettings::check)?;
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(pair) = pools.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(SettingsError::PoolTwice { name: pair[0].name.clone() });
        }
        let pools = pools.into_iter().map(|settings| {
            let rates = settings.before_first_table();
            let need = Need { demand: settings.nothing(), weight: 1 };
            Pool { told: Held { rates, then: rates }, settings, need, is_news: true }
        });
        Ok(Pools {
            pools: pools.collect(),
            random: Random::new(server.incarnation),
            server,
            lease_end: now,
            known: None,
            unknown: None,
            sightings: Sightings::default(),
            memory: None,
            ends_life: None,
            epoch_max: Epoch::default(),
            life_since: now,
            forgotten: BTreeSet::new(),
            is_leaving: false,
            step: Step::Due,
            refresh_began: now,
            attempts: 0,
            ids: 0,
            events: VecDeque::new(),
        })
    }

    // In.

    /// What was used of a pool. One that begins to wait refreshes sooner, at most four times as often as usual.
    pub fn handle_usage(&mut self, now: Instant, pool: usize, usage: Usage) {
        let of = &mut self.pools[pool];
        let was_held = Dimension::ALL.map(|dimension| of.need.demand[dimension] == Rates::NO_LIMIT);
        let limit = of.settings.limit;
        of.need.demand = Rates::from_fn(|dimension| match usage.is_held[dimension as usize] {
            true => Rates::NO_LIMIT,
            // A tenth more, so that a load that grows is not held at once.
            false => {
                let used = usage.used[dimension];
                used.saturating_add(used / 10).saturating_add(1).min(Rates::NO_LIMIT - 1)
            }
        });
        of.need.weight = u64::from(usage.clients.max(1)) * u64::from(of.settings.weight);
        let is_newly_held = limit
            .limited()
            .any(|dimension| usage.is_held[dimension as usize] && !was_held[dimension as usize]);
        let soon = self.refresh_began.plus_nanos(self.interval_ns() / 4);
        if let Step::Waiting { until } = &mut self.step
            && is_newly_held
            && self.attempts == 0
        {
            *until = soon.max(now).min(*until);
        }
    }

    /// All grants that were polled are in force.
    pub fn handle_applied(&mut self) {
        let is_told = self.pools.iter().all(|pool| !pool.is_news);
        if let Step::Ready { is_applied, .. } = &mut self.step {
            *is_applied |= is_told;
        }
    }

    /// Time has come to [`Pools::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        let given_up_ns = self.interval_ns();
        match self.step {
            Step::Waiting { until } if until <= now => {
                self.step = Step::Due;
                self.refresh_began = now;
                self.attempts = 0;
            }
            Step::Getting { sent, .. } | Step::Swapping { sent, .. }
                if now.nanos_since(sent) >= given_up_ns =>
            {
                self.try_later(now);
            }
            // What was read is old by now; and the engine may have what it was told since long.
            Step::Ready { read, .. } if now.nanos_since(read) >= given_up_ns => {
                self.step = Step::Due;
            }
            _ => {}
        }
    }

    /// The store has answered. Late answers, to requests that were given up, are passed over.
    pub fn handle_answer(&mut self, now: Instant, id: RequestId, answer: Answer<'_>) {
        match (std::mem::replace(&mut self.step, Step::Due), answer) {
            (Step::Getting { id: asked, .. }, Answer::Value(value)) if asked == id => {
                self.learn(now, value);
            }
            (Step::Getting { id: asked, .. }, _) if asked == id => self.try_later(now),
            (Step::Swapping { id: asked, sent, swap }, Answer::Swapped(revision))
                if asked == id =>
            {
                self.swapped(now, sent, revision, swap);
            }
            (Step::Swapping { id: asked, .. }, Answer::Refused) if asked == id => {
                // The store has a later revision, and no swap that expected the old one can be done any more. If one was,
                // the table that is read next says so.
                self.attempts += 1;
                if self.attempts >= ATTEMPTS {
                    self.try_later(now);
                }
            }
            (Step::Swapping { id: asked, .. }, _) if asked == id => self.try_later(now),
            (step, _) => self.step = step,
        }
    }

    /// Gives up the part of a server that will not come back, with the next swap.
    pub fn forget(&mut self, now: Instant, name: &str) {
        if name != self.server.name {
            self.forgotten.insert(name.to_owned());
            if let Step::Waiting { until } = &mut self.step {
                *until = now.min(*until);
            }
        }
    }

    /// This server is about to end: it lets nothing go any more, and gives up its part. Done when [`Pools::has_left`] says.
    pub fn leave(&mut self, now: Instant) {
        self.is_leaving = true;
        for pool in &mut self.pools {
            let nothing = pool.settings.nothing();
            pool.told = Held { rates: nothing, then: nothing };
            pool.is_news = true;
        }
        if matches!(self.step, Step::Waiting { .. } | Step::Ready { .. }) {
            self.step = Step::Due;
            self.refresh_began = now;
        }
    }

    // Out.

    /// The next rates for the engine.
    pub fn poll_grant(&mut self) -> Option<Grant> {
        let at = self.pools.iter().position(|pool| pool.is_news)?;
        let pool = &mut self.pools[at];
        pool.is_news = false;
        let Held { rates, then } = pool.told;
        Some(Grant { pool: at, rates, until: self.lease_end, then })
    }

    /// The next request to the store, to be sent after `now`. None while grants are to be applied.
    pub fn poll_request(&mut self, now: Instant) -> Option<Request> {
        let given_up_ns = self.interval_ns();
        match std::mem::replace(&mut self.step, Step::Due) {
            Step::Due => {}
            Step::Ready { read, .. } if now.nanos_since(read) >= given_up_ns => {}
            Step::Ready { swap, is_applied: true, .. } => {
                let id = self.next_id();
                let (epoch, generation) = (swap.table.epoch, swap.table.generation);
                let sent = self.unknown.as_ref().map_or(now, |unknown| unknown.sent);
                self.unknown = Some(Unknown { epoch, generation, sent });
                let expected = self.known.as_ref().and_then(|known| known.revision);
                let bytes = swap.bytes.clone();
                self.step = Step::Swapping { id, sent: now, swap };
                return Some(Request { id, store: Store::Swap { expected, bytes } });
            }
            step => {
                self.step = step;
                return None;
            }
        }
        let id = self.next_id();
        self.step = Step::Getting { id, sent: now };
        Some(Request { id, store: Store::Get })
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Pools::handle_timeout`]; none: nothing happens before the next call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.step {
            Step::Waiting { until } => Some(until),
            Step::Getting { sent, .. } | Step::Swapping { sent, .. } => {
                Some(sent.plus_nanos(self.interval_ns()))
            }
            Step::Ready { read, .. } => Some(read.plus_nanos(self.interval_ns())),
            Step::Due | Step::Left => None,
        }
    }

    /// Whether the table has nothing of this server any more, after [`Pools::leave`].
    pub fn has_left(&self) -> bool {
        matches!(self.step, Step::Left)
    }

    /// Settings of the pools, in the order of their numbers.
    pub fn settings(&self) -> impl Iterator<Item = &PoolSettings> {
        self.pools.iter().map(|pool| &pool.settings)
    }

    /// Servers that have a part of a pool, in the last table that is known.
    pub fn members(&self, pool: &str) -> usize {
        let table = self.known.as_ref().and_then(|known| known.table.as_ref());
        table.map_or(0, |table| table.rows(pool).len())
    }

    /// Whether the table that is known is a new one, in which no rate rises yet.
    pub fn is_learning(&self) -> bool {
        let table = self.known.as_ref().and_then(|known| known.table.as_ref());
        table.is_some_and(|table| table.is_learning)
    }

    // Inside.

    fn next_id(&mut self) -> RequestId {
        self.ids += 1;
        RequestId(self.ids)
    }

    /// Mean time between refreshes, and longest wait for an answer.
    fn interval_ns(&self) -> u64 {
        u64::from(self.server.lease_ms) * 1_000_000 / REFRESHES
    }

    /// A time between 80 and 120 % of `nanos`, so that servers do not stay in step.
    fn spread(&mut self, nanos: u64) -> u64 {
        nanos / 5 * 4 + self.random.below(nanos / 5 * 2 + 1)
    }

    /// The store does not answer, or others are always faster.
    fn try_later(&mut self, now: Instant) {
        let pause_ns = self.spread(self.interval_ns() / 2);
        self.step = Step::Waiting { until: now.plus_nanos(pause_ns) };
    }

    fn wait_for_refresh(&mut self, now: Instant) {
        let pause_ns = self.spread(self.interval_ns());
        let until = self.refresh_began.plus_nanos(pause_ns).max(now);
        self.attempts = 0;
        self.step = Step::Waiting { until };
    }

    /// What the engine lets go of a pool now.
    fn lets_go(&self, now: Instant, pool: &Pool) -> Rates {
        if now < self.lease_end { pool.told.rates } else { pool.told.then }
    }

    /// Makes a proposal of what is known, and lowers the engine to it.
    fn prepare(&mut self, now: Instant) {
        let read = self.known.as_ref().and_then(|known| known.table.as_ref());
        let facts = Facts {
            now,
            server: &self.server,
            read,
            begins_life: self.ends_life.is_some(),
            epoch_max: self.epoch_max,
            memory: self.memory.as_ref(),
            life_since: self.life_since,
            sightings: &self.sightings,
            forgotten: &self.forgotten,
        };
        let (table, held) = if self.is_leaving {
            (proposal::propose_leave(&facts), Vec::new())
        } else {
            let asked = self.pools.iter().map(|pool| Asked {
                settings: &pool.settings,
                need: pool.need,
                lets_go: self.lets_go(now, pool),
            });
            let asked: Vec<Asked<'_>> = asked.collect();
            proposal::propose(&facts, &asked)
        };
        let bytes = format::write(&table);
        if bytes.len() > TABLE_BYTES_MAX || table.servers.len() > SERVERS_MAX {
            let (bytes, servers) = (bytes.len(), table.servers.len());
            self.events.push_back(Event::TableFull { bytes, servers });
            return self.try_later(now);
        }
        for (pool, &held) in self.pools.iter_mut().zip(&held) {
            let lower = pool.told.min(held);
            pool.is_news |= lower != pool.told;
            pool.told = lower;
        }
        let is_applied = self.pools.iter().all(|pool| !pool.is_news);
        self.step = Step::Ready { read: now, swap: Swap { table, bytes, held }, is_applied };
    }

    /// The table in the store is the one proposed.
    fn swapped(&mut self, now: Instant, sent: Instant, revision: Revision, swap: Swap) {
        let Swap { table, held, .. } = swap;
        self.unknown = None;
        self.memory = None;
        self.ends_life = None;
        self.forgotten.clear();
        self.sightings.note(now, &table, 3 * self.interval_ns());
        self.epoch_max = self.epoch_max.max(table.epoch);
        self.known = Some(Known { revision: Some(revision), table: Some(table) });
        if self.is_leaving {
            self.step = if held.is_empty() { Step::Left } else { Step::Due };
            return;
        }
        self.lease_end = sent.plus_nanos(u64::from(self.server.lease_ms) * 1_000_000);
        for (pool, &held) in self.pools.iter_mut().zip(&held) {
            pool.told = held;
            pool.is_news = true;
        }
        self.wait_for_refresh(now);
    }
}
