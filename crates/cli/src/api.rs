//! `weir api`.

use weir_server::control;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir api openapi > weir-openapi.json
  weir api openapi | jq '.paths | keys'

A running server has the same at /v1/openapi.json of its control sockets.";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the control API as OpenAPI 3.1
    #[command(after_help = EXAMPLES)]
    Openapi,
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Openapi => output::print_json(&control::openapi(), false),
    }
}
