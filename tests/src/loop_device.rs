//! A block device over a file.

use std::path::{Path, PathBuf};

use crate::peer::{Peer, peer, skip};

/// A loop device, detached when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    losetup: Peer,
}

impl LoopDevice {
    /// Attaches `file` as a device with sectors of `sector` bytes; `None`, after [`skip`], where that takes rights that
    /// the test has not got.
    ///
    /// # Panics
    /// If losetup prints no path.
    pub fn new(file: &Path, sector: u32) -> Option<LoopDevice> {
        let losetup = peer("losetup")?;
        let sector = sector.to_string();
        let file = file.to_str().expect("test files have plain names");
        let ran = losetup.ends(&["--find", "--show", "--sector-size", &sector, file]);
        if !ran.status.success() {
            skip(&format!("there is no loop device to be had: {}", ran.stderr.trim()));
            return None;
        }
        Some(LoopDevice { path: ran.stdout.trim().into(), losetup })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes that have reached it: the 16th number of its `stat` (Documentation/block/stat.rst).
    ///
    /// # Panics
    /// When sysfs does not know it.
    pub fn flushes(&self) -> u64 {
        let name = self.path.file_name().expect("a device has a name").to_string_lossy();
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs");
        let flushes = stat.split_whitespace().nth(15).expect("Linux 5.5 and later count flushes");
        flushes.parse().expect("a number")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let path = self.path.to_str().expect("it came as text");
        let ran = self.losetup.ends(&["--detach", path]);
        if !std::thread::panicking() {
            assert!(ran.status.success(), "{path} stays: {}", ran.stderr);
        }
    }
}
