//! `weir govern`: limits of cgroups that bind only while the disk is busy, on a stock kernel.

mod check;
mod device;
mod governed;
mod metrics;
mod plan;
mod restore;
mod run;
mod state_dir;
mod status;
#[cfg(test)]
mod tests;
mod tree;
mod usage;
mod walk;

use std::path::PathBuf;

use weir_govern::IoMax;
use weir_govern::kernel::DeviceNumber;

use self::state_dir::StateDir;
use self::tree::Tree;
use crate::failure::Failure;
use crate::log::LogArgs;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir govern /dev/nvme0n1                all limits on it, up to 90 % of it
  weir govern /srv --watermark 80         the disk that /srv is on
  weir govern /dev/sdb --mode gate        limits hold, or none does
  weir govern --config govern.toml        devices and limits from a file
  weir govern --config govern.toml --check    what that would govern
  weir govern /dev/sdb --dry-run          prints what it would write
  weir govern --restore                   after kill -9: puts limits back
  weir govern status                      who is raised, and why not

Limits are those that stand in io.max (cgroup v2) or blkio.throttle.* (v1) for
the device, whatever program has written them, and those of govern.toml for
cgroups that have none. While the disk has room they are raised together; they
are as written from the moment that cgroups without limits need the disk.

SIGTERM and SIGINT put each limit back as it was; a second one does not wait.
After kill -9 limits stay raised until `weir govern --restore` or the next
start. What is put back is in /run/weir-govern before the first write.

Exit status: 0 ended as asked, 1 failed, 2 wrong usage or configuration.";

/// Raise the limits of cgroups on a disk of this machine while it has room
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Disks: a block device, a partition, a mount point, any path on a disk, or MAJ:MIN
    #[arg(value_name = "DEVICE|PATH")]
    devices: Vec<String>,
    /// Use of the disk, in percent, up to which limits are raised; 90 unless said
    #[arg(long, value_name = "PERCENT")]
    watermark: Option<String>,
    /// Raise all limits by one factor, or lift them altogether
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// The disk's model, of `weir calibrate`: use is what requests cost, not the time in which there are any
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Devices, and limits of cgroups that have none
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where what is put back is kept; /run/weir-govern unless said
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The tree of cgroups; the one that is mounted unless said
    #[arg(long, value_name = "DIR")]
    cgroup_root: Option<PathBuf>,
    /// Write metrics there, for the textfile collector of Prometheus' node_exporter
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what would be governed, and end
    #[arg(long, conflicts_with_all = ["dry_run", "restore", "metrics"])]
    check: bool,
    /// Put back what a governor that was killed has left; of all devices unless some are named
    #[arg(long, conflicts_with_all = ["watermark", "mode", "model", "config", "metrics"])]
    restore: bool,
    #[command(flatten)]
    log: LogArgs,
    /// Where sysfs is, for tests
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    sysfs: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Values of `weir govern COMMAND`.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(status::Args),
}

/// Value of `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// All limits by the same factor
    Proportional,
    /// Limits hold as written, or not at all
    Gate,
}

impl From<Mode> for weir_govern::Mode {
    fn from(mode: Mode) -> weir_govern::Mode {
        match mode {
            Mode::Proportional => weir_govern::Mode::Proportional,
            Mode::Gate => weir_govern::Mode::Gate,
        }
    }
}

/// Whether the system's governor runs.
pub(crate) fn is_running() -> bool {
    let states = StateDir::find(None);
    states.locked().into_iter().any(|device| states.governor(device).is_some())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(Command::Status(args)) = &args.command {
        return status::run(args);
    }
    let states = StateDir::find(args.state.as_deref());
    if args.restore {
        let devices = args.devices.iter().map(|asked| device::find(asked, &args.sysfs));
        let devices = devices.map(|disk| disk.map(|disk| disk.number));
        let devices = devices.collect::<Result<Vec<DeviceNumber>, Failure>>()?;
        return restore::run(&states, &devices, args.dry_run);
    }
    let plan = plan::read(args)?;
    if args.check {
        return check::run(&plan);
    }
    args.log.start(None, None)?;
    let states = (!args.dry_run).then_some(states);
    run::run(plan, states, args.metrics.as_deref()).map_err(Failure::log)
}

/// Prints what would be written.
fn show(tree: &Tree, path: &str, device: DeviceNumber, before: IoMax, after: IoMax) {
    for write in tree.interface().writes(device, before, after) {
        let file = tree.directory(path).join(write.file);
        // A reader that is gone is no failure.
        let _ = output::print(&format!("{}: {}\n", file.display(), write.text));
    }
}
