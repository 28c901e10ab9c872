//! Reader of a request's body: structures, names and what follows them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::NAME_MAX;

/// The part of a body that has not been read.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// The structure that comes next.
    pub(crate) fn read<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A string with its NUL.
    pub(crate) fn string(&mut self) -> Option<&'a OsStr> {
        let end = self.0.iter().take(NAME_MAX + 1).position(|&byte| byte == 0)?;
        let (string, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(OsStr::from_bytes(string))
    }

    /// A name of a directory's entry: not empty, without `/`.
    pub(crate) fn name(&mut self) -> Option<&'a OsStr> {
        let name = self.string()?;
        let bytes = name.as_bytes();
        (!bytes.is_empty() && !bytes.contains(&b'/')).then_some(name)
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }
}
