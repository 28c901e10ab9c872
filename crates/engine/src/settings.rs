//! Settings beyond limits and weights: BFQ, merging, classes, prices, watermark modes and kernels.

pub use crate::bfq::BfqSettings;
pub use crate::merge::{
    MergeWindow, Rules as MergeRules, Settings as MergeSettings, SettingsError as StableTimesError,
    StableTimes,
};
pub use crate::price::{BytePrice, Price, Prices};
pub use crate::types::LowLatency;
pub use crate::types::{Headroom, WatermarkMode};
pub use crate::types::{KernelProfile, SliceProfile};
pub use crate::types::{PrioClass, PriorityClass};
