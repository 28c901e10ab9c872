//! Changes of a running server that may be kept: its configuration's files, and what was changed beside them.
//!
//! ```text
//!  files (weir.toml, weir.d) ─► + edit, in memory ─► + changes that are not kept ─► Running::apply ─► write weir.d
//! ```
//!
//! A change is refused while the files say more than what runs: it would make that run, too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use weir_config::{
    Config, ConfigErrors, Difference, Kept, KeptError, KeptErrorKind, ServerConfig, difference,
};

use crate::change::{ApplyError, Changes};
use crate::serve::Running;
use crate::tls::CertificateFiles;

/// A server and the files of its configuration, if it has any.
#[derive(Debug)]
pub struct Tenants {
    running: Arc<Running>,
    files: Option<Files>,
    /// Made since the files were read, and not in them.
    beside: Mutex<Vec<Edit>>,
    on_reload: Option<fn(Reload<'_>)>,
}

/// What is told of a reload, by signal or by a program.
#[derive(Clone, Copy, Debug)]
pub enum Reload<'c> {
    /// The files are about to be read.
    Begins,
    /// What they say has been applied or refused: this runs now.
    Ends(&'c Config),
}

/// The configuration's files, and what flags and defaults add to them.
#[derive(Clone, Debug)]
pub struct Files {
    main: PathBuf,
    /// `[server]` as the files had it at the start, and as it was completed.
    read: ServerConfig,
    completed: ServerConfig,
}

/// One change of a configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Add a device.
    AddDevice(NewSection),
    /// Remove a device, by its name.
    RemoveDevice(String),
    /// Add an export.
    AddExport(NewSection),
    /// Remove an export, by its name.
    RemoveExport(String),
    /// Add a cgroup; its name is its path.
    AddCgroup(NewSection),
    /// Set a key of a cgroup, which comes into being if it is not there; on `/`, of a device.
    Set {
        /// Its path.
        cgroup: String,
        /// On this device; on every one without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// `io.max` and so on, as in a configuration.
        key: String,
        /// All of the value: of limits, what is not named is no limit.
        value: String,
    },
    /// Remove a cgroup, by its path.
    RemoveCgroup(String),
    /// A cgroup is moved below another.
    MoveCgroup {
        /// Its path.
        cgroup: String,
        /// The path of its new parent.
        parent: String,
    },
}

/// A section of a configuration that is added.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSection {
    /// Its name.
    pub name: String,
    /// Its keys, as in a configuration.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub keys: toml::Table,
}

/// How a change is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct How {
    /// It is forgotten when the configuration is read again, or the server ends.
    pub is_runtime: bool,
    /// Exports that have connections are removed, too.
    pub force: bool,
}

/// Why nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum TenantsError {
    /// There is no file to keep it in.
    #[error(
        "this server was started without a configuration, so there is no file to keep a change in"
    )]
    NoFiles,
    /// The configuration would not be valid.
    #[error("{}", lines(.0))]
    Config(ConfigErrors),
    /// It cannot be said in the file, or the file cannot be written.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The server cannot be so.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The files say more than what runs.
    #[error("the configuration's files differ from what runs, at {places} places: {first}")]
    Unapplied {
        /// How many differences.
        places: usize,
        /// One of them.
        first: String,
    },
}

fn lines(errors: &ConfigErrors) -> String {
    let mut lines: Vec<String> = errors.errors().iter().map(ToString::to_string).collect();
    if errors.more() > 0 {
        lines.push(format!("and {} more", errors.more()));
    }
    lines.join("\n")
}

impl Files {
    /// Of the configuration at `main`, whose `[server]` was `read` and has been `completed`.
    pub fn new(main: PathBuf, read: ServerConfig, completed: ServerConfig) -> Files {
        Files { main, read, completed }
    }

    /// Where the configuration is.
    pub fn main(&self) -> &Path {
        &self.main
    }

    /// What was left to flags and defaults at the start still is.
    fn complete(&self, mut config: Config) -> Config {
        let server = &mut config.server;
        if server.socket == self.read.socket {
            server.socket.clone_from(&self.completed.socket);
        }
        if server.control == self.read.control {
            server.control.clone_from(&self.completed.control);
        }
        if server.control_read == self.read.control_read {
            server.control_read.clone_from(&self.completed.control_read);
        }
        if server.metrics == self.read.metrics {
            server.metrics.clone_from(&self.completed.metrics);
        }
        if server.exit_last == self.read.exit_last {
            server.exit_last = self.completed.exit_last;
        }
        config
    }

    fn open(&self) -> Result<Kept, TenantsError> {
        Kept::open(&self.main).map_err(TenantsError::Config)
    }

    fn plan(&self, kept: &Kept) -> Result<Config, TenantsError> {
        Ok(self.complete(kept.plan().map_err(TenantsError::Config)?))
    }
}

impl Tenants {
    /// `files` are those that `running` was started from.
    pub fn new(running: Arc<Running>, files: Option<Files>) -> Tenants {
        Tenants { running, files, beside: Mutex::default(), on_reload: None }
    }

