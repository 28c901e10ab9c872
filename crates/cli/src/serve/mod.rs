//! `weir serve`.

mod flags;
mod inherited;
mod manager;
mod reload;
mod running;
mod single;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use clap::ValueEnum;
use weir_config::{Config, Direct, LogFormat, Sandbox, TlsMode};
use weir_server::tenants::Files;

use self::inherited::Inherited;
use crate::failure::Failure;
use crate::{log, runtime_dir};

const EXAMPLES: &str = "\
Examples:
  weir serve disk.img --max \"rbps=50M riops=500\"
  weir serve /dev/sdb --socket /run/sdb.sock --read-only
  weir serve memory:1G --listen 127.0.0.1:10809 --max riops=100 --burst 20
  weir serve weir.toml

A name that ends in .toml is a configuration, everything else is what is to be
served. A server of one image has one export with the empty name, one cgroup,
/main, and calls its device `disk`.

Limits are those of cgroup v2 io.max: plain numbers are bytes or I/Os a second.
Letters are Weir's: of bytes by 1024 (10M is 10485760), of I/Os by 1000.

Standard output gets the NBD URIs, one a line, when clients may connect, and
nothing else. The log goes to standard error; --log-level debug says more.
SIGTERM, SIGINT, and SIGHUP when the terminal closes, let requests under way
finish, with limits lifted, and end the server. What is not done after
--drain-time is cut and answered with ESHUTDOWN. A second signal, after a tenth
of a second, ends the server at once, with 128 and the signal's number.
Otherwise SIGHUP has it read CONFIG.toml again: devices, exports, cgroups and
their settings are added, changed and removed, all or none.

A service manager is told over NOTIFY_SOCKET of the start, of reloads and of the
end, and, where it set WATCHDOG_USEC, that the threads of all devices turn. A
disk that hangs does not keep them from that.

Sockets of LISTEN_FDS, as of systemd or of `nbdinfo [ weir serve disk.img ]`,
serve NBD; LISTEN_FDNAMES may call them control, control-read and metrics. They
have no URI on standard output.

