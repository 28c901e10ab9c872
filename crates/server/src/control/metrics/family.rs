//! Families of metrics: names, help texts, and samples in the order in which they were added.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use weir_counters::Histogram;

pub(super) type Labels = Vec<(&'static str, String)>;

/// Ends of the buckets of latencies, in nanoseconds: 10 us to 10 s.
const BUCKETS_NS: [u64; 16] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Names of families, and what each has: one line makes one family.
macro_rules! families {
    ($($name:ident $text:literal $kind:ident $help:literal;)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Name {
            $($name,)+
        }

        /// Name without `_total`, kind, help text; in the order of [`Name`].
        const FAMILIES: &[(&str, MetricType, &str)] =
            &[$(($text, MetricType::$kind, $help),)+];
    };
}

families! {
    BuildInfo "weir_build_info" Gauge "1, with the version of the server";
    StartTime "process_start_time_seconds" Gauge "When the server started, in seconds since 1970";
    ConfigChanges "weir_config_changes" Counter "Changes since the start, reloads included";
    ReloadSuccessful "weir_config_last_reload_successful" Gauge "Whether the last reload was done";
    ReloadTime "weir_config_last_reload_timestamp_seconds" Gauge "When the last reload was asked for";
    AcceptsFailed "weir_accepts_failed" Counter "Times that a listener could not accept";
    RecordingRequests "weir_recording_requests" Counter "Requests recorded";
    RecordingDropped "weir_recording_entries_dropped" Counter "Entries that are missing in the recording";
    ExportRequests "weir_export_requests" Counter "Requests answered";
    ExportBytes "weir_export_bytes" Counter "Bytes of requests answered without an error";
    ExportFailed "weir_export_failed" Counter "Requests answered with an error";
    ExportConnections "weir_export_connections" Gauge "Open connections";
    ExportLatency "weir_export_latency_seconds" Histogram "From the arrival of a request until its reply goes to the socket";
    DeviceUp "weir_device_up" Gauge "Whether the thread of the device answers";
    DeviceSize "weir_device_size_bytes" Gauge "Size";
    DeviceDepth "weir_device_depth" Gauge "Requests that may be at the device at once";
    DeviceRequests "weir_device_requests" Gauge "Requests inside, by where they are";
    DeviceConnections "weir_device_connections" Gauge "Open connections";
    DeviceBalances "weir_device_audit_balances" Gauge "1 while everything dispatched was charged";
    DeviceOmitted "weir_device_cgroups_omitted" Gauge "Cgroups too many to be shown here";
    DeviceIos "weir_device_ios" Counter "Operations past the limits";
    DeviceBytes "weir_device_bytes" Counter "Bytes past the limits";
    DeviceBusy "weir_device_busy_seconds" Counter "Time with a request at the device";
    DeviceDropped "weir_device_connections_dropped" Counter "Clients that broke the protocol or stalled";
    DeviceRefused "weir_device_connections_refused" Counter "Connections beyond what the server, a client or an export may have";
    DeviceLogLeftOut "weir_device_log_lines_left_out" Counter "Log lines about clients that were left out";
    DeviceLate "weir_device_wakes_late" Counter "Wake-ups for a limit more than 1 ms late";
    DeviceUtilisation "weir_device_utilisation_ratio" Gauge "Share of the last half second with a request at the device, where a watermark asks";
    DeviceWatermark "weir_device_watermark_ratio" Gauge "Utilisation from which on limits bind";
    DeviceMultiplier "weir_device_limit_multiplier" Gauge "What limits are multiplied by";
    BfqSlots "weir_bfq_slots" Counter "Slots ended, by why";
    BfqIdling "weir_bfq_idling_seconds" Counter "Time for which the device was kept free";
    BfqInjections "weir_bfq_injections" Counter "Requests in the gaps of others";
    BfqMerges "weir_bfq_merges" Counter "Flows that merged";
    BfqRefused "weir_bfq_merges_refused" Counter "Merges looked for and refused";
    BfqSplits "weir_bfq_splits" Counter "Merged flows that parted";
    BfqRaised "weir_bfq_raised_flows" Gauge "Flows whose weight is raised";
    CgroupIos "weir_cgroup_ios" Counter "Own operations past the limits";
    CgroupBytes "weir_cgroup_bytes" Counter "Own bytes past the limits";
    CgroupFailed "weir_cgroup_ios_failed" Counter "Own operations that the device failed";
    CgroupHeld "weir_cgroup_ios_held" Counter "Own operations that had to wait for a limit";
    CgroupWait "weir_cgroup_wait_seconds" Counter "What own completed requests waited for, summed";
    CgroupLatency "weir_cgroup_latency_seconds" Histogram "Own requests, from their arrival to their completion by the device";
    CgroupConnections "weir_cgroup_connections" Gauge "Own open connections";
    CgroupLimit "weir_cgroup_limit" Gauge "Limit as it was set, per second";
    CgroupEffectiveLimit "weir_cgroup_effective_limit" Gauge "Limit times the multiplier of its watermark, per second";
    SubtreeIos "weir_cgroup_subtree_ios" Counter "Operations past the limits, with those of all cgroups below";
    SubtreeBytes "weir_cgroup_subtree_bytes" Counter "Bytes past the limits, with those of all cgroups below";
    CacheSize "weir_cache_size_bytes" Gauge "What may be in the write-back cache";
    CgroupDirty "weir_cgroup_dirty_bytes" Gauge "Own bytes that are written and not on the device yet";
    WritebackTaken "weir_writeback_taken" Counter "Writes answered from memory";
    WritebackHits "weir_writeback_hits" Counter "Reads answered from memory";
    WritebackOverwritten "weir_writeback_overwritten_bytes" Counter "Bytes written again before they were written back";
    WritebackCoalesced "weir_writeback_coalesced" Counter "Writes that went back with a neighbour's";
    WritebackBytes "weir_writeback_bytes" Counter "Bytes that were written back";
    WritebackIos "weir_writeback_ios" Counter "Requests that wrote back";
    WritebackFailed "weir_writeback_ios_failed" Counter "Requests that wrote back and that the device failed";
    WritebackWaits "weir_writeback_waits" Counter "Writes that waited for room";
    WritebackWait "weir_writeback_wait_seconds" Counter "Time that writes waited for room";
    WritebackFlushWaits "weir_writeback_flush_waits" Counter "Flushes that waited for writes to be written back";
    WritebackFlushWait "weir_writeback_flush_wait_seconds" Counter "Time that flushes waited for writes to be written back";
}

/// Samples of all families.
pub(super) struct Families(Vec<Vec<(Labels, Sample)>>);

#[derive(Debug)]
enum Sample {
    Count(u64),
    Seconds(f64),
    Level(f64),
    Times { sum: f64, count: u64, buckets: Vec<(f64, u64)> },
}

impl Default for Families {
    fn default() -> Families {
        Families(FAMILIES.iter().map(|_| Vec::new()).collect())
    }
}

impl Families {
    pub(super) fn count(&mut self, name: Name, labels: &Labels, count: u64) {
        self.add(name, labels, Sample::Count(count));
    }

    /// A sum of times.
    pub(super) fn seconds(&mut self, name: Name, labels: &Labels, nanos: u64) {
        self.add(name, labels, Sample::Seconds(super::seconds(nanos)));
    }

    pub(super) fn level(&mut self, name: Name, labels: &Labels, level: f64) {
        self.add(name, labels, Sample::Level(level));
    }

    /// A histogram. A bin counts where its middle is. O(bins).
    pub(super) fn times(&mut self, name: Name, labels: &Labels, times: &Histogram) {
        let mut buckets = BUCKETS_NS.map(|end_ns| (super::seconds(end_ns), 0));
        for bin in times.bins() {
            let at = BUCKETS_NS.partition_point(|&end_ns| {
                end_ns < (bin.start_ns + (bin.end_ns - bin.start_ns) / 2)
            });
            if let Some((_, count)) = buckets.get_mut(at) {
                *count += bin.count;
            }
        }
        let beyond = times.count().saturating_sub(buckets.iter().map(|(_, count)| count).sum());
        let buckets = buckets.into_iter().chain([(f64::INFINITY, beyond)]).collect();
        let sum = super::seconds(times.sum_ns());
        self.add(name, labels, Sample::Times { sum, count: times.count(), buckets });
    }

    fn add(&mut self, name: Name, labels: &Labels, sample: Sample) {
        self.0[name as usize].push((labels.clone(), sample));
    }

    /// Those that have samples.
    pub(super) fn into_registry(self) -> Registry {
        let mut registry = Registry::default();
        for (samples, (name, kind, help)) in self.0.into_iter().zip(FAMILIES) {
            registry.register(*name, *help, Family { kind: *kind, samples });
        }
        registry
    }
}

/// A family as the encoders take it: theirs are hash tables, whose order is another one each time.
struct Family {
    kind: MetricType,
    samples: Vec<(Labels, Sample)>,
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("samples", &self.samples).finish_non_exhaustive()
    }
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, sample) in &self.samples {
            let mut encoder = encoder.encode_family(labels)?;
            let encoded = match sample {
                Sample::Count(count) => encoder.encode_counter::<NoLabelSet, _, f64>(count, None),
                Sample::Seconds(sum) => encoder.encode_counter::<NoLabelSet, _, f64>(sum, None),
                Sample::Level(level) => encoder.encode_gauge(level),
                Sample::Times { sum, count, buckets } => {
                    encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
                }
            };
            encoded?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }

    fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are an interface: the page on them has each, with its type and meaning, and no other.
    #[test]
    fn the_manual_has_all_families_and_no_others() {
        let manual = include_str!("../../../../../docs/metrics.md");
        let rows = manual.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows = rows.map(|row| row.split('|').map(|cell| cell.trim().trim_end_matches('`')));
        let rows: Vec<(&str, &str, &str)> = rows
            .filter_map(|mut cells| Some((cells.next()?, cells.next()?, cells.nth(2)?)))
            .collect();
        let families: Vec<(String, &str, &str)> = FAMILIES
            .iter()
            .map(|(name, kind, help)| match kind {
                MetricType::Counter => (format!("{name}_total"), "counter", *help),
                MetricType::Histogram => ((*name).to_owned(), "histogram", *help),
                _ => ((*name).to_owned(), "gauge", *help),
            })
            .collect();
        let families: Vec<(&str, &str, &str)> =
            families.iter().map(|(name, kind, help)| (name.as_str(), *kind, *help)).collect();
        assert_eq!(rows, families);
    }
}
