//! Devices, against real files.

mod common;

use common::{TempDir, filled, next, pattern, small_ring};
use weir_uring::{
    Backend, Completion, Disk, Durability, OpenError, OpenOptions, Ring, ZeroOptions,
};

fn attach(ring: &mut Ring, dir: &TempDir, size: usize) -> Disk {
    let path = dir.file("image", size);
    ring.attach(Backend::open(&path, OpenOptions::default()).unwrap())
}

fn read(ring: &mut Ring, disk: &Disk, offset: u64, len: usize) -> Vec<u8> {
    let buffer = ring.pool().get(len).unwrap();
    ring.read(disk, offset, buffer, 77);
    let Completion::Read { token: 77, buffer, result } = next(ring) else { panic!() };
    result.unwrap();
    buffer.to_vec()
}

fn done(ring: &mut Ring) -> std::io::Result<()> {
    let Completion::Done { token: 3, result } = next(ring) else { panic!() };
    result
}

fn reads_and_writes(ring: &mut Ring, disk: &Disk, mut image: Vec<u8>) {
    assert_eq!(disk.info().size, image.len() as u64);
    assert!(read(ring, disk, 0, image.len()) == image);
    assert!(read(ring, disk, 4097, 9000) == image[4097..][..9000]);
    for (turn, durability) in [Durability::Volatile, Durability::Durable].into_iter().enumerate() {
        let (offset, bytes) = (5000 + turn * 4096, pattern(9 + turn, 8192));
        ring.write(disk, offset as u64, filled(ring, &bytes), durability, 4);
        let Completion::Written { token: 4, result, .. } = next(ring) else { panic!() };
        result.unwrap();
        image[offset..][..8192].copy_from_slice(&bytes);
    }
    ring.flush(disk, 3);
    done(ring).unwrap();
    let options = ZeroOptions { durability: Durability::Durable, ..ZeroOptions::default() };
    ring.write_zeroes(disk, 10_000, 30_000, options, 3);
    done(ring).unwrap();
    image[10_000..40_000].fill(0);
    ring.trim(disk, 65_536, 65_536, Durability::Durable, 3);
    done(ring).unwrap();
    image[65_536..131_072].fill(0);
    assert!(read(ring, disk, 0, image.len()) == image);
}

#[test]
fn a_file_holds_what_is_written() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let disk = attach(&mut ring, &dir, 200_000);
    reads_and_writes(&mut ring, &disk, pattern(0, 200_000));
}

#[test]
fn memory_holds_what_is_written() {
    let mut ring = small_ring();
    let disk = ring.attach(Backend::memory(200_000).unwrap());
    reads_and_writes(&mut ring, &disk, vec![0; 200_000]);
}

#[test]
fn many_operations_at_once_each_come_back() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let disk = attach(&mut ring, &dir, 1 << 20);
    for block in 0..200u64 {
        let buffer = ring.pool().get(4096).unwrap();
        ring.read(&disk, block * 4096, buffer, block);
    }
    let mut seen = [false; 200];
    for _ in 0..200 {
        let Completion::Read { token, buffer, result } = next(&mut ring) else { panic!() };
        result.unwrap();
        assert!(buffer[..] == pattern(token as usize * 4096, 4096));
        assert!(!std::mem::replace(&mut seen[token as usize], true));
    }
}

#[test]
fn a_second_server_is_refused() {
    let dir = TempDir::new();
    let path = dir.file("image", 8192);
    let read_only = OpenOptions { read_only: true };
    let first = Backend::open(&path, OpenOptions::default()).unwrap();
    for options in [OpenOptions::default(), read_only] {
        let refused = Backend::open(&path, options).err().unwrap();
        assert!(matches!(refused, OpenError::Busy { .. }), "{refused}");
        assert!(refused.to_string().contains("another server has it open"), "{refused}");
    }
    drop(first);
    let _reader = Backend::open(&path, read_only).unwrap();
    let _another = Backend::open(&path, read_only).unwrap();
    assert!(matches!(Backend::open(&path, OpenOptions::default()), Err(OpenError::Busy { .. })));
}

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let dir = TempDir::new();
    let message = |path: &std::path::Path| {
        Backend::open(path, OpenOptions::default()).err().unwrap().to_string()
    };
    assert!(message(dir.path()).contains("is a directory"));
    assert!(message("/dev/null".as_ref()).contains("is a special file"));
    assert!(message(&dir.path().join("none")).contains("No such file"));
    assert!(message(&dir.file("empty", 0)).contains("is empty"));
}

#[test]
fn outside_and_read_only_are_errors() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let path = dir.file("image", 8192);
    let disk = ring.attach(Backend::open(&path, OpenOptions { read_only: true }).unwrap());
    let buffer = ring.pool().get(4096).unwrap();
    ring.read(&disk, 4097, buffer, 1);
    let Completion::Read { buffer, result, .. } = next(&mut ring) else { panic!() };
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    ring.write(&disk, 0, buffer, Durability::Volatile, 2);
    let Completion::Written { result, .. } = next(&mut ring) else { panic!() };
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    ring.trim(&disk, 0, 4096, Durability::Volatile, 3);
    assert!(done(&mut ring).is_err());
}
