//! A global allocator that counts, so that memory is measured to the byte and not guessed from pages.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with two counters a thread in front.
pub(crate) struct Counting;

thread_local! {
    static USAGE: Cell<Usage> = const { Cell::new(Usage { allocations: 0, live_bytes: 0 }) };
}

/// What this thread has allocated so far. An engine has one thread; those of a test harness are not counted in.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// Calls that asked for memory, or for more or less of it; freeing is not counted.
    pub(crate) allocations: u64,
    /// Bytes held now, as asked for: what the system adds to each block is not in it.
    pub(crate) live_bytes: u64,
}

/// The counters now.
pub(crate) fn usage() -> Usage {
    USAGE.get()
}

fn count(allocations: u64, allocated: usize, freed: usize) {
    let Usage { allocations: before, live_bytes } = USAGE.get();
    // What another thread allocated may be freed here.
    let live_bytes = live_bytes.wrapping_add(allocated as u64).wrapping_sub(freed as u64);
    USAGE.set(Usage { allocations: before + allocations, live_bytes });
}

// SAFETY: every call goes on to `System` with the arguments it came with, and what `System` answers is answered;
// the counters touch no memory but their own,
// and being constants at first they need none to be made. No safe way exists to see each allocation of a program.
#[expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps `alloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size, layout.size());
        // SAFETY: `block` came from `System` by one of these calls, with this layout.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: `block` came from `System` by one of these calls, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
