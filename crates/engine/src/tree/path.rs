//! Names and paths of cgroups, as in Linux: `/vm1/db`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// Longest name of one cgroup, in bytes: what Linux allows for a directory.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Why a name or path cannot be a cgroup's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// A name between two slashes, or the whole name, is empty.
    #[error("a cgroup's name is empty")]
    Empty,
    /// `.` and `..` mean something else to people.
    #[error("`{0}` is not a name for a cgroup")]
    Dots(String),
    /// A slash separates names; NUL and control characters break what prints them.
    #[error("cgroup name {0:?} holds a slash or a control character")]
    Character(String),
    /// Too long.
    #[error("a cgroup's name has {bytes} bytes, at most {MAX_NAME_BYTES} are allowed")]
    TooLong {
        /// Length asked for, in bytes.
        bytes: usize,
    },
    /// A path begins at the root.
    #[error("cgroup path {0:?} does not begin with `/`")]
    NotAbsolute(String),
}

/// An absolute, normalised path of a cgroup: `/`, `/vm1`, `/vm1/db`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Path(String);

impl Path {
    /// Checks `text`; a slash at its end is dropped.
    ///
    /// # Errors
    /// [`NameError`] names the first name that cannot be a cgroup's.
    pub fn parse(text: &str) -> Result<Path, NameError> {
        let Some(names) = text.strip_prefix('/') else {
            return Err(NameError::NotAbsolute(text.to_owned()));
        };
        let names = match names.strip_suffix('/') {
            Some("") | None => names,
            Some(shorter) => shorter,
        };
        if !names.is_empty() {
            names.split('/').try_for_each(check_name)?;
        }
        let mut path = String::with_capacity(names.len() + 1);
        path.push('/');
        path.push_str(names);
        Ok(Path(path))
    }

    /// The names from the root on; none for the root itself.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0[1..].split('/').filter(|name| !name.is_empty())
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `name` can be one cgroup's name.
pub(crate) fn check_name(name: &str) -> Result<(), NameError> {
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots(name.to_owned())),
        _ if name.len() > MAX_NAME_BYTES => Err(NameError::TooLong { bytes: name.len() }),
        _ if name.chars().any(|c| c == '/' || c.is_control()) => {
            Err(NameError::Character(name.to_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_or_refused() {
        for (text, normal) in [("/", "/"), ("/vm1", "/vm1"), ("/vm1/", "/vm1"), ("/a/b", "/a/b")] {
            assert_eq!(Path::parse(text).map(|path| path.0), Ok(normal.to_owned()), "{text}");
        }
        for text in ["", "vm1", "//", "/a//b", "/..", "/a/./b", "/a\0b"] {
            assert!(Path::parse(text).is_err(), "{text:?}");
        }
        assert!(Path::parse(&alloc::format!("/{}", "x".repeat(255))).is_ok());
        assert!(Path::parse(&alloc::format!("/{}", "x".repeat(256))).is_err());
    }
}
