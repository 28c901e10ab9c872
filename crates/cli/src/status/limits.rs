//! Limits of a cgroup, beside what it does and what a watermark makes of them.

use weir_engine::{Dimension, PerDimension, Resource};
use weir_server::status::{CgroupStatus, DeviceStatus, WatermarkStatus};
use weir_units::{Bytes, Rounded};

use super::rates::CgroupRates;
use super::tree::Tree;

/// One limit, and how much of it is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct LimitUse {
    pub(crate) dimension: Dimension,
    /// As `io.max` says, a second.
    pub(crate) written: u64,
    /// The rate between two readings.
    pub(crate) used: f64,
    /// What a watermark multiplies it by; infinite where it is lifted.
    pub(crate) multiplier: f64,
}

impl LimitUse {
    /// What holds now, a second.
    pub(crate) fn effective(&self) -> f64 {
        self.written as f64 * self.multiplier
    }

    /// The part that is used, in percent of what holds now.
    pub(crate) fn percent(&self) -> f64 {
        match self.effective() {
            limit if limit.is_finite() && limit > 0.0 => 100.0 * self.used / limit,
            _ => 0.0,
        }
    }
}

/// The limits of a text as `io.max` reads back; none where it makes no sense.
pub(crate) fn parsed(io_max: Option<&str>) -> PerDimension {
    let parsed = weir_text::parse_io_max(io_max.unwrap_or_default(), PerDimension::NONE);
    parsed.unwrap_or(PerDimension::NONE)
}

/// Limits of `cgroup` under a watermark that multiplies them, the fullest first.
pub(crate) fn uses(cgroup: &CgroupStatus, rates: &CgroupRates, multiplier: f64) -> Vec<LimitUse> {
    let limits = parsed(cgroup.io_max.as_deref());
    let used = |dimension| LimitUse {
        dimension,
        written: limits.get(dimension).map_or(0, |value| value.get()),
        used: rate(rates, dimension),
        multiplier,
    };
    let there = Dimension::ALL.into_iter().filter(|&dimension| limits.get(dimension).is_some());
    let mut uses: Vec<LimitUse> = there.map(used).collect();
    uses.sort_by(|one, other| other.percent().total_cmp(&one.percent()));
    uses
}

/// What counts against a limit of this dimension, a second.
pub(crate) fn rate(rates: &CgroupRates, dimension: Dimension) -> f64 {
    let (read, write) = (rates.read_bytes_per_sec as f64, rates.write_bytes_per_sec as f64);
    match dimension.key() {
        "rbps" => read,
        "wbps" => write,
        "rwbps" => read + write,
        "riops" => rates.read_ios_per_sec,
        "wiops" => rates.write_ios_per_sec,
        _ => rates.read_ios_per_sec + rates.write_ios_per_sec,
    }
}

/// A rate of this dimension for a table.
pub(crate) fn rounded(dimension: Dimension, rate: f64) -> Rounded {
    let rate = rate.round() as u64;
    match dimension.resource() {
        Resource::Bytes => Bytes(rate).rounded(),
        Resource::Ios => weir_units::Ios(rate).rounded(),
    }
}

/// The watermark that a cgroup goes by: its own, or the nearest one above it. `None` where limits always bind.
pub(crate) fn watermark<'s>(
    device: &'s DeviceStatus,
    tree: &Tree,
    index: usize,
) -> Option<&'s WatermarkStatus> {
    let set = tree.upwards(index).find_map(|at| device.cgroups[at].io_watermark.as_ref())?;
    device.watermarks.iter().find(|mark| mark.watermark == *set && mark.watermark_percent > 0)
}

/// What a watermark multiplies limits by now.
pub(crate) fn multiplier(mark: Option<&WatermarkStatus>) -> f64 {
    match mark {
        Some(mark) if mark.lifted => f64::INFINITY,
        Some(mark) => mark.multiplier,
        None => 1.0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn mark(watermark: &str, multiplier: f64) -> WatermarkStatus {
        let watermark_percent = watermark.split(' ').next().unwrap().parse().unwrap();
        let watermark = watermark.into();
        WatermarkStatus { watermark, watermark_percent, cgroups: 2, multiplier, lifted: false }
    }

    #[test]
    fn limits_are_used_in_part_and_multiplied_by_the_nearest_watermark() {
        let cgroup = |path: &str, io_watermark: Option<&str>| CgroupStatus {
            cgroup: path.into(),
            io_max: Some("rbps=1048576 wbps=max riops=100 wiops=max".into()),
            io_watermark: io_watermark.map(str::to_owned),
            ..CgroupStatus::default()
        };
        let cgroups = vec![cgroup("/", Some("90")), cgroup("/a", None), cgroup("/b", Some("0"))];
        let device =
            DeviceStatus { cgroups, watermarks: vec![mark("90", 2.0)], ..Default::default() };
        let tree = Tree::new(device.cgroups.iter().map(|cgroup| cgroup.cgroup.as_str()));
        assert_eq!(watermark(&device, &tree, 1).unwrap().watermark, "90");
        assert_eq!(watermark(&device, &tree, 2), None);
        let rates = CgroupRates {
            read_bytes_per_sec: 524_288,
            read_ios_per_sec: 150.0,
            ..CgroupRates::default()
        };
        let shown = |index: usize| -> Vec<String> {
            let multiplier = multiplier(watermark(&device, &tree, index));
            let uses = uses(&device.cgroups[index], &rates, multiplier);
            uses.iter()
                .map(|used| format!("{} {:.0}", used.dimension.key(), used.percent()))
                .collect()
        };
        assert_eq!(shown(1), ["riops 75", "rbps 25"]);
        assert_eq!(shown(2), ["riops 150", "rbps 50"]);
        let lifted = WatermarkStatus { lifted: true, ..mark("90 mode=gate", 1.0) };
        assert_eq!(uses(&device.cgroups[1], &rates, multiplier(Some(&lifted)))[0].percent(), 0.0);
    }
}
