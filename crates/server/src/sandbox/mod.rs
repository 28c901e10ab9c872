//! Sandbox: the process gives up what it does not need once its sockets are bound. Threads that start later have given it
//! up, too.
//!
//! | file | what holds from then on |
//! |---|---|
//! | `landlock` | files beside [`Allowed`] cannot be opened, nothing is executed, no TCP connection is opened |
//! | `seccomp` | system calls that this program does not use fail |
//! | `capabilities` | root without its privileges, but for two |
//!
//! Rings are restricted by `weir_uring` in any case. What the machine cannot do is left out, and named in
//! [`SandboxStatus::missing`]. docs/decisions/055 has the reasons.

mod allowed;
mod capabilities;
mod landlock;
mod seccomp;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use tracing::info;
use weir_config::Sandbox as Mode;

pub use self::allowed::Allowed;
use crate::status::{MissingStatus, SandboxStatus};

/// A sandbox, from inside.
#[derive(Debug, Default)]
pub(crate) struct Sandbox {
    status: SandboxStatus,
    /// Where devices may be, if that is limited.
    device_paths: Option<Vec<PathBuf>>,
}

/// Why a sandbox with `sandbox = "on"` is not entered.
#[derive(Debug, thiserror::Error)]
#[error("sandbox = \"on\", and not all of it is to be had: {what}: {reason}")]
pub struct SandboxError {
    what: String,
    reason: String,
}

impl Sandbox {
    /// Gives up what `allowed` does not name, for ever. Threads that are there already keep it, so this comes before them.
    ///
    /// # Errors
    /// `mode` asks for all of it, and something is missing. The process is not to go on then: it has given up the rest.
    pub(crate) fn enter(mode: Mode, allowed: &Allowed) -> Result<Sandbox, SandboxError> {
        if mode == Mode::Off {
            let status = SandboxStatus { mode: mode.name().into(), ..SandboxStatus::default() };
            info!("no sandbox: sandbox = \"off\"");
            return Ok(Sandbox { status, device_paths: None });
        }
        let mut missing = Missing::default();
        other_threads(&mut missing);
        let no_new_privs = rustix::thread::set_no_new_privs(true);
        missing.note("no_new_privs", no_new_privs);
        let landlock = landlock::enter(allowed, &mut missing);
        let capabilities = missing.note("capabilities", capabilities::drop_unneeded());
        // Last: it would refuse the calls of the others.
        let seccomp = missing.note("seccomp", seccomp::enter()).is_some();
        let ring_restrictions = weir_uring::support().is_ok_and(|support| support.restrictions);
        if !ring_restrictions {
            missing.add("ring_restrictions", "the kernel does not restrict rings");
        }
        let device_paths = landlock.as_ref().map(|_| allowed.device_paths());
        let status = SandboxStatus {
            mode: mode.name().into(),
            landlock,
            seccomp,
            ring_restrictions,
            no_new_privs: no_new_privs.is_ok(),
            capabilities,
            device_paths: device_paths
                .iter()
                .flatten()
                .map(|path| path.display().to_string())
                .collect(),
            missing: missing.0,
        };
        if let (Mode::On, Some(first)) = (mode, status.missing.first()) {
            let MissingStatus { what, reason } = first.clone();
            return Err(SandboxError { what, reason });
        }
        log(&status);
        Ok(Sandbox { status, device_paths })
    }

    /// What is in force.
    pub(crate) fn status(&self) -> SandboxStatus {
        self.status.clone()
    }

    /// Whether a file at `path` cannot become a device because of the sandbox.
    pub(crate) fn excludes(&self, path: &Path) -> bool {
        let Some(allowed) = &self.device_paths else { return false };
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        !allowed.iter().any(|allowed| path.starts_with(allowed))
    }
}

/// What the machine does not have.
#[derive(Debug, Default)]
struct Missing(Vec<MissingStatus>);

impl Missing {
    fn add(&mut self, what: &str, reason: impl ToString) {
        self.0.push(MissingStatus { what: what.to_owned(), reason: reason.to_string() });
    }

    /// The value, or a note that `what` is missing.
    fn note<T, E: ToString>(&mut self, what: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(what, error.to_string())).ok()
    }
}

/// Restrictions are a thread's, and are inherited by those that it starts.
fn other_threads(missing: &mut Missing) {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        missing.add("threads", format!("{} are outside: they were started before", threads - 1));
    }
}

fn log(status: &SandboxStatus) {
    let landlock = status.landlock.as_ref().map(|landlock| landlock.abi);
    let missing =
        status.missing.iter().map(|missing| format!("{}: {}", missing.what, missing.reason));
    let missing = missing.reduce(|all, one| format!("{all}; {one}"));
    let capabilities = status.capabilities.as_ref().map(|kept| match &kept[..] {
        [] => "none".to_owned(),
        kept => kept.join(" "),
    });
    let SandboxStatus { seccomp, ring_restrictions, no_new_privs, .. } = *status;
    info!(
        landlock,
        seccomp, ring_restrictions, no_new_privs, capabilities, missing, "sandbox in force"
    );
}
