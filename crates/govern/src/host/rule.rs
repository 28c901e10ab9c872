//! Rules: limits and settings of selected cgroups.

use super::Selector;
use crate::{IoMax, Settings};

/// Limits and settings of the cgroups that a selector means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which.
    pub selector: Selector,
    /// Limits of those that others have not limited.
    pub limits: IoMax,
    /// Settings of those, and of what is below them.
    pub settings: Option<Settings>,
}

/// Limits as written of the cgroup at `path`: those of others where there are some, else those of the first rule that has
/// limits.
pub(super) fn limits_of(rules: &[Rule], path: &str, others: IoMax) -> IoMax {
    if !others.is_max() {
        return others;
    }
    let mut rules = rules.iter().filter(|rule| !rule.limits.is_max());
    rules.find(|rule| rule.selector.is_match(path)).map_or(others, |rule| rule.limits)
}

/// Settings of the cgroup at `path`: of the first rule that has some for it, else for the nearest cgroup above it. What a
/// rule says of `parent` and above holds there already.
pub(super) fn settings_of(rules: &[Rule], path: &str, parent: Option<&str>) -> Option<Settings> {
    let with_settings = || rules.iter().filter(|rule| rule.settings.is_some());
    let paths = std::iter::once(path).chain(above(path));
    paths.take_while(|path| Some(*path) != parent).find_map(|path| {
        with_settings().find(|rule| rule.selector.is_match(path)).and_then(|rule| rule.settings)
    })
}

/// Paths of the cgroups above `path`, nearest first, without the root.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let (before, _) = rest.rsplit_once('/')?;
        rest = before;
        (!rest.is_empty()).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::host::SelectorKind;

    fn rule(path: &str, limit: Option<u64>, watermark: Option<u16>) -> Rule {
        let settings = watermark
            .map(|watermark_permille| Settings { watermark_permille, mode: Mode::Proportional });
        Rule {
            selector: Selector::parse(SelectorKind::Cgroup, path).expect("a path"),
            limits: IoMax { rbps: limit, ..IoMax::default() },
            settings,
        }
    }

    #[test]
    fn the_first_rule_with_limits_counts_unless_others_have_some() {
        let rules = [
            rule("/a/b", None, Some(500)),
            rule("/a/*", Some(7), None),
            rule("/a/b", Some(8), None),
        ];
        let limits =
            |path, others| limits_of(&rules, path, IoMax { rbps: others, ..IoMax::default() }).rbps;
        assert_eq!(limits("/a/b", None), Some(7));
        assert_eq!(limits("/a/b", Some(9)), Some(9));
        assert_eq!(limits("/a/b/c", None), None);
    }

    #[test]
    fn settings_are_those_of_the_nearest_cgroup_that_a_rule_means() {
        let rules = [rule("/a", None, Some(700)), rule("/a/b", None, Some(500))];
        let settings = |path, parent| {
            settings_of(&rules, path, parent).map(|settings| settings.watermark_permille)
        };
        assert_eq!(settings("/a/b/c/d", None), Some(500));
        assert_eq!(settings("/a/c", None), Some(700));
        assert_eq!(settings("/b", None), None);
        // The governed parent has them.
        assert_eq!(settings("/a/b/c/d", Some("/a/b")), None);
        assert_eq!(settings("/a/b/c/d", Some("/a")), Some(500));
    }
}
