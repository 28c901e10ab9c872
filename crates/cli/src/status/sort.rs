//! Order of cgroups in `weir status` and `weir top`.

use std::cmp::Ordering;

use clap::ValueEnum;
use weir_server::status::CgroupStatus;

use super::rates::CgroupRates;

/// What siblings are ordered by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum SortKey {
    /// Share of what the device did, the largest first
    #[default]
    Share,
    /// Bytes read a second
    Read,
    /// Bytes written a second
    Write,
    /// Requests completed a second
    Iops,
    /// Requests a second that began to wait for a limit
    Held,
    /// 99th percentile of latency, of the slower direction
    P99,
    /// Name, in the order of letters
    Path,
}

impl SortKey {
    /// The key after this one, the first after the last.
    pub(crate) fn next(self) -> SortKey {
        let all = SortKey::value_variants();
        let place = all.iter().position(|&key| key == self).unwrap_or_default();
        all[(place + 1) % all.len()]
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The order of two cgroups: largest first, and by path where they are alike.
    pub(crate) fn compare(
        self,
        one: (&CgroupStatus, &CgroupRates),
        other: (&CgroupStatus, &CgroupRates),
    ) -> Ordering {
        let by_path = || one.0.cgroup.cmp(&other.0.cgroup);
        let [first, second] = [one, other].map(|(cgroup, rates)| self.value(cgroup, rates));
        second.total_cmp(&first).then_with(by_path)
    }

    fn value(self, cgroup: &CgroupStatus, rates: &CgroupRates) -> f64 {
        match self {
            SortKey::Share => rates.share(),
            SortKey::Read => rates.read_bytes_per_sec as f64,
            SortKey::Write => rates.write_bytes_per_sec as f64,
            SortKey::Iops => rates.completed_ios_per_sec,
            SortKey::Held => rates.throttled_ios_per_sec,
            SortKey::P99 => {
                let latency = &cgroup.latency;
                latency.read.recent.p99_ns.max(latency.write.recent.p99_ns) as f64
            }
            SortKey::Path => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_each_other_in_a_circle() {
        let circle = std::iter::successors(Some(SortKey::default()), |key| Some(key.next()));
        let names: Vec<String> = circle.map(SortKey::name).take(8).collect();
        assert_eq!(names, ["share", "read", "write", "iops", "held", "p99", "path", "share"]);
    }
}
