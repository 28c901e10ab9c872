//! Finding: the main thing that holds a cgroup.

use serde::Serialize;

use super::reading::{Reading, is_at_or_below};

/// Mean time at the device from which on the device is called slow.
const SLOW_NS: u64 = 2_000_000;
/// Mean time inside below which a client or its connection is not called slow.
const QUICK_NS: u64 = 1_000_000;
/// Requests inside on average between which a client is taken to send one at a time. With fewer it asks too rarely to tell.
const SHALLOW: std::ops::RangeInclusive<f64> = 0.3..=1.5;
/// Part of the time from which on `bfq` keeping the device free is what others wait for.
const IDLING_PERCENT: f64 = 50.0;

/// What holds requests most. The names are those of the JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Finding {
    /// No request completed between the readings.
    NoRequests,
    /// No wait is worth a change.
    NothingWrong,
    /// The client sends one request at a time.
    ShallowClient,
    OwnLimit,
    LimitAbove,
    LimitBelow,
    /// The limit of a cgroup or client that is gone.
    RemovedLimit,
    /// The nearest limit's rate went to others.
    OtherClients,
    /// A limit that has been lifted since.
    LiftedLimit,
    /// A small share of a full device, by weight.
    Weight,
    DeviceFull,
    DeviceSlow,
    /// `bfq` keeps the device free.
    Idling,
    /// Flushes that wait for writes in the cache.
    Flush,
    /// Writes that wait for room in the cache.
    CacheFull,
    ConnectionQuota,
    Memory,
    Queue,
    /// The client takes its replies slowly.
    ClientSlow,
    /// Payload arrives slowly.
    PayloadSlow,
    /// Other connections' turns to be read from.
    Turns,
}

impl Finding {
    pub(super) fn of(reading: &Reading<'_>) -> Finding {
        if reading.completed() == 0 && reading.grew(|cgroup| cgroup.replied_ios) == 0 {
            return Finding::NoRequests;
        }
        if let Some(finding) = in_cache(reading) {
            return finding;
        }
        let Some(main) = reading.held.first().map(|held| &held.cause) else {
            return Finding::NothingWrong;
        };
        match main.cause {
            "limit" => match &main.cgroup {
                None => Finding::RemovedLimit,
                Some(limit) if *limit == reading.new.cgroup => Finding::OwnLimit,
                Some(limit) if is_at_or_below(&reading.new.cgroup, limit) => Finding::LimitAbove,
                Some(_) => Finding::LimitBelow,
            },
            "other_clients" => Finding::OtherClients,
            "lifted_limit" => Finding::LiftedLimit,
            "window" => before_device(reading),
            "device" if reading.device_ns_mean() >= SLOW_NS => Finding::DeviceSlow,
            "device" => by_depth(reading),
            _ if reading.mean_ns() < QUICK_NS => by_depth(reading),
            "connection" => Finding::ConnectionQuota,
            "memory" => Finding::Memory,
            "queue" => Finding::Queue,
            "turn" => Finding::Turns,
            "payload" => Finding::PayloadSlow,
            _ => Finding::ClientSlow,
        }
    }
}

/// With a cache, clients wait for room in it and for flushes; limits and the device hold what it writes back.
fn in_cache(reading: &Reading<'_>) -> Option<Finding> {
    reading.after.cache?;
    let room_ns = reading.grew(|cgroup| cgroup.writeback.wait_ns);
    let flush_ns = reading.grew(|cgroup| cgroup.writeback.flush_wait_ns);
    let inside_ns = reading.grew(|cgroup| cgroup.inside_ns).max(room_ns + flush_ns);
    if room_ns > 0 && room_ns >= inside_ns / 2 {
        return Some(Finding::CacheFull);
    }
    let is_slow = reading.flush_wait_ns_mean() >= SLOW_NS;
    (is_slow && flush_ns >= inside_ns / 2).then_some(Finding::Flush)
}

/// Why there is no room at the device.
fn before_device(reading: &Reading<'_>) -> Finding {
    let is_bfq = reading.after.scheduler == "bfq";
    if is_bfq && reading.idling_percent() >= IDLING_PERCENT {
        return Finding::Idling;
    }
    let share = reading.share_percent(&reading.new);
    let outweighed = reading.neighbours(Finding::DeviceFull).first().is_some_and(|other| {
        other.io_weight > reading.new.io_weight && other.share_percent > share
    });
    if is_bfq && outweighed { Finding::Weight } else { Finding::DeviceFull }
}

fn by_depth(reading: &Reading<'_>) -> Finding {
    let has_room = reading.at_device_mean() < f64::from(reading.after.depth) / 2.0;
    match has_room && SHALLOW.contains(&reading.inside_mean()) {
        true => Finding::ShallowClient,
        false => Finding::NothingWrong,
    }
}
