//! Steadiness of a job's rate.

use std::fmt;

use weir_fio::SteadyState;

/// Result of a `steadystate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Steadiness {
    /// Criterion and limit.
    pub rule: SteadyState,
    /// Seconds that are looked at together.
    pub seconds: u64,
    /// When the rate was steady, which ended the job; None if it never was.
    pub attained_ns: Option<u64>,
    /// The criterion's value at the end, in its unit; None where nothing was moved, or there were too few seconds.
    pub criterion: Option<f64>,
    /// Rise of the rate, requests or bytes a second, with each of the last seconds; None where those were too few.
    pub slope: Option<f64>,
    /// Largest distance of these rates from their mean; None where they were too few.
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
