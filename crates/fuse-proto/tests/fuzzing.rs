//! The fuzz target, with pseudo-random input and a bound, on every `cargo test`.

mod harness;

use std::collections::BTreeSet;

use proptest::prelude::*;

/// Bytes with the numbers that messages are made of over-represented.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => prop_oneof![Just(0), Just(1), Just(b'a'), Just(b'/'), Just(0xff)],
        1 => any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..200)
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_malformed(data in bytes()) {
        harness::message(&data);
    }
}

/// A harness that never gets past the header would find nothing.
#[test]
fn every_kind_of_request_is_reached() {
    let mut found = BTreeSet::new();
    for kind in 0..56 {
        for pattern in [[0, 0, 0, 0], [b'a', 0, 0, 0], [1, 0, b'b', 0]] {
            let mut data = vec![0; 160];
            data[0] = 3;
            data[1 + 4] = kind;
            for place in data[41..].chunks_mut(4) {
                place.copy_from_slice(&pattern[..place.len()]);
            }
            found.extend(harness::message(&data));
        }
    }
    // All of `Op`, and two ways to be malformed.
    assert_eq!(found.len(), 43 + 2, "{found:?}");
}
