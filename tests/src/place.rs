//! Directory of a test's images and sockets.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

use crate::binary::target_dir;
use crate::peer::skip;

/// Two directories, removed when dropped: one for images below the build directory, which is on a real file system
/// more often than `/tmp` is, and one for sockets in `/tmp`, because a socket's path has at most 107 bytes.
#[derive(Debug)]
pub struct Place {
    files: PathBuf,
    sockets: PathBuf,
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Place {
    /// New and empty.
    ///
    /// # Panics
    /// When directories cannot be made.
    pub fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weir-e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let files = target_dir().join("tmp").join(&name);
        let sockets = std::env::temp_dir().join(&name);
        for directory in [&files, &sockets] {
            fs::create_dir_all(directory)
                .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        Place { files, sockets }
    }

    /// The path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// The path of a socket.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.sockets.join(name)
    }

    /// The values of `--direct` that files here can be served with: both, or, after [`skip`], only `off`.
    ///
    /// # Panics
    /// When files cannot be made.
    pub fn direct_modes(&self) -> &'static [&'static str] {
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let probe = self.file("probe");
        File::create(&probe).expect("a file can be made");
        let opened = options.open(&probe);
        fs::remove_file(&probe).expect("just made");
        match opened {
            Ok(_) => &["off", "on"],
            Err(error) => {
                skip(&format!("direct I/O on {}: {error}", self.files.display()));
                &["off"]
            }
        }
    }

    /// A file of `size` bytes without any data: one hole.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn hole(&self, name: &str, size: u64) -> PathBuf {
        let path = self.file(name);
        File::create_new(&path).and_then(|file| file.set_len(size)).expect("a file can be made");
        path
    }

    /// A file that holds `bytes`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn filled(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, bytes).expect("a file can be written");
        path
    }

    /// A file of `size` bytes with data at some places: a hole but for `(offset, bytes)`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn sparse(&self, name: &str, size: u64, data: &[(u64, &[u8])]) -> PathBuf {
        let path = self.hole(name, size);
        let file = File::options().write(true).open(&path).expect("just made");
        for (offset, bytes) in data {
            file.write_all_at(bytes, *offset).expect("a file can be written");
        }
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for directory in [&self.files, &self.sockets] {
            remove(directory);
        }
    }
}

/// What stays behind after a failure is not worth a second panic.
fn remove(directory: &Path) {
    let removed = fs::remove_dir_all(directory);
    if !std::thread::panicking() {
        removed.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    }
}
