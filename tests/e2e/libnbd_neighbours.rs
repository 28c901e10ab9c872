//! libnbd: parts of one block, written at once.

use std::path::Path;

use weir_tests::{LoopDevice, Place, Server, python};

fn exercise(place: &Place, device: &Path, mode: &str) {
    let Some(neighbours) = python("neighbours.py") else { return };
    let server = Server::image(place, device, &["--direct", mode]);
    neighbours.run(&[server.uri()]);
    server.stop();
}

#[test]
fn parallel_unaligned_writes_keep_every_byte_of_a_file() {
    let place = Place::new();
    for mode in place.direct_modes() {
        let image = place.hole(&format!("{mode}.img"), 1 << 20);
        exercise(&place, &image, mode);
    }
}

#[test]
fn parallel_unaligned_writes_keep_every_byte_of_a_block_device() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let Some(device) = LoopDevice::new(&image, 4096) else { return };
    exercise(&place, device.path(), "on");
}
