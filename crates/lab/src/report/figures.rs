//! Figures and names that the reports share.

use std::collections::BTreeMap;

use weir_engine::{Dimension, LimiterKind, Limits, PerDimension, Resource};
use weir_units::{Bytes, Nanos};

use crate::results::{CgroupResults, Latency, Results, Row};

pub(super) struct Line<'r> {
    /// `read`, `write`, `trim`, `mixed` (those three together) or `sync`.
    pub(super) kind: &'static str,
    pub(super) ios: u64,
    /// None for `sync`, which moves nothing by itself.
    pub(super) bytes: Option<u64>,
    pub(super) runtime_ns: u64,
    pub(super) latency: &'r Latency,
}

impl Line<'_> {
    pub(super) fn bytes_per_sec(&self) -> Option<u64> {
        self.bytes.map(|bytes| per_sec(bytes, self.runtime_ns))
    }

    pub(super) fn ios_per_sec(&self) -> f64 {
        round(quotient(self.ios, self.runtime_ns) * 1e9, 3)
    }
}

/// One line for each kind of request that a row made.
pub(super) fn lines(row: &Row) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = row
        .moved()
        .filter(|(_, moved)| moved.ios > 0)
        .map(|(kind, moved)| Line {
            kind,
            ios: moved.ios,
            bytes: Some(moved.bytes),
            runtime_ns: moved.runtime_ns,
            latency: &moved.latency,
        })
        .collect();
    if row.sync.count() > 0 {
        let (ios, runtime_ns) = (row.sync.count(), row.runtime_ns);
        lines.push(Line { kind: "sync", ios, bytes: None, runtime_ns, latency: &row.sync });
    }
    lines
}

/// Names of rows, with the clone's number where several rows have the same.
pub(super) struct Labels<'r> {
    uses: BTreeMap<&'r str, usize>,
}

impl<'r> Labels<'r> {
    pub(super) fn of(results: &'r Results) -> Labels<'r> {
        let mut uses = BTreeMap::new();
        for row in &results.rows {
            *uses.entry(row.name.as_str()).or_default() += 1;
        }
        Labels { uses }
    }

    pub(super) fn label(&self, row: &Row) -> String {
        match self.uses.get(row.name.as_str()) {
            Some(2..) => format!("{} #{}", row.name, row.clone),
            _ => row.name.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait<'r> {
    pub(super) cause: Cause<'r>,
    pub(super) wait_ns: u64,
}

/// See `docs/status.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause<'r> {
    Limit { path: &'r str, dimension: Dimension },
    Others,
    Lifted,
    Window,
    Device,
}

impl Cause<'_> {
    /// In the words of `weir status`.
    pub(super) fn words(&self) -> String {
        match self {
            Cause::Limit { path, dimension } => format!("{} of {path}", dimension.key()),
            Cause::Others => "other clients' turns".into(),
            Cause::Lifted => "limits lifted since".into(),
            Cause::Window => "room at the device".into(),
            Cause::Device => "the device".into(),
        }
    }
}

/// All waits of a cgroup's requests, the longest first; their sum is the time in the engine.
pub(super) fn waits(cgroup: &CgroupResults) -> Vec<Wait<'_>> {
    let blame = cgroup.blame();
    let limits = cgroup.limit_waits.iter().flat_map(|limit| {
        Dimension::ALL.into_iter().zip(limit.wait_ns).map(|(dimension, wait_ns)| Wait {
            cause: Cause::Limit { path: &limit.path, dimension },
            wait_ns,
        })
    });
    let rest = [
        (Cause::Others, blame.others_ns),
        (Cause::Lifted, blame.lifted_ns),
        (Cause::Window, blame.window_ns),
        (Cause::Device, blame.device_ns),
    ];
    let rest = rest.into_iter().map(|(cause, wait_ns)| Wait { cause, wait_ns });
    let mut waits: Vec<Wait<'_>> = limits.chain(rest).filter(|wait| wait.wait_ns > 0).collect();
    // Stable: equal waits stay in the order above.
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.wait_ns));
    waits
}

