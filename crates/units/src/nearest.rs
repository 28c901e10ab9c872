//! Did-you-mean: the nearest of several words.

/// The candidate at the smallest edit distance from `word`, at most a third of its length and at least 1; the first of
/// equals. Edits are letters added, dropped, changed, or swapped with their neighbour; case does not count.
///
/// O(product of both lengths) for each candidate. A word over 64 characters is near none.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| Some((edits(word, candidate)?, candidate)))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Longest word that [`nearest`] compares.
const WORD_MAX: usize = 64;

/// Optimal-string-alignment distance, letter case aside.
fn edits(a: &str, b: &str) -> Option<usize> {
    let (a, a_len) = letters(a)?;
    let (b, b_len) = letters(b)?;
    let mut older = [0; WORD_MAX + 1];
    let mut old: [usize; WORD_MAX + 1] = core::array::from_fn(|column| column);
    for i in 1..=a_len {
        let mut row = [i; WORD_MAX + 1];
        for j in 1..=b_len {
            let changed = old[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(old[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(older[j - 2] + 1);
            }
        }
        older = old;
        old = row;
    }
    Some(old[b_len])
}

fn letters(word: &str) -> Option<([char; WORD_MAX], usize)> {
    let mut letters = ['\0'; WORD_MAX];
    let mut len = 0;
    for letter in word.chars() {
        *letters.get_mut(len)? = letter.to_ascii_lowercase();
        len += 1;
    }
    Some((letters, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words() {
        let keys = ["rbps", "wbps", "riops", "wiops", "rwbps", "rwiops"];
        for (word, expected) in [
            ("rbps", Some("rbps")),
            ("RBPS", Some("rbps")),
            ("rpbs", Some("rbps")),
            ("rbp", Some("rbps")),
            ("iops", Some("riops")),
            ("wwiops", Some("wiops")),
            ("depth", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, keys), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(65), ["x"]), None);
    }
}
