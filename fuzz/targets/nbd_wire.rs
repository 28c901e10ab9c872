//! Any bytes a client may send, against the server's session: handshake and transmission.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_fuzz::nbd::server(data);
});
