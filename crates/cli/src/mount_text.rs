//! Paths in `/proc/self/mountinfo` and `/proc/swaps`.

/// The kernel writes blanks, tabs, line ends and backslashes in paths as three octal digits.
pub(crate) fn unescaped(text: &str) -> String {
    let replaced = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    replaced.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}
