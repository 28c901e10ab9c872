//! Merging without the feature `bfq`: its settings and statistics.

#[path = "counters.rs"]
#[allow(
    dead_code,
    reason = "without the scheduler no event is counted, and the statistics are read as zero"
)]
mod counters;
#[path = "refusal.rs"]
mod refusal;
#[path = "settings.rs"]
mod settings;

pub use counters::Counters;
pub use refusal::Refusal;
pub use settings::{MergeWindow, Rules, Settings, SettingsError, StableTimes};
