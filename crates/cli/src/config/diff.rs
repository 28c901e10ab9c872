//! `weir config diff`.

use std::path::PathBuf;

use weir_config::{Config, Difference, difference};

use crate::client_args::ClientArgs;
use crate::failure::Failure;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  weir config diff                       what runs, and what its files say
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
    /// The configuration before; without it, what a server runs, and its files now
    #[arg(requires = "new")]
    old: Option<PathBuf>,
    /// The configuration now
    new: Option<PathBuf>,
    /// End with status 1 if they differ
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    server: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let read = |path| Config::plan_from_file(path).map_err(Failure::Config);
    let differ = match (&args.old, &args.new) {
        (Some(old), Some(new)) => {
            let differences = difference(&read(old)?, &read(new)?);
            print(&differences, args.server.format)?;
            !differences.is_empty()
        }
        _ => {
            let reply = args.server.reader()?.differences()?;
            crate::tenants::reload::print_differences(&reply, args.server.format)?;
            !reply.differences.is_empty()
        }
    };
    if args.exit_code && differ { Err(Failure::Said(1)) } else { Ok(()) }
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
