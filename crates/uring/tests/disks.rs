//! Devices, against real files.

mod common;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use common::{TempDir, filled, next, pattern, rings, small_ring};
use weir_uring::{
    Backend, Completion, DirectMode, Disk, DiskExtent, Durability, OpenError, OpenOptions, Ring,
    ZeroOptions,
};

fn attach(ring: &mut Ring, dir: &TempDir, size: usize, direct: DirectMode) -> Option<Disk> {
    let path = dir.file("image", size);
    match Backend::open(&path, OpenOptions { direct, ..OpenOptions::default() }) {
        Ok(backend) => Some(ring.attach(backend)),
        Err(OpenError::Direct { why, .. }) => {
            println!("skipped: no direct I/O under TMPDIR: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
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
    ring.prefetch(disk, 1, image.len() as u32 - 1, 3);
    done(ring).unwrap();
    ring.prefetch(disk, 2, image.len() as u32 - 1, 3);
    assert_eq!(done(ring).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(read(ring, disk, 0, image.len()) == image);
}

#[test]
fn a_buffered_file_holds_what_is_written() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let disk = attach(&mut ring, &dir, 200_001, DirectMode::Off).unwrap();
    assert!(!disk.info().direct);
    reads_and_writes(&mut ring, &disk, pattern(0, 200_001));
}

#[test]
fn a_direct_file_holds_what_is_written() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let Some(disk) = attach(&mut ring, &dir, 200_704, DirectMode::On) else { return };
    assert!(disk.info().direct && disk.info().block_bytes > 1);
    reads_and_writes(&mut ring, &disk, pattern(0, 200_704));
}

/// The file system of memfd can make holes but not zero in place, and has no direct I/O.
#[test]
fn zeroing_without_file_system_support_is_written() {
    let mut ring = small_ring();
    let fd = rustix::fs::memfd_create("weir", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&fd, &pattern(0, 300_000)).unwrap();
    rustix::fs::ftruncate(&fd, 3 << 20).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let disk = ring.attach(Backend::open(&path, OpenOptions::default()).unwrap());
    let mut image = pattern(0, 300_000);
    image.resize(3 << 20, 0);
    assert_eq!((disk.info().direct, disk.info().rotational), (false, None));
    let fast = ZeroOptions { keep_allocated: true, fast_only: true, ..ZeroOptions::default() };
    // Twice: the second time it is known and not tried.
    for _ in 0..2 {
        ring.write_zeroes(&disk, 5, 200_000, fast, 3);
        let error = done(&mut ring).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(95), "EOPNOTSUPP, not {error}");
        assert!(read(&mut ring, &disk, 0, 300_000) == image[..300_000]);
    }
    let keep = ZeroOptions { fast_only: false, durability: Durability::Durable, ..fast };
    ring.write_zeroes(&disk, 5, 200_000, keep, 3);
    done(&mut ring).unwrap();
    image[5..200_005].fill(0);
    ring.write_zeroes(&disk, 250_001, 2_800_000, keep, 3);
    done(&mut ring).unwrap();
    image[250_001..3_050_001].fill(0);
    for offset in [0, 1 << 20, 2 << 20] {
        assert!(read(&mut ring, &disk, offset as u64, 1 << 20) == image[offset..][..1 << 20]);
    }
    // Written zeroes are data; punched ones are a hole.
    assert!(ring.extent(&disk, 1 << 20, 2 << 20).unwrap().data);
    let punch = ZeroOptions { keep_allocated: false, ..fast };
    ring.write_zeroes(&disk, 1 << 20, 1 << 20, punch, 3);
    done(&mut ring).unwrap();
    assert!(!ring.extent(&disk, 1 << 20, 2 << 20).unwrap().data);
}

#[test]
fn a_file_cut_short_is_an_error_not_a_wait() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let path = dir.file("image", 65_536);
    let disk = ring.attach(Backend::open(&path, OpenOptions::default()).unwrap());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10_000).unwrap();
    let buffer = ring.pool().get(32_768).unwrap();
    ring.read(&disk, 0, buffer, 1);
    let Completion::Read { result, .. } = next(&mut ring) else { panic!() };
    assert_eq!(result.unwrap_err().raw_os_error(), Some(5), "EIO");
}

#[test]
fn a_size_of_no_whole_blocks_is_buffered_or_refused() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let disk = attach(&mut ring, &dir, 200_001, DirectMode::Auto).unwrap();
    assert!(!disk.info().direct);
    let path = dir.file("odd", 200_001);
    let options = OpenOptions { direct: DirectMode::On, ..OpenOptions::default() };
    assert!(matches!(Backend::open(&path, options), Err(OpenError::Direct { .. })));
}

