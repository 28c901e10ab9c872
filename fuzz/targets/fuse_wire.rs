//! Any bytes that `/dev/fuse` may give.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::fuse_proto::message(data);
});
