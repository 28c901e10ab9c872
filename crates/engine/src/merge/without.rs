//! Merging without the feature `bfq`: its settings and statistics.

#[path = "counters.rs"]
#[allow(dead_code, reason = "nothing counts")]
mod counters;
#[path = "refusal.rs"]
mod refusal;
#[path = "settings.rs"]
mod settings;

pub use counters::Counters;
pub use refusal::Refusal;
pub use settings::{MergeWindow, Rules, Settings, SettingsError, StableTimes};
