//! Axes: which values are named, and where they are.

use weir_units::{Bytes, Nanos};

/// Ticks of an axis, about; more names would touch each other.
const TICKS_MAX: u64 = 6;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// 0 at the origin, 1 at the end.
    pub(super) at: f64,
    pub(super) name: String,
}

/// Maps values to places from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From 0 to this.
    Linear(f64),
    /// From the first to the second, both above 0.
    Log(f64, f64),
    /// Shares of 1 by their nines, up to this many.
    Nines(f64),
}

/// Unit of the values; the page's script prints them by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds of the run.
    Time,
    /// Nanoseconds that a request took.
    Latency,
    /// Bytes a second.
    Rate,
    /// Requests a second.
    Ios,
    /// Bytes of a request.
    Size,
    /// Requests at once.
    Count,
    Percent,
    Percentile,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Time => "time",
            Unit::Latency => "latency",
            Unit::Rate => "rate",
            Unit::Ios => "ios",
            Unit::Size => "size",
            Unit::Count => "count",
            Unit::Percent => "percent",
            Unit::Percentile => "percentile",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) unit: Unit,
    pub(super) scale: Scale,
    pub(super) ticks: Vec<Tick>,
}

impl Scale {
    /// Place of a value; outside the axis below 0 or above 1.
    pub(super) fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear(end) => value / end,
            Scale::Log(from, to) => {
                if value <= 0.0 {
                    return 0.0;
                }
                libm::log(value / from) / libm::log(to / from)
            }
            Scale::Nines(end) => {
                let rest = 1.0 - value;
                if rest <= 0.0 { 1.0 } else { (-libm::log10(rest) / end).min(1.0) }
            }
        }
    }
}

impl Axis {
    pub(super) fn time(elapsed_ns: u64) -> Axis {
        let end = elapsed_ns.max(1);
        let step = [1, 60, 3600]
            .into_iter()
            .rev()
            .map(|seconds| seconds * 1_000_000_000)
            .find(|&unit| end >= 3 * unit)
            .map_or_else(|| round_step(end, 1), |unit| time_step(end, unit));
        let ticks = (0..=end / step).map(|index| {
            let at_ns = index * step;
            Tick { at: at_ns as f64 / end as f64, name: moment(at_ns, step) }
        });
        let ticks = ticks.collect();
        Axis { unit: Unit::Time, scale: Scale::Linear(end as f64), ticks }
    }

    pub(super) fn rate(largest: u64) -> Axis {
        let largest = largest.max(1024);
        let units = [(1 << 30, "GiB/s"), (1 << 20, "MiB/s"), (1 << 10, "KiB/s")];
        let (unit, name) =
            units.into_iter().find(|(unit, _)| largest >= *unit).expect("it is at least 1 KiB/s");
        // In tenths of a unit, so that 1.5 MiB/s has ticks of half a MiB/s.
        let tenths = u128::from(largest) * 10 / u128::from(unit);
        let step = round_step(u64::try_from(tenths).unwrap_or(u64::MAX).max(1), 1).max(1);
        let step_bytes = step as f64 * unit as f64 / 10.0;
        let count = (largest as f64 / step_bytes).ceil().max(1.0);
        let end = count * step_bytes;
        let ticks = (0..=count as u64).map(|index| {
            let tenths = index * step;
            let name = match (tenths, step % 10) {
                (0, _) => "0".into(),
                (_, 0) => format!("{} {name}", tenths / 10),
                _ => format!("{}.{} {name}", tenths / 10, tenths % 10),
            };
            Tick { at: index as f64 / count, name }
        });
        Axis { unit: Unit::Rate, scale: Scale::Linear(end), ticks: ticks.collect() }
    }

    pub(super) fn ios(largest: u64) -> Axis {
        let step = round_step(largest.max(1), 1);
        let count = largest.max(1).div_ceil(step);
        let units = [(1_000_000_000, "G/s"), (1_000_000, "M/s"), (1_000, "k/s"), (1, "/s")];
        let (unit, name) = units
            .into_iter()
            .find(|(unit, _)| step.is_multiple_of(*unit))
            .expect("all are multiples of 1");
        let ticks = (0..=count).map(|index| {
            let name = match index * (step / unit) {
                0 => "0".into(),
                value => format!("{value}{name}"),
            };
            Tick { at: index as f64 / count as f64, name }
        });
        let end = count as f64 * step as f64;
        Axis { unit: Unit::Ios, scale: Scale::Linear(end), ticks: ticks.collect() }
    }

