//! `weir govern status`, and the status that a governor writes for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_govern::host::Host;
use weir_govern::kernel::{Interface, print_limits};
use weir_govern::{Counters, IoMax, Settings};
use weir_units::{BytesPerSec, IosPerSec};

use super::device::Disk;
use super::governed::Events;
use super::state_dir::StateDir;
use super::tree::Tree;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  weir govern status
  weir govern status --format json | jq '.[] | {device, lambda, state}'

JSON: an array with an object for each device; rates are those of the last
second, `lambda` is null where limits are lifted. Exit status: 0 something is
governed, 1 nothing is.";

/// Say which limits are raised, how far, and why not
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where the governor keeps its state; /run/weir-govern unless said
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Status of a governed disk. The names are those of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Status {
    /// Its name in `/sys/block`.
    pub(super) device: String,
    /// Major and minor number.
    pub(super) number: String,
    /// The governor's process.
    pub(super) pid: u32,
    /// `cgroup v2` or `cgroup v1`.
    pub(super) interface: String,
    pub(super) cgroup_root: String,
    pub(super) watermark_percent: u16,
    /// `proportional` or `gate`.
    pub(super) mode: String,
    /// Factor of the limits; null where there are none.
    pub(super) lambda: Option<f64>,
    pub(super) utilisation_percent: f64,
    /// `starting`, `others`, `full`, `idle` or `raised`.
    pub(super) state: String,
    pub(super) writes: u64,
    pub(super) refused_writes: u64,
    pub(super) adopted: u64,
    pub(super) cgroups: Vec<CgroupStatus>,
    /// The monotonic clock.
    at_ns: u64,
}

/// A governed cgroup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CgroupStatus {
    pub(super) cgroup: String,
    /// Limits as written, as a line of `io.max` without its device.
    pub(super) limits: String,
    /// Limits that the kernel has now.
    pub(super) limits_now: String,
    /// Whether others have written the limits; else they are those of a rule.
    pub(super) is_adopted: bool,
    /// Whether limits are raised.
    pub(super) is_raised: bool,
    pub(super) read_bytes_per_sec: u64,
    pub(super) write_bytes_per_sec: u64,
    pub(super) read_ios_per_sec: u64,
    pub(super) write_ios_per_sec: u64,
    #[serde(with = "CountersForm")]
    counters: Counters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Counters")]
struct CountersForm {
    rbytes: u64,
    wbytes: u64,
    rios: u64,
    wios: u64,
}

impl Status {
    /// The status of now, without rates.
    pub(super) fn new(
        disk: &Disk,
        settings: Settings,
        tree: &Tree,
        host: &Host,
        events: Events,
    ) -> Status {
        let decided = host.decided();
        let cgroups = host.cgroups().map(|(path, governed)| CgroupStatus {
            cgroup: path.to_owned(),
            limits: print_limits(governed.limits),
            limits_now: print_limits(governed.stands),
            is_adopted: !governed.original.is_max(),
            is_raised: governed.stands != governed.limits,
            read_bytes_per_sec: 0,
            write_bytes_per_sec: 0,
            read_ios_per_sec: 0,
            write_ios_per_sec: 0,
            counters: governed.counters,
        });
        let lambda = (decided.lambda_ppm != u64::MAX)
            .then(|| (decided.lambda_ppm as f64 / 1_000.0).round() / 1_000.0);
        Status {
            device: disk.name.clone(),
            number: disk.number.to_string(),
            pid: std::process::id(),
            interface: host.interface().name().to_owned(),
            cgroup_root: tree.root().display().to_string(),
            watermark_percent: settings.watermark_permille / 10,
            mode: mode_name(settings.mode).to_owned(),
            lambda,
            utilisation_percent: f64::from(decided.utilisation_permille) / 10.0,
            state: decided.state.name().to_owned(),
            writes: events.writes,
            refused_writes: events.refused,
            adopted: events.adopted,
            cgroups: cgroups.collect(),
            at_ns: 0,
        }
    }

    /// With rates since `before`, at `now_ns`.
    pub(super) fn with_rates(mut self, before: Option<Status>, now_ns: u64) -> Status {
        self.at_ns = now_ns;
        let Some(before) = before else { return self };
        let elapsed = u128::from(now_ns.saturating_sub(before.at_ns)).max(1);
        let then: BTreeMap<&str, Counters> =
            before.cgroups.iter().map(|then| (then.cgroup.as_str(), then.counters)).collect();
        for now in &mut self.cgroups {
            let Some(then) = then.get(now.cgroup.as_str()) else { continue };
            let rate = |now: u64, then: u64| {
                let per_sec = u128::from(now.saturating_sub(then)) * 1_000_000_000 / elapsed;
                u64::try_from(per_sec).unwrap_or(u64::MAX)
            };
            now.read_bytes_per_sec = rate(now.counters.rbytes, then.rbytes);
            now.write_bytes_per_sec = rate(now.counters.wbytes, then.wbytes);
            now.read_ios_per_sec = rate(now.counters.rios, then.rios);
            now.write_ios_per_sec = rate(now.counters.wios, then.wios);
        }
        self
    }
}

pub(super) fn mode_name(mode: weir_govern::Mode) -> &'static str {
    match mode {
        weir_govern::Mode::Proportional => "proportional",
        weir_govern::Mode::Gate => "gate",
    }
}

