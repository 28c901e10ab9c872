//! Failure of a subcommand: message, hint and exit status.

use std::io;
use std::process::ExitCode;

use weir_config::ConfigErrors;
use weir_server::control::ClientError;

use crate::output;

/// Why a subcommand ends early. The kind decides the exit status.
#[derive(Debug)]
pub(crate) enum Failure {
    /// 1: it could not be done.
    Failed(Words),
    /// 2: wrong usage.
    Wrong(Words),
    /// 2: the configuration makes no sense.
    Config(ConfigErrors),
    /// Standard output is gone, as with `weir status | head -1`; no failure if its reader had enough.
    Output(io::Error),
    /// 128 and the signal's number: a signal ended it.
    Signal(u8),
    /// The exit status only, without a message.
    Said(u8),
}

/// The error and a hint.
#[derive(Debug)]
pub(crate) struct Words {
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn failed(message: impl ToString) -> Failure {
        Failure::Failed(Words { message: message.to_string(), hint: None })
    }

    pub(crate) fn wrong(message: impl ToString) -> Failure {
        Failure::Wrong(Words { message: message.to_string(), hint: None })
    }

    pub(crate) fn hint(mut self, text: impl Into<Option<String>>) -> Failure {
        if let Failure::Failed(words) | Failure::Wrong(words) = &mut self {
            words.hint = text.into();
        }
        self
    }

    /// Prints it on standard error; returns the exit status.
    pub(crate) fn tell(self) -> ExitCode {
        let coloured = output::colours_on(&io::stderr());
        let (red, cyan, plain) =
            if coloured { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
        let say = |words: Words| {
            output::tell(&format!("{red}error{plain}: {}", words.message));
            if let Some(hint) = words.hint {
                output::tell(&format!("{cyan}help{plain}: {hint}"));
            }
        };
        match self {
            Failure::Failed(words) => {
                say(words);
                ExitCode::from(1)
            }
            Failure::Wrong(words) => {
                say(words);
                ExitCode::from(2)
            }
            Failure::Config(errors) => {
                output::tell(&errors.render(coloured));
                ExitCode::from(2)
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Failure::Output(error) => {
                say(Words { message: format!("standard output: {error}"), hint: None });
                ExitCode::from(1)
            }
            Failure::Signal(number) => ExitCode::from(128 + number),
            Failure::Said(status) => ExitCode::from(status),
        }
    }
}

impl Failure {
    /// Writes it to the log instead; what is left is the exit status.
    pub(crate) fn log(self) -> Failure {
        match &self {
            Failure::Failed(words) | Failure::Wrong(words) => {
                let Words { message, hint } = words;
                tracing::error!(hint, "{message}");
            }
            Failure::Config(errors) => {
                for error in errors.errors() {
                    tracing::error!("{error}");
                }
                let errors = errors.errors().len() + errors.more();
                tracing::error!(errors, "configuration refused");
            }
            Failure::Output(_) | Failure::Signal(_) | Failure::Said(_) => return self,
        }
        Failure::Said(if matches!(self, Failure::Failed(_)) { 1 } else { 2 })
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused { status: 401, refusal } => Failure::wrong(&refusal.message).hint(
                "--token-file names a file with the token of a [token.NAME] of the server"
                    .to_owned(),
            ),
            // 429 is over by itself after a while, as a device that does not answer may be.
            ClientError::Refused { status: 400..=428, refusal } => {
                Failure::wrong(&refusal.message).hint(refusal.hint)
            }
            ClientError::Refused { refusal, .. } => {
                Failure::failed(&refusal.message).hint(refusal.hint)
            }
            ClientError::Connect { ref source, .. } => {
                let hint = match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "it is for other users: `control_mode` and `control_group` of [server] say which, and `control_read` is for reading"
                    }
                    _ => {
                        "is the server running? `weir serve` starts one, --control names its socket"
                    }
                };
                Failure::failed(&error).hint(hint.to_owned())
            }
            ClientError::Broken { .. } | ClientError::Strange { .. } => Failure::failed(&error),
        }
    }
}
