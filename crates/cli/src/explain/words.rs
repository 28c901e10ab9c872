//! Sentences of an explanation.

use weir_units::Nanos;

use super::Finding;
use super::reading::Reading;
use crate::status::{self, Cause, Tree, sentence};

pub(super) fn sentences(reading: &Reading<'_>, finding: Finding) -> Vec<String> {
    let mut lines = vec![first(reading, finding)];
    if finding != Finding::NoRequests {
        lines.extend(mean(reading));
        lines.extend(by_cause(reading));
        lines.extend(neighbours(reading, finding));
        if finding == Finding::CacheFull {
            lines.extend(reading.held.first().map(|held| {
                format!("What the cache writes back waits most for {}.", told(&held.cause))
            }));
        }
    }
    lines.extend(watermark(reading));
    if reading.is_export {
        let cgroup = &reading.new.cgroup;
        lines.push(format!(
            "What requests waited for is counted for its cgroup {cgroup}, with all its clients."
        ));
    }
    lines
}

/// The finding.
fn first(reading: &Reading<'_>, finding: Finding) -> String {
    let (subject, device) = (&reading.subject, &reading.after.device);
    let how_much = how_much(reading);
    let depth = reading.after.depth;
    let limit = || limit_value(reading).unwrap_or_else(|| "that is gone".to_owned());
    let whose = || reading.limit().and_then(|limit| limit.cgroup.as_deref()).unwrap_or("/");
    let at_device = Nanos(reading.device_ns_mean()).rounded();
    match finding {
        Finding::NoRequests => format!(
            "No request of {subject} was completed within {} on device {device}; {} requests of all cgroups wait there for a limit, {} for room at the device.",
            Nanos(reading.interval_ns()).rounded(),
            reading.after.throttled,
            reading.after.ready,
        ),
        Finding::NothingWrong => format!(
            "Nothing is wrong with {subject}: its {:.1} requests/s take {} on average{}.",
            reading.per_sec(reading.completed()),
            Nanos(reading.mean_ns()).rounded(),
            p99(reading),
        ),
        Finding::ShallowClient => format!(
            "Nothing in Weir holds {subject}: its client has {:.1} requests inside at once, on average, and device {device} may have {depth}{}.",
            reading.inside_mean(),
            p99(reading),
        ),
        Finding::OwnLimit => {
            format!("{subject} is held by its own limit of {}: {how_much}.", limit())
        }
        Finding::LimitAbove => {
            format!(
                "{subject} is held by the limit of {} above it, {}: {how_much}.",
                whose(),
                limit()
            )
        }
        Finding::LimitBelow => {
            format!(
                "{subject} is held by the limit of {} below it, {}: {how_much}.",
                whose(),
                limit()
            )
        }
        Finding::RemovedLimit => {
            format!("{subject} was held by a limit of a cgroup or client that is gone: {how_much}.")
        }
        Finding::OtherClients => {
            let under = reading.nearest_limit().map_or("/", |cgroup| &cgroup.cgroup);
            let who = match reading.neighbours(finding).first() {
                Some(other) => format!("{} had it most, by what it did meanwhile", other.cgroup),
                None => "other clients in it had it".to_owned(),
            };
            format!(
                "{subject} waits while the rate of the limit of {under} goes to other clients: {how_much}; {who}."
            )
        }
        Finding::LiftedLimit => {
            format!("{subject} waited for a limit that has been lifted since: {how_much}.")
        }
        Finding::Weight => {
            let other = reading.neighbours(finding).into_iter().next();
            let beside = other.map_or_else(String::new, |other| {
                format!(
                    " beside {} with {} and {:.0} %",
                    other.cgroup, other.io_weight, other.share_percent
                )
            });
            format!(
                "{subject} has {:.0} % of the work of the full device {device} by its weight of {}{beside}: {how_much}.",
                reading.share_percent(&reading.new),
                reading.new.io_weight,
            )
        }
        Finding::DeviceFull => format!(
            "{subject} waits for room at device {device}, which has the {depth} requests that it may have at once: {how_much}."
        ),
        Finding::DeviceSlow => format!(
            "The device {device} is slow for {subject}: it takes {at_device} for a request on average; {how_much}."
        ),
        Finding::Idling => format!(
            "{subject} waits while bfq keeps device {device} free for the next request of a flow, {:.0} % of the time: {how_much}.",
            reading.idling_percent(),
        ),
        Finding::Flush => {
            let written = reading.grew(|cgroup| cgroup.writeback.written_bytes);
            format!(
                "Flushes of {subject} wait for what was written before them to leave the write-back cache: {:.1} flushes/s, {} each, at {:.1} MiB/s{}.",
                reading.per_sec(reading.grew(|cgroup| cgroup.writeback.flush_waits)),
                Nanos(reading.flush_wait_ns_mean()).rounded(),
                reading.per_sec(written) / f64::from(1 << 20),
                export_p99(reading),
            )
        }
        Finding::CacheFull => {
            let waits = reading.grew(|cgroup| cgroup.writeback.waits);
            let each = reading.grew(|cgroup| cgroup.writeback.wait_ns) / waits.max(1);
            format!(
                "The write-back cache is full for {subject}: {:.1} writes/s wait for room in it, {} each.",
                reading.per_sec(waits),
                Nanos(each).rounded(),
            )
        }
        Finding::ConnectionQuota => format!(
            "{subject} waits behind its own earlier requests: its connection has as much inside as a connection may have; {how_much}."
        ),
        Finding::Memory => {
            format!("{subject} waits for buffer memory, which other requests hold: {how_much}.")
        }
        Finding::Queue => {
            format!("{subject} waits for a place in the queue of device {device}: {how_much}.")
        }
        Finding::ClientSlow => format!(
            "The client of {subject}, or the network to it, takes replies slowly: {how_much}. The cause is outside Weir."
        ),
        Finding::PayloadSlow => format!(
            "The data that clients of {subject} write arrives slowly: {how_much}. The cause is outside Weir."
        ),
        Finding::Turns => {
            format!("{subject} waits while other connections are read from: {how_much}.")
        }
    }
}