/// Why limits are as they are.
fn reason(status: &Status) -> String {
    let why = match status.state.as_str() {
        "starting" => "limits as written: the first samples are being taken",
        "others" => "limits as written: cgroups without limits use the disk",
        "full" => "limits as written: the disk is used up to the watermark",
        _ if status.cgroups.is_empty() => "no cgroup has a limit on it",
        "idle" => "limits as written: none of them holds anything back",
        _ => {
            let raised = status.lambda.map(|lambda| format!("limits × {lambda:.2}"));
            return raised.unwrap_or_else(|| "no limit holds".to_owned());
        }
    };
    why.to_owned()
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let states = StateDir::find(args.state.as_deref());
    let mut found: Vec<Status> = Vec::new();
    let mut left = Vec::new();
    for device in states.locked() {
        match states.governor(device) {
            Some(_) => {
                // The first one is there after a second.
                let text = states.read_status(device).ok();
                found.extend(text.and_then(|text| serde_json::from_str(&text).ok()));
            }
            None if states.has_state(device) => left.push(device),
            None => {}
        }
    }
    if args.format == Format::Json {
        output::print_json(&found, false)?;
    } else {
        output::print(&found.iter().map(picture).collect::<Vec<_>>().join("\n"))?;
    }
    for device in &left {
        output::tell(&format!(
            "note: {device}: a governor was killed and has left limits raised: `weir govern --restore` puts them back"
        ));
    }
    if found.is_empty() {
        let place = states.path().display();
        return Err(Failure::failed(format!("nothing is governed, as far as {place} says"))
            .hint("`weir govern DEVICE` starts it; --state names another directory".to_owned()));
    }
    Ok(())
}

fn picture(status: &Status) -> String {
    let mut text = format!(
        "{} ({})  watermark {}, {}; used {:.0} %; {}\n",
        status.device,
        status.number,
        status.watermark_percent,
        status.mode,
        status.utilisation_percent,
        reason(status),
    );
    if !status.cgroups.is_empty() {
        let mut table =
            Table::new(&["CGROUP", "READS", "WRITES", "LIMITS AS WRITTEN", "LIMITS NOW"]);
        for cgroup in &status.cgroups {
            let now =
                if cgroup.is_raised { limits(&cgroup.limits_now) } else { "as written".to_owned() };
            table.row([
                cgroup.cgroup.clone(),
                BytesPerSec(cgroup.read_bytes_per_sec).rounded().to_string(),
                BytesPerSec(cgroup.write_bytes_per_sec).rounded().to_string(),
                limits(&cgroup.limits),
                now,
            ]);
        }
        let lines = table.lines(&[Align::Left, Align::Right, Align::Right]);
        text.extend(lines.into_iter().map(|line| line + "\n"));
    }
    if status.interface == Interface::V1.name() {
        text.push_str("cgroup v1: buffered writes are not limited, whoever makes them\n");
    }
    text
}

/// Limits for people: those that there are.
fn limits(text: &str) -> String {
    let IoMax { rbps, wbps, riops, wiops } =
        weir_govern::kernel::parse_limits(text).unwrap_or_default();
    let bytes = [("rbps", rbps), ("wbps", wbps)]
        .map(|(key, value)| value.map(|value| format!("{key}={}", BytesPerSec(value).rounded())));
    let ios = [("riops", riops), ("wiops", wiops)]
        .map(|(key, value)| value.map(|value| format!("{key}={}", IosPerSec(value).rounded())));
    let words: Vec<String> = bytes.into_iter().chain(ios).flatten().collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, lambda: Option<f64>) -> Status {
        let limits = "rbps=20971520 wbps=max riops=500 wiops=max".to_owned();
        let cgroup = CgroupStatus {
            cgroup: "/system.slice/backup.service".into(),
            limits_now: limits.replace("20971520", "65011712"),
            limits,
            is_adopted: true,
            is_raised: true,
            read_bytes_per_sec: 0,
            write_bytes_per_sec: 0,
            read_ios_per_sec: 0,
            write_ios_per_sec: 0,
            counters: Counters::default(),
        };
        Status {
            device: "sdb".into(),
            number: "8:16".into(),
            pid: 7,
            interface: "cgroup v1".into(),
            cgroup_root: "/sys/fs/cgroup/blkio".into(),
            watermark_percent: 90,
            mode: "proportional".into(),
            lambda,
            utilisation_percent: 88.4,
            state: state.into(),
            writes: 3,
            refused_writes: 0,
            adopted: 1,
            cgroups: vec![cgroup],
            at_ns: 1_000_000_000,
        }
    }

    #[test]
    fn a_status_says_who_is_raised() {
        let mut now = status("raised", Some(3.1));
        now.cgroups[0].counters.rbytes = 122 << 20;
        let now = now.with_rates(Some(status("raised", Some(3.0))), 3_000_000_000);
        let wanted = "\
sdb (8:16)  watermark 90, proportional; used 88 %; limits × 3.10
CGROUP                             READS  WRITES  LIMITS AS WRITTEN             LIMITS NOW
/system.slice/backup.service  61.0 MiB/s   0 B/s  rbps=20.0 MiB/s, riops=500/s  rbps=62.0 MiB/s, riops=500/s
cgroup v1: buffered writes are not limited, whoever makes them
";
        assert_eq!(picture(&now), wanted);
        let text = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), now);
    }

    #[test]
    fn a_status_says_why_nobody_is_raised() {
        for (state, lambda, wanted) in [
            ("others", Some(1.0), "cgroups without limits use the disk"),
            ("full", Some(1.0), "used up to the watermark"),
            ("starting", Some(1.0), "first samples"),
            ("idle", Some(1.0), "none of them holds anything back"),
            ("raised", None, "no limit holds"),
        ] {
            let said = reason(&status(state, lambda));
            assert!(said.contains(wanted), "{said}");
        }
    }
}
