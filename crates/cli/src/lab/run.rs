//! `weir lab run`.

use std::path::PathBuf;

use clap::ValueEnum;
use weir_lab::results::Results;
use weir_lab::scenario::Scenario;
use weir_lab::{report, sim};

use super::flags::{self, Settings};
use super::progress::Watch;
use super::what_if;
use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;

const EXAMPLES: &str = "\
Examples:
  weir lab run job.fio --disk hdd7200
  weir lab run job.fio --disk ssd-nvme --max \"rbps=100M riops=5k\"
  weir lab run job.fio --max \"/vm1 riops=100\" --html page.html
  weir lab run job.fio --max riops=100 --limiter slice --kernel 6.12
  weir lab run noisy-neighbour --format fio-json | jq .jobs[].read.iops
  weir lab run job.fio --config /etc/weir/weir.toml --device disk0
  weir lab run --from /var/lib/weir/recording --max \"/vm1 riops=100\"
  weir lab run trace.csv.gz --disk ssd-sata --set trace.timing=asap
  weir lab run --disk ssd-sata -- --name=x --rw=randread --size=1g --direct=1

After `--` stands a command line of fio, with or without the word fio.

Jobs are fio's, as they are: their `cgroup` names the cgroup, the others are in
/main. Files are laid out on the disk one behind the other; a job without `size`
has the whole disk.

Exit status: 0 done, 1 failed, 2 wrong usage or a job file with errors.";

/// Run a fio job file or a scenario in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A fio job file, a scenario file (.toml), a block trace (.csv, .trace, .iolog, .blkparse, .gz, .zst), or the name of
    /// a scenario of `weir lab list`
    #[arg(value_name = "JOB|SCENARIO|TRACE", required_unless_present_any = ["fio", "from"])]
    what: Option<String>,
    /// A command line of fio, instead or besides: options, jobs that begin with --name, job files
    #[arg(last = true, value_name = "FIO")]
    fio: Vec<String>,
    /// Instead of a job: the arrivals of a server's recording, with its settings and those given here: --max, --weight,
    /// --watermark, --depth, --scheduler, --disk
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["what", "fio", "html"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// Any setting by name; see `weir lab list settings`
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Settings")]
    set: Vec<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write a page with plots: bandwidth over time, latencies, utilisation, causes of waits
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Output formats of `weir lab run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// For programs; names are stable and carry their units
    Json,
    /// As `fio --output-format=json` writes it, for tools that read that
    FioJson,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let more =
        args.set.iter().map(|text| flags::pair("--set", text)).collect::<Result<Vec<_>, _>>()?;
    if let Some(from) = &args.from {
        let format = match args.format {
            Format::Table => output::Format::Table,
            Format::Json => output::Format::Json,
            Format::FioJson => {
                return Err(Failure::wrong("--from has no jobs for --format fio-json"));
            }
        };
        let settings = args.settings.of_recorded(&more)?;
        return what_if::run(from, args.settings.device(), &settings, format);
    }
    let is_trace = flags::tells_a_trace(&more);
    let mut builder = flags::open_either(args.what.as_deref(), &args.fio, is_trace)?;
    args.settings.apply(&mut builder, &more)?;
    let results = simulate(&flags::scenario(&builder)?, &stop)?;
    match args.format {
        Format::Table => output::print(&report::table(&results, output::width()))?,
        Format::Json => output::print_json(&report::json(&results), false)?,
        Format::FioJson => output::print_json(&report::fio_json(&results), false)?,
    }
    // Last, so that a long run is not lost with a page that cannot be written.
    if let Some(path) = &args.html {
        write_page(path, &[(results.title.as_str(), &results)])?;
    }
    ended_early(&stop)?;
    all_succeeded([&results])
}

/// Runs a scenario, with progress on the terminal.
pub(super) fn simulate(scenario: &Scenario, stop: &Stop) -> Result<Results, Failure> {
    let mut watch = Watch::new(stop);
    let results = sim::run(scenario, &mut |progress| watch.look(progress));
    watch.over();
    results.map_err(flags::refused)
}

/// Exit status after a signal: the report is incomplete.
pub(super) fn ended_early(stop: &Stop) -> Result<(), Failure> {
    match stop.signal() {
        None => Ok(()),
        Some(number) => {
            output::tell("note: ended early, by a signal: these are the results so far");
            Err(Failure::Signal(number))
        }
    }
}

/// Exit status after a failed job.
pub(super) fn all_succeeded<'r>(
    runs: impl IntoIterator<Item = &'r Results>,
) -> Result<(), Failure> {
    let rows = runs.into_iter().flat_map(|results| &results.rows);
    let mut failed = rows.filter_map(|row| Some((&row.name, row.error.as_ref()?)));
    let Some((name, why)) = failed.next() else { return Ok(()) };
    let more = match failed.count() {
        0 => String::new(),
        more => format!(" (and {more} more; the report has them)"),
    };
    Err(Failure::failed(format!("`{name}` failed: {why}{more}")))
}

pub(super) fn write_page(path: &PathBuf, results: &[(&str, &Results)]) -> Result<(), Failure> {
    std::fs::write(path, report::html(results))
        .map_err(|error| Failure::failed(format!("--html {}: {error}", path.display())))
}
