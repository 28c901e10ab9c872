//! Flags of commands for a running server: its socket, and the output format.

use std::path::PathBuf;

use weir_server::control::Client;

use crate::failure::Failure;
use crate::{output, runtime_dir};

#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Control socket of the server, where several run
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: output::Format,
}

impl ClientArgs {
    /// The named server, or the only running one; no connection is made.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&runtime_dir::find_control(self.control.as_deref())?))
    }
}