pub(super) fn inside_ns(waits: &[Wait<'_>]) -> u64 {
    waits.iter().map(|wait| wait.wait_ns).fold(0, u64::saturating_add)
}

pub(super) fn device_ns(results: &Results) -> u64 {
    of_all(results, |cgroup| cgroup.blame().device_ns)
}

/// Parts of the disk that cgroups got: of time by its model where it has one, else of bytes.
pub(super) struct Shares {
    all: u64,
    is_modelled: bool,
}

impl Shares {
    pub(super) fn of(results: &Results) -> Shares {
        let modelled = of_all(results, |cgroup| cgroup.counters.modelled_ns);
        match modelled {
            0 => Shares { all: of_all(results, bytes), is_modelled: false },
            all => Shares { all, is_modelled: true },
        }
    }

    pub(super) fn text(&self, cgroup: &CgroupResults) -> String {
        let part = if self.is_modelled { cgroup.counters.modelled_ns } else { bytes(cgroup) };
        percent_text(part, self.all)
    }
}

fn bytes(cgroup: &CgroupResults) -> u64 {
    cgroup.counters.read.bytes.saturating_add(cgroup.counters.write.bytes)
}

/// `figure` of all requests: the root's; without it, the sum of cgroups without a parent in the list.
fn of_all(results: &Results, figure: impl Fn(&CgroupResults) -> u64) -> u64 {
    let has_parent = |path: &str| {
        results.cgroups.iter().any(|other| {
            let below = path.strip_prefix(other.path.as_str());
            below.is_some_and(|below| below.starts_with('/'))
        })
    };
    match results.cgroups.iter().find(|cgroup| cgroup.path == "/") {
        Some(root) => figure(root),
        None => {
            let tops = results.cgroups.iter().filter(|cgroup| !has_parent(&cgroup.path));
            tops.map(figure).fold(0, u64::saturating_add)
        }
    }
}

/// `pace`, `token`, `leaky` or `slice:K612,hz=250,slice=100ms`, as `io.limiter` writes it.
pub(super) fn limiter(kind: LimiterKind) -> String {
    match kind {
        LimiterKind::Slice(profile) => {
            let hz = u64::from(profile.hz.max(1));
            let slice = Nanos(u64::from(profile.slice_ticks) * 1_000_000_000 / hz);
            format!("slice:{:?},hz={hz},slice={slice}", profile.kernel).replace(' ', "")
        }
        _ => kind.name().into(),
    }
}

/// `rbps=4MiB riops=100`: what is limited, with units; empty if nothing is.
pub(super) fn per_dimension(values: &PerDimension) -> String {
    let limited = Dimension::ALL.into_iter().filter_map(|dimension| {
        let value = values.get(dimension)?.get();
        Some(match dimension.resource() {
            Resource::Bytes => format!("{}={}", dimension.key(), Bytes(value)).replace(' ', ""),
            Resource::Ios => format!("{}={value}", dimension.key()),
        })
    });
    limited.collect::<Vec<_>>().join(" ")
}

/// `max rbps=4MiB; burst rbps=64KiB; pace`; empty without limits.
pub(super) fn limits(limits: &Limits) -> String {
    if limits.max.is_none() {
        return String::new();
    }
    let parts = [("max", &limits.max), ("burst", &limits.burst), ("peak", &limits.peak)];
    let parts = parts.into_iter().filter(|(_, values)| !values.is_none());
    let parts: Vec<String> =
        parts.map(|(name, values)| format!("{name} {}", per_dimension(values))).collect();
    format!("{}; {}", parts.join("; "), limiter(limits.limiter))
}

/// Requests that waited for a limit of any dimension.
pub(super) fn throttled(by_dimension: [u64; Dimension::COUNT]) -> u64 {
    by_dimension.into_iter().fold(0, u64::saturating_add)
}

/// [`Latency::quantile_ns`] of several ascending shares, in one walk over the histogram.
pub(super) fn quantiles_ns<const N: usize>(times: &Latency, thousandths: [u32; N]) -> [u64; N] {
    let mut ranks = thousandths.map(|share| {
        let rank = u128::from(times.count()) * u128::from(share);
        rank.div_ceil(100_000).max(1)
    });
    ranks.sort_unstable();
    let mut values = [times.max_ns(); N];
    let (mut seen, mut next) = (0u128, 0);
    for (low, high, count) in times.buckets() {
        seen += u128::from(count);
        while next < N && seen >= ranks[next] {
            values[next] = (low + (high - low) / 2).clamp(times.min_ns(), times.max_ns());
            next += 1;
        }
    }
    values
}

/// Rate of an amount in a time, rounded half up; 0 without time.
pub(super) fn per_sec(amount: u64, time_ns: u64) -> u64 {
    if time_ns == 0 {
        return 0;
    }
    let time_ns = u128::from(time_ns);
    let rate = (u128::from(amount) * 1_000_000_000 + time_ns / 2) / time_ns;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// `part / whole`; 0 of nothing.
pub(super) fn quotient(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Percent of `whole` that `part` is, to a thousandth.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    round(100.0 * quotient(part, whole), 3)
}

/// `value` to so many decimals. The same on every machine: IEEE 754 defines each step.
pub(super) fn round(value: f64, decimals: u32) -> f64 {
    // Not `powi`, whose last digit is left to the platform.
    let power = (0..decimals).fold(1.0, |power, _| power * 10.0);
    (value * power).round() / power
}

/// Whole percents, but never "100 %" for less than all, nor "0 %" for more than nothing.
pub(super) fn percent_text(part: u64, whole: u64) -> String {
    let percent = 100.0 * quotient(part, whole);
    match percent {
        _ if part == 0 || part == whole => format!("{percent:.0} %"),
        percent if percent < 0.1 => "<0.1 %".into(),
        percent if percent < 1.0 => format!("{percent:.1} %"),
        percent if percent > 99.0 => format!("{:.1} %", percent.min(99.9)),
        percent => format!("{percent:.0} %"),
    }
}

/// `way 32 us (6 us one at a time), `: the path delay; empty if there is none.
pub(super) fn way(results: &Results) -> String {
    match (results.way_ns, results.way_each_ns) {
        (0, _) => String::new(),
        (way, 0) => format!("way {}, ", Nanos(way).rounded()),
        (way, each) => {
            format!("way {} ({} one at a time), ", Nanos(way).rounded(), Nanos(each).rounded())
        }
    }
}

/// A time to three digits, `-` where there was no request.
pub(super) fn time(latency: &Latency, value_ns: u64) -> String {
    if latency.count() == 0 { "-".into() } else { Nanos(value_ns).rounded().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::settings::{KernelProfile, SliceProfile};

    #[test]
    fn rates_and_percents_are_rounded_once() {
        assert_eq!(
            (per_sec(3, 2_000_000_000), per_sec(1, 0), per_sec(u64::MAX, 1)),
            (2, 0, u64::MAX)
        );
        assert_eq!((percent(1, 3), percent(1, 0), round(2.0005, 2)), (33.333, 0.0, 2.0));
        let texts = [(0, 9), (9, 9), (1, 3), (999, 1000), (99_999, 100_000), (1, 500), (1, 50_000)];
        let texts = texts.map(|(part, whole)| percent_text(part, whole));
        assert_eq!(texts, ["0 %", "100 %", "33 %", "99.9 %", "99.9 %", "0.2 %", "<0.1 %"]);
    }

    #[test]
    fn several_quantiles_are_those_of_each() {
        let shares = [0, 1_000, 50_000, 99_000, 99_900, 99_990, 100_000];
        for count in [0u64, 1, 2, 100, 5_000] {
            let mut times = Latency::default();
            (0..count).for_each(|index| times.record(index * index * 37));
            assert_eq!(quantiles_ns(&times, shares), shares.map(|share| times.quantile_ns(share)));
        }
    }

    #[test]
    fn limits_as_they_are_set() {
        let mut set = Limits {
            max: PerDimension::NONE.with(Dimension::Rbps, 4 << 20).with(Dimension::Wiops, 120),
            burst: PerDimension::NONE.with(Dimension::Rbps, 65_536),
            ..Limits::default()
        };
        assert_eq!(limits(&set), "max rbps=4MiB wiops=120; burst rbps=64KiB; pace");
        let kernel = KernelProfile::K612;
        set.limiter = LimiterKind::Slice(SliceProfile { kernel, hz: 250, slice_ticks: 25 });
        assert_eq!(limiter(set.limiter), "slice:K612,hz=250,slice=100ms");
        assert_eq!(limits(&Limits::default()), "");
    }
}
