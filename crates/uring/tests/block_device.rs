//! A block device: a loop device over a file. Needs root and a free loop device; says so when skipped.

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{TempDir, filled, next, pattern, rings};
use weir_uring::{
    Backend, Completion, DirectMode, DiskKind, Durability, OpenError, OpenOptions, Ring,
    ZeroOptions,
};

const SIZE: usize = 1 << 20;

/// A loop device that goes when dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(file: &Path) -> Option<Loop> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match made {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8(output.stdout).unwrap().trim().into()))
            }
            Ok(output) => {
                println!("skipped: losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: losetup: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.0).status();
        assert!(detached.is_ok_and(|status| status.success()), "{:?} stays", self.0);
    }
}

#[test]
fn a_block_device_holds_what_is_written() {
    let dir = TempDir::new();
    let file = dir.file("image", SIZE);
    let Some(device) = Loop::new(&file) else { return };
    let mut image = pattern(0, SIZE);
    for direct in [DirectMode::On, DirectMode::Off] {
        for mut ring in rings() {
            let options = OpenOptions { direct, ..OpenOptions::default() };
            exercise(&mut ring, &device.0, options, &mut image);
        }
    }
    // Discarded last: what is there afterwards is the device's business.
    let [mut ring, ..] = rings();
    let disk = ring.attach(Backend::open(&device.0, OpenOptions::default()).unwrap());
    let blocks = || file.metadata().unwrap().blocks();
    let before = blocks();
    ring.trim(&disk, 700_000, 300_000, Durability::Durable, 1);
    assert!(matches!(next(&mut ring), Completion::Done { token: 1, result: Ok(()) }));
    assert!(blocks() < before, "the file below got no hole");
    ring.trim(&disk, 100, 500_000, Durability::Durable, 1);
    assert!(matches!(next(&mut ring), Completion::Done { token: 1, result: Ok(()) }));
    let edges = ring.pool().get(512).unwrap();
    ring.read(&disk, 0, edges, 2);
    let Completion::Read { buffer, result: Ok(()), .. } = next(&mut ring) else { panic!() };
    assert!(buffer[..] == image[..512], "a part of a block was discarded");
}

fn exercise(ring: &mut Ring, device: &Path, options: OpenOptions, image: &mut [u8]) {
    let disk = ring.attach(Backend::open(device, options).unwrap());
    let info = disk.info().clone();
    assert_eq!((info.kind, info.size), (DiskKind::Block, SIZE as u64));
    assert_eq!(info.direct, options.direct == DirectMode::On);
    assert!(info.block_bytes >= 512 && info.rotational.is_some(), "{info:?}");
    let another = Backend::open(device, OpenOptions { patience: Duration::ZERO, ..options });
    assert!(matches!(another, Err(OpenError::Busy { .. })));

    for (offset, len, durability) in [
        (0, 4096, Durability::Volatile),
        (8192, 65_536, Durability::Durable),
        (333, 1000, Durability::Volatile),
    ] {
        let bytes = pattern(offset + 99, len);
        ring.write(&disk, offset as u64, filled(ring, &bytes), durability, 1);
        let Completion::Written { result, .. } = next(ring) else { panic!() };
        result.unwrap();
        image[offset..offset + len].copy_from_slice(&bytes);
    }
    ring.flush(&disk, 1);
    assert!(matches!(next(ring), Completion::Done { result: Ok(()), .. }));
    for (offset, len, keep_allocated) in [
        (100_000, 100_001, false),
        (300_001, 99_999, true),
        (500_001, 3, false),
        (600_064, 1024, true),
    ] {
        let options = ZeroOptions { keep_allocated, ..ZeroOptions::default() };
        ring.write_zeroes(&disk, offset as u64, len as u64, options, 1);
        let Completion::Done { result, .. } = next(ring) else { panic!() };
        result.unwrap();
        image[offset..offset + len].fill(0);
    }
    let buffer = ring.pool().get(SIZE).unwrap();
    ring.read(&disk, 0, buffer, 1);
    let Completion::Read { buffer, result, .. } = next(ring) else { panic!() };
    result.unwrap();
    if let Some(wrong) = (0..SIZE).find(|&at| buffer[at] != image[at]) {
        panic!("{options:?}: byte {wrong} is {}, should be {}", buffer[wrong], image[wrong]);
    }
    let extent = ring.extent(&disk, 0, SIZE as u64).unwrap();
    assert!(extent.data && extent.len == SIZE as u64);
}
