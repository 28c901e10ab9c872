//! `weir explain`.

mod advice;
mod command;
mod finding;
mod reading;
#[cfg(test)]
mod tests;
mod what_if;
mod words;

use std::time::Duration;

use serde::Serialize;
use weir_server::status::Status;

use self::advice::Advice;
pub(crate) use self::finding::Finding;
use self::reading::{Held, Neighbour, NotThere, Reading};
use self::what_if::Simulation;
use crate::client_args::ClientArgs;
use crate::failure::Failure;
use crate::output::Format;
use crate::{clock, output};

const EXAMPLES: &str = "\
Examples:
  weir explain /vms/db
  weir explain db --interval 10s
  weir explain /vms/db --format json | jq -r .finding

Two readings of the status, --interval apart, are compared. The first sentence
is the finding: what holds the requests most, and how much. Then: what the rest
of their time went to, whose limit it is and on which cgroup, which neighbours
used the device meanwhile, and a command that changes it. Percentiles are of the
last 5 to 10 seconds. It also says when nothing is wrong, and when the cause is
outside Weir: the client, the way to it, or the device.

Where the server records, each command comes with the p99 that it would have
given the last recorded minute: the same requests in virtual time, at most
500000 of them, in a second or a few. Ctrl-C ends that like everything else.

JSON has `finding`, a stable word, with `sentences`, `held`, `neighbours`,
`advice` and `simulation`.

Exit status: 0 explained, 1 no answer, 2 wrong usage, or not there.";

/// Say in plain sentences what holds a cgroup or an export, and what would change that
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A cgroup, such as /vm1, or the name of an export
    #[arg(value_name = "CGROUP|EXPORT")]
    what: String,
    #[command(flatten)]
    server: ClientArgs,
    /// Time between the two readings
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::status::interval)]
    interval: Duration,
    /// Do not try what is proposed on the last recorded minute
    #[arg(long)]
    no_what_if: bool,
}

/// What holds a cgroup or an export, by two readings of the status.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Explanation {
    finding: Finding,
    /// What was asked for.
    what: String,
    cgroup: String,
    device: String,
    interval_ns: u64,
    /// Requests that the device completed meanwhile.
    completed_ios: u64,
    /// Requests inside at once, on average: their summed times over the interval.
    inside_mean: f64,
    /// The first one is the finding in words.
    sentences: Vec<String>,
    /// What requests waited for, the longest first.
    held: Vec<Held>,
    /// By what they did meanwhile, the busiest first.
    neighbours: Vec<Neighbour>,
    advice: Vec<Advice>,
    /// What the figures of the advice come from; none where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<Simulation>,
    /// Why there are no figures, where there could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_simulation: Option<String>,
    /// Whether percentiles are of reads.
    #[serde(skip)]
    reads_most: bool,
}

impl Explanation {
    /// Of `what`, a path or the name of an export.
    pub(crate) fn of(before: &Status, after: &Status, what: &str) -> Result<Explanation, NotThere> {
        let reading = Reading::of(before, after, what)?;
        let finding = Finding::of(&reading);
        Ok(Explanation {
            finding,
            what: what.to_owned(),
            cgroup: reading.new.cgroup.clone(),
            device: reading.after.device.clone(),
            interval_ns: reading.interval_ns(),
            completed_ios: reading.completed(),
            inside_mean: reading.inside_mean(),
            sentences: words::sentences(&reading, finding),
            neighbours: reading.neighbours(finding),
            advice: advice::of(&reading, finding),
            simulation: None,
            no_simulation: None,
            reads_most: reading.reads_most(),
            held: reading.held,
        })
    }

    fn text(&self) -> String {
        let mut text: String = self.sentences.iter().map(|line| format!("{line}\n")).collect();
        for Advice { command, effect, what_if, setting } in &self.advice {
            text.push_str(&format!("\n{effect}\n"));
            if let Some(command) = command {
                text.push_str(&format!("  {command}\n"));
            }
            if let (Some(figure), Some(setting), Some(simulation)) =
                (what_if, setting, &self.simulation)
            {
                text.push_str(&format!("  {}\n", figure.sentence(setting, simulation)));
            }
        }
        if let Some(simulation) = &self.simulation {
            text.push_str(&format!("\n{}\n", simulation.sentence()));
        }
        if let Some(reason) = &self.no_simulation {
            text.push_str(&format!("\nNot simulated: {reason}.\n"));
        }
        text
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.server.reader()?;
    let before = client.status()?;
    clock::sleep(args.interval);
    let after = client.status()?;
    let mut explanation = Explanation::of(&before, &after, &args.what).map_err(|error| {
        let hint =
            "a cgroup begins with /; `weir status` shows cgroups, `weir export list` exports";
        Failure::wrong(error).hint(hint.to_owned())
    })?;
    if !args.no_what_if {
        what_if::add(&mut explanation, &after, &client.place());
    }
    match args.server.format {
        Format::Json => output::print_json(&explanation, false),
        Format::Table => output::print(&explanation.text()),
    }
}
