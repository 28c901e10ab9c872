//! `weir status`.

mod bfq;
mod binding;
mod cgroup;
mod exports;
mod json;
mod limits;
mod rates;
mod recording;
mod sandbox;
mod selection;
mod show;
mod sort;
mod tasks;
mod tree;
mod why;
mod writeback;

use std::time::Duration;

use weir_units::Nanos;

pub(crate) use self::binding::sentence as limits_hold_because;
pub(crate) use self::cgroup::{human, slower};
pub(crate) use self::exports::ExportRates;
pub(crate) use self::json::{document, earlier};
pub(crate) use self::limits::{LimitUse, multiplier, parsed, rate, rounded, uses, watermark};
pub(crate) use self::rates::{CgroupRates, Interval, utilisation_percent};
pub(crate) use self::selection::Selection;
pub(crate) use self::sort::SortKey;
pub(crate) use self::tree::Tree;
pub(crate) use self::why::{Cause, breakable, causes, sentence};
use crate::client_args::ClientArgs;
use crate::failure::Failure;
use crate::output::Format;
use crate::{clock, output};

const EXAMPLES: &str = "\
Examples:
  weir status
  weir status --watch --interval 5s
  weir status --sort p99 --top 10
  weir status --config weir.toml
  weir status --tasks
  weir status --format json | jq '.devices[].cgroups[] | {cgroup, rates}'

Two readings, --interval apart, give the rates. Per device: utilisation, the
share of the time with a request at it, and how many it has of those it may have
at once; where a watermark's limits hold although little of it is used, why.
Per cgroup, with all below it: what it reads and writes; its share of what the
device did: of the bytes, or, where the device has a model, of the time that
they take by it; how many a second were held by a limit; how long requests took
in the last seconds, of reads or of writes, whichever are slower; what they
waited for: a limit (whose, and which), other clients that had their turn, room
at the device, the device.

Siblings are in the order of --sort: share, read, write, iops, held, p99 or
path. Details that do not fit a terminal are left out; `| cat` has them.

JSON is the answer of the control API, counters since the start, with
`utilisation_percent` and `interval_ns` in each device and `rates` in each
cgroup. With --watch, one document a line.

Exit status: 0 shown, 1 no answer, 2 wrong usage.";

/// Show a running server: rates and waits of each cgroup, by cause
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ClientArgs,
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// List connections that limits have held back, too: how often each limit did, and for how long in all
    #[arg(long)]
    tasks: bool,
    /// What siblings are ordered by
    #[arg(long, value_name = "KEY", value_enum, default_value_t, hide_possible_values = true)]
    sort: SortKey,
    /// Most cgroups of a device that are shown [default: 100 as a table, all as JSON]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Go on until stopped
    #[arg(long)]
    watch: bool,
}

/// Shorter readings would measure mostly themselves.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let time: Nanos = text
        .parse()
        .map_err(|error: weir_units::UnitError| format!("{error}: {}", error.hint()))?;
    let time = time.duration();
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&time) {
        true => Ok(time),
        false => Err("allowed are 10ms to 24h".into()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.server.reader()?;
    let screen = output::is_screen(&std::io::stdout());
    let selection = Selection { sort: args.sort, most: args.top };
    let mut before = client.status()?;
    loop {
        clock::sleep(args.interval);
        let after = client.status()?;
        match args.server.format {
            Format::Json => {
                output::print_json(&document(&before, &after, &selection)?, args.watch)?;
            }
            Format::Table => {
                let coloured = output::colours_on(&std::io::stdout());
                let width = output::width();
                let tasks = if args.tasks { tasks::table(&after) } else { String::new() };
                let height = output::height().filter(|_| screen);
                let height = height.map(|rows| rows.saturating_sub(1 + tasks.lines().count()));
                let is_fixed = args.watch;
                let look = show::Look { coloured, width, height, is_fixed, selection };
                let text = show::tables(&before, &after, look) + &tasks;
                // The whole picture anew, at the same place; elsewhere pictures follow each other.
                let clear = if args.watch && screen { "\x1b[H\x1b[2J" } else { "" };
                let gap = if args.watch && !screen { "\n" } else { "" };
                output::print(&format!("{clear}{text}{gap}"))?;
            }
        }
        if !args.watch {
            return Ok(());
        }
        before = after;
    }
}