    /// Has `tell` be called at the begin and at the end of each reload.
    #[must_use]
    pub fn telling(self, tell: fn(Reload<'_>)) -> Tenants {
        Tenants { on_reload: Some(tell), ..self }
    }

    /// The server.
    pub fn running(&self) -> &Arc<Running> {
        &self.running
    }

    fn files(&self) -> Result<&Files, TenantsError> {
        self.files.as_ref().ok_or(TenantsError::NoFiles)
    }

    /// Makes `edits`, all or none, and keeps them unless `how` says otherwise.
    ///
    /// # Errors
    /// What is in the way; nothing has changed then.
    pub async fn change(&self, edits: &[Edit], how: How) -> Result<Changes, TenantsError> {
        let files = self.files()?;
        let mut beside = self.beside.lock().await;
        let before = self.running.config().await;
        self.check_applied(files, &beside, &before)?;
        let (to_keep, new_beside): (&[Edit], Vec<Edit>) = match how.is_runtime {
            true => (&[], beside.iter().chain(edits).cloned().collect()),
            false => (edits, beside.clone()),
        };
        let (mut kept, mut trial) = (files.open()?, files.open()?);
        to_keep.iter().try_for_each(|edit| edit.make(&mut kept))?;
        to_keep.iter().chain(&new_beside).try_for_each(|edit| edit.make(&mut trial))?;
        let changes = self.running.apply(&files.plan(&trial)?, how.force).await?;
        if let Err(error) = kept.write() {
            // As it was; what was removed with force has no connections any more.
            self.running.apply(&before, true).await?;
            return Err(error.into());
        }
        *beside = new_beside;
        Ok(changes)
    }

    /// Keeps what was set on the devices already; without files, or at run time only, it is just remembered.
    ///
    /// # Errors
    /// It cannot be kept.
    pub async fn keep(&self, edits: &[Edit], how: How) -> Result<(), TenantsError> {
        let Some(files) = &self.files else { return Ok(()) };
        let mut beside = self.beside.lock().await;
        let is_applied = self.check_applied(files, &beside, &self.running.config().await).is_ok();
        if how.is_runtime {
            beside.extend_from_slice(edits);
        } else {
            let mut kept = files.open()?;
            edits.iter().try_for_each(|edit| edit.make(&mut kept))?;
            files.plan(&kept)?;
            kept.write()?;
        }
        // Else the files say more than what runs, and a reload says what.
        if is_applied {
            let mut trial = files.open()?;
            beside.retain(|edit| edit.make(&mut trial).is_ok());
            self.running.note(&files.plan(&trial)?).await;
        }
        Ok(())
    }

    /// # Errors
    /// The files, with what was changed beside them, say something else than what runs.
    fn check_applied(
        &self,
        files: &Files,
        beside: &[Edit],
        running: &Config,
    ) -> Result<(), TenantsError> {
        let mut kept = files.open()?;
        for edit in beside {
            // What the files do not allow any more shows as a difference.
            let _ = edit.make(&mut kept);
        }
        let would_run = self.running.would_run(running, &files.plan(&kept)?);
        match &difference(running, &would_run)[..] {
            [] => Ok(()),
            [first, rest @ ..] => {
                let (places, first) = (1 + rest.len(), first.to_string());
                Err(TenantsError::Unapplied { places, first })
            }
        }
    }

    /// What reading the files again would change, a line each.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub async fn differences(&self) -> Result<Vec<String>, TenantsError> {
        let files = self.files()?;
        let new = files.plan(&files.open()?)?;
        if let Some(tls) = &new.tls {
            CertificateFiles::from(tls).read().map_err(ApplyError::Certificates)?;
        }
        let differences = difference(&self.running.config().await, &new);
        Ok(differences.iter().map(ToString::to_string).collect())
    }

    /// Reads the files again and has the server be what they say, all or nothing. What was changed beside them is
    /// forgotten. Answers what has changed, and each difference, for the log.
    ///
    /// # Errors
    /// What is in the way; nothing has changed then.
    pub async fn reload(&self, force: bool) -> Result<(Changes, Vec<Difference>), TenantsError> {
        let Some(tell) = self.on_reload else { return self.read_again(force).await };
        tell(Reload::Begins);
        let reloaded = self.read_again(force).await;
        tell(Reload::Ends(&self.running.config().await));
        reloaded
    }

    async fn read_again(&self, force: bool) -> Result<(Changes, Vec<Difference>), TenantsError> {
        let files = self.files()?;
        let mut beside = self.beside.lock().await;
        let new = files.plan(&files.open()?)?;
        let reloaded = self.running.reload(&new, force).await?;
        beside.clear();
        Ok(reloaded)
    }
}

impl Edit {
    fn make(&self, kept: &mut Kept) -> Result<(), KeptError> {
        match self {
            Edit::AddDevice(new) => kept.add_device(&new.name, &new.keys),
            Edit::RemoveDevice(name) => kept.remove_device(name),
            Edit::AddExport(new) => kept.add_export(&new.name, &new.keys),
            Edit::RemoveExport(name) => kept.remove_export(name),
            Edit::AddCgroup(new) => kept.add_cgroup(&new.name, &new.keys),
            Edit::Set { cgroup, device, key, value } => {
                kept.set(cgroup, device.as_deref(), key, value)
            }
            // One that no file has was never kept.
            Edit::RemoveCgroup(cgroup) => match kept.remove_cgroup(cgroup) {
                Err(KeptError { kind: KeptErrorKind::Missing, .. }) => Ok(()),
                done => done,
            },
            Edit::MoveCgroup { cgroup, parent } => kept.move_cgroup(cgroup, parent),
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edit::AddDevice(new) => write!(f, "add device {}", new.name),
            Edit::RemoveDevice(name) => write!(f, "remove device {name}"),
            Edit::AddExport(new) => write!(f, "add export {}", new.name),
            Edit::RemoveExport(name) => write!(f, "remove export {name}"),
            Edit::AddCgroup(new) => write!(f, "add cgroup {}", new.name),
            Edit::Set { cgroup, key, value, .. } => write!(f, "{cgroup} {key} {value}"),
            Edit::RemoveCgroup(cgroup) => write!(f, "remove cgroup {cgroup}"),
            Edit::MoveCgroup { cgroup, parent } => write!(f, "move cgroup {cgroup} below {parent}"),
        }
    }
}
