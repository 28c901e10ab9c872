//! Values that several sections share: sizes, words of a list, names, paths.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use weir_units::nearest;
use weir_units::{Bytes, UnitError};

use crate::report::Report;
use crate::source::Text;
use crate::table::list;

/// `text` as a quantity with a unit.
pub(crate) fn quantity<T: FromStr<Err = UnitError>>(text: &Text, report: &mut Report) -> Option<T> {
    text.value
        .parse()
        .map_err(|error: UnitError| report.refuse(text, error.to_string(), Some(error.hint())))
        .ok()
}

/// `text` as a size between `least` and `most`.
pub(crate) fn size(text: &Text, least: u64, most: u64, report: &mut Report) -> Option<u64> {
    let Bytes(size) = quantity(text, report)?;
    if (least..=most).contains(&size) {
        return Some(size);
    }
    let nearest = if size < least { least } else { most };
    let (least, most) = (Bytes(least), Bytes(most));
    let hint = format!("write {:?}", Bytes(nearest).to_string());
    report.refuse(text, format!("{} is not between {least} and {most}", Bytes(size)), Some(hint));
    None
}

/// One of `words`, by its index.
pub(crate) fn word(text: &Text, words: &[&str], report: &mut Report) -> Option<usize> {
    let index = words.iter().position(|word| *word == text.value);
    if index.is_none() {
        let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let hint = match nearest(&text.value, words.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("available: {}", list(&quoted)),
        };
        report.refuse(text, format!("{:?} is not available", cut(&text.value)), Some(hint));
    }
    index
}

/// Message about an unknown name.
pub(crate) fn unknown_name<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => Some(format!("did you mean {near:?}?")),
        None if known.is_empty() => Some("none is configured".into()),
        None => {
            let shown = &known[..known.len().min(8)];
            let more = if known.len() > shown.len() { ", ..." } else { "" };
            Some(format!("known: {}{more}", shown.join(", ")))
        }
    }
}

/// Longest path of a Unix socket: 108 bytes in `sockaddr_un`, less the NUL.
const SOCKET_PATH_MAX: usize = 107;

/// `text` as a file's path.
pub(crate) fn path(text: &Text, report: &mut Report) -> Option<PathBuf> {
    let (problem, hint) = if text.value.is_empty() {
        ("the path is empty", "write where it is")
    } else if text.value.contains('\0') {
        ("the path holds a NUL", "no file's name can have one: leave it out")
    } else {
        return Some(PathBuf::from(&text.value));
    };
    report.refuse(text, problem, Some(hint.into()));
    None
}

/// Whether a Unix socket can have this path.
pub(crate) fn socket_path(path: PathBuf, text: &Text, report: &mut Report) -> Option<PathBuf> {
    let len = path.as_os_str().len();
    if len <= SOCKET_PATH_MAX {
        return Some(path);
    }
    let message =
        format!("the socket's path has {len} bytes, at most {SOCKET_PATH_MAX} are allowed");
    let hint = "choose a directory nearer to the root, such as /run";
    report.refuse(text, message, Some(hint.into()));
    None
}

/// The beginning of `text`: values in messages stay short, the picture shows the rest.
pub(crate) fn cut(text: &str) -> impl Display + std::fmt::Debug + '_ {
    let end = text.char_indices().nth(UnitError::TEXT_MAX).map_or(text.len(), |(end, _)| end);
    &text[..end]
}
