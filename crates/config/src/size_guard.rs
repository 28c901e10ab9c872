//! Size guard: how much a file can unfold to, known before it is parsed.
//!
//! In memory a table takes a hundred times the two bytes that open it: 16 MiB of `a.a.a.a` would become 9 GB, where
//! as many bytes of cgroups become 0.9 GB.

/// Most tables, arrays and elements: two for each of a million cgroups.
pub(crate) const MARKS_MAX: usize = 2_000_000;

/// At least the number of tables, arrays and elements of arrays in `text`: dots, opening brackets and commas outside
/// of strings.
pub(crate) fn marks(text: &str) -> usize {
    text.lines().map(marks_of_line).sum()
}

fn marks_of_line(line: &str) -> usize {
    // A multi-line string may begin or end here: count all.
    let strings_count = line.contains("\"\"\"") || line.contains("'''");
    let mut quote = None;
    let mut marks = 0;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'.' | b'[' | b'{' | b',' if quote.is_none() || strings_count => marks += 1,
            b'\\' if quote == Some(b'"') && !strings_count => drop(bytes.next()),
            b'"' | b'\'' if quote == Some(byte) => quote = None,
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            _ => {}
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_guard_counts_brackets_outside_of_text() {
        for (text, expected) in [
            ("", 0),
            ("[cgroup.\"/a.slice/b.slice\"]", 2),
            ("\"io.max\" = [\"disk0 rbps=4M\", \"disk1 riops=1\"]", 2),
            ("a = { b.c = 1 }", 2),
            ("x = 'it\"s [' # [", 1),
            ("x = \"\\\"\" . [", 2),
            ("x = \"it's .\"\n[a.b]", 2),
            ("x = \"\"\" .\n . \"\"\" .", 3),
        ] {
            assert_eq!(marks(text), expected, "{text}");
        }
    }
}