/// `98 % of the time of its requests, p99 59.0 ms`.
fn how_much(reading: &Reading<'_>) -> String {
    let percent = reading.held.first().map_or(0.0, |held| held.cause.percent);
    format!("{percent:.0} % of the time of its requests{}", p99(reading))
}

fn p99(reading: &Reading<'_>) -> String {
    let kind = if reading.reads_most() { "reads" } else { "writes" };
    reading
        .p99_ns()
        .map_or_else(String::new, |ns| format!(", p99 of {kind} {}", Nanos(ns).rounded()))
}

/// p99 of writes and flushes, until their replies were sent: the cache is outside the engine's latencies.
fn export_p99(reading: &Reading<'_>) -> String {
    let slowest =
        reading.exports.iter().map(|(_, export)| export.latency.write.recent.p99_ns).max();
    slowest.map_or_else(String::new, |ns| {
        format!("; p99 of writes and flushes {}", Nanos(ns).rounded())
    })
}

/// `riops=100`, of the limit that holds most.
pub(super) fn limit_value(reading: &Reading<'_>) -> Option<String> {
    let Cause { cgroup, dimension, .. } = reading.limit()?;
    let (dimension, max) = ((*dimension)?, reading.cgroup(cgroup.as_deref()?)?.io_max.as_deref()?);
    let is_it = |word: &&str| word.split_once('=').is_some_and(|(key, _)| key == dimension);
    max.split_whitespace().find(is_it).map(str::to_owned)
}

fn told(cause: &Cause) -> String {
    sentence(std::slice::from_ref(cause))
}

fn mean(reading: &Reading<'_>) -> Option<String> {
    let causes: Vec<Cause> = reading.held.iter().map(|held| held.cause.clone()).collect();
    let parts = sentence(&causes);
    (!parts.is_empty()).then(|| {
        format!("On average a request took {}: {parts}.", Nanos(reading.mean_ns()).rounded())
    })
}

fn by_cause(reading: &Reading<'_>) -> Option<String> {
    let mut parts: Vec<(u64, &str)> = reading
        .new
        .latency_by_cause
        .iter()
        .map(|(cause, latency)| (reading.recent(latency).p99_ns, cause.as_str()))
        .filter(|(ns, _)| *ns > 0)
        .collect();
    parts.sort_by(|one, other| other.cmp(one));
    let has_children = reading.has_children();
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(ns, cause)| {
            let cause = match cause {
                "own_limit" if has_children => "the limit of the request's own cgroup",
                "own_limit" => "its own limit",
                "other_limit" => "a limit above",
                "other_clients" => "other clients' turns",
                "lifted_limit" => "limits lifted since",
                "window" => "room at the device",
                _ => "the device",
            };
            format!("{cause} {}", Nanos(ns).rounded())
        })
        .collect();
    (parts.len() > 1).then(|| {
        format!("p99 of each wait by itself, over the last seconds: {}.", parts.join(", "))
    })
}

fn neighbours(reading: &Reading<'_>, finding: Finding) -> Option<String> {
    let others = reading.neighbours(finding);
    let parts: Vec<String> = others
        .iter()
        .map(|other| {
            format!(
                "{} had {:.0} % of the device's work, {:.0} requests/s, weight {}",
                other.cgroup, other.share_percent, other.ios_per_sec, other.io_weight,
            )
        })
        .collect();
    (!parts.is_empty())
        .then(|| format!("Neighbours, by what they did meanwhile: {}.", parts.join("; ")))
}

/// Effect of the watermark by which the limit goes that holds most, or that of the cgroup itself.
fn watermark(reading: &Reading<'_>) -> Option<String> {
    let own = reading.new.cgroup.as_str();
    let limit = reading.limit().and_then(|limit| limit.cgroup.as_deref()).unwrap_or(own);
    let cgroups = &reading.after.cgroups;
    let index = cgroups.iter().position(|cgroup| cgroup.cgroup == limit)?;
    let tree = Tree::new(cgroups.iter().map(|cgroup| cgroup.cgroup.as_str()));
    let mark = status::watermark(reading.after, &tree, index)?;
    let effect = match mark.lifted {
        true => "they are lifted now".to_owned(),
        false => format!("they are multiplied by {:.1} now", mark.multiplier),
    };
    let why = status::limits_hold_because(&reading.interval, mark);
    let why = why.map_or_else(String::new, |why| format!("; {why}"));
    Some(format!("Limits go by the watermark {}: {effect}{why}.", mark.watermark))
}
