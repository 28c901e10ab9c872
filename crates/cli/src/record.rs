//! `weir record`.

use weir_server::control::RecordRequest;
use weir_server::status::RecordingStatus;
use weir_units::Bytes;

use crate::client_args::ClientArgs;
use crate::failure::Failure;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  weir record status
  weir record stop
  weir lab replay /var/lib/weir/recording --as-recorded

The server's configuration says where, and how much is kept:

  [record]
  directory = \"/var/lib/weir/recording\"
  size = \"10G\"

Then it records from its start on; with `start = false` it waits for
`weir record start`. Only a recording from the start can be replayed exactly.
Exit status: 0 done, 1 the server did not answer, 2 refused.";

/// Subcommands of `weir record`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Begin: what comes from now on is recorded
    #[command(after_help = EXAMPLES)]
    Start(ClientArgs),
    /// End, and close the files
    #[command(after_help = EXAMPLES)]
    Stop(ClientArgs),
    /// How the recording is: files, bytes, requests, what was dropped
    #[command(after_help = EXAMPLES)]
    Status(ClientArgs),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    let (args, reply) = match command {
        Command::Start(args) => (args, args.client()?.record(RecordRequest { on: true })?),
        Command::Stop(args) => (args, args.client()?.record(RecordRequest { on: false })?),
        Command::Status(args) => (args, args.reader()?.recording()?),
    };
    match args.format {
        Format::Json => output::print_json(&reply, false),
        Format::Table => output::print(&text(&reply.recording)),
    }
}

fn text(status: &RecordingStatus) -> String {
    let RecordingStatus { on, directory, files, bytes, bytes_max, requests, .. } = status;
    let word = if *on { "on" } else { "off" };
    let (bytes, bytes_max) = (Bytes(*bytes), Bytes(*bytes_max));
    let mut text = format!(
        "recording: {word}\ndirectory: {directory}\nclosed files: {files}, {bytes} of {bytes_max}\n\
         requests: {requests}\n"
    );
    for (count, what) in [
        (status.dropped, "dropped: entries that found no room in memory"),
        (status.lost, "lost: entries of files that could not be written"),
    ] {
        if count > 0 {
            text.push_str(&format!("{what}: {count}\n"));
        }
    }
    if let Some(error) = &status.error {
        text.push_str(&format!("error: {error}\n"));
    }
    text
}
