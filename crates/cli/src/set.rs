//! `weir set`.

use weir_server::control::SetRequest;

use crate::client_args::ChangeArgs;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Keys and values are those of the configuration:
  io.max        [DEVICE] KEY=RATE ..     rbps, wbps, riops, wiops, and rwbps,
                                         rwiops for reads and writes together;
                                         not named: kept; max: no limit
  io.burst      [DEVICE] KEY=AMOUNT ..   how much may go at once after a pause
  io.peak       [DEVICE] KEY=RATE ..     the rate inside a burst
  io.weight     [DEVICE|default] N       share among siblings, 1 to 10000; also
                                         called io.bfq.weight, 1 to 1000
  io.limiter    pace, slice:KERNEL,      how limits are enforced
                token or leaky
  io.watermark  PERCENT [mode=gate] ..,  utilisation from which on limits bind
                or inherit
  io.prio.class no-change, idle,         who goes first, with bfq
                promote-to-rt or restrict-to-be
  io.bfq.low_latency                     whose weight bfq may raise
                auto, never, interactive or inherit
Of devices, for the cgroup /, which itself has no limits and no weight:
  io.depth      1 to 4096                requests at the device at once
  io.scheduler  none or bfq              who chooses the next of those that wait
  io.bfq        [DEVICE] KEY=VALUE ..    how bfq does; not named: kept
  io.watermark  as above                 for cgroups without one of their own

Examples:
  weir set /main io.max \"rbps=50M riops=500\"
  weir set /main io.max rwbps=80M
  weir set /vms/db io.weight 300
  weir set /vms io.max \"disk0 riops=max\"
  weir set / io.scheduler bfq
  weir set / io.bfq slice_idle=0 low_latency=0
  weir set / io.watermark 90
  weir set /vms/new io.weight 300 --create
  weir set /vms/db io.max riops=max --runtime

Plain numbers are bytes or I/Os, as in cgroup v2; letters are Weir's: of bytes
by 1024 (10M is 10485760), of I/Os by 1000.

A server of a configuration keeps what is set, in the directory weir.d beside
it, for its next start; `--runtime` does not.

Requests that wait go on waiting under the new limit; none is lost, repeated or
overtaken.
Exit status: 0 set, 1 the server did not answer, 2 refused; nothing has changed
then.";

/// Change a setting of a running server, and print what holds now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cgroup, such as /vm1
    cgroup: String,
    /// What to set
    key: String,
    /// The new value; several words need not be quoted
    #[arg(required = true, num_args = 1..)]
    value: Vec<String>,
    /// The device, where the value does not begin with one
    #[arg(long)]
    device: Option<String>,
    /// Make the cgroup if it is not there; else that is an error
    #[arg(long)]
    create: bool,
    /// Refuse if anything has been set since this `generation` of `weir status --format json`
    #[arg(long, value_name = "GENERATION")]
    if_match: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.change.server.client()?;
    if let Some(generation) = &args.if_match {
        client = client.based_on(generation);
    }
    let reply = client.set(&SetRequest {
        cgroup: args.cgroup.clone(),
        key: args.key.clone(),
        value: args.value.join(" "),
        device: args.device.clone(),
        create: args.create,
        runtime: args.change.runtime,
    })?;
    if reply.created {
        output::tell(&format!("note: {} is new: no connection is in it", reply.cgroup));
    }
    if args.change.server.format == output::Format::Json {
        return output::print_json(&reply, false);
    }
    let lines = reply.devices.iter().map(|device| format!("{} {}\n", device.device, device.value));
    output::print(&lines.collect::<String>())
}
