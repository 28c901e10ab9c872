//! `weir lab replay`: a server's recording, replayed as it was.

use std::path::PathBuf;

use serde_json::json;
use weir_recording::{Recording, ReplayError, Replayed, replay_as_recorded};
use weir_units::Nanos;

use crate::failure::Failure;
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  weir lab replay /var/lib/weir/recording --as-recorded
  weir lab replay /var/lib/weir/recording --as-recorded --device disk0

The same inputs go to an engine at the same instants, and each of its decisions,
which request goes to the device next and when, is compared with the recorded
one. That needs all of a recording from the start of the server.

Exit status: 0 all the same, 1 a decision differs, 2 it cannot be replayed.";

/// Replay a server's recording
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file of a recording, or a directory of them
    #[arg(value_name = "FILE|DIR")]
    from: PathBuf,
    /// The same inputs at the same instants: each decision is compared
    #[arg(long, required = true)]
    as_recorded: bool,
    /// Of several recorded devices this one
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    debug_assert!(args.as_recorded, "clap asks for it");
    let recording = Recording::open(&args.from, args.device.as_deref())
        .map_err(|error| Failure::wrong(error.to_string()))?;
    let replayed = match replay_as_recorded(&recording) {
        Ok(replayed) => replayed,
        Err(error @ ReplayError::NotFromStart(_)) => {
            let hint = "the same arrivals can still be tried, with new decisions: \
                        weir lab run --from, with settings";
            return Err(Failure::wrong(format!("not exactly: {error}")).hint(hint.to_owned()));
        }
        Err(error) => return Err(Failure::wrong(error.to_string())),
    };
    match args.format {
        Format::Json => output::print_json(&record(&recording, &replayed), false)?,
        Format::Table => output::print(&text(&recording, &replayed))?,
    }
    match &replayed.divergence {
        None => Ok(()),
        Some(divergence) => Err(Failure::failed(format!("first difference: {divergence}"))),
    }
}

fn text(recording: &Recording, replayed: &Replayed) -> String {
    let Replayed { inputs, requests, dispatches, left_inside, duration_ns, divergence } = replayed;
    let device = &recording.header().device;
    let (files, duration) = (recording.files(), Nanos(*duration_ns));
    let verdict = match divergence {
        None => format!("the same decisions, one for one: {dispatches} of {dispatches}"),
        Some(_) => format!("the same decisions up to number {dispatches}, and then another one"),
    };
    format!(
        "{verdict}\ndevice {device}: files {files}, time {duration}, inputs {inputs}, requests {requests}, inside at \
         the end {left_inside}\n"
    )
}

fn record(recording: &Recording, replayed: &Replayed) -> serde_json::Value {
    json!({
        "device": recording.header().device,
        "files": recording.files(),
        "exact": replayed.divergence.is_none(),
        "inputs": replayed.inputs,
        "requests": replayed.requests,
        "dispatches": replayed.dispatches,
        "left_inside": replayed.left_inside,
        "duration_ns": replayed.duration_ns,
        "divergence": replayed.divergence.as_ref().map(ToString::to_string),
    })
}
