//! Landlock: which files may be opened, and for what, which TCP ports may be bound, and what other processes are reached.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus as Kernel, NetPort, PathBeneath,
    PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};

use super::Missing;
use super::allowed::{Allowed, Purpose};
use crate::status::LandlockStatus;

/// What is asked for: later versions are another day's tests.
const KNOWN: ABI = ABI::V6;

/// What each version of the interface brought, and its kernel.
const RIGHTS: [(ABI, &str, &str); 6] = [
    (ABI::V1, "files", "Linux 5.13"),
    (ABI::V3, "truncation", "Linux 6.2"),
    (ABI::V4, "tcp", "Linux 6.7"),
    (ABI::V5, "device_ioctls", "Linux 6.10"),
    (ABI::V6, "abstract_sockets", "Linux 6.12"),
    (ABI::V6, "signals", "Linux 6.12"),
];

/// Restricts the calling thread to what is `allowed`; `None` where the machine cannot.
pub(super) fn enter(allowed: &Allowed, missing: &mut Missing) -> Option<LandlockStatus> {
    let scope = scope();
    let status = match restrict(allowed, scope) {
        Ok(status) => status,
        Err(error) => {
            missing.add("landlock", error);
            return None;
        }
    };
    let reason = match status.landlock {
        Kernel::NotImplemented => "this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK)",
        Kernel::NotEnabled => "Landlock is not in the list of security modules (lsm= at the boot)",
        Kernel::Available { effective_abi, kernel_abi }
            if status.ruleset != RulesetStatus::NotEnforced =>
        {
            let rights = rights(effective_abi, scope, missing);
            let abi = kernel_abi.and_then(|abi| u32::try_from(abi).ok());
            return Some(LandlockStatus { abi: abi.unwrap_or(effective_abi as u32), rights });
        }
        Kernel::Available { .. } => "the kernel does not enforce it",
    };
    missing.add("landlock", reason);
    None
}

fn restrict(allowed: &Allowed, scope: BitFlags<Scope>) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(scope)?
        .create()?;
    for (path, purpose) in allowed.paths() {
        ruleset = match PathFd::new(path) {
            Ok(fd) => allow(ruleset, fd, path.is_dir(), *purpose)?,
            // What is not there needs no rule, and cannot have one.
            Err(_) => ruleset,
        };
    }
    for port in allowed.ports() {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    ruleset.restrict_self()
}

fn allow(
    ruleset: RulesetCreated,
    fd: PathFd,
    is_directory: bool,
    purpose: Purpose,
) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rights = match purpose {
        Purpose::Read => read,
        Purpose::Devices => read | AccessFs::WriteFile | AccessFs::IoctlDev,
        Purpose::Sockets => AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile,
        Purpose::Kept | Purpose::Recordings => {
            read | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::MakeReg
                | AccessFs::RemoveFile
        }
    };
    let rights = if is_directory { rights } else { rights & AccessFs::from_file(KNOWN) };
    ruleset.add_rule(PathBeneath::new(fd, rights))
}

/// Other processes that are not reached any more. A service manager may listen on an abstract socket.
fn scope() -> BitFlags<Scope> {
    let is_abstract = std::env::var_os("NOTIFY_SOCKET")
        .is_some_and(|socket| socket.as_encoded_bytes().starts_with(b"@"));
    if is_abstract { Scope::Signal.into() } else { Scope::from_all(KNOWN) }
}

/// What `abi` restricts, by name; what it does not is `missing`.
fn rights(abi: ABI, scope: BitFlags<Scope>, missing: &mut Missing) -> Vec<String> {
    let mut rights = Vec::new();
    for (since, name, kernel) in RIGHTS {
        if abi < since {
            let reason = format!("came with Landlock ABI {since} of {kernel}; this is ABI {abi}");
            missing.add(&format!("landlock.{name}"), reason);
        } else if name != "abstract_sockets" || scope.contains(Scope::AbstractUnixSocket) {
            rights.push(name.to_owned());
        } else {
            missing.add("landlock.abstract_sockets", "NOTIFY_SOCKET is one");
        }
    }
    rights
}
