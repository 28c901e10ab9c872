//! Notifications: messages to the kernel that answer no request.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::{Immutable, IntoBytes};

use crate::wire::{
    NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, OUT_HEADER_LEN, OutHeader,
    notification,
};

/// Forget cached attributes of a node, and cached data of `len` bytes from `offset` on. A negative offset keeps data; a `len` of
/// 0 or less means to the end.
pub fn invalidate_inode(
    node: u64,
    offset: i64,
    len: i64,
) -> [u8; OUT_HEADER_LEN + size_of::<NotifyInvalInodeOut>()] {
    let mut bytes = [0; _];
    let head = head(notification::INVAL_INODE, size_of::<NotifyInvalInodeOut>());
    bytes[..OUT_HEADER_LEN].copy_from_slice(&head);
    bytes[OUT_HEADER_LEN..].copy_from_slice(NotifyInvalInodeOut { node, offset, len }.as_bytes());
    bytes
}

/// Forget a cached name. `out` is replaced. Must not be sent while a request on `parent` is answered by the same thread: the
/// kernel waits for its lock.
pub fn invalidate_entry(parent: u64, name: &OsStr, out: &mut Vec<u8>) {
    let body = NotifyInvalEntryOut { parent, name_len: name.len() as u32, flags: 0 };
    with_name(notification::INVAL_ENTRY, body, name, out);
}

/// The file `child` has lost its name: as [`invalidate_entry`], and watchers of it are told.
pub fn delete(parent: u64, child: u64, name: &OsStr, out: &mut Vec<u8>) {
    let body = NotifyDeleteOut { parent, child, name_len: name.len() as u32, padding: 0 };
    with_name(notification::DELETE, body, name, out);
}

/// Send all requests again that were read and not answered; needs `HAS_RESEND`. For a server that takes over from another.
pub fn resend() -> [u8; OUT_HEADER_LEN] {
    head(notification::RESEND, 0)
}

fn head(kind: i32, body_len: usize) -> [u8; OUT_HEADER_LEN] {
    let len = (OUT_HEADER_LEN + body_len) as u32;
    zerocopy::transmute!(OutHeader { len, error: kind, unique: 0 })
}

fn with_name<T: IntoBytes + Immutable>(kind: i32, body: T, name: &OsStr, out: &mut Vec<u8>) {
    let name = name.as_bytes();
    out.clear();
    out.extend_from_slice(&head(kind, size_of::<T>() + name.len() + 1));
    out.extend_from_slice(body.as_bytes());
    out.extend_from_slice(name);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    #[test]
    fn each_notification_says_how_long_it_is_and_answers_nothing() {
        let told = |bytes: &[u8]| {
            let (header, _) = OutHeader::read_from_prefix(bytes).unwrap();
            assert_eq!((header.len as usize, header.unique), (bytes.len(), 0));
            header.error
        };
        assert_eq!(told(&resend()), 7);
        assert_eq!(told(&invalidate_inode(3, 0, 0)), 2);
        let mut out = vec![9; 3];
        invalidate_entry(1, OsStr::new("name"), &mut out);
        assert_eq!(told(&out), 3);
        assert!(out.ends_with(b"name\0"));
        delete(1, 2, OsStr::new("name"), &mut out);
        assert_eq!(told(&out), 6);
    }
}
