//! Tells the processor which memory is going to be needed, so that it is fetched behind other work.
//!
//! Where much is kept about many, most of the time goes into waiting for memory: a load that is late holds up what comes
//! behind it, and a processor sees some hundred instructions ahead. A hint is no load. It asks for a line of cache and is
//! done, and whoever gives it in time finds the line there; nothing follows from it, and one that is wrong costs a line.
//!
//! ```
//! let table: Vec<[u64; 8]> = vec![[1; 8]; 1000];
//! let order = [7, 999, 3, 512];
//! let mut sum = 0;
//! for (step, &index) in order.iter().enumerate() {
//!     if let Some(&later) = order.get(step + 2) {
//!         weir_hint::fetch(&table[later]);
//!     }
//!     sum += table[index][0];
//! }
//! assert_eq!(sum, 4);
//! ```
//!
//! On other processors than x86-64 and AArch64 the hints are left out.

#![no_std]

/// What processors fetch at once. Some fetch more.
pub const LINE: usize = 64;

/// Asks for the line of cache in which `place` begins.
#[inline(always)]
pub fn fetch<T: ?Sized>(place: &T) {
    ask(core::ptr::from_ref(place).cast());
}

/// Asks for so many lines from there, but for none behind its end.
#[inline(always)]
pub fn fetch_lines<T>(place: &T, lines: usize) {
    let begin = core::ptr::from_ref(place).cast::<u8>();
    for line in 0..lines.min(size_of::<T>().div_ceil(LINE)) {
        ask(begin.wrapping_add(line * LINE));
    }
}

/// The address need not be one of ours: what cannot be fetched is not.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn ask(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is part of x86-64, reads nothing that a program could see, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// The address need not be one of ours: what cannot be fetched is not.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
fn ask(address: *const u8) {
    // SAFETY: the instruction is part of AArch64, reads nothing that a program could see, and faults at no address; it
    // changes neither stack nor flags.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(readonly, nostack, preserves_flags),
        );
    }
}

#[inline(always)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ask(_address: *const u8) {}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec::Vec;

    use super::*;

    /// Nothing may come of a hint, wherever it points: also at nothing, and behind the last page that there is.
    #[test]
    fn a_hint_changes_nothing_and_never_faults() {
        let values: Vec<u64> = (0..1000).collect();
        for value in &values {
            fetch(value);
            fetch_lines(value, 9);
        }
        fetch(&values[1000..]);
        fetch::<[u64]>(&[]);
        fetch_lines(&(), 1);
        fetch_lines(&[0u8; 200], usize::MAX);
        for address in [0, 1, usize::MAX / 2, usize::MAX - 63, usize::MAX] {
            ask(core::ptr::without_provenance(address));
        }
        assert!((0..1000).eq(values));
    }
}
