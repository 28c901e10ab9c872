//! Use of a device: the time in which it had requests, or what they cost by its model.

use weir_config::DeviceModel;
use weir_engine::Op;
use weir_engine::utilisation::{CostModel, DeviceTime};
use weir_govern::kernel::DiskStat;
use weir_govern::{Counters, DeviceSample};

/// Sums the use of a device from its statistics.
#[derive(Debug, Default)]
pub(super) struct Usage {
    costs: Option<CostModel>,
    before: Option<DiskStat>,
    used_ns: u64,
}

impl Usage {
    pub(super) fn new(model: Option<&DeviceModel>) -> Usage {
        Usage { costs: model.map(|model| model.capacity().costs), ..Usage::default() }
    }

    /// The sample for the device's statistics.
    ///
    /// With a model, what is between two of them costs what requests of their mean size cost at random places, and no more
    /// than the time in which there were any: statistics do not tell random requests from sequential ones, which cost a
    /// disk with a head much less.
    pub(super) fn sample(&mut self, stat: DiskStat) -> DeviceSample {
        let before = self.before.replace(stat).unwrap_or(stat);
        let busy_ns = stat.busy_ns.saturating_sub(before.busy_ns);
        let used_ns = self
            .costs
            .map_or(busy_ns, |costs| cost_ns(&costs, before.counters, stat.counters).min(busy_ns));
        self.used_ns = self.used_ns.saturating_add(used_ns);
        let DiskStat { counters, in_flight_ios, .. } = stat;
        DeviceSample { counters, used_ns: self.used_ns, in_flight_ios }
    }
}

fn cost_ns(costs: &CostModel, before: Counters, after: Counters) -> u64 {
    let of = |op, ios: u64, bytes: u64| {
        let mean = bytes.checked_div(ios).unwrap_or_default();
        let price = costs.price(op, u32::try_from(mean).unwrap_or(u32::MAX), false);
        // Kept to 2^-37 s until the end: a page of fast flash takes little more than a microsecond.
        let units = u128::from(price.units()) * u128::from(ios);
        let ns = (units * 1_000_000_000) >> DeviceTime::SECOND_SHIFT;
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let gone = |after: u64, before: u64| after.saturating_sub(before);
    let reads = of(Op::Read, gone(after.rios, before.rios), gone(after.rbytes, before.rbytes));
    let writes = of(Op::Write, gone(after.wios, before.wios), gone(after.wbytes, before.wbytes));
    reads.saturating_add(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 MB/s, 10,000 requests of 4 KiB a second at any place.
    const MODEL: &str =
        "size = 1073741824\nrbps = 409600000\nrseqiops = 10000\nrrandiops = 10000\n";

    fn stat(ios: u64, bytes: u64, busy_ms: u64) -> DiskStat {
        let counters = Counters { rbytes: bytes, rios: ios, ..Counters::default() };
        DiskStat { counters, busy_ns: busy_ms * 1_000_000, in_flight_ios: 0 }
    }

    #[test]
    fn without_a_model_use_is_busy_time() {
        let mut usage = Usage::new(None);
        // What was before the first statistics is no use of now.
        assert_eq!(usage.sample(stat(9, 9, 500)).used_ns, 0);
        assert_eq!(usage.sample(stat(9, 9, 530)).used_ns, 30_000_000);
        assert_eq!(usage.sample(stat(9, 9, 10)).used_ns, 30_000_000);
    }

    #[test]
    fn with_a_model_use_is_cost_and_at_most_busy_time() {
        let model = DeviceModel::from_str("x", MODEL).expect("a model");
        let mut usage = Usage::new(Some(&model));
        usage.sample(stat(0, 0, 0));
        // A tenth of a second's 10,000.
        let used_ns = usage.sample(stat(1_000, 1_000 * 4096, 1_000)).used_ns;
        assert!((99_000_000..=101_000_000).contains(&used_ns), "{used_ns}");
        assert_eq!(usage.sample(stat(2_000, 2_000 * 4096, 1_050)).used_ns, used_ns + 50_000_000);
    }
}
