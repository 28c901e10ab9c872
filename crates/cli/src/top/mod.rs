//! `weir top`.

mod draw;
mod figures;
mod history;
mod input;
mod keys;
mod layout;
mod list;
mod preview;
mod reading;
mod state;
mod terminal;
mod theme;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use weir_server::control::Client;

use self::reading::Reading;
use self::state::{Event, Options, State};
use crate::client_args::ServerArgs;
use crate::failure::Failure;
use crate::status::{Selection, SortKey, document, interval};
use crate::{clock, output};

const EXAMPLES: &str = "\
Examples:
  weir top
  weir top --sort p99 --interval 5s
  weir top --once --top 5
  weir top --json | jq '.devices[].cgroups[:3][] | {cgroup, rates}'
  weir top --control https://store.example:10810 --token-file panel.token

At the top each device: utilisation, requests in flight and waiting, its
watermark and what that multiplies limits by. Below, the cgroups of the chosen
device as a tree, the busiest siblings first, or by --sort: share, read, write,
iops, held, p99 or path. They have rates, the fullest limit and how much of it
is used, latency, and what requests waited for longest. `x` lists exports
instead: connections, requests inside, rates, latencies of reads and writes.

Keys: arrows choose and fold, s sorts, / filters, space freezes, Tab chooses the
device, e changes limits, w a weight, ? explains all of it, q quits. A change is
made when Enter is pressed, after it was said what it will do; it needs a socket
or a token that takes changes.

Without a terminal, or where TERM is dumb, pictures follow each other as text;
NO_COLOR turns colours off. JSON is that of `weir status`, the busiest first.

Exit status: 0 ended, 1 no answer, 2 wrong usage.";

/// Watch a running server live: devices and cgroups, the busiest first; change limits in place
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// What siblings are ordered by
    #[arg(long, value_name = "KEY", value_enum, default_value_t, hide_possible_values = true)]
    sort: SortKey,
    /// Print one picture as text
    #[arg(long)]
    once: bool,
    /// Print each reading as JSON, on a line
    #[arg(long)]
    json: bool,
    /// Most cgroups of a device in what is printed [default: 20 as text, all as JSON]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Take clicks and the wheel, which the terminal has otherwise
    #[arg(long)]
    mouse: bool,
    /// Changes are forgotten when the configuration is read again, or the server ends
    #[arg(long)]
    runtime: bool,
}

/// Cgroups in a printed picture, if nothing is said.
const TOP: usize = 20;
/// Columns of a printed picture without a terminal.
const WIDTH: usize = 80;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = args.server.reader()?;
    let has_screen = output::is_screen(&stdout()) && stdin().is_terminal();
    match args.once || args.json || !has_screen {
        true => print(args, &client),
        false => {
            let options = args.options(output::colours_on(&stdout()));
            terminal::run(client, options, args.interval, args.mouse)
        }
    }
}

impl Args {
    fn options(&self, coloured: bool) -> Options {
        Options { sort: self.sort, coloured, runtime: self.runtime }
    }
}

/// Pictures, or JSON, one after another.
fn print(args: &Args, client: &Client) -> Result<(), Failure> {
    let selection = Selection { sort: args.sort, most: args.top };
    let width = if stdout().is_terminal() { output::width() } else { WIDTH };
    let mut state = State::new(args.options(false), (width as u16, 0));
    let mut before = client.status()?;
    loop {
        clock::sleep(args.interval);
        let after = client.status()?;
        if args.json {
            output::print_json(&document(&before, &after, &selection)?, !args.once)?;
        } else {
            state.handle(Event::Read(Box::new(Reading::between(&before, after.clone()))));
            let gap = if args.once { "" } else { "\n" };
            let text = draw::text(&state, width, args.top.unwrap_or(TOP));
            output::print(&format!("{text}{gap}"))?;
        }
        if args.once {
            return Ok(());
        }
        before = after;
    }
}
