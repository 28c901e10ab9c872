//! Replies to requests. Each is one write to `/dev/fuse`.

use std::time::Duration;

use zerocopy::{Immutable, IntoBytes};

use crate::attr::{Attr, Entry, Opened, StatFs, Statx};
use crate::op::FileLock;
use crate::wire::{
    AttrReply, CopyFileRangeOut, CreateOut, EntryOut, GetxattrOut, InitOut, LockOut, LseekOut,
    OUT_HEADER_LEN, OpenOut, OutHeader, StatfsOut, StatxReply, WriteOut,
};

macro_rules! sizes {
    ($($(#[$doc:meta])* $name:ident = $body:ty;)*) => {$(
        $(#[$doc])*
        pub type $name = [u8; OUT_HEADER_LEN + size_of::<$body>()];
    )*};
}

sizes! {
    /// Reply to INIT.
    InitReply = InitOut;
    /// Reply with a node.
    EntryMessage = EntryOut;
    /// Reply with attributes.
    AttrMessage = AttrReply;
    /// Reply to STATX.
    StatxMessage = StatxReply;
    /// Reply with an open file.
    OpenMessage = OpenOut;
    /// Reply with a node and its open file.
    CreateMessage = CreateOut;
    /// Reply with a number of bytes.
    WriteMessage = WriteOut;
    /// The same, of 64 bits.
    CopyMessage = CopyFileRangeOut;
    /// Reply with the room in a file system.
    StatfsMessage = StatfsOut;
    /// Reply with the size of an attribute.
    SizeMessage = GetxattrOut;
    /// Reply with a position.
    LseekMessage = LseekOut;
    /// Reply with a lock.
    LockMessage = LockOut;
}

/// Head and body in one.
pub(crate) fn message<T: IntoBytes + Immutable, const N: usize>(unique: u64, body: T) -> [u8; N] {
    const { assert!(N == OUT_HEADER_LEN + size_of::<T>()) };
    let mut bytes = [0; N];
    bytes[..OUT_HEADER_LEN].copy_from_slice(&head(unique, 0, size_of::<T>()));
    bytes[OUT_HEADER_LEN..].copy_from_slice(body.as_bytes());
    bytes
}

fn head(unique: u64, error: i32, body_len: usize) -> [u8; OUT_HEADER_LEN] {
    let len = u32::try_from(OUT_HEADER_LEN + body_len).expect("a reply of less than 4 GiB");
    zerocopy::transmute!(OutHeader { len, error, unique })
}

/// An error, by its positive number. The kernel takes numbers below 512 only; another becomes `EIO`.
pub fn error(unique: u64, errno: i32) -> [u8; OUT_HEADER_LEN] {
    const EIO: i32 = 5;
    let errno = if (1..512).contains(&errno) { errno } else { EIO };
    head(unique, -errno, 0)
}

/// Success with nothing to tell.
pub fn ok(unique: u64) -> [u8; OUT_HEADER_LEN] {
    head(unique, 0, 0)
}

/// Head of a reply of `len` bytes, which follow in the same write: data, a link's target, an attribute, a directory.
///
/// # Panics
/// For 4 GiB and more, which no request asks for.
pub fn data_head(unique: u64, len: usize) -> [u8; OUT_HEADER_LEN] {
    head(unique, 0, len)
}

/// A node: LOOKUP, SYMLINK, MKNOD, MKDIR, LINK.
pub fn entry(unique: u64, entry: &Entry) -> EntryMessage {
    message(unique, entry.to_wire())
}

/// Attributes, which may be cached for `valid`: GETATTR, SETATTR.
pub fn attr(unique: u64, attr: &Attr, valid: Duration) -> AttrMessage {
    message(unique, attr.to_reply(valid))
}

/// Attributes, which may be cached for `valid`: STATX.
pub fn statx(unique: u64, statx: &Statx, valid: Duration) -> StatxMessage {
    message(unique, statx.to_reply(valid))
}

/// An open file: OPEN, OPENDIR.
pub fn opened(unique: u64, opened: &Opened) -> OpenMessage {
    message(unique, opened.to_wire())
}

/// A node and its open file: CREATE, TMPFILE.
pub fn created(unique: u64, entry: &Entry, opened: &Opened) -> CreateMessage {
    message(unique, CreateOut { entry: entry.to_wire(), open: opened.to_wire() })
}

/// Bytes that were written or copied: WRITE, COPY_FILE_RANGE.
pub fn written(unique: u64, len: u32) -> WriteMessage {
    message(unique, WriteOut { size: len, padding: 0 })
}

/// Bytes that were copied, where the request was wide.
pub fn copied(unique: u64, len: u64) -> CopyMessage {
    message(unique, CopyFileRangeOut { len })
}

/// Room: STATFS.
pub fn statfs(unique: u64, room: &StatFs) -> StatfsMessage {
    message(unique, room.to_wire())
}

/// Bytes of an attribute or of the names: GETXATTR and LISTXATTR with a size of 0.
pub fn size(unique: u64, len: u32) -> SizeMessage {
    message(unique, GetxattrOut { size: len, padding: 0 })
}

/// Position: LSEEK.
pub fn position(unique: u64, offset: u64) -> LseekMessage {
    message(unique, LseekOut { offset })
}

/// Lock that is in the way, or one of kind `F_UNLCK`: GETLK.
pub fn lock(unique: u64, lock: &FileLock) -> LockMessage {
    let &FileLock { start, end, kind, pid } = lock;
    message(unique, LockOut { start, end, kind, pid })
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    #[test]
    fn each_reply_says_how_long_it_is() {
        let told = |bytes: &[u8]| {
            let (header, _) = OutHeader::read_from_prefix(bytes).unwrap();
            assert_eq!((header.len as usize, header.unique), (bytes.len(), 9));
            header.error
        };
        let second = Duration::from_secs(1);
        assert_eq!(told(&ok(9)), 0);
        assert_eq!(told(&error(9, 2)), -2);
        assert_eq!(told(&error(9, 0)), -5, "success is not an error");
        assert_eq!(told(&error(9, 512)), -5, "the kernel refuses such a reply");
        assert_eq!(told(&entry(9, &Entry::default())), 0);
        assert_eq!(told(&attr(9, &Attr::default(), second)), 0);
        assert_eq!(told(&statx(9, &Statx::default(), second)), 0);
        assert_eq!(told(&created(9, &Entry::default(), &Opened::default())), 0);
        assert_eq!(told(&written(9, 7)), 0);
        assert_eq!(told(&statfs(9, &StatFs::default())), 0);
        let mut read = data_head(9, 3).to_vec();
        read.extend_from_slice(b"abc");
        assert_eq!(told(&read), 0);
    }
}
