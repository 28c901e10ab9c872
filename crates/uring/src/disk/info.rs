//! Properties of a device.

/// What holds the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// Memory of this process, gone with it.
    Memory,
}

/// A device's properties; but for its size they do not change while it is attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskInfo {
    /// What holds the bytes.
    pub kind: DiskKind,
    /// Bytes, from 0.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the kernel's page cache is left out (`O_DIRECT`).
    pub direct: bool,
    /// Requests whose offset and length are multiples of this go to the device as they are, a power of two from 1 to
    /// 65,536. Others are served as well; where `direct` is set they cost an extra copy and, for writes, a read.
    pub block_bytes: u32,
    /// Whether the device below is known to spin: from sysfs, for the file system's device if it is a file.
    /// `None` when there is no such device or it does not say.
    pub rotational: Option<bool>,
}
