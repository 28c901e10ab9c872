//! `weir move`; the word is Rust's own, so the file has two.

use weir_server::control::MoveRequest;

use crate::client_args::ChangeArgs;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir move /vms/db /gold           /vms/db becomes /gold/db
  weir move /vms/db /               and /db
  weir move /vms/db /gold --device disk0

A cgroup moves with its limits, everything below it and the requests that wait
there: none is lost, repeated or overtaken. Its exports lead there as before; a
new start reads the configuration anew.
Both cgroups have to be there: `weir status` lists them, `weir set` makes one.
Exit status: 0 moved, 1 the server did not answer, 2 refused; nothing has
changed then, unless the message names a device that has.";

/// Move a cgroup of a running server below another one, and print the devices that have it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cgroup, such as /vms/db
    cgroup: String,
    /// Its new parent, such as /gold
    parent: String,
    /// On this device only; else on every device that has it
    #[arg(long)]
    device: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.change.server.client()?;
    let (cgroup, parent) = (args.cgroup.clone(), args.parent.clone());
    let request =
        MoveRequest { cgroup, parent, device: args.device.clone(), runtime: args.change.runtime };
    output::print_done(&client.relocate(&request)?, args.change.server.format)
}
