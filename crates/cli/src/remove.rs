//! `weir remove`.

use std::path::PathBuf;

use weir_server::control::{Client, RemoveRequest};

use crate::failure::Failure;
use crate::{output, runtime_dir};

const EXAMPLES: &str = "\
Examples:
  weir remove /vms/old
  weir remove /vms/old --device disk0

What can be removed: a cgroup without children that no export leads to. Requests that wait in it still go.
Exit status: 0 removed, 1 the server did not answer, 2 refused; nothing has changed then, unless the
message names a device that has.";

/// Remove a cgroup of a running server, with its limits, and print the devices that had it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cgroup, such as /vms/old
    cgroup: String,
    /// On this device only; else on every device that has it
    #[arg(long)]
    device: Option<String>,
    /// Control socket of the server, where several run
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&runtime_dir::find_control(args.control.as_deref())?);
    let request = RemoveRequest { cgroup: args.cgroup.clone(), device: args.device.clone() };
    output::print_done(&client.remove(&request)?, args.format)
}
