//! Condition of an invariant, with a text for the case that it does not hold.

use alloc::string::String;

/// Returns `what` as an error unless the condition `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