With --single it serves the client that is its standard input, a socket, as a
program has it that starts servers on socket pairs: in Python
nbd.NBD().connect_command([\"weir\", \"serve\", \"--single\", \"disk.img\"]). It
listens nowhere, whatever CONFIG.toml says, has a control socket only where that
is named, and ends when the client has gone.

Once its sockets are bound, the server drops what it does not need (Landlock,
seccomp, capabilities); the log and `weir status` say what is in force. Devices
that are added later must be in a directory that has one at the start, or that
`sandbox_paths` names.

Sockets that are not named are in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/weir, or
/run/weir for root, or /tmp/weir-UID: NAME.sock for NBD, if nothing else serves
it, and NAME.control.sock for `weir set`, after the image's name; for a
configuration, nbd.sock and control.sock. Beside the latter,
NAME.control-read.sock, or control-read.sock, is for `weir status` and
monitoring, and changes nothing. NAME.metrics.sock, or metrics.sock, is for
metrics, beside any control socket.

Exit status: 0 ended as asked, every request finished; 1 failed, or requests
were cut at the end; 2 wrong usage or configuration.";

/// Serve a disk image, a block device or a configuration over NBD, under limits
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// CONFIG.toml, or an image, a block device, memory:SIZE or emulated:DISK (null, hdd7200, ...)
    #[arg(value_name = "CONFIG.toml|IMAGE")]
    what: String,
    /// Unix socket for NBD
    #[arg(long, value_name = "PATH", help_heading = "Image")]
    socket: Option<String>,
    /// File mode of that socket: 600, the default, is its owner's alone, 660 its group's too
    #[arg(long, value_name = "MODE", help_heading = "Image")]
    socket_mode: Option<String>,
    /// Address for NBD, TCP, vsock:PORT or vsock:CID:PORT; of this machine alone, unless --allow-remote; may be given
    /// several times
    #[arg(long, value_name = "HOST:PORT", help_heading = "Image")]
    listen: Vec<String>,
    /// Let --listen be reached from other machines: there is no encryption and no password
    #[arg(long, help_heading = "Image")]
    allow_remote: bool,
    /// Rates that hold in the long run: rbps, wbps (bytes), riops, wiops, and rwbps, rwiops for reads and
    /// writes together; "rbps=50M riops=500"
    #[arg(long, value_name = "LIMITS", help_heading = "Image")]
    max: Option<String>,
    /// How much may go at once after a pause: "riops=50", or 50 for I/Os, or 4M for bytes
    #[arg(long, value_name = "LIMITS|AMOUNT", help_heading = "Image")]
    burst: Option<String>,
    /// The rate inside a burst: "riops=2k"
    #[arg(long, value_name = "LIMITS", help_heading = "Image")]
    peak: Option<String>,
    /// Share among siblings that wait, 1 to 10000
    #[arg(long, value_name = "N", help_heading = "Image")]
    weight: Option<String>,
    /// How limits are enforced: pace, slice, token or leaky; "slice:6.12" is what Linux 6.12 does,
    /// "slice:4.18,hz=1000,slice=20ms" sets the kernel's tick rate and slice too
    #[arg(long, value_name = "LIMITER", help_heading = "Image")]
    limiter: Option<String>,
    /// Scheduler of the device: none, clients in turns, or bfq, by weight
    #[arg(long, value_name = "NAME", help_heading = "Image")]
    scheduler: Option<String>,
    /// Settings of bfq: "slice_idle=0 low_latency=0"
    #[arg(long, value_name = "SETTINGS", help_heading = "Image")]
    bfq: Option<String>,
    /// Utilisation in percent from which on limits bind: "90", "90 mode=gate"; 0: always
    #[arg(long, value_name = "PERCENT", help_heading = "Image")]
    watermark: Option<String>,
    /// A file of `weir calibrate`: the watermark then counts the device's capacity, not its time
    #[arg(long, value_name = "FILE", help_heading = "Image")]
    model: Option<String>,
    /// Write-back cache: writes are answered from memory and written back later: none or writeback
    #[arg(long, value_name = "KIND", help_heading = "Image")]
    cache: Option<String>,
    /// How much may wait there to be written back: 256M unless said otherwise
    #[arg(long, value_name = "SIZE", help_heading = "Image")]
    cache_size: Option<String>,
    /// Refuse writes
    #[arg(long, help_heading = "Image")]
    read_only: bool,
    /// Requests that may be at the device at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Image")]
    depth: Option<u32>,
    /// Whether to go around the page cache
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "Image")]
    direct: Option<When>,
    /// Whether to drop what is not needed after the start
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "Image")]
    sandbox: Option<Whether>,
    /// How long requests under way may take at the end before they are cut: 10s unless said otherwise
    #[arg(long, value_name = "TIME", help_heading = "Image")]
    drain_time: Option<String>,
    /// Unix socket for `weir status` and `weir set`
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
    /// End, as on SIGTERM, when the last client leaves
    #[arg(long)]
    exit_last: bool,
    /// Serve the client on standard input, a socket, and end when it has gone; listen nowhere
    #[arg(long, conflicts_with_all = ["socket", "socket_mode", "listen", "allow_remote"])]
    single: bool,
    /// End, as on SIGTERM, when the program that started this one ends
    #[arg(long)]
    exit_with_parent: bool,
    #[command(flatten)]
    log: log::LogArgs,
}

/// Values of `--direct`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// Where the file system can
    Auto,
    /// Always; fails where it cannot be
    On,
    /// Never
    Off,
}

/// Values of `--sandbox`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Whether {
    /// As far as the machine can
    Auto,
    /// All of it; fails where something is missing
    On,
    /// Nothing
    Off,
}

impl From<Whether> for Sandbox {
    fn from(whether: Whether) -> Sandbox {
        match whether {
            Whether::Auto => Sandbox::Auto,
            Whether::On => Sandbox::On,
            Whether::Off => Sandbox::Off,
        }
    }
}

