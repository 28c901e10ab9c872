//! Namespaces in which a mount is this process's own, without privileges where the system allows it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};
use weir_uring::unshare_mounts;

use crate::error::MountError;

/// Gives this process, and those that it starts, mounts of their own. They are gone with the last of these processes. The process must
/// have one thread.
///
/// First without a user namespace, which takes `CAP_SYS_ADMIN`, and then with one, in which user and group stay what they are.
///
/// # Errors
/// The system does not allow it.
pub fn enter() -> Result<(), MountError> {
    if unshare_mounts(false).is_err() {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        unshare_mounts(true)
            .map_err(|source| MountError::Namespace { what: "user namespace", source })?;
        // Without this groups could be dropped, and so what they are kept from.
        write("/proc/self/setgroups", "deny")?;
        write("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
        write("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)
        .map_err(|error| MountError::Namespace { what: "tree of mounts", source: error.into() })
}

/// Whether this process is in a PID namespace below the first one, as in a container. Programs outside have no process here.
pub fn is_below_first_pid_namespace() -> bool {
    // `PROC_PID_INIT_INO` of the kernel.
    const FIRST: u64 = 0xefff_fffc;
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != FIRST)
}

fn write(file: &'static str, text: &str) -> Result<(), MountError> {
    match fs::write(file, text) {
        // Before Linux 3.19 there was none, and nothing to write.
        Err(error) if file.ends_with("setgroups") && error.kind() == io::ErrorKind::NotFound => {
            Ok(())
        }
        result => result.map_err(|source| MountError::Namespace { what: file, source }),
    }
}
