//! Capabilities: what root may do beyond other users. A server that runs as another user has none to begin with.

use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What root keeps: images may be another user's (`CAP_DAC_OVERRIDE`; where they may be is Landlock's), and buffers that are
/// registered with the kernel count as locked memory, of which there is little without `CAP_IPC_LOCK`.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::IPC_LOCK);

/// Drops all capabilities of the calling thread that are not needed, and returns those that it has kept, by their names.
pub(super) fn drop_unneeded() -> io::Result<Vec<String>> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set()?;
    }
    let kept = now.permitted & KEPT;
    let wanted = CapabilitySets {
        effective: now.effective & KEPT,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    if now != wanted {
        // Takes away from the ambient set what is not inheritable any more.
        set_capabilities(None, wanted)?;
    }
    let effective = capabilities(None)?.effective;
    let names =
        effective.iter_names().map(|(name, _)| format!("cap_{}", name.to_ascii_lowercase()));
    Ok(names.collect())
}

/// What a program that is executed could get; none is. Only with `CAP_SETPCAP`.
fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The kernel knows no more.
            Err(_) => break,
        }
    }
    Ok(())
}
