//! `weir api`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use weir_server::control::{self, Access};

use crate::failure::Failure;
use crate::output;

const OPENAPI_EXAMPLES: &str = "\
Examples:
  weir api openapi > weir-openapi.json
  weir api openapi | jq '.paths | keys'

A running server has the same at /v1/openapi.json of its control sockets.";

const TOKEN_EXAMPLES: &str = "\
Examples:
  weir api token prometheus --out prometheus.token
  weir api token panel --access change --out panel.token \\
      >> /etc/weir/weir.d/60-tokens.toml && weir reload
  weir status --control https://store.example:10810 --token-file panel.token

The token goes to --out, a new file that only its owner can read, and is kept
nowhere else. What is printed is its section of the configuration, which has the
digest only: whoever reads that cannot use it.";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the control API as OpenAPI 3.1
    #[command(after_help = OPENAPI_EXAMPLES)]
    Openapi,
    /// Make a token for the control API over TCP
    #[command(after_help = TOKEN_EXAMPLES)]
    Token {
        /// What the log calls its holder
        name: String,
        /// What its holder may do
        #[arg(long, value_name = "WHAT", default_value = "read", value_parser = ["read", "change"])]
        access: String,
        /// New file for the token
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Openapi => output::print_json(&control::openapi(), false),
        Command::Token { name, access, out } => token(name, access, out),
    }
}

fn token(name: &str, access: &str, out: &Path) -> Result<(), Failure> {
    if !weir_config::is_token_name(name) {
        return Err(Failure::wrong(format!("{name:?} is no name of a token"))
            .hint("letters, digits, `.`, `_` and `-`, 64 at most".to_owned()));
    }
    let access = Access::NAMES.into_iter().find(|(word, _)| *word == access);
    let (access, _) = access.expect("clap lets no other word in");
    let token = control::new_token()
        .map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(out)?;
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| {
        let hint = (error.kind() == std::io::ErrorKind::AlreadyExists)
            .then(|| "a token is not written over: choose another name".to_owned());
        Failure::failed(format!("{}: {error}", out.display())).hint(hint)
    })?;
    let sha256 = weir_config::hex(&control::sha256(&token));
    let quoted = if name.contains('.') { format!("{name:?}") } else { name.to_owned() };
    output::print(&format!("[token.{quoted}]\nsha256 = \"{sha256}\"\naccess = \"{access}\"\n"))
}
