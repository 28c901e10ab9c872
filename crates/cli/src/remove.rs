//! `weir remove`.

use weir_server::control::RemoveRequest;

use crate::client_args::ChangeArgs;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir remove /vms/old
  weir remove /vms/old --device disk0 --runtime

What can be removed: a cgroup without children that no export leads to. Requests
that wait in it still go.
Exit status: 0 removed, 1 the server did not answer, 2 refused; nothing has
changed then, unless the message names a device that has.";

/// Remove a cgroup of a running server, with its limits, and print the devices that had it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cgroup, such as /vms/old
    cgroup: String,
    /// On this device only; else on every device that has it
    #[arg(long)]
    device: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.change.server.client()?;
    let request = RemoveRequest {
        cgroup: args.cgroup.clone(),
        device: args.device.clone(),
        runtime: args.change.runtime,
    };
    output::print_done(&client.remove(&request)?, args.change.server.format)
}
