//! Steadiness of a job's rate.

use std::fmt;

use weir_fio::SteadyState;

/// What came of a `steadystate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Steadiness {
    /// What had to be steady, and how much so.
    pub rule: SteadyState,
    /// How many seconds were looked at together.
    pub seconds: u64,
    /// When it was steady, and the job ended for it; None if it never was.
    pub attained_ns: Option<u64>,
    /// At the end, what is compared with the rule's limit, in its unit; None where nothing was moved, or there were too few
    /// seconds to tell.
    pub criterion: Option<f64>,
    /// How the rule's rate, requests or bytes a second, went up with each of the last seconds; None where those were too few.
    pub slope: Option<f64>,
    /// How far the furthest of them was from their mean, likewise.
    pub deviation: Option<f64>,
    /// Requests and bytes of each of the last seconds, at most [`Steadiness::seconds`].
    pub rates: Vec<[u64; 2]>,
}

impl fmt::Display for Steadiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Steadiness { rule, seconds, .. } = self;
        let unit = if rule.in_percent { "%" } else { "" };
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