impl From<When> for Direct {
    fn from(when: When) -> Direct {
        match when {
            When::Auto => Direct::Auto,
            When::On => Direct::On,
            When::Off => Direct::Off,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.exit_with_parent {
        let signal = Some(rustix::process::Signal::TERM);
        rustix::process::set_parent_process_death_signal(signal)
            .map_err(|error| Failure::failed(format!("--exit-with-parent: {error}")))?;
    }
    // Before there are threads.
    let inherited = Inherited::take();
    let client = args.single.then(single::take).transpose()?;
    let log = args.log;
    let path = PathBuf::from(&args.what);
    let plan = flags::read(args);
    let configured = plan.as_ref().ok().map(|plan| plan.server());
    let format = log.start(
        configured.and_then(|server| server.log),
        configured.and_then(|server| server.log_level),
    )?;
    let served = plan.and_then(|plan| serve(plan, path, inherited?, client));
    match format {
        LogFormat::Text => served,
        // What reads the log would not understand anything else there.
        LogFormat::Json | LogFormat::Journald => served.map_err(Failure::log),
    }
}

fn serve(
    plan: flags::Plan,
    path: PathBuf,
    inherited: Inherited,
    client: Option<OwnedFd>,
) -> Result<(), Failure> {
    let is_single = client.is_some();
    if is_single && plan.server().tls == TlsMode::Required {
        let hint = "leave --single out, or say `tls = \"allowed\"`".to_owned();
        return Err(
            Failure::wrong("--single has no TLS, which the configuration requires").hint(hint)
        );
    }
    if is_single && !inherited.nbd.is_empty() {
        let hint = "leave --single out, to serve the clients of those sockets".to_owned();
        return Err(Failure::wrong("--single and sockets of LISTEN_FDS").hint(hint));
    }
    let (config, control, files) = match plan {
        flags::Plan::File(config, read) => {
            let (config, control) = with_defaults(config, "", &inherited, is_single)?;
            let files = Files::new(path, read.server, config.server.clone());
            (config, control, Some(files))
        }
        flags::Plan::Image(config, name) => {
            let (config, control) =
                with_defaults(config, &format!("{name}."), &inherited, is_single)?;
            (config, control, None)
        }
    };
    running::serve(&config, control.as_ref(), files, inherited, client)
}

/// Adds sockets where none are named or inherited, and there is no single client; the control socket's path, and whether it may
/// be moved aside.
fn with_defaults(
    mut config: Config,
    prefix: &str,
    inherited: &Inherited,
    is_single: bool,
) -> Result<(Config, Option<Control>), Failure> {
    let server = &mut config.server;
    let needs_nbd = server.socket.is_none()
        && server.listen.is_empty()
        && inherited.nbd.is_empty()
        && !is_single;
    let named = match inherited.control {
        // It has a place.
        Some(_) => Some(PathBuf::new()),
        None => server.control.clone(),
    };
    let (read, metrics) = (server.control_read.clone(), server.metrics.clone());
    let named = named.map(|path| Control {
        path,
        read: read.clone(),
        metrics: metrics.clone(),
        may_move: false,
    });
    if (named.is_some() || is_single) && !needs_nbd {
        return Ok((config, named));
    }
    let directory = runtime_dir::make()?;
    if needs_nbd {
        let name = if prefix.is_empty() { "nbd.sock".into() } else { format!("{prefix}sock") };
        server.socket = Some(directory.join(name));
    }
    let control = named.unwrap_or_else(|| Control {
        path: directory.join(format!("{prefix}{}", runtime_dir::CONTROL)),
        read,
        metrics,
        may_move: true,
    });
    Ok((config, Some(control)))
}

/// Where the control sockets are to be.
#[derive(Clone, Debug)]
struct Control {
    /// Of the one that takes changes.
    path: PathBuf,
    /// Of the one that only reads, if it is named.
    read: Option<PathBuf>,
    /// Of the one for metrics, if it is named.
    metrics: Option<PathBuf>,
    /// A default path: if another server has it, a path beside it will do. The one that only reads is beside it unless it is
    /// named; that for metrics is so in any case.
    may_move: bool,
}
