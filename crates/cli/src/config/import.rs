//! `weir config import`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use weir_import::{Format, Source, TEXT_MAX, import};

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  virsh dumpxml vm1 | weir config import -
  weir config import /etc/systemd/system/backup.service
  systemctl show '*.service' | weir config import -
  echo 'docker run --device-read-bps /dev/sda:10mb x' | weir config import -
  weir config import compose.yaml > weir.toml
  grep -r . /sys/fs/cgroup --include=io.max | weir config import -

What is printed is a configuration: a device for each disk that is named, a
cgroup with limits and weights for each tenant, and an export for each of its
devices. Units are those of the program that wrote the text (10M is 10,000,000
for systemd, 10m is 10,485,760 for Docker). What has no equivalent, or another
meaning, is told in comments: read them. Nothing is opened, started or changed.
Exit status: 0 printed, 2 the text is wrong, or there is nothing to import.";

/// Print limits of libvirt, systemd, Docker or cgroup v2 as a configuration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file, or `-` for standard input
    file: PathBuf,
    /// Format of the text; by default a guess
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Origin>,
    /// Path of the cgroup, where the text names none
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

/// [`Format`] on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Origin {
    /// Domain XML: `<iotune>` of disks, and `<blkiotune>`
    Libvirt,
    /// Units, drop-ins, and what systemctl show and systemctl cat print
    Systemd,
    /// Command lines of docker run, also of Podman
    Docker,
    /// Compose files: blkio_config
    Compose,
    /// Lines of io.max and io.weight, also as grep prints them
    Cgroup,
}

impl Origin {
    fn format(self) -> Format {
        match self {
            Origin::Libvirt => Format::Libvirt,
            Origin::Systemd => Format::Systemd,
            Origin::Docker => Format::Docker,
            Origin::Compose => Format::Compose,
            Origin::Cgroup => Format::Cgroup,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let is_stdin = args.file == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { args.file.display().to_string() };
    let text = read(&args.file, is_stdin)
        .map_err(|error| Failure::wrong(format!("cannot read {name}: {error}")))?;
    let file = args.file.to_str().filter(|_| !is_stdin);
    let format = args.from.map(Origin::format).or_else(|| Format::guess(&text, file));
    let Some(format) = format else {
        let hint = "--from names its format: libvirt, systemd, docker, compose or cgroup";
        return Err(Failure::wrong(format!("{name}: unknown format")).hint(hint.to_owned()));
    };
    let printed = import(format, &text, Source { file, cgroup: args.cgroup.as_deref() });
    let printed = printed
        .map_err(|error| Failure::wrong(format!("{name}:{error}")).hint(error.kind.hint()))?;
    output::print(&printed)
}

/// The text, or as much of it as is known to be too much.
fn read(path: &Path, is_stdin: bool) -> io::Result<String> {
    let most = TEXT_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if is_stdin {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    // A character that is cut in two is beyond what is allowed; any other is shown as what it is not.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
