//! Status of the sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the server has given up after its start, and what this machine could not take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStatus {
    /// `sandbox` of the configuration: `auto`, `on` or `off`; empty where the server was started by another program than
    /// `weir serve`.
    pub mode: String,
    /// Landlock; `None` where it is not in force.
    pub landlock: Option<LandlockStatus>,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Whether the kernel takes from the rings of device threads only what a server does.
    pub ring_restrictions: bool,
    /// Whether nothing that is executed may have more rights.
    pub no_new_privs: bool,
    /// Capabilities that it has kept, as `cap_ipc_lock`; `None` where none were dropped.
    pub capabilities: Option<Vec<String>>,
    /// Directories and files where devices may be; empty where Landlock is not in force.
    pub device_paths: Vec<String>,
    /// What is not in force, where it was asked for.
    pub missing: Vec<MissingStatus>,
}

/// What Landlock has in force.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LandlockStatus {
    /// Version of its interface in this kernel.
    pub abi: u32,
    /// What it restricts: `files`, `truncation`, `tcp`, `device_ioctls`, `abstract_sockets`, `signals`.
    pub rights: Vec<String>,
}

/// Something that this machine does not have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MissingStatus {
    /// A field of [`SandboxStatus`], or `landlock.` and one of its rights.
    pub what: String,
    /// Why.
    pub reason: String,
}
