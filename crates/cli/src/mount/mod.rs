//! `weir mount`.

mod limits_args;
mod report;
pub(crate) mod run_command;

use std::path::PathBuf;

use weir_mount::{MountError, Mounted, Settings, Unmounter, namespace};
use weir_passthrough::Options;

use crate::failure::Failure;
use crate::log;
use crate::mount::limits_args::{LimitsArgs, rules};
use crate::output;
use crate::signals::{self, Signals};

const EXAMPLES: &str = "\
Examples:
  weir mount /srv/home /home --max '/users/*: rbps=50M wbps=20M'
  weir mount /data /mnt --max rbps=200M --map 'comm=rsync: /backup' \\
       --max '/backup: rbps=20M'
  umount /home                            ends it

Programs use MOUNTPOINT as they would SOURCE: names, permissions, owners and
times are those of SOURCE. Reads that the page cache answers pass no limit; all
others, and writes, do. A program that waits for a limit can be interrupted and
killed.

Each user has a cgroup, /users/NAME, unless --map says otherwise. Its first
rule whose conditions hold counts: KEY=TEXT, or KEY~PATTERN with * and ?, with
a key of uid, gid, user, cgroup, comm or cmdline; * holds always. The path may
have {uid}, {gid}, {user}, {comm}, and {cgroup} for the kernel's.

Standard output gets the mount point when it is there. The command stays until
it is unmounted; SIGTERM or SIGINT unmounts, and ends it once no program uses
the mount, a second one ends it at once.

Exit status: 0 unmounted, 1 failed, 2 wrong usage.";

/// Show a directory under limits, for programs that use its files (FUSE)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory with the files
    source: PathBuf,
    /// The directory that shows them; SOURCE itself is possible
    mountpoint: PathBuf,
    #[command(flatten)]
    limits: LimitsArgs,
    /// Rule that chooses the cgroup of a process; "uid=1000: /a"
    #[arg(long, value_name = "RULE")]
    map: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    log::to_stderr("info");
    let mut tree = args.limits.tree()?;
    tree.rules = rules(&args.map, "*: /users/{user}")?;
    let settings = Settings {
        source: args.source.clone(),
        mountpoint: args.mountpoint.clone(),
        tree,
        options: Options::default(),
    };
    let runtime = signals::runtime()?;
    runtime.block_on(async {
        // First of all, so that a signal while it mounts is not lost.
        let mut signals = Signals::new()?;
        let mounted = Mounted::new(settings).map_err(refused)?;
        let unmounter = mounted.unmounter();
        if namespace::is_below_first_pid_namespace() {
            tracing::warn!("programs outside of this container count for the root cgroup");
        }
        let ready = output::print(&format!("{}\n", args.mountpoint.display()));
        if ready.is_err() {
            unmount(&unmounter);
        }
        let mut wait = tokio::task::spawn_blocking(move || mounted.wait());
        let mut is_ending = false;
        let ended = loop {
            let number = tokio::select! {
                ended = &mut wait => break ended,
                number = signals.next() => number,
            };
            if is_ending {
                unmounter.stop();
                std::process::exit(128 + i32::from(number));
            }
            is_ending = true;
            unmount(&unmounter);
        };
        let ended = ended.map_err(|error| Failure::failed(format!("cannot wait: {error}")))?;
        let told = ended
            .map_err(|error| Failure::failed(format!("the file system has failed: {error}")))?;
        report::write(&told, args.limits.report.as_deref())?;
        ready
    })
}

fn unmount(unmounter: &Unmounter) {
    match unmounter.unmount() {
        Ok(false) => {}
        Ok(true) => {
            tracing::info!("unmounted, but in use: ending when the last program has left");
        }
        Err(error) => tracing::error!("cannot unmount: {error}; a second signal ends at once"),
    }
}

/// A reason not to mount, as a failure.
pub(crate) fn refused(error: MountError) -> Failure {
    let hint = error.hint();
    match error {
        MountError::Tree { .. } | MountError::Inside { .. } => Failure::wrong(error).hint(hint),
        _ => Failure::failed(error).hint(hint),
    }
}
