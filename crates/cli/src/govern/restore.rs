//! Puts limits back: at the end, with `--restore`, and after a governor that was killed.

use std::path::Path;

use weir_govern::host::StateFile;
use weir_govern::kernel::{DeviceNumber, print_limits};

use super::state_dir::StateDir;
use super::tree::{Tree, TreeError};
use crate::failure::Failure;
use crate::output;

/// What has been put back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Restored {
    pub(super) cgroups: usize,
    pub(super) failed: usize,
}

/// Writes the limits of others where the kernel has those of the governor. Anything else stays as it is.
pub(super) fn restore(state: &StateFile, device: DeviceNumber, is_dry: bool) -> Restored {
    let tree = Tree::new(state.root.clone().into(), state.interface());
    let mut restored = Restored::default();
    for (path, kept) in state.cgroups() {
        let put_back = || {
            let stands = tree.limits(path, device)?;
            let Some(limits) = kept.restoration(stands) else { return Ok(false) };
            if is_dry {
                super::show(&tree, path, device, stands, limits);
                return Ok(true);
            }
            tree.write(path, device, stands, limits)?;
            tracing::debug!(cgroup = path, limits = %print_limits(limits), "put back");
            Ok(true)
        };
        match put_back() {
            Ok(true) => restored.cgroups += 1,
            Ok(false) | Err(TreeError::Gone) => {}
            Err(error) => {
                restored.failed += 1;
                tracing::error!(cgroup = path, %error, "its limits cannot be put back");
            }
        }
    }
    restored
}

/// Puts back what a governor that was killed has left of `device`.
pub(super) fn restore_left(states: &StateDir, device: DeviceNumber) -> Result<Restored, Failure> {
    let Some(state) = states.read(device)? else { return Ok(Restored::default()) };
    let restored = if state.boot_id == boot_id() {
        restore(&state, device, false)
    } else {
        Restored::default()
    };
    // What could not be put back stays known.
    if restored.failed == 0 {
        states
            .remove(device)
            .map_err(|error| Failure::failed(format!("{}: {error}", states.path().display())))?;
    }
    Ok(restored)
}

/// `weir govern --restore`.
pub(super) fn run(
    states: &StateDir,
    devices: &[DeviceNumber],
    is_dry: bool,
) -> Result<(), Failure> {
    let devices = if devices.is_empty() { states.devices() } else { devices.to_vec() };
    let mut failed = 0;
    for device in devices {
        let mut restored = Restored::default();
        match states.read(device)? {
            Some(state) if is_dry => restored = restore(&state, device, true),
            Some(_) => {
                let _lock = states.lock(device, "the device")?;
                restored = restore_left(states, device)?;
            }
            None => {}
        }
        failed += restored.failed;
        if !is_dry {
            output::print(&format!("{device}: {}\n", count(restored.cgroups)))?;
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::failed(format!("limits of {failed} cgroups could not be put back"))),
    }
}

/// Words for a number of cgroups.
pub(super) fn count(cgroups: usize) -> String {
    match cgroups {
        0 => "nothing to put back".to_owned(),
        1 => "limits of 1 cgroup put back".to_owned(),
        cgroups => format!("limits of {cgroups} cgroups put back"),
    }
}

/// The running system's; cgroups of another boot are not these.
pub(super) fn boot_id() -> String {
    let text = super::tree::read(Path::new("/proc/sys/kernel/random/boot_id"));
    text.unwrap_or_default().trim().to_owned()
}
