//! Status as text. Tables keep their width; sentences are wrapped.

use std::fmt::Write;

use weir_lab::report::{unbroken, wrap};
use weir_server::status::{DeviceStatus, Status, WatermarkStatus};
use weir_units::Bytes;

use super::bfq;
use super::binding;
use super::cgroup::{details, is_worth_a_line, table};
use super::json::earlier;
use super::rates::{Interval, utilisation_percent};
use super::recording;
use super::sandbox;
use super::selection::Selection;
use super::writeback;

/// Most cgroups of a device that are listed, if nothing is said.
const CGROUPS_MAX: usize = 100;

/// How a picture looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) coloured: bool,
    /// Columns of the terminal.
    pub(super) width: usize,
    /// Rows that it is to fit into; `None` where it need not.
    pub(super) height: Option<usize>,
    /// Whether what does not fit is lost, and cannot be scrolled to.
    pub(super) is_fixed: bool,
    pub(super) selection: Selection,
}

/// How much is told beside the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Detail {
    /// Rows only.
    Rows,
    /// What each cgroup waited for.
    Waits,
    /// Its settings, too.
    Settings,
    /// What bfq and the cache did for it, too, and the sandbox.
    All,
}

/// The whole picture: where it is to fit, with as much detail as does. If even its rows do not, all of it, or, where that would
/// push the devices out at the top, the busiest cgroups.
pub(super) fn tables(before: &Status, after: &Status, look: Look) -> String {
    let all = text(before, after, look, Detail::All);
    let Some(height) = look.height else { return all };
    let fits = |text: &String| text.lines().count() <= height;
    let less = [Detail::Settings, Detail::Waits, Detail::Rows];
    let mut shorter = less.into_iter().map(|detail| text(before, after, look, detail));
    if fits(&all) {
        return all;
    }
    if let Some(text) = shorter.find(fits) {
        return text;
    }
    if !look.is_fixed {
        return all;
    }
    let rows = text(before, after, look, Detail::Rows);
    let kept: Vec<&str> = rows.lines().take(height.saturating_sub(1)).collect();
    format!("{}\n  and more: `weir top`, or a larger terminal\n", kept.join("\n"))
}

