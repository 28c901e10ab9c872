//! `weir lab compare`.

use std::path::PathBuf;

use weir_lab::report;

use super::flags::{self, Settings};
use super::run::{all_succeeded, ended_early, simulate, write_page};
use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;

const EXAMPLES: &str = "\
Examples:
  weir lab compare before.fio after.fio --disk hdd7200
  weir lab compare job.fio job.fio --b limiter=slice:6.12 --max riops=100
  weir lab compare job.fio job.fio --b disk=ssd-nvme --html page.html
  weir lab compare noisy-neighbour noisy-neighbour --b fio.iodepth=1
  weir lab compare --b scheduler=bfq -- --name=x --rw=read --size=1g --numjobs=2

Flags are for both, --a and --b for one side and stronger. Jobs are paired by
name, cgroups by path; ratios are B over A. A command line of fio after `--`
stands for B, or for both.";

/// Run two jobs or scenarios and show them side by side, with ratios
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A fio job file or a scenario
    #[arg(value_name = "A", required_unless_present = "fio")]
    first: Option<String>,
    /// Another, or the same under other settings
    #[arg(value_name = "B", required_unless_present = "fio")]
    second: Option<String>,
    /// A command line of fio in the place of B, or of both
    #[arg(last = true, value_name = "FIO")]
    fio: Vec<String>,
    /// A setting of A alone; may be given several times
    #[arg(long = "a", value_name = "KEY=VALUE")]
    set_first: Vec<String>,
    /// A setting of B alone; may be given several times
    #[arg(long = "b", value_name = "KEY=VALUE")]
    set_second: Vec<String>,
    /// Any setting of both by name
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Settings")]
    set: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
    /// Write a page with both in each plot
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let mut sides = Vec::new();
    if args.second.is_some() && !args.fio.is_empty() {
        let hint = "leave out B, or A and B".to_owned();
        return Err(Failure::wrong("A, B and a command line of fio are three things").hint(hint));
    }
    let sides_given =
        [("--a", &args.first, &args.set_first), ("--b", &args.second, &args.set_second)];
    for (flag, what, own) in sides_given {
        let common = args.set.iter().map(|text| flags::pair("--set", text));
        let pairs = common.chain(own.iter().map(|text| flags::pair(flag, text)));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let command = if what.is_some() { &[][..] } else { &args.fio[..] };
        let is_trace = flags::tells_a_trace(&pairs);
        let mut builder = flags::open_either(what.as_deref(), command, is_trace)?;
        args.settings.apply(&mut builder, &pairs)?;
        let name = match own.is_empty() {
            true => builder.title().to_owned(),
            false => own.join(" "),
        };
        sides.push((name, flags::scenario(&builder)?));
    }
    if sides[0].0 == sides[1].0 {
        for (side, letter) in sides.iter_mut().zip(["A", "B"]) {
            side.0 = format!("{} ({letter})", side.0);
        }
    }
    let mut results = Vec::new();
    for (name, scenario) in &sides {
        results.push((name.as_str(), simulate(scenario, &stop)?));
    }
    let [first, second] = [&results[0], &results[1]].map(|(name, results)| (*name, results));
    let comparison = report::compare(first, second);
    match args.format {
        output::Format::Table => output::print(&comparison.table(output::width()))?,
        output::Format::Json => output::print_json(&comparison.json(), false)?,
    }
    if let Some(path) = &args.html {
        write_page(path, &[first, second])?;
    }
    ended_early(&stop)?;
    all_succeeded(results.iter().map(|(_, results)| results))
}
