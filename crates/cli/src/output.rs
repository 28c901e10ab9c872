//! Output that all printing commands share.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use weir_server::control::DoneReply;

use crate::failure::Failure;

/// What to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs; names are stable and carry their units
    Json,
}

/// Writes `text` to standard output, all of it or an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes a line to standard error; failures are ignored, as there is nowhere to report them.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints `value` as JSON: on one line, or laid out for reading.
pub(crate) fn print_json(value: &impl serde::Serialize, one_line: bool) -> Result<(), Failure> {
    let text = match one_line {
        true => serde_json::to_string(value),
        false => serde_json::to_string_pretty(value),
    };
    let text = text.map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(&(text + "\n"))
}

/// Prints a line for each device that was changed.
pub(crate) fn print_done(reply: &DoneReply, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => print_json(reply, false),
        Format::Table => {
            print(&reply.devices.iter().map(|device| format!("{device}\n")).collect::<String>())
        }
    }
}

/// Columns of the terminal; of a wide page where there is none.
pub(crate) fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map(|size| size.ws_col);
    columns.ok().filter(|&columns| columns > 0).map_or(140, usize::from)
}

/// Rows of the terminal, where there is one.
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|&rows| rows > 0)
}

/// Whether `stream` understands escape sequences.
pub(crate) fn is_screen(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether `stream` gets colours: a terminal without `NO_COLOR` (no-color.org).
pub(crate) fn colours_on(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_screen(stream) && !refused
}
