//! The `weir` command: one file a subcommand.

#![forbid(unsafe_code)]
// They panic where the reader is gone: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod api;
mod calibrate;
mod client_args;
mod clock;
mod completions;
mod config;
mod demo;
mod disk;
#[cfg(test)]
mod examples;
mod explain;
mod failure;
mod find_server;
mod govern;
mod lab;
mod limiter;
mod log;
mod man;
mod mount;
mod mount_text;
mod move_cgroup;
mod output;
mod page;
mod pattern;
mod record;
mod remove;
mod replay;
mod runtime_dir;
mod serve;
mod set;
mod signals;
mod status;
mod table;
mod tenants;
mod top;
mod whole_file;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  weir demo                              what a limit feels like; no root
  weir serve disk.img --max riops=500    an image under a limit; prints its URI
  weir serve weir.toml                   several devices, tenants and exports
  weir run --max rbps=20M -- make        one command under limits; no root
  weir mount /srv/home /home --max '/users/*: rbps=50M'
  weir status                            who waits for what
  weir top                               the same live, and limits changed
  weir explain /main                     what holds it, and what to change
  weir page                              the last hour, for a browser
  weir set /main io.max riops=1000       another limit, while it runs
  weir export add vm2 --image vm2.img --cgroup /vm2 --create
  weir govern /dev/sdb                   limits of cgroups, while it is busy
  weir calibrate /dev/sdb                what a disk can do; only reads
  weir lab run job.fio --disk hdd7200    a fio job there, in virtual time

Exit status: 0 done, 1 failed, 2 wrong usage or configuration.";

/// Share one disk among many tenants: run free while there is room, meter fairly when there is not.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Status(status::Args),
    Top(top::Args),
    Explain(explain::Args),
    Page(page::Args),
    Set(set::Args),
    Move(move_cgroup::Args),
    Remove(remove::Args),
    /// Add, remove and list the devices of a running server
    #[command(subcommand)]
    Device(tenants::device::Command),
    /// Add, remove and list the exports of a running server
    #[command(subcommand)]
    Export(tenants::export::Command),
    Reload(tenants::reload::Args),
    /// Record what a running server's devices are asked
    #[command(subcommand)]
    Record(record::Command),
    /// Work with configuration files
    #[command(subcommand)]
    Config(config::Command),
    Govern(Box<govern::Args>),
    Calibrate(calibrate::Args),
    Replay(replay::Args),
    Mount(mount::Args),
    Run(mount::run_command::Args),
    Demo(demo::Args),
    /// Work with emulated disks
    #[command(subcommand)]
    Disk(disk::Command),
    Lab(Box<lab::Args>),
    /// Describe the control API
    #[command(subcommand)]
    Api(api::Command),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| with_serve(error).exit());
    let done = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Page(args) => page::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Move(args) => move_cgroup::run(&args),
        Command::Remove(args) => remove::run(&args),
        Command::Device(command) => tenants::device::run(&command),
        Command::Export(command) => tenants::export::run(&command),
        Command::Reload(args) => tenants::reload::run(&args),
        Command::Record(command) => record::run(&command),
        Command::Config(command) => config::run(&command),
        Command::Govern(args) => govern::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Run(args) => mount::run_command::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Disk(command) => disk::run(command),
        Command::Lab(args) => lab::run(&args),
        Command::Api(command) => api::run(&command),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

/// Adds to `weir disk.img` that it may have been meant to be served.
fn with_serve(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        let is_device = ["memory:", "emulated:"].iter().any(|kind| word.starts_with(kind));
        if is_device || word.contains('/') || std::path::Path::new(word).exists() {
            let tip = StyledStr::from(format!("to serve it: weir serve {word}"));
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_does_not_contradict_itself() {
        super::Cli::command().debug_assert();
    }
}
