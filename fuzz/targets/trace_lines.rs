//! Any bytes as the lines of a trace, of any format, and the look of them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::trace::any_bytes(data);
});
