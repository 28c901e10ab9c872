//! Causes of waits between two readings.

use std::collections::BTreeMap;

use weir_lab::report::unbroken;
use weir_server::status::WaitStatus;
use weir_units::Nanos;

/// One thing that requests waited for.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(crate) struct Cause {
    /// `limit`, `other_clients`, `lifted_limit`, `window`, `device`, or outside the engine `connection`, `memory`, `queue`,
    /// `unsent`, `turn`, `payload`, `sending`.
    pub(crate) cause: &'static str,
    /// The cgroup of the limit; `null` for other causes, and for a removed cgroup.
    pub(crate) cgroup: Option<String>,
    /// The dimension of the limit.
    pub(crate) dimension: Option<&'static str>,
    /// Nanoseconds, averaged over the requests completed.
    pub(crate) wait_ns_mean: u64,
    /// Part of all waits.
    pub(crate) percent: f64,
}

type What = (&'static str, Option<String>, Option<&'static str>);

fn sums(wait: &WaitStatus) -> BTreeMap<What, u64> {
    let mut sums = BTreeMap::new();
    for limit in &wait.limits {
        for (key, ns) in limit.wait_ns.pairs() {
            *sums.entry(("limit", limit.cgroup.clone(), Some(key))).or_default() += ns;
        }
    }
    for (cause, ns) in wait.beside_limits() {
        sums.insert((cause, None, None), ns);
    }
    sums
}

/// Waits of `completed` requests between two readings by cause, the longest first; empty if none completed.
pub(crate) fn causes(before: &WaitStatus, after: &WaitStatus, completed: u64) -> Vec<Cause> {
    let (before, mut waits) = (sums(before), sums(after));
    for (what, ns) in &mut waits {
        *ns = ns.saturating_sub(before.get(what).copied().unwrap_or_default());
    }
    let total: u64 = waits.values().sum();
    if completed == 0 {
        return Vec::new();
    }
    let mut causes: Vec<Cause> = waits
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|((cause, cgroup, dimension), ns)| Cause {
            cause,
            cgroup,
            dimension,
            wait_ns_mean: ns / completed,
            percent: 100.0 * ns as f64 / total as f64,
        })
        .collect();
    causes.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    causes
}

impl Cause {
    /// In a person's words.
    pub(crate) fn words(&self) -> String {
        let other = match self.cause {
            "other_clients" => "other clients' turns",
            "lifted_limit" => "limits lifted since",
            "window" => "room at the device",
            "device" => "the device",
            "connection" => "its connection's quota",
            "memory" => "buffer memory",
            "queue" => "a place in the queue",
            "unsent" => "its client to take replies",
            "turn" => "other connections' turns",
            "payload" => "its payload to arrive",
            "sending" => "its reply to be taken",
            _ => "",
        };
        match (&self.cgroup, self.dimension) {
            (Some(cgroup), Some(dimension)) => format!("{dimension} of {cgroup}"),
            (None, Some(dimension)) => format!("{dimension} of a cgroup or client that is gone"),
            _ => other.into(),
        }
    }
}

/// Causes with a smaller part are not worth reading about.
const PERCENT_MIN: f64 = 1.0;

/// `riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)`.
pub(crate) fn sentence(causes: &[Cause]) -> String {
    parts(causes).collect::<Vec<_>>().join(", ")
}

/// The same for `wrap`, which breaks lines between causes only.
pub(crate) fn breakable(causes: &[Cause]) -> String {
    parts(causes).map(|part| unbroken(&part)).collect::<Vec<_>>().join(", ")
}

fn parts(causes: &[Cause]) -> impl Iterator<Item = String> {
    causes.iter().filter(|cause| cause.percent >= PERCENT_MIN).map(|cause| {
        let time = Nanos(cause.wait_ns_mean).rounded();
        // Whole percents, but never "100 %" next to something else.
        let percent = match cause.percent {
            percent if percent > 99.0 && percent < 100.0 => format!("{:.1}", percent.min(99.9)),
            percent => format!("{percent:.0}"),
        };
        format!("{} {time} ({percent} %)", cause.words())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_server::status::{LimitWait, PerDimension};

    fn wait(riops_ns: u64, device_ns: u64) -> WaitStatus {
        let wait_ns = PerDimension { riops: riops_ns, ..PerDimension::default() };
        let limits = vec![LimitWait { cgroup: Some("/vm1".into()), wait_ns }];
        WaitStatus { limits, device_ns, ..WaitStatus::default() }
    }

    #[test]
    fn only_what_came_between_the_readings_counts() {
        let causes = causes(&wait(1_000_000, 1_000), &wait(601_000_000, 1_801_000), 100);
        let told: Vec<_> = causes.iter().map(|cause| (cause.cause, cause.wait_ns_mean)).collect();
        assert_eq!(told, [("limit", 6_000_000), ("device", 18_000)]);
        let expected = "riops of /vm1 6.00 ms (99.7 %)";
        assert_eq!(sentence(&causes), expected, "a device with 0.3 % is not told");
    }

    #[test]
    fn without_requests_there_is_nothing_to_spread_waits_over() {
        assert_eq!(causes(&wait(0, 0), &wait(5, 5), 0), []);
        assert_eq!(causes(&wait(5, 5), &wait(5, 5), 3), []);
        assert_eq!(sentence(&[]), "");
    }
}
