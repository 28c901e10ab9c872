//! BFQ without the feature `bfq`: its settings and statistics, and a scheduler that cannot be made.

#[path = "counters.rs"]
#[allow(
    dead_code,
    reason = "without the scheduler no event is counted, and the statistics are read as zero"
)]
mod counters;
#[path = "settings.rs"]
mod settings;

use alloc::string::String;
use alloc::sync::Arc;
use core::num::NonZeroU32;

pub use self::counters::{BfqCgroupStats, BfqStats, Expiration, IdlingCause, Injection, Raising};
pub(crate) use self::counters::{CgroupCounts, Counters};
pub use self::settings::BfqSettings;
use crate::requests::{Arriving, Requests};
use crate::tree::Tree;
use crate::types::Instant;

/// The scheduler, of which there is none.
pub(crate) enum Bfq {}

macro_rules! never {
    ($($name:ident($($argument:ty),*) $(-> $answer:ty)?;)+) => {
        impl Bfq {
            $(pub(crate) fn $name(&self, $(_: $argument),*) $(-> $answer)? {
                match *self {}
            })+
        }
    };
}

impl Bfq {
    pub(crate) fn into_counters(self) -> Counters {
        match self {}
    }
}

never! {
    adopt(&Tree, &Requests, u32);
    cgroup_stats(u32) -> BfqCgroupStats;
    check(&Tree, &Requests) -> Result<(), String>;
    complete(Instant, &Tree, &Requests, u32, u32);
    deadline() -> Option<Instant>;
    forget(&Tree, &Requests, u32);
    forget_cgroup(&Tree, &Requests, u32) -> BfqCgroupStats;
    handle_timeout(Instant, &Tree, &Requests);
    insert(Instant, &mut Tree, &mut Requests, Arriving<'_>);
    len() -> u32;
    move_cgroup(&Tree, &Requests, u32);
    next(Instant, &mut Tree, &mut Requests) -> Option<u32>;
    next_coalesced(Instant, u32, &mut Tree, &mut Requests) -> Option<u32>;
    remove(&mut Tree, &mut Requests, u32, u32);
    reprioritize(&Tree, u32);
    reprioritize_writeback(&Tree, u32);
    review_policies(Instant, &Tree);
    set_depth(NonZeroU32);
    share_counts(u32) -> Arc<CgroupCounts>;
    set_tunables(&BfqSettings);
    stats() -> BfqStats;
    take_device_from(&Tree, &Requests, u32);
    update_cgroup_prio(&Tree, u32);
}
