//! `weir config`: a file for each of its subcommands.

mod check;
mod diff;
mod import;
mod schema;
mod show;

use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Check(check::Args),
    Diff(diff::Args),
    Import(import::Args),
    Schema(schema::Args),
    Show(show::Args),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Import(args) => import::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Show(args) => show::run(args),
    }
}
