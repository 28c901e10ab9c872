//! Any bytes as the tables of pools that a store has, one after the other.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::pool::any_tables(data);
});
