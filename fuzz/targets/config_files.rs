//! Any bytes as configuration files that are read over each other.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::config::any_bytes(data);
});
