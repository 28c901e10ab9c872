//! `weir run`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use weir_mount::{Mounted, Settings, namespace};
use weir_passthrough::Options;

use crate::failure::Failure;
use crate::log;
use crate::mount::limits_args::{LimitsArgs, rules};
use crate::mount::{refused, report};
use crate::signals::{self, Signals};

const EXAMPLES: &str = "\
Examples:
  weir run --max rbps=20M -- tar cf /tmp/all.tar .
  weir run --max 'rbps=50M wbps=10M' -- make -j8
  weir run --map 'comm=cc1: /compile' --max '/compile: riops=100' -- make

The command sees the directory through a private mount, with its files as they
are, and what it reads and writes there passes the limits. Nothing else does: a
file elsewhere, or one that the shell has opened, as with `> file`, is not
limited. Other programs see no mount. It is gone when the command ends, and
programs that the command has left behind get errors there.

It needs no privileges where the system lets users make namespaces and open
/dev/fuse, and says what is missing otherwise.

Exit status: that of the command, or 128 and the number of the signal that
killed it; 125 where it could not be run; 2 wrong usage.";

/// Run one command under limits in its directory, with nothing set up (FUSE)
#[derive(Debug, clap::Args)]
#[command(name = "run", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    limits: LimitsArgs,
    /// Rule that chooses the cgroup of a process; "comm=cc1: /compile"
    #[arg(long, value_name = "RULE")]
    map: Vec<String>,
    /// The directory under limits, where the command begins
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Status for a command that could not be run, as env(1) and timeout(1) have it.
const NOT_RUN: u8 = 125;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    log::to_stderr("warn");
    let mut tree = args.limits.tree()?;
    tree.rules = rules(&args.map, "*: /")?;
    let not_run = |failure: Failure| {
        let _ = failure.tell();
        Failure::Said(NOT_RUN)
    };
    // Outside the mount, before there is one.
    let directory = args.directory.canonicalize().map_err(|error| {
        not_run(Failure::failed(format!("{}: {error}", args.directory.display())))
    })?;
    // Before there is a second thread.
    namespace::enter().map_err(|error| not_run(refused(error)))?;
    let settings = Settings {
        source: directory.clone(),
        mountpoint: directory.clone(),
        tree,
        options: Options::default(),
    };
    let runtime = signals::runtime()?;
    let status = runtime.block_on(async {
        let signals = Signals::new()?;
        let mounted = Mounted::new(settings).map_err(|error| not_run(refused(error)))?;
        let unmounter = mounted.unmounter();
        let mut command = Command::new(&args.command[0]);
        // By its path, which leads into the mount; this process stays beside it.
        let child = command.args(&args.command[1..]).current_dir(&directory).spawn();
        let status = match child {
            Ok(child) => wait(child, signals).await,
            Err(error) => {
                let name = args.command[0].to_string_lossy();
                Err(not_run(Failure::failed(format!("cannot run {name}: {error}"))))
            }
        };
        if let Err(error) = unmounter.unmount() {
            tracing::debug!("not unmounted: {error}");
        }
        unmounter.stop();
        match mounted.wait() {
            Ok(told) => report::write(&told, args.limits.report.as_deref())?,
            Err(error) => tracing::error!("the file system has failed: {error}"),
        }
        status
    })?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Said(code as u8)),
        (None, signal) => Err(Failure::Said(128_u8.wrapping_add(signal.unwrap_or(0) as u8))),
    }
}

/// Waits for the command. An interrupt from the terminal has reached it too; SIGTERM is passed on.
async fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus, Failure> {
    let pid = Pid::from_child(&child);
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    loop {
        tokio::select! {
            status = &mut ended => {
                let status = status.map_err(|error| Failure::failed(error.to_string()))?;
                return status.map_err(|error| Failure::failed(format!("cannot wait: {error}")));
            }
            number = signals.next() => {
                if i32::from(number) == Signal::TERM.as_raw() {
                    let _ = kill_process(pid, Signal::TERM);
                }
                signals.was_no_end();
            }
        }
    }
}
