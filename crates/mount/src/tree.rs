//! Tree of cgroups of a mount: limits and weights by pattern, and new cgroups as processes come.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use weir_engine::{CgroupId, Change, Engine, Instant, Limits, NameError, Path, Watermark, Weight};

use crate::error::MountError;
use crate::rule::{Facts, Rule, place};

/// Most cgroups of a mount. Processes that would need another one are the root's.
const CGROUPS_MAX: u32 = 4096;

/// Path of cgroups, in which a name may be `*`: each cgroup there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Path);

impl Pattern {
    /// The root, and so everything.
    pub fn root() -> Pattern {
        Pattern(Path::parse("/").expect("the root has a path"))
    }

    fn is_literal(&self) -> bool {
        self.0.names().all(|name| name != "*")
    }

    fn matches(&self, path: &Path) -> bool {
        let mut names = path.names();
        let all = self
            .0
            .names()
            .all(|wanted| names.next().is_some_and(|name| wanted == "*" || wanted == name));
        all && names.next().is_none()
    }
}

impl FromStr for Pattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Pattern, NameError> {
        Path::parse(text).map(Pattern)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Limits of a mount, and the rules that say for whose requests they are.
#[derive(Clone, Debug, Default)]
pub struct TreeSettings {
    /// The first that fits counts; a process that none fits is the root's.
    pub rules: Vec<Rule>,
    /// The last for a cgroup counts.
    pub limits: Vec<(Pattern, Limits)>,
    /// The last for a cgroup counts.
    pub weights: Vec<(Pattern, Weight)>,
    /// Use of the source above which limits bind; they always do where there is none.
    pub watermark: Option<Watermark>,
}

/// The tree of a running mount.
#[derive(Debug)]
pub(crate) struct Tree {
    settings: TreeSettings,
    by_path: HashMap<String, CgroupId>,
    root: CgroupId,
}

impl Tree {
    /// Makes the cgroups that are named, with their limits.
    pub(crate) fn new(settings: TreeSettings, engine: &mut Engine) -> Result<Tree, MountError> {
        let root = engine.root();
        let tree = Tree { settings, by_path: HashMap::new(), root };
        let named: Vec<Path> = (tree.settings.limits.iter().map(|(pattern, _)| pattern))
            .chain(tree.settings.weights.iter().map(|(pattern, _)| pattern))
            .filter(|pattern| pattern.is_literal())
            .map(|pattern| pattern.0.clone())
            .collect();
        for path in named {
            tree.ensure(engine, Instant::ZERO, &path)?;
        }
        if let Some(watermark) = tree.settings.watermark {
            let change = Change::SetWatermark { cgroup: root, watermark: Some(watermark) };
            apply(engine, Instant::ZERO, change, "/")?;
        }
        tree.check_patterns()?;
        Ok(tree)
    }

    /// Tries the limits of patterns with `*`, so that they are refused at the start and not when the first process comes.
    fn check_patterns(&self) -> Result<(), MountError> {
        let mut scratch = Engine::new(weir_engine::Config::default(), Instant::ZERO);
        let cgroup = scratch.root();
        for (pattern, limits) in &self.settings.limits {
            let change = Change::SetLimits { cgroup, limits: *limits };
            apply(&mut scratch, Instant::ZERO, change, &pattern.to_string())?;
        }
        Ok(())
    }

    /// The cgroup of a process.
    pub(crate) fn place(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        facts: &mut Facts,
    ) -> CgroupId {
        let Some(path) = place(&self.settings.rules, facts) else { return self.root };
        if let Some(cgroup) = self.by_path.get(&path) {
            return *cgroup;
        }
        let placed = Path::parse(&path).map_err(|error| error.to_string()).and_then(|parsed| {
            if engine.cgroup_count() >= CGROUPS_MAX {
                return Err(format!("there are {CGROUPS_MAX} cgroups already"));
            }
            self.ensure(engine, now, &parsed).map_err(|error| error.to_string())
        });
        match placed {
            Ok(cgroup) => {
                self.by_path.insert(path, cgroup);
                cgroup
            }
            Err(problem) => {
                tracing::warn!("a process of {path:?} counts for the root: {problem}");
                self.root
            }
        }
    }

