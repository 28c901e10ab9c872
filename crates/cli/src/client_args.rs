//! Flags of commands for a running server: where it is reached, and the output format.

use std::path::{Path, PathBuf};

use weir_server::control::{Client, Remote, RemoteError};

use crate::failure::Failure;
use crate::find_server::{self, Purpose, Server};
use crate::output;

/// Environment variable with the path of a file that has a token.
const TOKEN_VARIABLE: &str = "WEIR_TOKEN_FILE";
/// Environment variable with the path of certificates of authorities.
const CA_VARIABLE: &str = "WEIR_CA";

/// Flags that say where a running server is.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Control socket of the server, where several run, or https://HOST:PORT; else what WEIR_CONTROL says
    #[arg(long, value_name = "PATH|URL")]
    control: Option<PathBuf>,
    /// File with the token for a server that is named by https://; else what WEIR_TOKEN_FILE says
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates of the authorities, in PEM, of which one vouches for it; else what WEIR_CA says, else the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Configuration of the server, which names its control socket
    #[arg(long, value_name = "CONFIG.toml", conflicts_with = "control")]
    config: Option<PathBuf>,
}

/// The same, and the output format.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: output::Format,
}

impl ClientArgs {
    /// The named server, or the only running one, to be changed; no connection is made.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        self.server.find(Purpose::Change)
    }

    /// The same, to be read only: its reading socket will do.
    pub(crate) fn reader(&self) -> Result<Client, Failure> {
        self.server.reader()
    }
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

impl ServerArgs {
    /// The named server, or the only running one: a socket that takes changes if one answers, else one that only reads.
    pub(crate) fn reader(&self) -> Result<Client, Failure> {
        self.find(Purpose::Read)
    }

    fn find(&self, purpose: Purpose) -> Result<Client, Failure> {
        if let Some(url) = self.url() {
            return self.remote(&url);
        }
        for (flag, given) in [("--token-file", &self.token_file), ("--ca", &self.ca)] {
            if given.is_some() {
                let hint = "a Unix socket needs neither token nor certificate".to_owned();
                let message =
                    format!("{flag} is for a server that --control names as https://HOST:PORT");
                return Err(Failure::wrong(message).hint(hint));
            }
        }
        let server = Server { control: self.control.clone(), config: self.config.clone() };
        Ok(Client::new(&server.find(purpose)?))
    }

    /// The address, where one is named instead of a socket.
    fn url(&self) -> Option<String> {
        let named = match (&self.control, &self.config) {
            (None, None) => find_server::from_environment()?,
            (control, _) => control.clone()?,
        };
        let text = named.to_str()?;
        text.contains("://").then(|| text.to_owned())
    }

    fn remote(&self, url: &str) -> Result<Client, Failure> {
        let from = |variable| std::env::var_os(variable).filter(|path| !path.is_empty());
        let token = self.token_file.clone().or_else(|| from(TOKEN_VARIABLE).map(PathBuf::from));
        let token = token.ok_or_else(|| {
            Failure::wrong(format!("{url} needs a token"))
                .hint(format!("--token-file or {TOKEN_VARIABLE} names a file that has it"))
        })?;
        let ca = self.ca.clone().or_else(|| from(CA_VARIABLE).map(PathBuf::from));
        let remote = Remote::new(url, ca.as_deref(), Path::new(&token));
        remote.map(Client::remote).map_err(|error| match &error {
            RemoteError::Url(_) => {
                Failure::wrong(&error).hint("for example https://store.example:10810".to_owned())
            }
            RemoteError::File { .. } => Failure::wrong(&error),
        })
    }
}
