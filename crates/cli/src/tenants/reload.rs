//! `weir reload`.

use weir_server::control::{ChangeReply, DifferencesReply, ReloadRequest};

use crate::client_args::ClientArgs;
use crate::failure::Failure;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  weir reload --dry-run
  weir reload

The server reads its configuration and the files of weir.d again and becomes
what they say: devices, exports, cgroups and settings are added, changed and
removed, all or none. What was changed at run time only is forgotten. SIGHUP
does the same.
Exit status: 0 done, 1 the server did not answer, 2 refused; nothing has changed
then.";

/// Have a running server read its configuration again, and print what has changed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove exports that have connections, too, and close these
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !args.dry_run {
        let client = args.server.client()?;
        let reply = client.reload(&ReloadRequest { force: args.force })?;
        return print(&reply, args.server.format);
    }
    print_differences(&args.server.reader()?.differences()?, args.server.format)
}

/// Prints each difference that a reload has made; warnings go to standard error.
fn print(reply: &ChangeReply, format: Format) -> Result<(), Failure> {
    let changes = &reply.changes;
    let restart = changes.needs_restart.iter().map(|key| format!("needs a restart: {key}"));
    let lines: Vec<String> =
        changes.differences.iter().cloned().chain(restart).map(|line| line + "\n").collect();
    if lines.is_empty() {
        // What was set at run time only may have been taken back.
        return super::print(reply, format);
    }
    super::print_as(reply, format, &lines.concat())
}

/// Prints what a reload would change.
pub(crate) fn print_differences(reply: &DifferencesReply, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::print_json(reply, false);
    }
    output::print(&reply.differences.iter().map(|line| format!("{line}\n")).collect::<String>())
}
