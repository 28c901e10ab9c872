//! Support of the tests: a directory that cleans up after itself, and a loop that waits for one completion.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_uring::{Completion, Config, IoBuf, Ring, Setup};

/// A directory under `TMPDIR`, removed when dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weir-uring-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    /// A file of `size` bytes in which every byte tells its place.
    pub fn file(&self, name: &str, size: usize) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, pattern(0, size)).unwrap();
        path
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Bytes that differ from place to place and from page to page.
pub fn pattern(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// A ring that is small, so that full queues and pools happen.
pub fn small_ring() -> Ring {
    Ring::new(&small()).expect("tests need io_uring")
}

/// Small rings in the ways that kernels and limits may leave.
pub fn rings() -> [Ring; 3] {
    configs().map(|config| Ring::new(&config).expect("tests need io_uring"))
}

/// The settings of [`rings`].
pub fn configs() -> [Config; 3] {
    let plain = Config { setup: Setup::Plain, ..small() };
    let hardly_registered = Config { registered_files: 4, fixed_buffers: false, ..small() };
    [small(), plain, hardly_registered]
}

fn small() -> Config {
    Config { entries: 8, pool_bytes: 4 << 20, receive_buffers: 4, ..Config::default() }
}

/// The next completion, waiting for it.
pub fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(completion) = ring.poll_completion() {
            return completion;
        }
        ring.wait(None).unwrap();
    }
}

/// A buffer with these bytes.
pub fn filled(ring: &Ring, bytes: &[u8]) -> IoBuf {
    let mut buffer = ring.pool().get(bytes.len()).expect("the pool has room");
    buffer.copy_from_slice(bytes);
    buffer
}
