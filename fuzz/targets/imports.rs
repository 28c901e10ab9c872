//! Any bytes as what others configure, of any format.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::import::any_bytes(data);
});
