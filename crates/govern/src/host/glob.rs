//! Patterns of cgroup paths and of names in them.

/// Whether `name` matches `pattern`, in which `*` is any text and `?` any character. O(name × pattern).
pub(super) fn is_match(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    greedy(&pattern, &name, |sign| *sign == '*', |sign, letter| *sign == '?' || sign == letter)
}

/// Whether the names of `path` match those of `pattern`, in which `**` is any number of names.
pub(super) fn is_path_match(pattern: &str, path: &str) -> bool {
    let names = |text: &'_ str| -> Vec<String> {
        text.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    greedy(
        &names(pattern),
        &names(path),
        |name| name == "**",
        |pattern, name| is_match(pattern, name),
    )
}

/// Matches `items` with `pattern`. Going back to the last `any` is enough: what an earlier one could take, the last can.
fn greedy<P, I>(
    pattern: &[P],
    items: &[I],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &I) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while item < items.len() {
        match pattern.get(at) {
            Some(sign) if is_any(sign) => {
                at += 1;
                retry = Some((at, item));
            }
            Some(sign) if fits(sign, &items[item]) => {
                at += 1;
                item += 1;
            }
            _ => {
                let Some((after, from)) = retry else { return false };
                retry = Some((after, from + 1));
                (at, item) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_of_one_name() {
        for (pattern, name, wanted) in [
            ("backup", "backup", true),
            ("back*", "backup", true),
            ("*up", "backup", true),
            ("b*k*p", "backup", true),
            ("b?ckup", "backup", true),
            ("*", "", true),
            ("", "x", false),
            ("back", "backup", false),
            ("b?", "b", false),
            ("*a*a*", "banana", true),
            ("*x*", "banana", false),
        ] {
            assert_eq!(is_match(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn two_stars_are_any_number_of_names() {
        for (pattern, path, wanted) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/**/c", "/a/b/c", true),
            ("/**/b/**/d", "/a/b/c/b/d", true),
            ("/**/b/**/e", "/a/b/c/b/d", false),
            ("/a/b*", "/a/bc", true),
            ("/", "/", true),
        ] {
            assert_eq!(is_path_match(pattern, path), wanted, "{pattern} {path}");
        }
    }
}
