//! A file system that does not answer.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Place;
use crate::loop_device::LoopDevice;
use crate::peer::{Peer, peer, skip};

/// An ext4 on a loop device that can be frozen, in which writes then wait and cannot be cancelled; thawed and unmounted
/// when dropped.
#[derive(Debug)]
pub struct FrozenFileSystem {
    path: PathBuf,
    fsfreeze: Peer,
    umount: Peer,
    _device: LoopDevice,
}

impl FrozenFileSystem {
    /// Makes and mounts one, not frozen yet; `None`, after [`skip`], where that takes rights that the test has not got.
    ///
    /// # Panics
    /// When its files cannot be made.
    pub fn new(place: &Place) -> Option<FrozenFileSystem> {
        let (mkfs, mount) = (peer("mkfs.ext4")?, peer("mount")?);
        let (fsfreeze, umount) = (peer("fsfreeze")?, peer("umount")?);
        let image = place.file("ext4.img");
        fs::File::create_new(&image).and_then(|file| file.set_len(16 << 20)).expect("a file");
        mkfs.run(&["-q", plain(&image)]);
        let device = LoopDevice::new(&image, 512)?;
        let path = place.file("frozen");
        fs::create_dir(&path).expect("a directory can be made");
        let ran = mount.ends(&[plain(device.path()), plain(&path)]);
        if !ran.status.success() {
            skip(&format!("no ext4 can be mounted: {}", ran.stderr.trim()));
            return None;
        }
        Some(FrozenFileSystem { path, fsfreeze, umount, _device: device })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets writes wait from now on.
    ///
    /// # Panics
    /// When that is refused.
    pub fn freeze(&self) {
        self.fsfreeze.run(&["--freeze", plain(&self.path)]);
    }

    /// Lets writes go on.
    pub fn thaw(&self) {
        self.fsfreeze.ends(&["--unfreeze", plain(&self.path)]);
    }
}

impl Drop for FrozenFileSystem {
    fn drop(&mut self) {
        self.thaw();
        // Lazily: a server that a failed test has killed may still be there.
        let ran = self.umount.ends(&["--lazy", plain(&self.path)]);
        if !std::thread::panicking() {
            assert!(ran.status.success(), "{} stays: {}", self.path.display(), ran.stderr);
        }
    }
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("test files have plain names")
}
