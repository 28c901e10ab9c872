//! A file system with little room.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Place;
use crate::peer::{Peer, peer, skip};

/// A tmpfs of a bounded size, unmounted when dropped.
#[derive(Debug)]
pub struct SmallFileSystem {
    path: PathBuf,
    mount: Peer,
    umount: Peer,
}

impl SmallFileSystem {
    /// Mounts one of `size` bytes; `None`, after [`skip`], where that takes rights that the test has not got.
    ///
    /// # Panics
    /// When its directory cannot be made.
    pub fn new(place: &Place, size: u64) -> Option<SmallFileSystem> {
        let (mount, umount) = (peer("mount")?, peer("umount")?);
        let path = place.file("small");
        fs::create_dir(&path).expect("a directory can be made");
        let (options, at) = (format!("size={size}"), path.to_str().expect("a plain name"));
        let ran = mount.ends(&["-t", "tmpfs", "-o", &options, "tmpfs", at]);
        if !ran.status.success() {
            skip(&format!("there is no tmpfs to be had: {}", ran.stderr.trim()));
            return None;
        }
        Some(SmallFileSystem { path, mount, umount })
    }

    /// A file of `size` bytes without any data.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn hole(&self, name: &str, size: u64) -> PathBuf {
        let path = self.path.join(name);
        fs::File::create_new(&path).and_then(|file| file.set_len(size)).expect("room for a name");
        path
    }

    /// Makes room: `size` bytes in all from now on.
    ///
    /// # Panics
    /// When that is refused.
    pub fn resize(&self, size: u64) {
        let options = format!("remount,size={size}");
        self.mount.run(&["-o", &options, self.path().to_str().expect("a plain name")]);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        // Lazily: a server that a failed test has killed may still be there.
        let ran = self.umount.ends(&["-l", self.path.to_str().expect("a plain name")]);
        if !std::thread::panicking() {
            assert!(ran.status.success(), "{} stays: {}", self.path.display(), ran.stderr);
        }
    }
}
