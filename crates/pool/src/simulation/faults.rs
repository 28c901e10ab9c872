//! Faults of a simulated world, and their end.

use super::plan::{Family, Fault};
use super::world::{Event, World};
use crate::sightings::patience_ns;

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::CutOff { server, for_ns } => self.servers[server].cut_until = now + for_ns,
            Fault::Hang { server, for_ns } => {
                let of = &mut self.servers[server];
                of.hung_until = of.hung_until.max(now + for_ns);
            }
            Fault::Crash { server, restarts_after_ns } => {
                self.servers[server].process = None;
                if let Some(after_ns) = restarts_after_ns {
                    self.at(now + after_ns, Event::Restart { server });
                }
            }
            Fault::Join { server } => {
                self.servers[server].is_member = true;
                self.start(server);
            }
            Fault::Leave { server } => {
                let at = self.servers[server].clock.at(now);
                if let Some(process) = &mut self.servers[server].process {
                    process.pools.leave(at);
                    self.turn(server);
                }
            }
            Fault::StoreDown { for_ns } => self.store.down_until = now + for_ns,
            Fault::StoreEmptied => {
                self.store.lose(now);
                self.forgets();
            }
            Fault::StoreRestored { age_ns } => {
                self.store.go_back(now, now.saturating_sub(age_ns));
                self.forgets();
            }
        }
    }

    fn forgets(&mut self) {
        if self.plan.family == Family::Forgetful {
            // Servers that have risen in the forgotten time write again, or their leases end, within this.
            self.lenient_until = self.now + 2 * patience_ns(self.plan.lease_ms);
        }
    }

    pub(super) fn calm_down(&mut self) {
        (self.plan.lost, self.plan.slow, self.plan.hangs) = (0, 0, 0);
        self.store.down_until = 0;
        for server in 0..self.servers.len() {
            self.servers[server].cut_until = 0;
            self.start(server);
        }
    }
}
