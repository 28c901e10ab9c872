//! Log of a server: its format, its level, and where it goes.

mod journal;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};
use weir_config::{LogFormat, LogLevel};

use self::journal::Journal;
use crate::failure::Failure;

/// Writes the log of a command that is no server to standard error, from `level` on unless `RUST_LOG` says otherwise.
pub(crate) fn to_stderr(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours would take another crate.
        .with_ansi(false)
        .with_target(false)
        // A log that cannot be written, to a full disk or a reader that is gone, is no reason to end.
        .log_internal_errors(false)
        .init();
}

/// `--log` and `--log-level`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Format of the log: text or json on standard error, or journald; a service of systemd logs to journald unless told
    /// otherwise, everything else text
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    log: Option<Format>,
    /// Least important lines to write: error, warn, info, debug or trace; RUST_LOG says it for parts of the program
    #[arg(long, value_enum, value_name = "LEVEL", hide_possible_values = true)]
    log_level: Option<Level>,
}

/// Value of `--log`.
#[derive(Clone, Copy, Debug)]
struct Format(LogFormat);

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        const ALL: [Format; 3] =
            [Format(LogFormat::Text), Format(LogFormat::Json), Format(LogFormat::Journald)];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

/// Value of `--log-level`.
#[derive(Clone, Copy, Debug)]
struct Level(LogLevel);

impl ValueEnum for Level {
    fn value_variants<'a>() -> &'a [Level] {
        const ALL: [Level; 5] = [
            Level(LogLevel::Error),
            Level(LogLevel::Warn),
            Level(LogLevel::Info),
            Level(LogLevel::Debug),
            Level(LogLevel::Trace),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl LogArgs {
    /// Starts the log of this process: as these flags say, else `RUST_LOG` for the level, else as configured. Returns the
    /// format.
    ///
    /// # Errors
    /// There is no journal.
    pub(crate) fn start(
        self,
        format: Option<LogFormat>,
        level: Option<LogLevel>,
    ) -> Result<LogFormat, Failure> {
        let format = self.log.map(|format| format.0).or(format);
        let format = format.unwrap_or_else(|| {
            if journal::is_standard_error() { LogFormat::Journald } else { LogFormat::Text }
        });
        let of_level = |level| EnvFilter::new(LogLevel::name(level));
        let filter = match self.log_level {
            Some(level) => of_level(level.0),
            None => EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| of_level(level.unwrap_or(LogLevel::Info))),
        };
        let lines = || {
            fmt::layer()
                .with_writer(std::io::stderr)
                // Colours would take another crate.
                .with_ansi(false)
                .with_target(false)
                // A log that cannot be written, to a full disk or a reader that is gone, is no reason to end.
                .log_internal_errors(false)
        };
        let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
            LogFormat::Text => lines().boxed(),
            LogFormat::Json => lines().json().flatten_event(true).boxed(),
            LogFormat::Journald => Journal::connect()
                .map_err(|error| {
                    Failure::failed(format!("--log journald: {}: {error}", journal::SOCKET)).hint(
                        "is systemd-journald running? --log text writes to standard error"
                            .to_owned(),
                    )
                })?
                .boxed(),
        };
        tracing_subscriber::registry().with(layer.with_filter(filter)).init();
        Ok(format)
    }
}
