//! Fuzz target of tables, shrinking, on every `cargo test`: bytes, and tables that are nearly right.

mod harness;

use proptest::prelude::*;
use weir_engine::Instant;
use weir_pool::Revision;

/// A table with two servers, as they write it.
fn table() -> Vec<u8> {
    let now = Instant::from_millis(1000);
    let empty = b"weirpool\x01\x00\x05\x00\x00\x00\x00\x00\x00\x00\x03\x01\x01z\x09\x00\x00\x00\x00\x00\x00\x00\
                  \x00\xb8\x17\x00\x01\x04acme\x01\x00\x04\x64\x0a\x05\x00";
    let mut server = harness::server(now);
    harness::any_table(&mut server, now, Revision(1), empty).expect("it can be read")
}

#[test]
fn a_table_that_can_be_read_gets_a_row() {
    assert!(table().windows(4).any(|bytes| bytes == b"acme"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_table_or_left_alone(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        harness::any_tables(&bytes);
    }

    #[test]
    fn a_damaged_table_is_a_table_or_left_alone(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = table();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = table();
        let both = [&bytes[..], &[0xff], &whole[..], &[0xff], &bytes[..]].concat();
        harness::any_tables(&both);
    }
}
