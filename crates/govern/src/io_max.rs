//! Limits of one cgroup on one device, as a line of `io.max` has them.

/// Limits in bytes and I/Os a second. `None` is `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct IoMax {
    /// Bytes read a second.
    pub rbps: Option<u64>,
    /// Bytes written a second.
    pub wbps: Option<u64>,
    /// Reads a second.
    pub riops: Option<u64>,
    /// Writes a second.
    pub wiops: Option<u64>,
}

impl IoMax {
    /// True if nothing is limited.
    pub fn is_max(self) -> bool {
        self == Self::default()
    }
}
