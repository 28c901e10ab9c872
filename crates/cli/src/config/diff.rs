//! `weir config diff`.

use std::path::PathBuf;

use weir_config::{Config, Difference, difference};

use crate::failure::Failure;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  weir config diff weir.toml new.toml
  weir config diff weir.toml new.toml --format json | jq '.differences[].name'

A line for each difference: `+` a section that is new, `-` one that is gone, `~`
a key with its value before and now. What stands in the files beside a
configuration, in weir.d, is part of it. Defaults that are said and defaults that
are not are the same, and so is another order. Images need not exist.
JSON: `differences`, each with section, name and change; keys where the change is
`added` or `removed`; key, device, old and new where it is `changed`.
Exit status: 0 done, 1 different (with --exit-code), 2 one of them is not valid.";

/// Compare two configurations, key by key
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration before
    old: PathBuf,
    /// The configuration now
    new: PathBuf,
    /// End with status 1 if they differ
    #[arg(long)]
    exit_code: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let read = |path| Config::plan_from_file(path).map_err(Failure::Config);
    let differences = difference(&read(&args.old)?, &read(&args.new)?);
    print(&differences, args.format)?;
    if args.exit_code && !differences.is_empty() { Err(Failure::Said(1)) } else { Ok(()) }
}

fn print(differences: &[Difference], format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            output::print(&differences.iter().map(|line| format!("{line}\n")).collect::<String>())
        }
        Format::Json => {
            output::print_json(&serde_json::json!({ "differences": differences }), false)
        }
    }
}
