//! `weir config schema`.

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir config schema > weir.schema.json

Editors complete and check a configuration by it: with taplo (Even Better TOML)
begin the file with the line
  #:schema ./weir.schema.json

It says which keys there are and what type they have; `weir config check` says
everything else.";

/// Print the JSON Schema of configurations
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    output::print_json(&weir_config::schema(), false)
}
