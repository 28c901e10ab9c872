//! Whether a job's rate was steady.

use std::fmt;

/// What came of a `steadystate`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steadiness {
    /// As fio takes it: `iops_slope:0.1%`.
    pub rule: String,
    /// How many seconds were looked at together.
    pub seconds: u64,
    /// When it was steady, and the job ended for it; None if it never was.
    pub attained_ns: Option<u64>,
    /// At the end, what is compared with the rule's limit; None where nothing was moved, or there was too little to tell.
    pub criterion: Option<f64>,
    /// Likewise, how the rule's rate went up with each second.
    pub slope: Option<f64>,
    /// Likewise, how far the furthest was from the mean.
    pub deviation: Option<f64>,
    /// Requests and bytes of each of the last seconds, at most [`Steadiness::seconds`].
    pub rates: Vec<[u64; 2]>,
}

impl fmt::Display for Steadiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Steadiness { rule, seconds, .. } = self;
        let unit = if rule.ends_with('%') { "%" } else { "" };
        match self.attained_ns {
            Some(at_ns) => write!(f, "steady at {:.1} s", at_ns as f64 / 1e9)?,
            None => write!(f, "not steady")?,
        }
        write!(f, " (steadystate={rule} over {seconds} s: ")?;
        match self.criterion {
            Some(criterion) => write!(f, "{criterion:.4}{unit})"),
            None => write!(f, "too little to tell)"),
        }
    }
}
