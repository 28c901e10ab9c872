//! `weir lab`: what would happen if.

mod compare;
mod flags;
mod list;
mod progress;
mod replay;
mod reproduce;
mod run;
mod sweep;
mod what_if;

use clap::Subcommand;

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  weir lab list                         scenarios, disks, kernels
  weir lab run job.fio --disk hdd7200 --max riops=100
  weir lab run job.fio --max riops=100 --limiter slice --kernel 6.12
  weir lab run noisy-neighbour --html page.html
  weir lab compare job.fio job.fio --b limiter=slice:6.12
  weir lab sweep job.fio --set fio.iodepth=1,8,32 --set disk=hdd7200,ssd-nvme
  weir lab reproduce                    published results, run again

The very engine that serves runs in virtual time: an hour takes seconds, and the
same input and seed give the same output on every machine.";

/// Try disks, limits and schedulers in virtual time, before anything real depends on them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Compare(compare::Args),
    Sweep(sweep::Args),
    List(list::Args),
    Replay(replay::Args),
    Reproduce(reproduce::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::List(args) => list::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Reproduce(args) => reproduce::run(args),
    }
}
