//! Flags of commands for a running server: its socket, and the output format.

use std::path::PathBuf;

use weir_server::control::Client;

use crate::failure::Failure;
use crate::find_server::{Purpose, Server};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Control socket of the server, where several run; else the one in WEIR_CONTROL
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Configuration of the server, which names its control socket
    #[arg(long, value_name = "CONFIG.toml", conflicts_with = "control")]
    config: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: output::Format,
}

/// Flags of commands that change something.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Forget it when the configuration is read again, or the server ends; else it is kept in weir.d
    #[arg(long)]
    pub(crate) runtime: bool,
    #[command(flatten)]
    pub(crate) server: ClientArgs,
}

impl ClientArgs {
    /// The named server, or the only running one, to be changed; no connection is made.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.find(Purpose::Change)
    }

    /// The same, to be read only: its reading socket will do.
    pub(crate) fn reader(&self) -> Result<Client, Failure> {
        self.find(Purpose::Read)
    }

    fn find(&self, purpose: Purpose) -> Result<Client, Failure> {
        let server = Server { control: self.control.clone(), config: self.config.clone() };
        Ok(Client::new(&server.find(purpose)?))
    }
}
