//! Coverage of random traffic: a test that never gets anywhere proves nothing.

use std::collections::BTreeMap;

use weir_engine::stats::{BfqStats, Expiration, IdlingCause, Injection, Raising, Refusal};

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach(BTreeMap<String, u64>);

impl Reach {
    pub(crate) fn note(&mut self, what: &str) {
        self.add(what.to_owned(), 1);
    }

    fn add(&mut self, what: String, count: u64) {
        if count > 0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn absorb(&mut self, other: &Reach) {
        for (what, count) in &other.0 {
            self.add(what.clone(), *count);
        }
    }

    /// What an engine has counted itself.
    pub(crate) fn note_stats(&mut self, stats: &BfqStats) {
        for kind in Injection::ALL {
            self.add(format!("injected {}", kind.key()), stats.injections[kind.index()]);
        }
        for kind in Expiration::ALL {
            self.add(format!("expired {}", kind.key()), stats.expirations[kind.index()]);
        }
        for kind in IdlingCause::ALL {
            self.add(format!("idled {}", kind.key()), stats.idlings[kind.index()]);
        }
        for kind in Raising::ALL {
            self.add(format!("raised {}", kind.key()), stats.raisings[kind.index()]);
        }
        for reason in Refusal::ALL {
            self.add(format!("refused {}", reason.key()), stats.merging.refused(reason));
        }
        let merging = &stats.merging;
        for (what, count) in [
            ("joined", stats.coalesced),
            ("charged for time", stats.time_charges),
            ("short slot", stats.short_slots),
            ("held", stats.held),
            ("merged as neighbours", merging.cooperations),
            ("merged at creation", merging.stable_at_creation),
            ("merged late", merging.stable_late),
            ("redirected", merging.redirections),
            ("split", merging.splits),
            ("alone again", merging.restored),
        ] {
            self.add(what.to_owned(), count);
        }
    }

    /// What has happened less often than `wanted` says, and how often that was.
    pub(crate) fn missing(&self, wanted: &[(&str, u64)]) -> Vec<String> {
        let count = |what: &str| self.0.get(what).copied().unwrap_or(0);
        let rare = wanted.iter().filter(|(what, least)| count(what) < *least);
        rare.map(|(what, least)| format!("{what}: {} of {least}", count(what))).collect()
    }
}