/// Neighbours in one block, changed at once, in every order the device likes: no write's bytes may be undone.
#[test]
fn neighbouring_parts_of_blocks_do_not_undo_each_other() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let size = 64 << 10;
    let Some(disk) = attach(&mut ring, &dir, size, DirectMode::On) else { return };
    let mut image = pattern(0, size);
    let mut seed = 7u64;
    let mut random = move |below: u64| {
        // Knuth's MMIX generator.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..60u64 {
        // Pieces side by side, so that the result does not depend on their order; some are whole blocks.
        let (mut at, mut pending) = (0, 0);
        while at < size {
            let block = disk.info().block_bytes as usize;
            let whole = at % block == 0 && random(3) == 0;
            let len =
                if whole { block * (1 + random(3) as usize) } else { 1 + random(3000) as usize };
            let len = len.min(size - at);
            match random(4) {
                0 => {
                    let options =
                        ZeroOptions { keep_allocated: random(2) == 0, ..Default::default() };
                    ring.write_zeroes(&disk, at as u64, len as u64, options, round);
                    image[at..at + len].fill(0);
                }
                kind => {
                    let bytes = vec![(round * 31 + at as u64) as u8; len];
                    let how = if kind == 1 { Durability::Durable } else { Durability::Volatile };
                    ring.write(&disk, at as u64, filled(&ring, &bytes), how, round);
                    image[at..at + len].copy_from_slice(&bytes);
                }
            }
            pending += 1;
            at += len;
        }
        for _ in 0..pending {
            match next(&mut ring) {
                Completion::Written { token, result, .. } | Completion::Done { token, result } => {
                    assert_eq!(token, round);
                    result.unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(read(&mut ring, &disk, 0, size) == image, "after round {round}");
        let (at, len) = (random(60_000), 1 + random(5000));
        let len = len.min(size as u64 - at) as usize;
        assert!(read(&mut ring, &disk, at, len) == image[at as usize..][..len]);
    }
    assert_eq!(ring.pool().in_use(), 0);
}

/// One large request of no whole blocks, larger than the buffer it goes by.
#[test]
fn a_large_shifted_request_is_served_in_pieces() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let size = 3 << 20;
    let Some(disk) = attach(&mut ring, &dir, size, DirectMode::On) else { return };
    let bytes = pattern(77, 1_000_003);
    ring.write(&disk, 700_001, filled(&ring, &bytes), Durability::Volatile, 1);
    let Completion::Written { token: 1, result, .. } = next(&mut ring) else { panic!() };
    result.unwrap();
    let mut image = pattern(0, size);
    image[700_001..][..bytes.len()].copy_from_slice(&bytes);
    assert!(read(&mut ring, &disk, 0, size) == image);
    assert!(read(&mut ring, &disk, 13, 2_000_000) == image[13..][..2_000_000]);
}

#[test]
fn holes_are_found() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let path = dir.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 65_536], 262_144).unwrap();
    drop(file);
    let disk = ring.attach(Backend::open(&path, OpenOptions::default()).unwrap());
    let mut extents = Vec::new();
    let mut at = 0;
    while at < 1 << 20 {
        let extent = ring.extent(&disk, at, 1 << 20).unwrap();
        assert_eq!(extent.offset, at);
        at += extent.len;
        extents.push((extent.len, extent.data));
    }
    assert_eq!(extents, [(262_144, false), (65_536, true), (720_896, false)]);
    let part = ring.extent(&disk, 262_145, 262_150).unwrap();
    assert_eq!(part, DiskExtent { offset: 262_145, len: 5, data: true });
    assert!(ring.extent(&disk, 5, 5).is_err());
    assert!(ring.extent(&disk, 0, (1 << 20) + 1).is_err());
    // A range that was zeroed without keeping it is a hole again.
    ring.write_zeroes(&disk, 262_144, 65_536, ZeroOptions::default(), 3);
    done(&mut ring).unwrap();
    let all = DiskExtent { offset: 0, len: 1 << 20, data: false };
    assert_eq!(ring.extent(&disk, 0, 1 << 20).unwrap(), all);
}

#[test]
fn memory_holds_what_is_written() {
    let mut ring = small_ring();
    let disk = ring.attach(Backend::memory(200_000).unwrap());
    reads_and_writes(&mut ring, &disk, vec![0; 200_000]);
}

#[test]
fn many_parallel_operations_each_complete_once() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let disk = attach(&mut ring, &dir, 1 << 20, DirectMode::Auto).unwrap();
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
fn a_locked_image_cannot_be_opened_again() {
    let dir = TempDir::new();
    let path = dir.file("image", 8192);
    let writer = OpenOptions { patience: Duration::ZERO, ..OpenOptions::default() };
    let reader = OpenOptions { read_only: true, ..writer };
    let first = Backend::open(&path, writer).unwrap();
    for options in [writer, reader] {
        let refused = Backend::open(&path, options).err().unwrap();
        assert!(matches!(refused, OpenError::Busy { .. }), "{refused}");
        assert!(refused.to_string().contains("another server has it open"), "{refused}");
    }
    drop(first);
    let _reader = Backend::open(&path, reader).unwrap();
    let _another = Backend::open(&path, reader).unwrap();
    assert!(matches!(Backend::open(&path, writer), Err(OpenError::Busy { .. })));
}

#[test]
fn a_ring_that_is_dropped_unlocks_its_devices() {
    let dir = TempDir::new();
    let path = dir.file("image", 8192);
    let options = OpenOptions { patience: Duration::ZERO, ..OpenOptions::default() };
    for mut ring in rings() {
        let disk = ring.attach(Backend::open(&path, options).unwrap());
        let buffer = ring.pool().get(4096).unwrap();
        ring.write(&disk, 0, buffer, Durability::Volatile, 1);
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let dir = TempDir::new();
    let message = |path: &std::path::Path| {
        Backend::open(path, OpenOptions::default()).err().unwrap().to_string()
    };
    assert!(message(dir.path()).contains("is a directory"));
    assert!(message("/dev/null".as_ref()).contains("is a character device"));
    assert!(message(&dir.path().join("none")).contains("No such file"));
    assert!(message(&dir.file("empty", 0)).contains("is empty"));
}

#[test]
fn outside_and_read_only_are_errors() {
    let (mut ring, dir) = (small_ring(), TempDir::new());
    let path = dir.file("image", 8192);
    let disk = ring.attach(
        Backend::open(&path, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap(),
    );
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
