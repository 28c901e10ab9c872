//! Compiles only if neither the engine nor the device models, nor anything they use, links the standard library:
//! `std` brings a panic handler of its own, and two of them are an error.

#![no_std]
#![forbid(unsafe_code)]

use weir_disk as _;
use weir_engine as _;
use weir_units as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
