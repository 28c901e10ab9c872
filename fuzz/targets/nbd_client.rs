//! Any bytes a server may send, against the client: handshake and replies.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::nbd::client(data);
});
