//! `weir disk mount`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use weir_disk::{Spec, SpecError};
use weir_fuse::{MountError, MountOptions, MountedDisk, Unmounter};
use weir_units::{Bytes, UnitError};

use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::signals::{self, Signals};

const EXAMPLES: &str = "\
Examples:
  weir disk mount hdd7200 /mnt/disk --size 10G      prints /mnt/disk/disk
  umount /mnt/disk                                  ends it

  # A block device with this disk behind it:
  losetup --find --show --direct-io=on /mnt/disk/disk
  echo 1 > /sys/block/loop0/queue/rotational

The file is all zeros at first, its bytes are in memory, and they are gone after
the unmount. It is read and written past the page cache; each request takes the
time that the disk's model says, and tens of microseconds in the kernel.

Standard output gets the file's path when it is there, and nothing else. The
command returns then, unless --foreground is given. SIGTERM or SIGINT unmounts
and ends with status 0, once nobody has the file open any more; a second one
ends at once, with 128 and the signal's number. If it is killed, the mount
stays, dead, until `umount DIR`.

Exit status: 0 mounted or ended as asked, 1 failed, 2 wrong usage.";

/// Show an emulated disk, in real time, as a file that a loop device can use (FUSE)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The disk: a name of `weir disk list`, and settings; "hdd7200,ncq=1"
    disk: String,
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Stay until the disk is unmounted, and say on standard error what happens
    #[arg(long)]
    foreground: bool,
    /// The file's name
    #[arg(long, default_value = "disk")]
    name: String,
    /// The disk's size, where its settings do not say it; "10G"
    #[arg(long)]
    size: Option<String>,
    /// Memory for what is written; more is refused as if the disk were full
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    memory: String,
    /// In the background already, started by this very command
    #[arg(long, hide = true)]
    detached: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let spec = spec(&args)?;
    let Bytes(memory_max) = args.memory.parse().map_err(|error: UnitError| {
        Failure::wrong(format!("--memory: {error}")).hint(error.hint())
    })?;
    if !args.foreground {
        return start(&args);
    }
    if args.detached {
        rustix::process::setsid()
            .map_err(|error| Failure::failed(format!("cannot leave the terminal: {error}")))?;
    }
    log::to_stderr("info");
    let options = MountOptions { name: args.name, memory_max };
    let runtime = signals::runtime()?;
    runtime.block_on(async {
        // First of all, so that a signal while it mounts is not lost.
        let mut signals = Signals::new()?;
        let disk = MountedDisk::mount(&spec, &args.directory, &options).map_err(refused)?;
        tracing::info!(disk = %spec, path = %disk.path().display(), "mounted");
        let unmounter = disk.unmounter();
        let ready = output::print(&format!("{}\n", disk.path().display()));
        let ready = ready.and_then(|()| if args.detached { detach() } else { Ok(()) });
        let wait = tokio::task::spawn_blocking(move || disk.wait());
        let ended = match ready {
            Ok(()) => until_unmounted(wait, &unmounter, &mut signals).await,
            Err(failure) => {
                unmount(&unmounter);
                let _ = wait.await;
                Err(failure)
            }
        };
        tracing::info!("ended");
        ended
    })
}

/// The disk that is asked for.
fn spec(args: &Args) -> Result<Spec, Failure> {
    let line = match &args.size {
        Some(size) => format!("{},size={size}", args.disk),
        None => args.disk.clone(),
    };
    line.parse().map_err(|SpecError { span, problem }| {
        // The part that is wrong, unless it is the whole.
        let part = &line[span];
        let place = if part == line { String::new() } else { format!(", at {part:?}") };
        Failure::wrong(format!("disk {line:?}{place}: {problem}")).hint(problem.hint())
    })
}

/// Starts the same command in the background, and waits until the disk is there.
fn start(args: &Args) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::failed(format!("cannot start: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.args(["disk", "mount", "--foreground", "--detached", "--name", &args.name]);
    command.args(["--memory", &args.memory]);
    command.args(args.size.iter().flat_map(|size| ["--size", size]));
    command.arg("--").arg(&args.disk).arg(&args.directory);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(fail)?;
    }
    if line.is_empty() {
        // It has printed the reason.
        let status = child.wait().map_err(fail)?;
        return Err(Failure::Said(
            status.code().and_then(|code| code.try_into().ok()).unwrap_or(1),
        ));
    }
    output::print(&line)
}

/// Lets go of the terminal and of the directory it was started in.
fn detach() -> Result<(), Failure> {
    let fail =
        |error: std::io::Error| Failure::failed(format!("cannot leave the terminal: {error}"));
    let null = File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    rustix::process::chdir("/").map_err(|error| fail(error.into()))?;
    rustix::stdio::dup2_stdout(&null).map_err(|error| fail(error.into()))?;
    rustix::stdio::dup2_stderr(&null).map_err(|error| fail(error.into()))
}

async fn until_unmounted(
    mut wait: tokio::task::JoinHandle<std::io::Result<()>>,
    unmounter: &Unmounter,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mut is_ending = false;
    let ended = loop {
        let number = tokio::select! {
            ended = &mut wait => break ended,
            number = signals.next() => number,
        };
        if is_ending {
            tracing::warn!("ending at once: whoever has the disk open gets errors");
            std::process::exit(128 + i32::from(number));
        }
        is_ending = true;
        unmount(unmounter);
    };
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::failed(format!("the file system has failed: {error}"))),
        Err(_) => Err(Failure::failed("the file system's thread panicked: see above")),
    }
}

fn unmount(unmounter: &Unmounter) {
    match unmounter.unmount() {
        Ok(false) => {}
        Ok(true) => {
            tracing::info!("unmounted, but in use: ending when the last user closes the disk");
        }
        Err(error) => tracing::error!("cannot unmount: {error}; a second signal ends at once"),
    }
}

fn refused(error: MountError) -> Failure {
    let hint = error.hint();
    match error {
        MountError::Name { .. } => Failure::wrong(error).hint(hint),
        _ => Failure::failed(error).hint(hint),
    }
}
