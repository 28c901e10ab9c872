//! Names and paths of cgroups, as in Linux: `/vm1/db`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// Longest name of one cgroup, in bytes: what Linux allows for a directory.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Why a name or path cannot be a cgroup's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name between two slashes, or the whole name, is empty.
    #[error("a cgroup's name is empty")]
    Empty,
    /// `.` and `..` mean something else to people.
    #[error("`{0}` is not a name for a cgroup")]
    Dots(String),
    /// A slash separates names.
    #[error("cgroup name {0:?} holds a slash")]
    Slash(String),
    /// Control characters break what prints them, and what cannot be seen makes two names look alike.
    #[error("cgroup name {name:?} holds the control or invisible character U+{:04X}", u32::from(*character))]
    Character {
        /// The name.
        name: String,
        /// The first such character in it.
        character: char,
    },
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
        _ if name.contains('/') => Err(NameError::Slash(name.to_owned())),
        _ => match weir_units::hidden_character(name) {
            Some(character) => Err(NameError::Character { name: name.to_owned(), character }),
            None => Ok(()),
        },
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
        for text in ["/größe", "/データ", "/my vm", "/8:16", "/a=b", "/מסד"] {
            assert!(Path::parse(text).is_ok(), "{text:?}");
        }
        assert!(Path::parse(&alloc::format!("/{}", "x".repeat(255))).is_ok());
        assert!(Path::parse(&alloc::format!("/{}", "x".repeat(256))).is_err());
    }

    #[test]
    fn what_cannot_be_seen_is_refused_and_named() {
        for character in [
            '\u{202e}',
            '\u{200b}',
            '\u{200d}',
            '\u{2066}',
            '\u{feff}',
            '\u{ad}',
            '\u{a0}',
            '\u{2028}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{61c}',
            '\n',
            '\u{85}',
            '\u{7f}',
        ] {
            let text = alloc::format!("/vm/a{character}b");
            let error = Path::parse(&text).unwrap_err();
            let named = alloc::format!("U+{:04X}", u32::from(character));
            assert!(alloc::string::ToString::to_string(&error).ends_with(&named), "{error}");
        }
        let error = Path::parse("/a\u{202e}b").unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            r#"cgroup name "a\u{202e}b" holds the control or invisible character U+202E"#
        );
    }
}
