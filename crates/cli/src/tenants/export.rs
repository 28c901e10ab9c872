//! `weir export`.

use weir_server::tenants::{Edit, NewSection};
use weir_units::Bytes;

use crate::client_args::{ChangeArgs, ClientArgs};
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::{Align, Table};

const ADD_EXAMPLES: &str = "\
Examples:
  weir export add vm2 --device disk0 --range 10G..20G --cgroup /vm2
  weir export add vm3 --image /srv/vm3.img --cgroup /vm3 --create --max riops=500
  weir export add iso --image /srv/debian.iso --read-only --runtime

With --image a device of the export's name is added with it, with --create its
cgroup: all or none. Clients that are connected do not notice.
Exit status: 0 added, 1 the server did not answer, 2 refused; nothing has
changed then.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  weir export remove vm2
  weir export remove vm3 --with-device --with-cgroup --force

An export that has connections is removed with --force only: they are closed,
and requests that have not been answered are not.
Exit status: 0 removed, 1 the server did not answer, 2 refused; nothing has
changed then.";

/// Values of `weir export`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Add(Box<AddArgs>),
    Remove(RemoveArgs),
    List(ListArgs),
}

/// Add an export
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    /// The name that clients ask for
    name: String,
    /// Its device
    #[arg(long, required_unless_present = "image", conflicts_with = "image")]
    device: Option<String>,
    /// An image to be added as a device of the same name
    #[arg(long, value_name = "PATH")]
    image: Option<String>,
    /// The cgroup of its connections
    #[arg(long, default_value = "/")]
    cgroup: String,
    /// Make the cgroup, too
    #[arg(long)]
    create: bool,
    /// Limits of the cgroup on this device: "rbps=50M riops=500"
    #[arg(long, value_name = "LIMITS")]
    max: Option<String>,
    /// Share of the cgroup among its siblings that wait, 1 to 10000
    #[arg(long, value_name = "N")]
    weight: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// The part of the device that is served: "1G..3G"
    #[arg(long, value_name = "START..END")]
    range: Option<String>,
    /// Shown to clients that list exports
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Connections that it may have
    #[arg(long, value_name = "N")]
    max_connections: Option<u32>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Remove an export
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveArgs {
    /// The export
    name: String,
    /// Close its connections
    #[arg(long)]
    force: bool,
    /// Remove its device, too
    #[arg(long)]
    with_device: bool,
    /// Remove its cgroup, too
    #[arg(long)]
    with_cgroup: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// List the exports and how to reach them
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ClientArgs,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => super::change(&args.change, additions(args)?, false),
        Command::Remove(args) => super::change(&args.change, removals(args)?, args.force),
        Command::List(args) => list(args),
    }
}

fn additions(args: &AddArgs) -> Result<Vec<Edit>, Failure> {
    let mut edits = Vec::new();
    let device = args.device.as_ref().unwrap_or(&args.name);
    if let Some(image) = &args.image {
        edits.push(Edit::AddDevice(super::device::section(&args.name, image, &[])?));
    }
    if args.create {
        let (name, keys) = (args.cgroup.clone(), toml::Table::new());
        edits.push(Edit::AddCgroup(NewSection { name, keys }));
    }
    let set = |device: Option<&String>, key: &str, value: &String| Edit::Set {
        cgroup: args.cgroup.clone(),
        device: device.cloned(),
        key: key.into(),
        value: value.clone(),
    };
    edits.extend(args.max.as_ref().map(|max| set(Some(device), "io.max", max)));
    edits.extend(args.weight.as_ref().map(|weight| set(None, "io.weight", weight)));
    let mut keys = toml::Table::new();
    let mut say = |key: &str, value: toml::Value| drop(keys.insert(key.into(), value));
    say("device", device.clone().into());
    say("cgroup", args.cgroup.clone().into());
    if args.read_only {
        say("read_only", true.into());
    }
    for (key, value) in [("range", &args.range), ("description", &args.description)] {
        if let Some(value) = value {
            say(key, value.clone().into());
        }
    }
    if let Some(max) = args.max_connections {
        say("max_connections", i64::from(max).into());
    }
    edits.push(Edit::AddExport(NewSection { name: args.name.clone(), keys }));
    Ok(edits)
}

fn removals(args: &RemoveArgs) -> Result<Vec<Edit>, Failure> {
    let mut edits = vec![Edit::RemoveExport(args.name.clone())];
    if args.with_device || args.with_cgroup {
        let reply = args.change.server.reader()?.exports()?;
        let Some(export) = reply.exports.into_iter().find(|export| export.export == args.name)
        else {
            return Err(Failure::wrong(format!("there is no export {:?}", args.name)));
        };
        if args.with_cgroup {
            edits.push(Edit::RemoveCgroup(export.cgroup));
        }
        if args.with_device {
            edits.push(Edit::RemoveDevice(export.device));
        }
    }
    Ok(edits)
}

/// The default export has no name.
pub(super) fn shown(name: &str) -> String {
    if name.is_empty() { "\"\"".into() } else { name.into() }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let reply = args.server.reader()?.exports()?;
    if args.server.format == Format::Json {
        return output::print_json(&reply, false);
    }
    let head = ["EXPORT", "SIZE", "ACCESS", "DEVICE", "CGROUP", "CONNECTIONS", "URI"];
    let mut table = Table::new(&head);
    for export in &reply.exports {
        table.row([
            shown(&export.export),
            Bytes(export.size_bytes).rounded().to_string(),
            if export.read_only { "ro" } else { "rw" }.into(),
            export.device.clone(),
            export.cgroup.clone(),
            export.connections.to_string(),
            export.uris.first().cloned().unwrap_or_default(),
        ]);
    }
    let align = [Align::Left, Align::Right, Align::Left, Align::Left, Align::Left, Align::Right];
    let lines = table.lines(&align);
    output::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}