    /// Latencies from `least_ns` to `largest_ns`, both widened to round figures.
    pub(super) fn latency(least_ns: u64, largest_ns: u64) -> Axis {
        let round: Vec<u64> =
            (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power))).collect();
        let below = round.iter().rposition(|&value| value <= least_ns.max(1)).unwrap_or(0);
        let above = round.iter().position(|&value| value >= largest_ns).unwrap_or(round.len() - 1);
        let above = above.max(below + 1).min(round.len() - 1);
        let scale = Scale::Log(round[below] as f64, round[above] as f64);
        let is_long = above - below > TICKS_MAX as usize;
        // Only powers of ten if there are several; of many, only every few.
        let decades = (above - below) / 3;
        let stride = 3 * decades.div_ceil(TICKS_MAX as usize).max(1);
        let ticks = (below..=above).filter(|index| !is_long || index % stride == 0).map(|index| {
            let name = Nanos(round[index]).to_string();
            Tick { at: scale.place(round[index] as f64), name }
        });
        Axis { unit: Unit::Latency, scale, ticks: ticks.collect() }
    }

    /// Percentiles of at most `count` requests: the axis ends where one request is left.
    pub(super) fn percentile(count: u64) -> Axis {
        let nines = libm::log10(count.max(1) as f64).clamp(2.0, 5.0);
        let scale = Scale::Nines(nines);
        let named = [
            (0.0, "min"),
            (0.5, "p50"),
            (0.9, "p90"),
            (0.99, "p99"),
            (0.999, "p99.9"),
            (0.9999, "p99.99"),
            (0.999_99, "p99.999"),
        ];
        // As many nines as fit, and the two names before the first.
        let ticks = named.into_iter().take(nines as usize + 2);
        // The minimum is near the median; on all but the shortest axis their names would touch on a telephone.
        let ticks = ticks.skip(usize::from(nines > 2.0));
        let ticks = ticks.map(|(share, name)| Tick { at: scale.place(share), name: name.into() });
        Axis { unit: Unit::Percentile, scale, ticks: ticks.collect() }
    }

    /// Requests at once, from 1 to `most`, which is at least 2.
    pub(super) fn count(most: u32) -> Axis {
        let powers = (0..16).map(|power| 4u64.pow(power)).take_while(|count| *count <= most.into());
        Axis::powers(Unit::Count, 1, most.max(2).into(), powers, |count| count.to_string())
    }

    /// Bytes of a request, from `least` to `most`, both powers of 2 and not the same.
    pub(super) fn size(least: u64, most: u64) -> Axis {
        let powers = (0..64).map(|power| 1u64 << power).skip_while(move |size| *size < least);
        let powers = powers.step_by(2).take_while(|size| *size <= most);
        Axis::powers(Unit::Size, least, most, powers, |size| Bytes(size).to_string())
    }

    fn powers(
        unit: Unit,
        least: u64,
        most: u64,
        named: impl Iterator<Item = u64>,
        name: impl Fn(u64) -> String,
    ) -> Axis {
        let scale = Scale::Log(least as f64, most as f64);
        let ticks = named.map(|value| Tick { at: scale.place(value as f64), name: name(value) });
        Axis { unit, scale, ticks: ticks.collect() }
    }

    pub(super) fn percent() -> Axis {
        let ticks = (0..=4).map(|quarter| Tick {
            at: f64::from(quarter) / 4.0,
            name: format!("{} %", quarter * 25),
        });
        Axis { unit: Unit::Percent, scale: Scale::Linear(100.0), ticks: ticks.collect() }
    }
}

