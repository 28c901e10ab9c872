//! Contents of a directory: the body of the reply to READDIR and READDIRPLUS.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::attr::{Entry, FileKind};
use crate::wire::{Dirent, EntryOut};

/// No room for an entry. It comes first in the next reply; nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the reply has no room for another entry")]
pub struct Full;

/// Entries of one reply, in the order in which programs see them.
#[derive(Debug)]
pub struct Directory<'a> {
    bytes: &'a mut Vec<u8>,
    end: usize,
    plus: bool,
}

impl<'a> Directory<'a> {
    /// Entries after the end of `bytes`, at most `size` bytes of them: what the request has asked for. With attributes where
    /// `plus`.
    pub fn new(bytes: &'a mut Vec<u8>, size: u32, plus: bool) -> Directory<'a> {
        let end = bytes.len().saturating_add(size as usize);
        Directory { bytes, end, plus }
    }

    /// Adds a name. `offset` is where a later READDIR goes on after it.
    ///
    /// With `plus` and an `entry` with a node, the kernel counts a lookup of the node, so that the caller must too, unless this is
    /// an error. Without an entry, which is always possible, the kernel looks the name up when it needs it.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(
        &mut self,
        ino: u64,
        offset: u64,
        kind: FileKind,
        name: &OsStr,
        entry: Option<&Entry>,
    ) -> Result<(), Full> {
        let name = name.as_bytes();
        let head = if self.plus { size_of::<EntryOut>() } else { 0 };
        let len = (head + size_of::<Dirent>() + name.len()).next_multiple_of(8);
        let start = self.bytes.len();
        if len > self.end - start {
            return Err(Full);
        }
        if self.plus {
            let entry = entry.copied().unwrap_or_default().to_wire();
            self.bytes.extend_from_slice(entry.as_bytes());
        }
        let dirent = Dirent { ino, offset, name_len: name.len() as u32, kind: kind.to_dirent() };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(start + len, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;

    #[test]
    fn entries_are_aligned_and_end_where_the_reply_does() {
        let mut bytes = vec![7; 16];
        let mut directory = Directory::new(&mut bytes, 70, false);
        let name = OsStr::new("a");
        assert_eq!(directory.push(5, 1, FileKind::Regular, name, None), Ok(()));
        assert_eq!(directory.push(6, 2, FileKind::Directory, name, None), Ok(()));
        assert_eq!(directory.push(7, 3, FileKind::Regular, name, None), Err(Full));
        assert_eq!(bytes.len(), 16 + 64);
        let (second, rest) = Dirent::read_from_prefix(&bytes[16 + 32..]).unwrap();
        assert_eq!((second.ino, second.offset, second.name_len, second.kind), (6, 2, 1, 4));
        assert_eq!(rest[0], b'a');
    }

    #[test]
    fn an_entry_without_attributes_has_node_0() {
        let mut bytes = Vec::new();
        let mut directory = Directory::new(&mut bytes, 4096, true);
        let name = OsStr::new("..");
        directory.push(5, 1, FileKind::Directory, name, None).unwrap();
        assert_eq!(bytes.len(), 128 + 32);
        assert_eq!(EntryOut::read_from_prefix(&bytes).unwrap().0, EntryOut::default());
    }
}
