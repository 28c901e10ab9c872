//! `weir replay`: a trace against a real device, file or server.

mod disk;
mod figures;
mod fit;
mod nbd;
mod progress;
mod report;
mod run;
mod schedule;
mod source;
mod target;
mod uri;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use clap::ValueEnum;
use weir_trace::Format;

use self::run::Run;
use self::schedule::Pace;
use self::source::{Source, Writes};
use self::target::{Done, Target};
use crate::failure::Failure;
use crate::output;
use crate::signals;

const EXAMPLES: &str = "\
Traces: msr, alibaba, tencent, cloudphysics (CSV), blkparse, fio-iolog, startup,
and others by columns; plain, .gz or .zst.

Examples:
  weir replay trace.csv.gz --to 'nbd+unix:///?socket=/tmp/weir.sock' --read-only
  weir replay sda.blkparse --to /dev/sdb --read-only --time asap --depth 8
  weir replay F.spc --trace-format csv:time_s=5,op=4,lba512=2,bytes=3,device=1 \\
      --trace-device 0 --to /dev/sdb --read-only
  weir replay app.iolog --to scratch.img --write --time scaled:0.5 --format json

Offsets beyond the target's end wrap. A trace that writes needs --write or
--read-only; writing to what is mounted or does not look empty also needs
--force. Ctrl-C ends it with the report so far.
Exit status: 0 done, 1 a request or the trace failed, 2 refused, 130
interrupted.";

/// Replay a block trace against a device, file or NBD server, and report how it was served
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace
    trace: PathBuf,
    /// Where to: a block device, a file, or an NBD URI as `weir serve` prints it
    #[arg(long, value_name = "DEVICE|FILE|URI")]
    to: String,
    /// The trace's format, where its first lines do not tell, or what its columns are:
    /// csv:time_us=6,op=4,lba512=5,bytes=2
    #[arg(long, value_name = "FORMAT|COLUMNS")]
    trace_format: Option<Format>,
    /// Only requests of this device, volume or file of the trace
    #[arg(long, value_name = "NAME")]
    trace_device: Option<String>,
    /// Keep the trace's times (original), multiply them (scaled:F), or go as fast as requests that wait for others
    /// allow (asap)
    #[arg(long, value_name = "PACE", default_value = "original")]
    time: String,
    /// Requests of one stream (volume, disk, process or file of the trace) under way at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    depth: u32,
    /// How often the trace is replayed, one pass after the other
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    passes: u64,
    /// Issue nothing any more after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    seconds: Option<u64>,
    /// Leave out what changes data: writes and discards
    #[arg(long, conflicts_with_all = ["write", "force"])]
    read_only: bool,
    /// Carry out writes and discards, which destroys what is on the target
    #[arg(long)]
    write: bool,
    /// Write even to what is mounted or does not look empty
    #[arg(long, requires = "write")]
    force: bool,
    /// Go past the page cache; on for block devices and off for files, unless said. NBD servers decide for themselves
    #[arg(long, value_enum)]
    direct: Option<Switch>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Access to the target.
#[derive(Clone, Copy, Debug)]
struct Intent {
    write: bool,
    force: bool,
    direct: Option<bool>,
}

/// Event of a replay.
#[derive(Debug)]
enum Message {
    Done(Done),
    /// The target is gone.
    Broken(io::Error),
    /// A signal to end.
    Signal(u8),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let pace: Pace =
        args.time.parse().map_err(|error| Failure::wrong(format!("--time: {error}")))?;
    let writes = match (args.read_only, args.write) {
        (true, _) => Writes::LeaveOut,
        (_, true) => Writes::CarryOut,
        _ => Writes::Refuse,
    };
    // The trace first: a wrong name there should not touch the target.
    let (format, device) = (args.trace_format.clone(), args.trace_device.as_deref());
    let source = Source::open(&args.trace, format, device, args.passes, writes)?;
    let (sender, inbox) = channel();
    let direct = args.direct.map(|direct| direct == Switch::On);
    let intent = Intent { write: args.write, force: args.force, direct };
    let target = Target::open(&args.to, intent, sender.clone())?;
    signals::on_thread(move |number| sender.send(Message::Signal(number)).is_ok())?;
    let outcome = Run::new(source, target, inbox, pace, args.depth, args.seconds)?.finish();
    let report = report::Report::new(args, &outcome);
    match args.format {
        output::Format::Json => output::print_json(&report, false)?,
        output::Format::Table => {
            report.complain();
            output::print(&report.table())?;
        }
    }
    outcome.into_result()
}
