//! Extensions at the end of a request.

use crate::input::Input;
use crate::wire::{EXTENSION_GROUPS, ExtensionHeader};

/// The supplementary group that matters for a new file, where the kernel sends one: that of the directory, if the caller
/// is a member. `Err` where an extension does not fit. Other extensions are skipped.
pub(crate) fn supplementary_group(mut input: Input<'_>) -> Result<Option<u32>, ()> {
    let mut group = None;
    while !input.0.is_empty() {
        let header: ExtensionHeader = input.read().ok_or(())?;
        let len = header.size.checked_sub(size_of::<ExtensionHeader>() as u32).ok_or(())?;
        let mut body = Input(input.bytes(len).ok_or(())?);
        if header.kind == EXTENSION_GROUPS {
            let count: u32 = body.read().ok_or(())?;
            if count > 0 {
                group = Some(body.read().ok_or(())?);
            }
        }
    }
    Ok(group)
}
