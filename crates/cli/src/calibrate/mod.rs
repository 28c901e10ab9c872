//! `weir calibrate`: what a device can do, in the figures of the linear model.

mod emulated;
mod plot;
mod report;
mod ring;
mod safety;
mod target;
mod watch;

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use weir_calibrate::{Calibration, Room, Settings};
use weir_units::{Nanos, UnitError};

use self::target::Target;
use self::watch::Watch;
use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;
use crate::whole_file::WholeFile;

const EXAMPLES: &str = "\
Examples:
  weir calibrate /dev/sdb                 only reads; writes sdb.model.toml
  weir calibrate scratch.img --write      reads and writes; asks first
  weir calibrate emulated:hdd7200 --virtual-time
  weir calibrate /dev/nvme0n1 -o fast.toml --html fast.html --format json

What to do with it: `weir lab run job.fio --disk sdb.model.toml` runs on a disk
that does the same, and with `model = \"sdb.model.toml\"` a device of `weir serve`
knows how busy it is.

It takes ten seconds to a few minutes; use the device for nothing else
meanwhile. --write destroys what is on the device: it asks, refuses what does
not look empty without --force, and what is in use in any case. Ctrl-C ends it,
and writes nothing.
Exit status: 0 done, 1 a request failed, 2 refused, 130 interrupted.";

/// Measure what a device can do, and write it down for `weir serve` and `weir lab`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A block device, a file on the device that is meant, or "emulated:SPEC"
    #[arg(value_name = "DEVICE|FILE|emulated:SPEC")]
    target: String,
    /// Measure writes too, which destroys what is on the device
    #[arg(long)]
    write: bool,
    /// Do not ask before writing
    #[arg(long, requires = "write")]
    yes: bool,
    /// Write to what does not look empty
    #[arg(long, requires = "write")]
    force: bool,
    /// Where the model goes; NAME.model.toml in this directory, unless said
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page with plots as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Most requests at the device at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    depth_max: u32,
    /// How long each step takes at least; writes four times as long
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    step: String,
    /// Measure an emulated disk in virtual time
    #[arg(long)]
    virtual_time: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

/// Steps are this long: shorter ones measure the clock, longer ones take too long.
const STEP_NS: std::ops::RangeInclusive<u64> = 10_000_000..=600_000_000_000;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let settings =
        Settings { writes: args.write, depth_max: args.depth_max, step_ns: step_ns(&args.step)? };
    let target = Target::parse(&args.target, args.virtual_time)?;
    if let Target::Device(path) = &target {
        if args.write {
            safety::check(path, args.force)?;
            if !args.yes {
                ask(&args.target)?;
            }
        }
        safety::warn_of_holes(path);
    }
    let path = args.output.clone().unwrap_or_else(|| target.model_name(&args.target));
    let model = WholeFile::begin(&path)?;
    let page = args.html.as_deref().map(WholeFile::begin).transpose()?;
    let stop = Stop::listen()?;
    let mut watch = Watch::new(&stop);
    let outcome = match &target {
        Target::Device(path) => ring::measure(path, settings, &mut watch),
        Target::Emulated { spec, virtual_time } => {
            emulated::measure(spec, *virtual_time, begin(spec.size(), 512, settings)?, &mut watch)
        }
    };
    let took_ns = watch.over();
    let Some(outcome) = outcome? else {
        output::tell("note: ended early, by a signal: no model is written");
        return Err(stop.signal().map_or(Failure::Said(1), Failure::Signal));
    };
    let found = report::Report::new(&args.target, &target, took_ns, &outcome);
    let written = model.write(&found.model_file());
    // Results are printed even if the file cannot be written.
    let place = written.is_ok().then_some(path.as_path());
    match args.format {
        output::Format::Json => output::print_json(&found.json(place), false)?,
        output::Format::Table => output::print(&found.table(place))?,
    }
    if let Some(page) = page {
        page.write(&weir_lab::report::calibration(&args.target, &outcome))?;
    }
    written
}

/// A calibration of so many bytes.
fn begin(size: u64, block: u32, settings: Settings) -> Result<Calibration, Failure> {
    let room = Room::new(size, block).map_err(|error| {
        let hint = "a file can be filled: dd if=/dev/urandom of=FILE bs=1M count=1024 oflag=direct";
        Failure::wrong(error).hint(hint.to_owned())
    })?;
    Ok(Calibration::new(room, settings))
}

fn step_ns(text: &str) -> Result<u64, Failure> {
    let Nanos(step_ns) = text.parse().map_err(|error: UnitError| {
        Failure::wrong(format!("--step: {error}")).hint(error.hint())
    })?;
    if !STEP_NS.contains(&step_ns) {
        let (least, most) = (Nanos(*STEP_NS.start()), Nanos(*STEP_NS.end()));
        return Err(Failure::wrong(format!("--step: {text} is not between {least} and {most}")));
    }
    Ok(step_ns)
}

/// Asks for permission to destroy the data; only a clear yes counts.
fn ask(name: &str) -> Result<(), Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::wrong(format!(
            "--write destroys what is on {name}, and nobody is there to be asked"
        ))
        .hint("--yes says that this is meant".to_owned()));
    }
    let question =
        format!("This writes to all of {name} and destroys what is on it. Go on? Type yes: ");
    let asked = std::io::stderr().write_all(question.as_bytes());
    asked.map_err(|error| Failure::failed(format!("nobody can be asked: {error}")))?;
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("standard input: {error}")))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::wrong(format!("nothing is written to {name}"))),
    }
}
