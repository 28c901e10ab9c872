//! `weir config show`.

use std::path::PathBuf;

use weir_config::Config;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir config show weir.toml
  weir config show weir.toml > one.toml

What is printed is a configuration that says the same in one file: without what
is so by default, with absolute paths and plain numbers. Before each section are
the files that it comes from. Images need not exist.
Exit status: 0 shown, 2 the configuration is not valid.";

/// Print a configuration as one file, with all that weir.d says
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    output::print(&Config::show_file(&args.file).map_err(Failure::Config)?)
}
