//! Commands that change what a running server serves.

pub(crate) mod device;
pub(crate) mod export;
pub(crate) mod reload;

use weir_server::Changes;
use weir_server::control::{ChangeReply, ChangeRequest};
use weir_server::tenants::Edit;

use crate::client_args::ChangeArgs;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Makes `edits` and prints what has changed.
fn change(args: &ChangeArgs, edits: Vec<Edit>, force: bool) -> Result<(), Failure> {
    let request = ChangeRequest { edits, runtime: args.runtime, force };
    print(&args.server.client()?.change(&request)?, args.server.format)
}

/// Prints what has changed; warnings go to standard error.
fn print(reply: &ChangeReply, format: Format) -> Result<(), Failure> {
    print_as(reply, format, &lists(&reply.changes))
}

/// The same, as `text` where that is not to be JSON.
fn print_as(reply: &ChangeReply, format: Format, text: &str) -> Result<(), Failure> {
    for warning in &reply.changes.warnings {
        output::tell(&format!("warning: {warning}"));
    }
    match format {
        Format::Json => output::print_json(reply, false),
        Format::Table => output::print(text),
    }
}

fn lists(changes: &Changes) -> String {
    let lists = [
        ("+ device", &changes.devices_added),
        ("- device", &changes.devices_removed),
        ("+ export", &changes.exports_added),
        ("~ export", &changes.exports_changed),
        ("- export", &changes.exports_removed),
        ("needs a restart:", &changes.needs_restart),
    ];
    let mut text = String::new();
    for (done, names) in lists {
        names.iter().for_each(|name| text.push_str(&format!("{done} {name}\n")));
    }
    match changes.settings {
        0 if text.is_empty() => text.push_str("nothing has changed\n"),
        0 => {}
        1 => text.push_str("1 setting changed\n"),
        count => text.push_str(&format!("{count} settings changed\n")),
    }
    text
}