fn text(before: &Status, after: &Status, look: Look, detail: Detail) -> String {
    let devices = after.devices.iter();
    let parts: Vec<String> =
        devices.map(|device| self::device(earlier(before, device), device, look, detail)).collect();
    let mut text = String::new();
    let failed = after.listeners.accepts_failed;
    if failed > 0 {
        let _ = writeln!(text, "{failed} times a connection could not be accepted: see the log\n");
    }
    text += &parts.join("\n");
    let recording = after.recording.as_ref().and_then(recording::line);
    let sandbox = sandbox::line(&after.sandbox).filter(|_| detail == Detail::All);
    let lines: Vec<String> = recording.into_iter().chain(sandbox).collect();
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines.iter().flat_map(|line| wrap(line, look.width, 2)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn device(before: &DeviceStatus, after: &DeviceStatus, look: Look, detail: Detail) -> String {
    let width = look.width;
    let (bold, dim, red, plain) = match look.coloured {
        true => ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"),
        false => ("", "", "", ""),
    };
    let mut text = format!(
        "{bold}{}{plain}  {}  {}  scheduler {}  {} connected\n",
        after.device,
        after.path,
        Bytes(after.size_bytes).rounded(),
        after.scheduler,
        after.connections
    );
    let interval = Interval::new(before, after);
    let mut lines = vec![summary(before, after)];
    for mark in &after.watermarks {
        lines.push(watermark(mark, after));
        lines.extend(binding::sentence(&interval, mark));
    }
    if detail >= Detail::Settings {
        let settings = bfq::settings_of(after);
        let told: Vec<String> = settings.into_iter().chain(bfq::of_device(before, after)).collect();
        lines.extend((!told.is_empty()).then(|| format!("bfq: {}", told.join("; "))));
    }
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
    let mut shown = Selection { most: None, ..look.selection }.of(&interval);
    shown.retain(|cgroup| is_worth_a_line(cgroup.status));
    let all = shown.len();
    shown.truncate(look.selection.most.unwrap_or(CGROUPS_MAX));
    let mut lines = table(&shown).into_iter();
    let _ = writeln!(text, "\n  {dim}{}{plain}", lines.next().unwrap_or_default());
    for (cgroup, line) in shown.iter().zip(lines) {
        let _ = writeln!(text, "  {line}");
        // The root's are the sums of those below it.
        if cgroup.status.cgroup == "/" && all > 1 {
            continue;
        }
        let told = details(&interval, cgroup, detail);
        for more in told.iter().flat_map(|words| wrap(&format!("      {words}"), width, 8)) {
            let words = more.trim_start();
            let indent = more.len() - words.len();
            let _ = writeln!(text, "{:indent$}{dim}{words}{plain}", "");
        }
    }
    if all > shown.len() {
        let more = all - shown.len();
        let _ = writeln!(text, "  and {more} more: --top {all}; `weir top` scrolls");
    }
    text
}

/// Utilisation and queue of the device.
fn summary(before: &DeviceStatus, after: &DeviceStatus) -> String {
    let DeviceStatus { in_flight, depth, throttled, ready, .. } = after;
    let parts = [
        format!("utilisation {:.0} %", utilisation_percent(before, after)),
        format!("at the device {in_flight} of {depth}"),
        format!("waiting: {throttled} for a limit"),
        format!("{ready} for it"),
    ];
    let [used, at_it, limited, ready] = parts.map(|part| unbroken(&part));
    format!("{used}   {at_it}   {limited}, {ready}")
}

/// Current effect of a watermark on limits.
fn watermark(mark: &WatermarkStatus, device: &DeviceStatus) -> String {
    let used = device.utilisation_percent_500ms.unwrap_or_default();
    let limits = match (mark.lifted, mark.multiplier) {
        (true, _) => "limits are lifted".to_owned(),
        (false, 1.0) => "limits hold as written".to_owned(),
        (false, multiplier) => format!("limits are multiplied by {multiplier:.2}"),
    };
    format!("watermark {}: {limits}   last 500 ms: {used:.1} % used", mark.watermark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::SortKey;
    use weir_server::status::{
        CgroupStatus, Latency, LatencyByDirection, LimitWait, PerDimension, Percentiles, WaitStatus,
    };

    /// A second reading, one second after a first of zeroes.
    fn reading(seconds: u64) -> Status {
        let riops = PerDimension { riops: 100 * seconds, ..PerDimension::default() };
        let wait_ns = PerDimension { riops: 598_000_000 * seconds, ..PerDimension::default() };
        let recent = Percentiles {
            count: 700,
            p50_ns: 5_980_000,
            p99_ns: 6_100_000,
            p999_ns: 7_000_000,
            max_ns: 9_000_000,
        };
        let vm1 = CgroupStatus {
            cgroup: "/vm1".into(),
            io_max: Some("rbps=4194304 wbps=max riops=100 wiops=max".into()),
            io_weight: 100,
            limiter: "pace".into(),
            latency: LatencyByDirection {
                read: Latency { recent, total: recent },
                write: Latency::default(),
            },
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
            recording: None,
            devices: vec![device],
        }
    }

    fn look(width: usize) -> Look {
        let selection = Selection { sort: SortKey::Share, most: None };
        Look { coloured: false, width, height: None, is_fixed: false, selection }
    }

    #[test]
    fn waits_are_listed_by_cause() {
        let expected = "\
disk0  /srv/disk0.img  10.0 GiB  scheduler none  1 connected
  utilisation 12 %   at the device 1 of 32   waiting: 31 for a limit, 0 for it

  CGROUP       READ  WRITE  READS  WRITES  SHARE   HELD      P50      P99
  /       400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
  /vm1    400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
      max rbps=4MiB riops=100; pace, weight 100; p99.9 7.00 ms, max 9.00 ms
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
";
        let text = tables(&reading(1), &reading(2), look(140));
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn explanations_fit_the_terminal() {
        let expected = "\
disk0  /srv/disk0.img  10.0 GiB  scheduler none  1 connected
  utilisation 12 %   at the device 1 of 32
    waiting: 31 for a limit, 0 for it

  CGROUP       READ  WRITE  READS  WRITES  SHARE   HELD      P50      P99
  /       400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
  /vm1    400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
      max rbps=4MiB riops=100; pace, weight 100; p99.9 7.00 ms,
        max 9.00 ms
      waited for riops of /vm1 5.98 ms (98 %),
        the device 120 us (2 %)
";
        assert_eq!(tables(&reading(1), &reading(2), look(66)), expected);
        let coloured = Look { coloured: true, ..look(66) };
        let coloured = tables(&reading(1), &reading(2), coloured);
        let line = "\n        \x1b[2mthe device 120 us (2 %)\x1b[0m\n";
        assert!(coloured.contains(line), "{coloured}");
    }

    /// Three tenants under a watermark, whose device bfq keeps free.
    fn three_tenants(seconds: u64) -> Status {
        let mut status = reading(seconds);
        let device = &mut status.devices[0];
        let vm1 = device.cgroups[1].clone();
        for (name, part) in [("/vm2", 2), ("/vm3", 4)] {
            let mut cgroup = CgroupStatus { cgroup: name.into(), ..vm1.clone() };
            cgroup.read_bytes /= part;
            cgroup.bfq.idling_ns = 300_000_000 * seconds;
            device.cgroups.push(cgroup);
        }
        device.scheduler = "bfq".into();
        device.cgroups[0].io_watermark = Some("90".into());
        device.watermarks = vec![crate::status::limits::tests::mark("90", 12.9)];
        device.utilisation_percent_500ms = Some(11.0);
        device.bfq.idling_ns = [("throughput".to_owned(), 990_000_000 * seconds)].into();
        device.bfq.expirations = [("too_idle".to_owned(), 22 * seconds)].into();
        status
    }

    #[test]
    fn devices_and_three_tenants_fit_a_small_terminal() {
        let expected = "\
disk0  /srv/disk0.img  10.0 GiB  scheduler bfq  1 connected
  utilisation 12 %   at the device 1 of 32   waiting: 31 for a limit, 0 for it
  watermark 90: limits are multiplied by 12.90   last 500 ms: 11.0 % used
  limits hold although 11 % of the device is used: bfq keeps it free 99 % of the
    time, for the next request of the flow whose turn it is (slice_idle=0 ends
    that)
  bfq: 22 slots ended: 22 too idle; device kept free 99 % of the time

  CGROUP       READ  WRITE  READS  WRITES  SHARE   HELD      P50      P99
  /       400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
  /vm1    400 KiB/s  0 B/s  100/s     0/s  100 %  100/s  5.98 ms  6.10 ms
      max rbps=4MiB riops=100; pace, weight 100; p99.9 7.00 ms, max 9.00 ms
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
  /vm2    200 KiB/s  0 B/s  100/s     0/s   50 %  100/s  5.98 ms  6.10 ms
      max rbps=4MiB riops=100; pace, weight 100; p99.9 7.00 ms, max 9.00 ms
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
      bfq: device kept free 30 % of the time
  /vm3    100 KiB/s  0 B/s  100/s     0/s   25 %  100/s  5.98 ms  6.10 ms
      max rbps=4MiB riops=100; pace, weight 100; p99.9 7.00 ms, max 9.00 ms
      waited for riops of /vm1 5.98 ms (98 %), the device 120 us (2 %)
      bfq: device kept free 30 % of the time
";
        let (before, after) = (three_tenants(1), three_tenants(2));
        assert_eq!(tables(&before, &after, look(80)), expected);
        assert!(expected.lines().count() <= 24);
    }

    #[test]
    fn details_go_first_where_there_is_no_room_and_devices_stay() {
        let (before, after) = (three_tenants(1), three_tenants(2));
        let fitted = |height: usize| {
            let text =
                tables(&before, &after, Look { height: Some(height), is_fixed: true, ..look(80) });
            assert!(text.lines().count() <= height, "{height}:\n{text}");
            let has = |words: &str| if text.contains(words) { '+' } else { '-' };
            [has("disk0"), has("/vm3"), has("waited"), has("pace"), has("kept free 30")]
                .iter()
                .collect::<String>()
        };
        let heights = [24, 20, 18, 12, 5].map(fitted);
        assert_eq!(heights, ["+++++", "++++-", "+++--", "++---", "+----"]);
        // What can be scrolled to is not left out for nothing.
        let scrolled = tables(&before, &after, Look { height: Some(5), ..look(80) });
        assert_eq!(scrolled, tables(&before, &after, look(80)));
    }

    #[test]
    fn siblings_are_sorted_and_only_the_first_are_listed() {
        let (before, after) = (three_tenants(1), three_tenants(2));
        let listed = |sort: SortKey, most: usize| {
            let selection = Selection { sort, most: Some(most) };
            let text = tables(&before, &after, Look { selection, ..look(80) });
            let rows = text.lines().filter_map(|line| line.strip_prefix("  /"));
            let rows = rows.map(|row| format!("/{}", row.split(' ').next().unwrap_or_default()));
            (rows.collect::<Vec<_>>().join(" "), text.contains("more: --top 4"))
        };
        assert_eq!(listed(SortKey::Path, 9), ("/ /vm1 /vm2 /vm3".into(), false));
        assert_eq!(listed(SortKey::Read, 2), ("/ /vm1".into(), true));
    }
}
