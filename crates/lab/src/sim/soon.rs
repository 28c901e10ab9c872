//! Asks for the memory of requests that are soon let go or soon back, as the engine does for what it keeps of them: each a
//! place closer with each that comes, and what hangs on a line some places after that line.

use weir_hint::fetch;

use super::world::World;

/// Requests that are soon back, from that for whose flight is asked to that which is back.
const AHEAD: usize = 20;

/// Places from one hint for a request to the next.
const STEP: usize = 2;

/// Requests that are soon let go and looked at.
const SOON: usize = 16;

/// What is kept of so many is in a processor's caches; the engine looks ahead from there on, too.
const ACTORS_NEAR: usize = 1 << 12;

/// What is known of requests that are soon let go, and soon back.
#[derive(Default)]
pub(super) struct Soon {
    /// What the disk has done, by key; empty between instants.
    pub(super) ended: Vec<u64>,
    /// Those that the engine lets go soon, by key, in a ring; the next one is put at `next`.
    keys: [u32; SOON],
    next: usize,
}

impl World {
    /// The `at`th of those that the disk has done comes back.
    #[inline]
    pub(super) fn foresee_ended(&mut self, ended: &[u64], at: usize) {
        if ended.len() > AHEAD && self.actors.len() >= ACTORS_NEAR {
            self.fetch_ended(ended, at);
        }
    }

    #[inline(never)]
    fn fetch_ended(&mut self, ended: &[u64], at: usize) {
        let soon = |step: usize| ended.get(at + AHEAD - step * STEP).map(|&key| key as usize);
        if let Some(key) = soon(0) {
            self.desk.flights.fetch(key);
        }
        if let Some(flight) = soon(1).and_then(|key| self.desk.flights.get(key)) {
            if let Some(ticket) = &flight.ticket {
                self.engine.foresee_completion(ticket.id());
            }
            self.fetch_actor(flight.actor);
        }
        if let Some(flight) = soon(2).and_then(|key| self.desk.flights.get(key)) {
            self.fetch_records(flight.actor);
        }
    }

    /// The engine lets some go soon, perhaps.
    #[inline]
    pub(super) fn foresee_let_go(&mut self) {
        while let Some(tag) = self.engine.poll_foreseen() {
            self.fetch_let_go(tag as u32);
        }
    }

    #[inline(never)]
    fn fetch_let_go(&mut self, key: u32) {
        let Soon { keys, next, .. } = &mut self.soon;
        keys[*next % SOON] = key;
        let [second, third] = [1, 2].map(|step| keys[(*next + SOON - step * STEP) % SOON]);
        *next += 1;
        self.desk.flights.fetch(key as usize);
        if let Some(flight) = self.desk.flights.get(second as usize) {
            self.fetch_actor(flight.actor);
        }
        if let Some(flight) = self.desk.flights.get(third as usize) {
            self.fetch_records(flight.actor);
        }
    }

    /// An actor, and the process that it is, if it is one.
    fn fetch_actor(&self, actor: u32) {
        fetch(&self.actors[actor as usize]);
        if let Some(process) = self.processes.get(actor as usize) {
            process.fetch();
        }
    }

    /// What is noted of an actor.
    fn fetch_records(&self, actor: u32) {
        let actor = &self.actors[actor as usize];
        self.desk.recorder.fetch(actor.row, actor.cgroup);
    }
}
