//! `weir disk`.

mod list;
mod mount;

use clap::Subcommand;

use crate::failure::Failure;

/// Values of `weir disk`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mount(mount::Args),
    List(list::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Mount(args) => mount::run(args),
        Command::List(args) => list::run(&args),
    }
}