    /// The cgroup at a path. What is made gets its limits and weights.
    fn ensure(
        &self,
        engine: &mut Engine,
        now: Instant,
        path: &Path,
    ) -> Result<CgroupId, MountError> {
        let mut at = engine.root();
        let mut text = String::new();
        self.set_up(engine, now, at, &Pattern::root().0)?;
        for name in path.names() {
            text.push('/');
            text.push_str(name);
            let refused = |problem: String| MountError::Tree { pattern: text.clone(), problem };
            let parsed = Path::parse(&text).map_err(|error| refused(error.to_string()))?;
            at = match engine.find_cgroup(&parsed) {
                Some(found) => found,
                None => {
                    let made = engine.create_cgroup(at, name);
                    let made = made.map_err(|error| refused(error.to_string()))?;
                    self.set_up(engine, now, made, &parsed)?;
                    made
                }
            };
        }
        Ok(at)
    }

    fn set_up(
        &self,
        engine: &mut Engine,
        now: Instant,
        cgroup: CgroupId,
        path: &Path,
    ) -> Result<(), MountError> {
        if let Some((pattern, limits)) = last(&self.settings.limits, path)
            && engine.limits(cgroup) != Some(*limits)
        {
            apply(
                engine,
                now,
                Change::SetLimits { cgroup, limits: *limits },
                &pattern.to_string(),
            )?;
        }
        if let Some((pattern, weight)) = last(&self.settings.weights, path) {
            apply(
                engine,
                now,
                Change::SetWeight { cgroup, weight: *weight },
                &pattern.to_string(),
            )?;
        }
        Ok(())
    }
}

fn last<'a, T>(settings: &'a [(Pattern, T)], path: &Path) -> Option<&'a (Pattern, T)> {
    settings.iter().rev().find(|(pattern, _)| pattern.matches(path))
}

fn apply(
    engine: &mut Engine,
    now: Instant,
    change: Change,
    pattern: &str,
) -> Result<(), MountError> {
    engine.reconfigure(now, change).map_err(|error| MountError::Tree {
        pattern: pattern.to_owned(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use weir_engine::{Config, Dimension};

    use super::*;

    fn settings() -> TreeSettings {
        let limit =
            |pattern: &str, limits| (pattern.parse().unwrap(), Limits::parse(limits).unwrap());
        TreeSettings {
            rules: vec!["uid~1*: /users/{uid}".parse().unwrap()],
            limits: vec![
                limit("/", "rbps=100M"),
                limit("/users/*", "rbps=5M"),
                limit("/users/100", "rbps=7M"),
            ],
            weights: vec![("/users/100".parse().unwrap(), Weight::new(300).unwrap())],
            watermark: None,
        }
    }

    #[test]
    fn each_user_has_a_limit_of_its_own() {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let mut tree = Tree::new(settings(), &mut engine).unwrap();
        let mut rate = |uid| {
            let cgroup = tree.place(&mut engine, Instant::ZERO, &mut Facts::new(1, uid, 0));
            let limits = engine.limits(cgroup).unwrap();
            (
                engine.cgroup_path(cgroup).unwrap(),
                limits.max.get(Dimension::Rbps).unwrap().get() >> 20,
            )
        };
        assert_eq!(rate(1), ("/users/1".into(), 5));
        assert_eq!(rate(100), ("/users/100".into(), 7));
        assert_eq!(rate(10), ("/users/10".into(), 5));
        assert_eq!(rate(2), ("/".into(), 100), "no rule fits");
        assert_eq!(rate(1), ("/users/1".into(), 5), "again");
    }

    #[test]
    fn a_pattern_is_for_one_level() {
        let pattern: Pattern = "/users/*".parse().unwrap();
        let matches = |path: &str| pattern.matches(&Path::parse(path).unwrap());
        assert!(matches("/users/a"));
        assert!(!matches("/users") && !matches("/users/a/b") && !matches("/a/users"));
        assert!(Pattern::root().matches(&Path::parse("/").unwrap()));
    }
}
