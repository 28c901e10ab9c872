//! `weir device`.

use weir_server::control::ResizeRequest;
use weir_server::tenants::{Edit, NewSection};
use weir_units::Bytes;

use crate::client_args::{ChangeArgs, ClientArgs};
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::{Align, Table};

const ADD_EXAMPLES: &str = "\
Examples:
  weir device add disk1 /srv/disk1.img
  weir device add ssd /dev/nvme1n1 --key scheduler=bfq --key watermark=90
  weir device add scratch memory:1G --runtime

Keys are those of [device.NAME] in a configuration; the path is as the server
sees it. An export makes a device reachable: `weir export add`, which can add
both at once.
Exit status: 0 added, 1 the server did not answer, 2 refused; nothing has
changed then.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  weir device remove disk1

Its exports are removed first: `weir export remove`. What its cache holds is
written, and the device is flushed.
Exit status: 0 removed, 1 the server did not answer, 2 refused; nothing has
changed then.";

/// Values of `weir device`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Add(AddArgs),
    Remove(RemoveArgs),
    Resize(ResizeArgs),
    List(ListArgs),
}

/// Add a device
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    /// What limits and exports call it
    name: String,
    /// Image file, block device, memory:SIZE or emulated:DISK
    path: String,
    /// Another key of its section
    #[arg(long = "key", value_name = "KEY=VALUE")]
    keys: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Remove a device that has no exports
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// The device
    name: String,
    #[command(flatten)]
    change: ChangeArgs,
}

const RESIZE_EXAMPLES: &str = "\
Examples:
  truncate -s 20G /srv/disk1.img && weir device resize disk1

New connections to exports that reach to the device's end find it so; clients
that are connected keep the size that they were told, as the protocol has it.
Exit status: 0 it has grown, 1 the server did not answer, 2 refused: it has not.";

/// See that a device's file has grown
#[derive(Debug, clap::Args)]
#[command(after_help = RESIZE_EXAMPLES)]
pub(crate) struct ResizeArgs {
    /// The device
    name: String,
    #[command(flatten)]
    server: ClientArgs,
}

/// List the devices
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ClientArgs,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => {
            let edits = vec![Edit::AddDevice(section(&args.name, &args.path, &args.keys)?)];
            super::change(&args.change, edits, false)
        }
        Command::Remove(args) => {
            let edits = vec![Edit::RemoveDevice(args.name.clone())];
            super::change(&args.change, edits, false)
        }
        Command::Resize(args) => resize(args),
        Command::List(args) => list(args),
    }
}

fn resize(args: &ResizeArgs) -> Result<(), Failure> {
    let reply = args.server.client()?.resize(&ResizeRequest { device: args.name.clone() })?;
    if args.server.format == Format::Json {
        return output::print_json(&reply, false);
    }
    let [before, now] = [reply.old_size_bytes, reply.size_bytes].map(Bytes);
    let mut text = format!("{}: {before} -> {now}\n", reply.device);
    for export in &reply.exports {
        text.push_str(&format!("~ export {}\n", super::export::shown(export)));
    }
    output::print(&text)
}

/// A device's section.
///
/// # Errors
/// One of `keys` is no `KEY=VALUE`.
pub(super) fn section(name: &str, path: &str, keys: &[String]) -> Result<NewSection, Failure> {
    let mut table = toml::Table::new();
    // Sockets and images are the server's, wherever this command runs.
    let path = match std::path::Path::new(path).is_relative() && std::path::Path::new(path).exists()
    {
        true => std::path::absolute(path).map_or(path.into(), |path| path.display().to_string()),
        false => path.to_owned(),
    };
    table.insert("path".into(), path.into());
    for pair in keys {
        let Some((key, value)) = pair.split_once('=') else {
            let hint = "write it as in a configuration: scheduler=bfq".to_owned();
            return Err(Failure::wrong(format!("--key {pair:?} is no KEY=VALUE")).hint(hint));
        };
        table.insert(key.trim().into(), value_of(value.trim()));
    }
    Ok(NewSection { name: name.into(), keys: table })
}

/// `true` and `false`, numbers, and text.
pub(super) fn value_of(text: &str) -> toml::Value {
    match (text.parse::<bool>(), text.parse::<i64>()) {
        (Ok(switch), _) => switch.into(),
        (_, Ok(number)) => number.into(),
        _ => text.into(),
    }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let reply = args.server.reader()?.devices()?;
    if args.server.format == Format::Json {
        return output::print_json(&reply, false);
    }
    let mut table = Table::new(&["DEVICE", "SIZE", "ACCESS", "PATH", "EXPORTS"]);
    for device in &reply.devices {
        table.row([
            device.device.clone(),
            Bytes(device.size_bytes).rounded().to_string(),
            if device.read_only { "ro" } else { "rw" }.into(),
            device.path.clone(),
            device
                .exports
                .iter()
                .map(|name| super::export::shown(name))
                .collect::<Vec<_>>()
                .join(" "),
        ]);
    }
    let lines = table.lines(&[Align::Left, Align::Right]);
    output::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}