/// The least of 1, 2, 5, 10, ... times `unit` of which at most [`TICKS_MAX`] fit into `end`.
fn round_step(end: u64, unit: u64) -> u64 {
    let mut power = unit;
    loop {
        for digit in [1, 2, 5] {
            let step = power.saturating_mul(digit);
            if end / step <= TICKS_MAX {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// As [`round_step`], for minutes and hours; `unit` is a second, minute or hour.
fn time_step(end: u64, unit: u64) -> u64 {
    let nice = [1, 2, 5, 10, 15, 30].into_iter().map(|digit| digit * unit);
    nice.into_iter().find(|step| end / step <= TICKS_MAX).unwrap_or_else(|| round_step(end, unit))
}

/// A moment in the largest unit in which all steps of the axis are whole.
fn moment(at_ns: u64, step_ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let units = [
        (3600 * SECOND, "h"),
        (60 * SECOND, "min"),
        (SECOND, "s"),
        (SECOND / 1000, "ms"),
        (1000, "us"),
    ];
    match units.into_iter().find(|(unit, _)| step_ns.is_multiple_of(*unit)) {
        _ if at_ns == 0 => "0".into(),
        Some((unit, name)) => format!("{} {name}", at_ns / unit),
        None => format!("{at_ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.name.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let second = 1_000_000_000;
        let time = |ns| names(&Axis::time(ns)).join(" | ");
        assert_eq!(time(10 * second), "0 | 2 s | 4 s | 6 s | 8 s | 10 s");
        assert_eq!(time(6_000_000), "0 | 1 ms | 2 ms | 3 ms | 4 ms | 5 ms | 6 ms");
        assert_eq!(
            time(90 * 60 * second),
            "0 | 15 min | 30 min | 45 min | 60 min | 75 min | 90 min"
        );
        assert_eq!(time(0), "0 | 1 ns");
        let rate = |bytes| names(&Axis::rate(bytes)).join(" | ");
        assert_eq!(rate(20 << 20), "0 | 5 MiB/s | 10 MiB/s | 15 MiB/s | 20 MiB/s");
        assert_eq!(rate(1_500_000), "0 | 0.5 MiB/s | 1.0 MiB/s | 1.5 MiB/s");
        assert_eq!(rate(0).split(" | ").count(), 6);
        let ios = |count| names(&Axis::ios(count)).join(" | ");
        assert_eq!(ios(0), "0 | 1/s");
        assert_eq!(ios(45), "0 | 10/s | 20/s | 30/s | 40/s | 50/s");
        assert_eq!(ios(5_600), "0 | 1k/s | 2k/s | 3k/s | 4k/s | 5k/s | 6k/s");
        assert_eq!(ios(850_000), "0 | 200k/s | 400k/s | 600k/s | 800k/s | 1000k/s");
        let latency = |from, to| names(&Axis::latency(from, to)).join(" | ");
        assert_eq!(latency(1_300_000, 18_000_000), "1 ms | 2 ms | 5 ms | 10 ms | 20 ms");
        assert_eq!(latency(90_000, 2_000_000_000), "100 us | 1 ms | 10 ms | 100 ms | 1 s");
        assert_eq!(latency(6_000_000, 6_000_000), "5 ms | 10 ms");
        let sizes = ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"];
        assert_eq!(names(&Axis::size(4096, 1 << 20)), sizes);
        assert_eq!(names(&Axis::count(256)), ["1", "4", "16", "64", "256"]);
        assert_eq!(names(&Axis::count(1)), ["1"]);
        assert_eq!(names(&Axis::percentile(0)), ["min", "p50", "p90", "p99"]);
        assert_eq!(names(&Axis::percentile(1_500)), ["p50", "p90", "p99", "p99.9"]);
    }

    #[test]
    fn no_length_of_a_run_has_too_many_ticks() {
        for power in 0..64 {
            for value in [1u64 << power, (1 << power) - 1, (1 << power) + (1 << power) / 3] {
                let all = [Axis::time, Axis::rate, Axis::ios].map(|axis| axis(value));
                for axis in all.into_iter().chain([Axis::latency(1, value)]) {
                    let count = axis.ticks.len() as u64;
                    assert!((1..=TICKS_MAX + 2).contains(&count), "{value}: {axis:?}");
                    assert!(axis.ticks.iter().all(|tick| (-1e-9..=1.0 + 1e-9).contains(&tick.at)));
                }
            }
        }
    }

    #[test]
    fn a_scale_maps_its_ends_to_0_and_1() {
        assert_eq!(Scale::Linear(50.0).place(25.0), 0.5);
        assert!((Scale::Log(1.0, 100.0).place(10.0) - 0.5).abs() < 1e-12);
        assert!((Scale::Nines(2.0).place(0.9) - 0.5).abs() < 1e-12);
        assert_eq!((Scale::Nines(2.0).place(1.0), Scale::Log(1.0, 10.0).place(0.0)), (1.0, 0.0));
    }
}
