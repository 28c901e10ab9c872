//! Learning of a table: what the store has, compared with what was known of it.

use weir_engine::Instant;

use super::{Event, Known, Pools, Revision, Step, Unknown};
use crate::format;
use crate::proposal::Held;
use crate::table::{Epoch, Presence, Table};

impl Pools {
    /// Takes in what the store has, and makes a proposal of it.
    pub(super) fn learn(&mut self, now: Instant, value: Option<(Revision, &[u8])>) {
        let (revision, table) = match value {
            None => (None, None),
            Some((revision, bytes)) => match format::parse(bytes) {
                Ok(table) => (Some(revision), Some(table)),
                Err(error) => {
                    self.events.push_back(Event::Unreadable(error));
                    return self.try_later(now);
                }
            },
        };
        if let Some(known) = self.known.take() {
            self.compare(now, known, revision, table.as_ref());
        } else {
            self.life_since = now;
            self.ends_life = table.is_none().then_some(None);
            self.epoch_max = table.as_ref().map(|table| table.epoch).unwrap_or_default();
        }
        if matches!(self.step, Step::Left) {
            return;
        }
        if let Some(table) = &table {
            self.sightings.note(now, table, 3 * self.interval_ns());
        }
        self.known = Some(Known { revision, table });
        self.prepare(now);
    }

    /// Compares what the store has with what was known of it.
    fn compare(
        &mut self,
        now: Instant,
        known: Known,
        revision: Option<Revision>,
        table: Option<&Table>,
    ) {
        if revision == known.revision {
            return;
        }
        let epoch = table.map(|table| table.epoch);
        if self.ends_life.is_some_and(|ended| ended != epoch) {
            // Another server was faster.
            self.ends_life = None;
            self.life_since = now;
        }
        let unknown = self.unknown.take();
        let Some(before) = known.table else {
            // There was none, and this server has not begun one, as far as it knows.
            if let (Some(unknown), Some(table)) = (unknown, table) {
                self.find_unknown(&unknown, table);
            }
            if let Some(table) = table.filter(|table| !table.epoch.is_later_than(self.epoch_max)) {
                self.ends_life = Some(Some(table.epoch));
            }
            self.epoch_max = self.epoch_max.max(epoch.unwrap_or_default());
            self.life_since = now;
            return;
        };
        let own_before = self.own_seq(&before);
        let Some(table) = table else {
            return self.end_life(now, before, None);
        };
        if table.epoch != before.epoch && !table.epoch.is_later_than(self.epoch_max) {
            return self.end_life(now, before, Some(table.epoch));
        }
        self.epoch_max = self.epoch_max.max(table.epoch);
        if table.epoch != before.epoch {
            let is_own = unknown.is_some_and(|unknown| self.find_unknown(&unknown, table));
            if !is_own {
                self.keep_in_memory(before);
            }
            self.life_since = now;
            return;
        }
        let own = table.server(&self.server.name).map(|at| &table.servers[at as usize]);
        let is_own_older = own_before.is_some_and(|seq| own.is_some_and(|own| own.seq < seq));
        if table.generation < before.generation || is_own_older {
            return self.end_life(now, before, Some(table.epoch));
        }
        if own_before.is_some() && own.is_some_and(|own| own.incarnation != self.server.incarnation)
        {
            return self.be_replaced();
        }
        if let Some(unknown) = unknown {
            self.find_unknown(&unknown, table);
        }
    }

    /// The store has lost what it had; `epoch` is the life that it has gone back to, if it has one.
    fn end_life(&mut self, now: Instant, before: Table, epoch: Option<Epoch>) {
        self.events.push_back(Event::TableLost);
        self.keep_in_memory(before);
        self.ends_life = Some(epoch);
        self.life_since = now;
    }

    fn keep_in_memory(&mut self, mut before: Table) {
        if let Some(memory) = &self.memory {
            before.remember(memory);
        }
        self.memory = Some(before);
    }

    fn be_replaced(&mut self) {
        self.events.push_back(Event::Replaced);
        for pool in &mut self.pools {
            let nothing = pool.settings.nothing();
            pool.told = Held { rates: nothing, then: nothing };
            pool.is_news = true;
        }
        self.step = Step::Left;
    }

    /// A swap of which nothing was heard was done after all, if the table has this server's row as of then.
    fn find_unknown(&mut self, unknown: &Unknown, table: &Table) -> bool {
        if self.own_seq(table) != Some(unknown.generation) || table.epoch != unknown.epoch {
            return false;
        }
        let own = table.server(&self.server.name).expect("it has a row");
        let lease_ns = u64::from(table.servers[own as usize].lease_ms) * 1_000_000;
        let was_lost = table.servers[own as usize].presence != Presence::Live;
        let until = unknown.sent.plus_nanos(lease_ns);
        if was_lost || until <= self.lease_end {
            return true;
        }
        // The engine was told no more than the rows before the swap was sent; it goes on with that for longer.
        self.lease_end = until;
        self.pools.iter_mut().for_each(|pool| pool.is_news = true);
        true
    }

    fn own_seq(&self, table: &Table) -> Option<u64> {
        let own = table.server(&self.server.name).map(|at| &table.servers[at as usize]);
        own.filter(|own| own.incarnation == self.server.incarnation).map(|own| own.seq)
    }
}
