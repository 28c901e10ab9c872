//! Status as text. Tables keep their width; sentences are wrapped.

use std::fmt::Write;

use weir_lab::report::{unbroken, wrap};
use weir_server::status::{CgroupStatus, DeviceStatus, Status, WatermarkStatus};
use weir_units::{Bytes, BytesPerSec, IosPerSec, Nanos};

use super::bfq;
use super::json::earlier;
use super::rates::{CgroupRates, utilisation_percent};
use super::sandbox;
use super::why::breakable;
use super::writeback;
use crate::table::{Align, Table};

/// Most cgroups of a device that are listed.
const CGROUPS_MAX: usize = 100;

/// The whole picture, on a terminal of `width` columns.
pub(super) fn tables(before: &Status, after: &Status, coloured: bool, width: usize) -> String {
    let parts: Vec<String> = after
        .devices
        .iter()
        .map(|device| self::device(earlier(before, device), device, coloured, width))
        .collect();
    let mut text = String::new();
    let failed = after.listeners.accepts_failed;
    if failed > 0 {
        let _ = writeln!(text, "{failed} times a connection could not be accepted: see the log\n");
    }
    if let Some(line) = sandbox::line(&after.sandbox) {
        for line in wrap(&line, width, 2) {
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    text + &parts.join("\n")
}

fn device(before: &DeviceStatus, after: &DeviceStatus, coloured: bool, width: usize) -> String {
    let (bold, dim, red, plain) = match coloured {
        true => ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"),
        false => ("", "", "", ""),
    };
    let mut text = format!(
        "{bold}{}{plain}  {}  {}  scheduler {}\n",
        after.device,
        after.path,
        Bytes(after.size_bytes).rounded(),
        after.scheduler
    );
    let mut lines = vec![summary(before, after)];
    lines.extend(after.watermarks.iter().map(|mark| watermark(mark, after)));
    lines.extend(bfq::settings_of(after).map(|settings| format!("bfq: {settings}")));
    lines.extend(bfq::of_device(before, after).into_iter().map(|part| format!("bfq: {part}")));
    lines.extend(writeback::of_device(after));
    if after.connections_dropped > 0 {
        let dropped = after.connections_dropped;
        lines.push(format!(
            "{dropped} connections closed since the start: protocol broken or stalled"
        ));
    }
    if after.connections_refused > 0 {
        let refused = after.connections_refused;
        lines.push(format!("{refused} connections refused since the start: too many, see the log"));
    }
    // Writing into a string cannot fail, here and below.
    for line in lines.iter().flat_map(|line| wrap(&format!("  {line}"), width, 4)) {
        let _ = writeln!(text, "{line}");
    }
    if !after.audit_balances {
        let _ = writeln!(
            text,
            "  {red}what was charged is not what was dispatched: please report this{plain}"
        );
    }
    let shown: Vec<(&CgroupStatus, CgroupRates)> = after
        .cgroups
        .iter()
        .filter(|cgroup| is_worth_a_line(cgroup))
        .take(CGROUPS_MAX)
        .map(|cgroup| (cgroup, CgroupRates::between(before, after, cgroup)))
        .collect();
    let mut lines = table(&shown).into_iter();
    let _ = writeln!(text, "\n  {dim}{}{plain}", lines.next().unwrap_or_default());
    for ((cgroup, rates), line) in shown.iter().zip(lines) {
        let _ = writeln!(text, "  {line}");
        let by_bfq = bfq::of_cgroup(before, after, cgroup);
        let by_cache = writeback::of_cgroup(before, after, cgroup);
        let told = details(cgroup, rates).into_iter().chain(by_bfq).chain(by_cache);
        for more in told.flat_map(|words| wrap(&format!("      {words}"), width, 8)) {
            let words = more.trim_start();
            let indent = more.len() - words.len();
            let _ = writeln!(text, "{:indent$}{dim}{words}{plain}", "");
        }
    }
    let left_out =
        after.cgroups.iter().filter(|cgroup| is_worth_a_line(cgroup)).count() - shown.len();
    if left_out > 0 {
        let _ = writeln!(text, "  and {left_out} more; --format json has all");
    }
    text
}

/// Utilisation and queue of the device.
fn summary(before: &DeviceStatus, after: &DeviceStatus) -> String {
    let DeviceStatus { in_flight, depth, throttled, ready, connections, .. } = after;
    let parts = [
        format!("utilisation {:.0} %", utilisation_percent(before, after)),
        format!("at the device {in_flight} of {depth}"),
        format!("waiting: {throttled} for a limit"),
        format!("{ready} for the device"),
        format!("{connections} connected"),
    ];
    let [used, at_it, limited, ready, connected] = parts.map(|part| unbroken(&part));
    format!("{used}   {at_it}   {limited}, {ready}   {connected}")
}

/// Current effect of a watermark on limits.
fn watermark(mark: &WatermarkStatus, device: &DeviceStatus) -> String {
    let used = device.utilisation_percent_500ms.unwrap_or_default();
    let limits = match (mark.lifted, mark.multiplier) {
        (true, _) => "limits are lifted".to_owned(),
        (false, 1.0) => "limits hold as written".to_owned(),
        (false, multiplier) => format!("limits are multiplied by {multiplier:.2}"),
    };
    format!("watermark {}: {limits}   utilisation of the last 500 ms {used:.1} %", mark.watermark)
}

/// Whether there is anything to say: cgroups that are only named in the configuration are left out.
fn is_worth_a_line(cgroup: &CgroupStatus) -> bool {
    cgroup.cgroup == "/"
        || cgroup.connections > 0
        || cgroup.completed_ios > 0
        || cgroup.io_max.is_some()
}

fn table(shown: &[(&CgroupStatus, CgroupRates)]) -> Vec<String> {
    let mut table =
        Table::new(&["CGROUP", "READ", "WRITE", "READS", "WRITES", "SHARE", "HELD", "MEAN TIME"]);
    for (cgroup, rates) in shown {
        let ios = |rate: f64| IosPerSec(rate.round() as u64).rounded().to_string();
        table.row([
            cgroup.cgroup.clone(),
            BytesPerSec(rates.read_bytes_per_sec).rounded().to_string(),
            BytesPerSec(rates.write_bytes_per_sec).rounded().to_string(),
            ios(rates.read_ios_per_sec),
            ios(rates.write_ios_per_sec),
            format!("{:.0} %", rates.modelled_share_percent.unwrap_or(rates.bytes_share_percent)),
            ios(rates.throttled_ios_per_sec),
            rates.wait_ns_mean.map_or("-".into(), |ns| Nanos(ns).rounded().to_string()),
        ]);
    }
    use Align::{Left, Right};
    table.lines(&[Left, Right, Right, Right, Right, Right, Right, Right])
}

/// Settings, and waits by cause.
fn details(cgroup: &CgroupStatus, rates: &CgroupRates) -> Vec<String> {
    let mut lines = Vec::new();
    let limits: Vec<String> =
        [("max", &cgroup.io_max), ("burst", &cgroup.io_burst), ("peak", &cgroup.io_peak)]
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name} {}", human(text.as_deref()?))))
            .collect();
    if !limits.is_empty() {
        lines.push(format!(
            "{}; {}, weight {}",
            limits.join("; "),
            cgroup.limiter,
            cgroup.io_weight
        ));
    } else if cgroup.io_weight != 100 {
        lines.push(format!("weight {}", cgroup.io_weight));
    }
    if !["", "no-change"].contains(&cgroup.io_prio_class.as_str()) {
        lines.push(format!("priority class: {}", cgroup.io_prio_class));
    }
    if let Some(policy) = &cgroup.io_bfq_low_latency {
        lines.push(format!("low latency: {policy}"));
    }
    if let Some(watermark) = cgroup.io_watermark.as_ref().filter(|_| cgroup.cgroup != "/") {
        lines.push(format!("watermark {watermark}"));
    }
    let waited = breakable(&rates.waited_for);
    if !waited.is_empty() {
        lines.push(format!("waited for {waited}"));
    } else if rates.throttled_ios_per_sec > 0.0 {
        lines.push("waits for a limit; nothing was finished meanwhile".into());
    }
    if cgroup.failed_ios > 0 {
        lines.push(format!("{} requests failed at the device since the start", cgroup.failed_ios));
    }
    lines
}

/// `rbps=4194304 wbps=max ...` with units and without `max`.
fn human(limits: &str) -> String {
    let words = limits.split_ascii_whitespace().filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        let value: u64 = value.parse().ok()?;
        let is_bytes = key.ends_with("bps");
        Some(match is_bytes {
            true => format!("{key}={}", Bytes(value)).replace(' ', ""),
            false => format!("{key}={value}"),
        })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_server::status::{LimitWait, PerDimension, WaitStatus};

    /// A second reading, one second after a first of zeroes.
    fn reading(seconds: u64) -> Status {
        let riops = PerDimension { riops: 100 * seconds, ..PerDimension::default() };
        let wait_ns = PerDimension { riops: 598_000_000 * seconds, ..PerDimension::default() };
        let vm1 = CgroupStatus {
            cgroup: "/vm1".into(),
            io_max: Some("rbps=4194304 wbps=max riops=100 wiops=max".into()),
            io_weight: 100,
            limiter: "pace".into(),
            read_bytes: 409_600 * seconds,
            read_ios: 100 * seconds,
            completed_ios: 100 * seconds,
            throttled_ios: riops,
            wait: WaitStatus {
                limits: vec![LimitWait { cgroup: Some("/vm1".into()), wait_ns }],
                device_ns: 12_000_000 * seconds,
                ..WaitStatus::default()
            },
            ..CgroupStatus::default()
        };
        let root = CgroupStatus { cgroup: "/".into(), io_max: None, ..vm1.clone() };
        let idle = CgroupStatus { cgroup: "/idle".into(), ..CgroupStatus::default() };
        let device = DeviceStatus {
            device: "disk0".into(),
            path: "/srv/disk0.img".into(),
            at_ns: 1_000_000_000 * seconds,
            size_bytes: 10 << 30,
            depth: 32,
            scheduler: "none".into(),
            in_flight: 1,
            throttled: 31,
            busy_ns: 120_000_000 * seconds,
            connections: 1,
            audit_balances: true,
            cgroups: vec![root, vm1, idle],
            ..DeviceStatus::default()
        };
        Status {
            version: "0.1.0".into(),
            uptime_secs: seconds,
            generation: String::new(),
            listeners: Default::default(),
            sandbox: Default::default(),
            exports: Vec::new(),
            devices: vec![device],
        }
    }

    #[test]
    fn waits_are_listed_by_cause() {
        let expected = "\
disk0  /srv/disk0.img  10.0 GiB  scheduler none
  utilisation 12 %   at the device 1 of 32   waiting: 31 for a limit, 0 for the device   1 connected

  CGROUP       READ  WRITE  READS  WRITES  SHARE   HELD  MEAN TIME
  /       400 KiB/s  0 B/s  100/s     0/s  100 %  100/s    6.10 ms
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
  /vm1    400 KiB/s  0 B/s  100/s     0/s  100 %  100/s    6.10 ms
      max rbps=4MiB riops=100; pace, weight 100
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
";
        let text = tables(&reading(1), &reading(2), false, 140);
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn explanations_fit_the_terminal() {
        let expected = "\
disk0  /srv/disk0.img  10.0 GiB  scheduler none
  utilisation 12 %   at the device 1 of 32
    waiting: 31 for a limit, 0 for the device   1 connected

  CGROUP       READ  WRITE  READS  WRITES  SHARE   HELD  MEAN TIME
  /       400 KiB/s  0 B/s  100/s     0/s  100 %  100/s    6.10 ms
      waited for riops of /vm1 5.98 ms (98 %),
        the device 120 us (2 %)
  /vm1    400 KiB/s  0 B/s  100/s     0/s  100 %  100/s    6.10 ms
      max rbps=4MiB riops=100; pace, weight 100
      waited for riops of /vm1 5.98 ms (98 %),
        the device 120 us (2 %)
";
        assert_eq!(tables(&reading(1), &reading(2), false, 66), expected);
        let coloured = tables(&reading(1), &reading(2), true, 66);
        let line = "\n        \x1b[2mthe device 120 us (2 %)\x1b[0m\n";
        assert!(coloured.contains(line), "{coloured}");
    }
}
