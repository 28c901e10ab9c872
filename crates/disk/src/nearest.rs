//! Guessing what a misspelt name should have been.

use alloc::vec::Vec;

/// The one of `names` that is closest to `word`, if one is close: at most a third of its letters wrong, missing,
/// swapped in or too many. Of equals the first.
pub(crate) fn nearest(word: &str, names: &[&'static str]) -> Option<&'static str> {
    names
        .iter()
        .map(|name| (distance(word, name), *name))
        .filter(|&(distance, name)| distance <= name.len().div_ceil(3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Levenshtein's: letters to insert, delete or replace.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in right.iter().enumerate() {
            let replace = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replace.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_what_is_close() {
        let names = ["rate", "latency", "size"];
        for (word, guess) in [
            ("rat", Some("rate")),
            ("latncy", Some("latency")),
            ("latnecy", Some("latency")),
            ("sise", Some("size")),
            ("depth", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &names), guess, "{word}");
        }
    }
}
