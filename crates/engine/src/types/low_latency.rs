//! Policy of weight raising, for a cgroup or a client.

/// Whether a flow's weight may be raised for a while, so that a starting flow need not wait for steady readers and
/// writers.
///
/// A cgroup's setting holds for all clients below it that have no nearer one. In the kernel's BFQ weights are raised
/// only at weight 40, so that any explicit weight turns raising off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LowLatency {
    /// By behaviour: raised when it begins after a pause, or wants little at a time, unless it belongs to a large
    /// burst.
    #[default]
    Auto,
    /// Never raised.
    Never,
    /// As `Auto`, and in large bursts too, for instance a session that starts ten programs at once.
    Interactive,
}

impl LowLatency {
    /// All policies, in the order of tables.
    pub const ALL: [LowLatency; 3] = [LowLatency::Auto, LowLatency::Never, LowLatency::Interactive];

    /// The name in configurations and reports: `auto`, `never` or `interactive`.
    pub const fn name(self) -> &'static str {
        match self {
            LowLatency::Auto => "auto",
            LowLatency::Never => "never",
            LowLatency::Interactive => "interactive",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<LowLatency> {
        LowLatency::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
