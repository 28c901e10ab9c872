//! libnbd: every command with every flag, aligned and not, on every kind of device.

use std::path::Path;

use weir_tests::{LoopDevice, Place, Server, pattern, python};

const SIZE: usize = 3 << 20;

fn exercise(place: &Place, device: &Path, flags: &[&str]) {
    let Some(commands) = python("commands.py") else { return };
    let server = Server::image(place, device, flags);
    let device = device.to_str().expect("a plain name");
    let mut arguments = vec![server.uri()];
    // The bytes of a file can be compared; a device past the page cache cannot.
    if !device.starts_with("/dev/") && !device.contains(':') {
        arguments.push(device);
    }
    commands.run(&arguments);
    assert!(server.status().balances());
    server.stop();
}

#[test]
fn every_command_works_on_a_file() {
    let place = Place::new();
    for mode in place.direct_modes() {
        let image = place.filled(&format!("{mode}.img"), &pattern(1, SIZE));
        exercise(&place, &image, &["--direct", mode]);
    }
}

#[test]
fn every_command_works_on_a_file_with_a_partial_last_block() {
    let place = Place::new();
    let image = place.filled("odd.img", &pattern(1, SIZE + 1001));
    exercise(&place, &image, &[]);
}

#[test]
fn every_command_works_with_a_write_back_cache() {
    let place = Place::new();
    let image = place.filled("odd.img", &pattern(1, SIZE + 1001));
    exercise(&place, &image, &["--cache", "writeback", "--cache-size", "1M"]);
}

#[test]
fn every_command_works_on_memory() {
    exercise(&Place::new(), Path::new("memory:3M"), &[]);
}

#[test]
fn every_command_works_on_an_emulated_disk() {
    exercise(&Place::new(), Path::new("emulated:null,latency=20us,size=3M"), &[]);
}

#[test]
fn every_command_works_on_a_block_device() {
    for sector in [512, 4096] {
        let place = Place::new();
        let image = place.filled("disk.img", &pattern(2, SIZE));
        let Some(device) = LoopDevice::new(&image, sector) else { return };
        for mode in ["on", "off"] {
            exercise(&place, device.path(), &["--direct", mode]);
        }
    }
}
