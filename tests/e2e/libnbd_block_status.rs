//! libnbd: where data and holes are.

use weir_tests::{Place, Server, pattern, python};

const SIZE: u64 = 64 << 20;
/// A multiple of every file system's block.
const BLOCK: u64 = 64 << 10;

fn exercise(data: &[(u64, u64)]) {
    let place = Place::new();
    let Some(block_status) = python("block_status.py") else { return };
    let bytes: Vec<(u64, Vec<u8>)> =
        data.iter().map(|&(offset, len)| (offset, pattern(offset, len as usize))).collect();
    let bytes: Vec<(u64, &[u8])> = bytes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
    let image = place.sparse("disk.img", SIZE, &bytes);
    let server = Server::image(&place, image, &[]);
    let mut arguments = vec![server.uri().to_owned(), SIZE.to_string()];
    arguments.extend(data.iter().map(|(offset, len)| format!("{offset},{len}")));
    block_status.run(&arguments);
    server.stop();
}

#[test]
fn an_empty_image_is_one_hole() {
    exercise(&[]);
}

#[test]
fn block_status_separates_data_from_holes() {
    exercise(&[(0, BLOCK), (10 * BLOCK, 3 * BLOCK), (SIZE - BLOCK, BLOCK)]);
}

/// More extents than one answer has.
#[test]
fn a_fragmented_image_needs_several_block_status_replies() {
    let data: Vec<(u64, u64)> = (1..SIZE / BLOCK / 4).map(|at| (at * 4 * BLOCK, BLOCK)).collect();
    assert!(data.len() > 200);
    exercise(&data);
}
